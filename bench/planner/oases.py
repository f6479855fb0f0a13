#!/usr/bin/env python3
"""Oases' case: a degree of tensor parallelism for each half-layer, by heddle plan.

    bench/planner/oases.py profile_3090.json published_throughput.json
                           [--heddle build/bin/heddle] [--hidden 2048]
                           [--batches 32,64] [--keep FOLDER]

The published profile (solver/README.md) has milliseconds of attention and MLP for
degrees and batches on 32 RTX 3090. It becomes a profile of blocks, a block for
each half-layer. One call of `heddle plan` decides all half-layers of the GPT of that
size, for each global batch that the profile has at two degrees or more.

A half-layer takes the time that Oases' planner counts: each all-reduce of one half of
the batch runs beside the computation of the other half. Oases' planner counts no
all-reduces for the first half-layer, and only the all-reduces for the last one. For a
change of degree, it charges a loss of overlap that does not happen. Here the first and
last half-layers have the waiting times of the order that runs, and a change takes the
time of its gathering. Oases' own plan comes from a second call, with its own formulas
(lib/Solver/Convert/Oases.cpp has them, too).

The plans are then simulated with the times of the profile. The batch has two halves, and
computation and communication overlap in Oases' order, which recomputes half-layers from
the results of their all-reduces. The table also has the best uniform degree, and Oases'
collapsed plan of two degrees. Megatron's schedule does not cut the batch, recomputes
layers with their all-reduces, and takes its best uniform degree.

The second table has the ratio of the throughput to Megatron's: the least and the largest
ratio over the batches that both have, and the ratio if each takes its best batch. It also
has the published figures, whose batches are not known. Models and clusters that the
profile lacks are named.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

DEVICES = 32
AXES = 5  # axes of two devices each
SEQUENCE = 1024
MEMORY = int(0.95 * 24 * 2**30)
# Plans of equal cost in blocks may have simulated times that differ by this fraction.
TIE = 2e-3


class Choice:
    """A degree, and the profile of half of a replica's batch."""

    def __init__(self, half, whole):
        self.degree, self.whole = half["tensor_parallel"], whole
        self.hidden, self.batch = half["hidden"], 2 * half["batch"]
        self.forward = [half["attn_forward_ms"], half["mlp_forward_ms"]]
        self.gradient = [half["attn_backward_ms"], half["mlp_backward_ms"]]
        self.reduce = half["all_reduce_ms"]
        self.runtime = half["runtime_memory_mib"] * 2**20

    def milliseconds(self, node, nodes):
        """The milliseconds of a half-layer in Oases' order. At both ends of the chain,
        nothing runs beside the shorter of computation and all-reduce."""
        f, g, c = self.forward, self.gradient, self.reduce
        time = sum(max(f[i], c) + max(f[i] + g[i], c) for i in (0, 1))
        if node == 0:
            time += min(f[0], c)
        if node + 1 == nodes:
            time += min(f[1] + g[1], c)
        return time

    def oases_milliseconds(self, node, nodes):
        """The milliseconds that Oases' planner counts for a half-layer."""
        f, g, c = self.forward, self.gradient, self.reduce
        if node == 0:
            return f[0] + g[0]
        if node + 1 == nodes:
            return max(f[1], c) + max(f[1] + g[1], c) + 2 * c
        return sum(max(f[i], c) + max(f[i] + g[i], c) for i in (0, 1))

    def bytes(self, node, nodes):
        h, t = self.hidden, self.degree
        parameters = 4 * (8 * h * h / t + 7 * h if node % 2 else
                          4 * h * h / t + 6 * h)
        kept = 12 * self.batch * SEQUENCE * h
        return math.ceil(kept + 5 * parameters +
                         (self.runtime if node + 1 == nodes else 0))

    def change_to(self, to, node):
        return 2 * (self.gather_to(to) + to.gather_to(self))

    def oases_change_to(self, to, node):
        """The milliseconds that Oases' planner counts for a change after a
        half-layer."""
        j, k = self.degree, to.degree
        if j == k:
            return 0
        after = 1 - node % 2
        if k > j:
            return k / j * self.reduce + min(self.reduce, to.forward[after])
        return j / k * to.reduce + min(self.reduce, to.gradient[after])

    def gather_to(self, to):
        """The milliseconds to gather half of the batch for a larger degree. For a
        smaller degree, activations are only cut."""
        share = to.degree / self.degree
        return share * self.reduce / 2 if share > 1 else 0

    def operators(self, layer, node):
        """The entries of a plan: the last axes split heads or features, the
        others the batch."""
        axes = [f"tp.{i}" for i in range(AXES)]
        cut = AXES - self.degree.bit_length() + 1
        batch, features = axes[:cut], axes[cut:]
        half = {"b": batch, "f" if node % 2 else "n": features}
        return {"{block}*": half, f"h.{layer}.ln_{1 + node % 2}": {"b": batch}}


