"""Counts what the slots of a compiled pipeline hold, entry by entry of its table, and
compares that with what `heddle simulate --json` says. A value that a pass for weights
reads is in flight until the backward pass for inputs of its micro-batch has run.

    stage-memory.py ARTIFACT SIMULATION.json

Prints for each device the most micro-batches between their forward pass and their
backward pass for inputs, and the most of which then only the pass for weights needs
something, with the bytes of both. Bytes in flight include values on their way between
devices. Fails if device d of p has more than p - d micro-batches in flight, or if more
than p wait for their pass for weights.
"""

import json
import pathlib
import sys

manifest = json.loads((pathlib.Path(sys.argv[1]) / "manifest.json").read_text())
simulation = json.loads(pathlib.Path(sys.argv[2]).read_text())
(table,) = [t for t in manifest["tables"] if t.get("role") == "step"]
devices = len(table["lists"])


class Value:
    """What a slot holds from one entry to another."""

    def __init__(self, slot, place):
        self.bytes = table["slots"][slot]["bytes"]
        self.begin = self.other = self.weights = place  # and the last readers
        self.calls = []  # (place, program, micro-batch), the writer's included


def find_values(entries):
    values, current, backward = [], {}, {}
    for place, entry in enumerate(entries):
        program = str(entry.get("call", ""))
        call = place, program, entry.get("micro_batch", 0)
        for port in entry.get("arguments", []) + [entry.get("send")]:
            value = current.get(port["slot"]) if isinstance(port, dict) and "slot" in port else None
            if not value:
                continue
            if "backward_weights" in program:
                value.weights = place
                stage = program.rsplit("_", 1)[1]
                value.other = max(value.other, backward[stage, call[2]])
            else:
                value.other = place
            value.calls.append(call)
        if "weights" not in program and ("_forward_" in program or "_backward_" in program):
            backward[program.rsplit("_", 1)[1], call[2]] = place
        for port in entry.get("results", []) + [entry.get("receive")]:
            if isinstance(port, dict) and "slot" in port:
                current[port["slot"]] = Value(port["slot"], place)
                current[port["slot"]].calls.append(call)
                values.append(current[port["slot"]])
    return values


def most_at_once(spans):
    """Returns the largest sum of the amounts of spans (begin, end, amount) that
    contain one entry."""
    return max([sum(amount for begin, end, amount in spans if begin <= place <= end)
                for place in {begin for begin, _, _ in spans}], default=0)


def by_micro_batch(spans):
    """Joins the spans (begin, end, micro-batch) of each micro-batch."""
    joined = {}
    for begin, end, number in spans:
        old = joined.get(number, (begin, end, 1))
        joined[number] = min(begin, old[0]), max(end, old[1]), 1
    return list(joined.values())


for device, entries in enumerate(each["entries"] for each in table["lists"]):
    values = find_values(entries)
    kept, waiting = [], []
    for value in values:
        passes = [call for call in value.calls if "_forward_" in call[1]]
        ends = [call for call in value.calls
                if "_backward_" in call[1] and "weights" not in call[1]]
        if passes and ends:
            kept.append((passes[0][0], ends[-1][0], ends[-1][2]))
        if value.weights > value.other:
            waiting.append((value.other + 1, value.weights, value.calls[-1][2]))
    in_flight = most_at_once([(v.begin, v.other, v.bytes) for v in values])
    for_weights = most_at_once([(v.other + 1, v.weights, v.bytes) for v in values
                                if v.weights > v.other])
    batches = most_at_once(by_micro_batch(kept)), most_at_once(by_micro_batch(waiting))
    print(f"device {device}: {batches[0]} micro-batches, {in_flight} bytes in flight; "
          f"{batches[1]} micro-batches, {for_weights} bytes for weights alone")
    times = simulation["list_times"][device]
    assert (times["in_flight"], times["for_weights"]) == (in_flight, for_weights), times
    assert batches[0] <= devices - device
    assert batches[1] <= devices
