"""Trains a model of two layers as a pipeline of two stages. Its table is written here.
The gradients are compared with those of the serial program.

    stages.py --heddle build/bin/heddle --heddle-run build/bin/heddle-run \\
              --scratch FOLDER MODELS

The folder MODELS holds serial.mlir and stages.mlir. The table is 1F1B with four
micro-batches. Activations and gradients are under way at the same time, on two
streams, and micro-batches share slots. The gradients must be the serial program's, and
must have the same bits in all orders that streams and events allow.
"""

import array
import json
import os
import pathlib
import random
import shutil

import programs
import tensors

BOUND = 1e-6  # relative L2
MICRO_BATCHES = 4
ORDERS = ["", "earliest", "latest"] + ["random:%d" % seed for seed in range(1, 11)]
FORWARD, BACKWARD = 1, 2  # streams of transfers


class Stage:
    """Writes the entries of one stage, with the waits that its slots need."""

    def __init__(self, rank):
        self.rank, self.entries, self.waited = rank, [], {}
        self.uses = {}  # slot: the entry that wrote its value, the entries that read it

    def call(self, program, micro_batch, arguments, results):
        self.add({"call": program, "micro_batch": micro_batch,
                  "arguments": arguments, "results": results},
                 0, arguments, results)

    def send(self, slot, stream):
        self.add(dict(self.transfer(stream), send=slot), stream, [slot], [])

    def receive(self, slot, stream):
        self.add(dict(self.transfer(stream), receive=slot), stream, [], [slot])

    def transfer(self, stream):
        return {"group": 0, "peer": 1 - self.rank, "stream": stream}

    def add(self, entry, stream, reads, writes):
        needed = []
        for slot in (p["slot"] for p in reads if "slot" in p):
            writer, readers = self.uses[slot]
            needed.append(writer)
            readers.append((len(self.entries), stream))
        for slot in (p["slot"] for p in writes if "slot" in p):
            if slot in self.uses:
                writer, readers = self.uses[slot]
                needed += readers or [writer]
            self.uses[slot] = (len(self.entries), stream), []
        entry["after"] = []
        # A wait for an entry also covers all earlier entries of its stream.
        for other, of in sorted(needed, reverse=True):
            if of != stream and other > self.waited.get((stream, of), -1):
                entry["after"].append(other)
                self.waited[stream, of] = other
        self.entries.append(entry)


def make_table(manifest):
    """Returns the table, which has the name `pipeline`."""
    ports = {}
    for program in manifest["programs"]:
        for port in program["arguments"]:
            ports.setdefault(port["name"], port)
        for port in program["results"]:
            ports.setdefault(port["name"], {k: v for k, v in port.items() if k != "in_place"})
    slots = []

    def slot(name):
        count = 4  # bytes of f32
        for size in ports[name]["shape"]:
            count *= size
        slots.append({"name": name, "bytes": count})
        return {"slot": len(slots) - 1}

    x, labels = {"input": 0}, {"input": 1}
    loss, w1, b1, w2 = ({"output": i} for i in range(4))
    first, second = Stage(0), Stage(1)
    # Stage 0 has two micro-batches under way.
    u, sent, received = [slot("u"), slot("u")], slot("a"), [slot("da"), slot("da")]
    # Stage 1 computes a gradient in the memory of its activation.
    a, logits, lse = [slot("a"), slot("a")], slot("logits"), slot("lse")

    def backward(m):
        first.receive(received[m % 2], BACKWARD)
        first.call("backward0", m, [x, u[m % 2], received[m % 2]], [])

    for m in range(MICRO_BATCHES):
        first.call("forward0", m, [x], [u[m % 2], sent])
        first.send(sent, FORWARD)
        if m > 0:
            backward(m - 1)
        second.receive(a[m % 2], FORWARD)
        second.call("forward1", m, [a[m % 2], labels], [loss, logits, lse])
        second.call("backward1", m, [a[m % 2], labels, logits, lse], [a[m % 2]])
        second.send(a[m % 2], BACKWARD)
    backward(MICRO_BATCHES - 1)
    first.call("finish0", 0, [], [w1, b1])
    second.call("finish1", 0, [], [w2])
    return {
        "name": "pipeline", "micro_batches": MICRO_BATCHES,
        "inputs": [ports["x"], ports["labels"]],
        "outputs": [dict(ports["loss_sum"], of="micro_batch")]
                   + [dict(ports[name], of="step") for name in ("w1", "b1", "w2")],
        "slots": slots,
        "lists": [{"ranks": ports["w1"]["ranks"], "entries": first.entries},
                  {"ranks": ports["w2"]["ranks"], "entries": second.entries}],
    }