def choices_of(rows, hidden, batch):
    """Returns the choices of a global batch by ascending degree."""
    cells = {(r["tensor_parallel"], r["batch"]): r for r in rows
             if r["hidden"] == hidden and
             min(r[k] for k in r if k.endswith("_ms")) > 0}
    return [Choice(half, cells.get((degree, 2 * size)))
            for (degree, size), half in sorted(cells.items())
            if 2 * size * DEVICES == batch * degree]


def blocks_of(choices, layers, is_oases):
    time = Choice.oases_milliseconds if is_oases else Choice.milliseconds
    change = Choice.oases_change_to if is_oases else Choice.change_to
    nodes = 2 * layers
    blocks = []
    glob = lambda node: f"h.{node // 2}.{'mlp' if node % 2 else 'attn'}"
    for node in range(nodes):
        layer = node // 2
        block = {"glob": glob(node), "strategies": [
            {"name": str(c.degree), "seconds": time(c, node, nodes) / 1e3,
             "bytes": c.bytes(node, nodes), "operators": c.operators(layer, node)}
            for c in choices]}
        if node + 1 < nodes:
            block["next"] = {glob(node + 1): [
                [change(a, b, node) / 1e3 for b in choices] for a in choices]}
        blocks.append(block)
    return {"version": 1, "mesh": "dp=1,tp=" + "x".join(["2"] * AXES),
            "blocks": blocks}


def plan(options, folder, choices, layers, batch, is_oases=False):
    """Calls heddle plan. Returns the choice of each half-layer, or None."""
    path = lambda name: os.path.join(folder, name)
    with open(path("blocks.json"), "w") as file:
        json.dump(blocks_of(choices, layers, is_oases), file, indent=1)
    hidden = choices[0].hidden
    command = [options.heddle, "plan", "--layers", str(layers), "--hidden",
               str(hidden), "--heads", str(hidden // 64), "--vocab", "1024",
               "--seq", str(SEQUENCE), "--batch", str(batch), "--cluster",
               "rtx3090", "--memory", str(MEMORY), "--profile",
               path("blocks.json"), "--quiet", "--json", "-o", path("plan.json")]
    result = subprocess.run(command, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    if not result.stdout:
        sys.exit(result.stderr)
    answer = json.loads(result.stdout)
    if not answer["feasible"]:
        return None
    of_degree = {str(c.degree): c for c in choices}
    return [of_degree[block["strategy"]] for block in answer["blocks"]]


def fits(chosen):
    return sum(c.bytes(i, len(chosen)) for i, c in enumerate(chosen)) <= MEMORY


def collapse(chosen):
    """The plan that Oases executes: the two commonest degrees, the smaller one
    first."""
    count = {}
    for c in chosen:
        count[c] = count.get(c, 0) + 1
    two = sorted(sorted(count, key=lambda c: (-count[c], c.degree))[:2],
                 key=lambda c: c.degree)
    share = count[two[0]] / sum(count[c] for c in two)
    layers = len(chosen) // 2
    cut = math.floor(share * layers + 0.5) if len(two) == 2 else layers
    return [two[0] if i // 2 < cut else two[-1] for i in range(len(chosen))]


def simulate(chosen):
    """Returns the milliseconds of a step: each queue runs its units in Oases'
    order, and each unit waits for those that it needs."""
    ends = {"compute": 0.0, "communicate": 0.0}

    def run(queue, milliseconds, *after):
        if milliseconds > 0:
            ends[queue] = max(ends[queue], *after) + milliseconds
            return ends[queue]
        return max(after)

    nodes, parts = len(chosen), (0, 1)
    ready = [0.0, 0.0]  # when the last all-reduce of a part has ended
    inputs = [[0.0] * nodes for _ in parts]
    for i, c in enumerate(chosen):
        for part in parts:
            inputs[part][i] = ready[part]
            computed = run("compute", c.forward[i % 2], ready[part])
            ready[part] = run("communicate", c.reduce, computed)
            if i + 1 < nodes:
                ready[part] = run("communicate", c.gather_to(chosen[i + 1]),
                                  ready[part])
    gradients = list(ready)
    for i in reversed(range(nodes)):
        c = chosen[i]
        for part in reversed(parts):
            if i + 1 < nodes:
                ready[part] = run("communicate", chosen[i + 1].gather_to(c),
                                  ready[part])
            again = run("compute", c.forward[i % 2], inputs[part][i],
                        gradients[part])
            gradients[part] = run("compute", c.gradient[i % 2], ready[part],
                                  again)
            ready[part] = run("communicate", c.reduce, gradients[part])
    return max(ready)


def simulate_megatron(cell, layers):
    """Runs all units one after the other, with the whole batch. The profile may lack
    it."""
    if not cell:
        return math.inf
    forward = cell["attn_forward_ms"] + cell["mlp_forward_ms"]
    backward = cell["attn_backward_ms"] + cell["mlp_backward_ms"]
    return layers * (2 * forward + backward + 6 * cell["all_reduce_ms"])


def describe(chosen):
    count = {}
    for c in chosen:
        count[c.degree] = count.get(c.degree, 0) + 1
    return " ".join(f"{degree}:{n}" for degree, n in sorted(count.items()))


def run_model(options, folder, rows, hidden, layers):
    """Prints a row for each batch. Returns the best throughputs (chosen,
    uniform, collapsed, Megatron), the chosen one over Megatron's for each batch,
    and whether no other plan is faster."""
    best, ratios, good = [0, 0, 0, 0], [], True
    batches = sorted({2 * r["batch"] * DEVICES // r["tensor_parallel"]
                      for r in rows if r["hidden"] == hidden})
    for batch in batches:
        choices = choices_of(rows, hidden, batch)
        if len(choices) < 2 or options.batches and batch not in options.batches:
            continue
        oases = plan(options, folder, choices, layers, batch, True)
        chosen = plan(options, folder, choices, layers, batch)
        if not chosen:
            uniform = [c for c in choices if fits([c] * 2 * layers)]
            good &= not uniform
            print(f"| {hidden} | {layers} | {batch} | nothing fits | | | | |",
                  flush=True)
            continue
        oases = collapse(oases)
        uniform = [[c] * 2 * layers for c in choices]
        times = [simulate(chosen),
                 min([simulate(u) for u in uniform if fits(u)],
                     default=math.inf),
                 simulate(oases),
                 min(simulate_megatron(c.whole, layers) for c in choices)]
        ratios.append(times[3] / times[0])
        best = [max(b, batch / t) for b, t in zip(best, times)]
        # A plan of Oases may exceed the memory once it is collapsed.
        right = times[0] <= min(times[1], times[2] if fits(oases) else
                                math.inf) * (1 + TIE)
        good &= right
        print(f"| {hidden} | {layers} | {batch} | {describe(chosen)} | " +
              " | ".join("-" if t == math.inf else f"{t:.2f}" for t in times) +
              f" |{'' if fits(oases) else ' collapsed does not fit'}"
              f"{'' if right else ' SLOWER'}", flush=True)
    return best, ratios, good


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("published")
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--hidden", type=int, help="only the model of this size")
    parser.add_argument("--batches", type=lambda text: [
        int(word) for word in text.split(",")], help="only these global batches")
    parser.add_argument("--keep", help="a folder for the last plan")
    options = parser.parse_args()
    with open(options.profile) as file:
        rows = json.load(file)["rows"]
    with open(options.published) as file:
        published = json.load(file)
    lines, good = [], True
    print("| hidden | layers | batch | degree: half-layers | chosen, ms | best "
          "uniform, ms | collapsed, ms | Megatron, ms |\n" + "|---" * 8 + "|")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or scratch
        os.makedirs(folder, exist_ok=True)
        for i, model in enumerate(published["models"]):
            hidden, layers = model["hidden"], model["layers"]
            if options.hidden not in (None, hidden):
                continue
            columns = [published[c]["oases"][i]
                       for c in ("nvlink_3090", "pcie_3090")]
            line = f"| {hidden} | {layers} | "
            if any(r["hidden"] == hidden for r in rows):
                best, ratios, right = run_model(options, folder, rows, hidden, layers)
                good &= right
                finite = [r for r in ratios if r < math.inf]
                line += (f"{min(finite):.2f} to {max(finite):.2f} | "
                         if finite else "- | ")
                line += " | ".join(f"{b / best[3]:.2f}" if best[3] else "-"
                                   for b in best[:3])
            else:
                line += "not in the profile | | | "
            lines.append(line + f" | {columns[0]} | {columns[1]} |")
    print("\n| hidden | layers | chosen, same batch | chosen | best uniform | "
          "collapsed | published, NVLink | published, PCIe |\n" + "|---" * 8 + "|")
    print("\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