def call(run, artifact, program, inputs, output):
    run.call([run.runner, "call", artifact, "--program", program,
              "--inputs", inputs, "-o", output] + run.run_flags)
    return tensors.read(output)


def serial(run, models, scratch):
    """Returns the loss and the gradients, by the parameters' names."""
    run.compile(models / "serial.mlir", scratch / "serial", ["--gradients"])
    results = call(run, scratch / "serial", "gradients",
                   scratch / "whole.safetensors", scratch / "serial.safetensors")
    manifest = json.loads((scratch / "serial" / "manifest.json").read_text())
    (table,) = [t for t in manifest["tables"] if t.get("role") == "gradients"]
    gradients = {port["parameter"]: results[port["name"]]
                 for port in table["outputs"] if port["role"] == "gradient"}
    (loss,) = [results[port["name"]].values[0]
               for port in table["outputs"] if port["role"] == "loss"]
    return loss, gradients


def check(run, scratch, order, expected, bits):
    if order:
        os.environ["HEDDLE_RT_STREAM_ORDER"] = order
    try:
        output = scratch / "pipeline.safetensors"
        results = call(run, scratch / "stages", "pipeline",
                       scratch / "parts.safetensors", output)
    finally:
        os.environ.pop("HEDDLE_RT_STREAM_ORDER", None)
    loss, gradients = expected
    mean = sum(results["loss_sum"].values) / 12
    worst = abs(mean - loss) / loss
    for name, gradient in gradients.items():
        if not any(gradient.values):
            raise programs.Failure("the gradient of '%s' is zero: the test means nothing" % name)
        worst = max(worst, tensors.distance(results[name], gradient))
    if not worst <= BOUND:
        raise programs.Failure("the results differ by %g" % worst)
    bits.add(output.read_bytes())
    if len(bits) > 1:
        raise programs.Failure("other bits than in the first order")
    return "loss %.4f, largest difference %.1e" % (mean, worst)


def main():
    parser = programs.get_parser(__doc__)
    parser.add_argument("models", type=pathlib.Path)
    options = parser.parse_args()
    run = programs.Programs(options.heddle, options.heddle_run, options.sanitize)
    scratch = options.scratch
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)

    generator = random.Random(1)
    x = array.array("f", (generator.uniform(-1, 1) for _ in range(12 * 6)))
    labels = array.array("i", (generator.randrange(7) for _ in range(12)))
    for name, rows in (("whole", (12,)), ("parts", (MICRO_BATCHES, 3))):
        tensors.write(scratch / (name + ".safetensors"), {
            "x": tensors.Tensor("F32", rows + (6,), x),
            "labels": tensors.Tensor("I32", rows, labels)})

    report, bits = programs.Report(), set()
    expected = serial(run, options.models, scratch)
    run.compile(options.models / "stages.mlir", scratch / "stages", [])
    path = scratch / "stages" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["groups"].append({"axes": ["pp"]})
    manifest["tables"].append(make_table(manifest))
    path.write_text(json.dumps(manifest))
    for order in ORDERS:
        report.case(order or "natural",
                    lambda: check(run, scratch, order, expected, bits))
    report.finish()


if __name__ == "__main__":
    main()
