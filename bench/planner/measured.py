#!/usr/bin/env python3
"""Measures the plan that heddle plan chooses beside plans of experts.

    bench/planner/measured.py [--heddle build/bin/heddle] [--models gpt2,llama]
                              [--networks fast,slow,hierarchical]
                              [--limits 1.5,0.6,0.3] [--folder F] [--json FILE]

A case is a model on four emulated devices with one of three networks and one of three
memory limits. Every plan of PLANS is compiled for the limit and, if it fits, trained with
`--emulate-compute`. Each call and each collective then takes the time that the cluster's
devices and links would take. The order of events, the runtime and its waiting are real,
but nothing is computed. The plan that `heddle plan` chooses is measured in the same way.

For each case, prints the chosen plan, its predicted and measured seconds, the best
measured plan of the experts that fits, and the ratio of the two (target: at most
1.05). If `heddle plan` finds no plan that fits, prints whether an expert's plan fits,
which should not happen. A sleeper may be woken late, so the fastest step of a run counts.

All programs of a case are compiled before the first one is measured, with the
lowest priority. Each case is written to --json as soon as it is measured. A case that
is in the file is reported, not measured again, so the cases may be measured in several
runs. --folder keeps what was compiled, so use a new one after heddle has changed. A
program that was compiled without a limit is used again for a limit that it keeps. The
limits are multiples of the memory that data parallelism takes without a limit.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys

ROWS = 16  # the rows of a step
MODELS = {
    "gpt2": {"model_type": "gpt2", "n_layer": 6, "n_embd": 64, "n_head": 4,
             "vocab_size": 256, "n_positions": 64, "n_inner": 256},
    "llama": {"model_type": "llama", "num_hidden_layers": 6, "hidden_size": 64,
              "num_attention_heads": 4, "num_key_value_heads": 4,
              "intermediate_size": 192, "vocab_size": 256,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
              "hidden_act": "silu", "tie_word_embeddings": False},
}
# For each network, its levels: the number of devices, and the bytes a second.
NETWORKS = {"fast": [(4, 1e9)], "slow": [(4, 2e7)],
            "hierarchical": [(2, 1e9), (2, 2e7)]}
# The plans of experts: Megatron's plans, ZeRO, mixtures of the two, and pipelines, with
# and without overlap, recomputation and sequence parallelism.
PLANS = [
    "--mesh dp=4 --overlap none", "--mesh dp=4 --overlap auto",
    "--mesh dp=4 --zero 1 --overlap none", "--mesh dp=4 --zero 1 --overlap auto",
    "--mesh dp=4 --zero 2 --overlap auto", "--mesh dp=4 --zero 3 --overlap none",
    "--mesh dp=4 --zero 3 --overlap auto",
    "--mesh dp=4 --zero 3 --overlap auto --recompute layer",
    "--mesh tp=4 --overlap none", "--mesh tp=4 --overlap default",
    "--mesh tp=4 --overlap oases", "--mesh tp=4 --overlap auto",
    "--mesh tp=4 --sequence --overlap auto",
    "--mesh dp=2,tp=2 --overlap none", "--mesh dp=2,tp=2 --overlap auto",
    "--mesh dp=2,tp=2 --zero 1 --overlap auto",
    "--mesh dp=2,tp=2 --zero 3 --overlap auto",
    "--mesh dp=2,tp=2 --zero 3 --sequence --overlap auto",
    "--mesh dp=2,tp=2 --zero 3 --overlap auto --recompute layer",
    "--mesh pp=4 --pipeline 1f1b --micro-batches 8",
    "--mesh pp=4 --pipeline zb-h1 --micro-batches 8",
    "--mesh pp=4 --pipeline interleaved --micro-batches 8",
    "--mesh pp=2,dp=2 --pipeline 1f1b --micro-batches 8 --zero 1",
    "--mesh pp=2,tp=2 --pipeline 1f1b --micro-batches 8",
    "--mesh pp=2,tp=2 --pipeline zb-h1 --micro-batches 8",
]


class Bench:
    def __init__(self, options):
        self.options = options
        self.text = self.path("text")
        self.measured = {}  # seconds by program; a limit may not change it
        with open(self.text, "w") as file:
            file.write("The quick brown fox jumps over the lazy dog. " * 2000)
        for name, config in MODELS.items():
            os.makedirs(self.path(name), exist_ok=True)
            with open(self.path(name, "config.json"), "w") as file:
                json.dump(config, file)

    def path(self, *parts):
        return os.path.join(self.options.folder, *parts)

    def heddle(self, *arguments, may_fail=False, nice=False):
        prefix = ["nice", "-n", "19"] if nice else []
        result = subprocess.run([*prefix, self.options.heddle, *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)
        if result.returncode and not may_fail:
            sys.exit(f"heddle {' '.join(arguments)}:\n{result.stderr}")
        return result

    def cluster(self, network, memory):
        levels = [{"name": f"level{i}", "count": count, "latency": 2e-6,
                   "bandwidth": bandwidth, "links": 1}
                  for i, (count, bandwidth) in enumerate(NETWORKS[network])]
        path = self.path(f"{network}-{memory}.json")
        with open(path, "w") as file:
            json.dump({"version": 1, "name": network,
                       "device": {"kind": "emulated", "memory": memory,
                                  "memory_bandwidth": 1e9, "launch": 1e-5,
                                  "peak": {"f32": 3e9}},
                       "levels": levels}, file)
        return path

    def flags(self, model, plan, cluster):
        words = plan.split()
        micro = int(words[words.index("--micro-batches") + 1]
                    ) if "--micro-batches" in words else 1
        return [self.path(model), *words, "--batch", str(ROWS // micro), "--seq",
                "64", "--cluster", cluster]

    def compile(self, flags, cluster):
        """Compiles a program and returns its simulation and its file, or None
        twice if the plan does not fit the program."""
        words = list(flags)
        for path in [cluster, *[b for a, b in zip(flags, flags[1:])
                                if a == "--plan"]]:
            with open(path) as file:
                words.append(file.read())
        name = hashlib.sha256("\n".join(words).encode()).hexdigest()
        known = self.path("compiled", name + ".json")
        if not os.path.exists(known):
            with open(known + ".new", "w") as file:
                json.dump(self.compile_new(flags, cluster), file)
            os.replace(known + ".new", known)
        with open(known) as file:
            return json.load(file)

    def compile_new(self, flags, cluster):
        text = self.path("program.mlir")
        result = self.heddle("compile", *flags, "--stop-after", "executable",
                             "-o", text, may_fail=True, nice=True)
        if result.returncode:
            return None, None
        simulated = json.loads(self.heddle("simulate", text, "--cluster", cluster,
                                           "--json", nice=True).stdout)
        with open(text, "rb") as file:
            key = hashlib.sha256(file.read()).hexdigest()
        program = self.path("programs", key)
        if not os.path.exists(program):
            self.heddle("compile", text, "-o", program, nice=True)
        return simulated, program

    def measure(self, program, cluster):
        """Returns the seconds of the fastest step."""
        if program not in self.measured:
            self.measured[program] = self.train(program, cluster)
        return self.measured[program]

    def train(self, program, cluster):
        trace = self.path("trace.json")
        steps = str(self.options.steps + 1)
        self.heddle("train", program, "--emulate", cluster,
                    "--emulate-compute", "--cores", "1", "--data", self.text,
                    "--steps", steps, "--trace", trace, "--trace-steps", steps,
                    "--eval-windows", "1", "--no-checkpoints", "-o",
                    self.path("run"))
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        begin, end = {}, {}
        for event in events:
            if event["ph"] != "X" or event["cat"] != "run" or \
                    event["args"].get("table") != "step":
                continue
            run = event["args"]["run"]
            begin[run] = min(begin.get(run, event["ts"]), event["ts"])
            finish = event["ts"] + event["dur"]
            end[run] = max(end.get(run, finish), finish)
        return min((end[run] - begin[run]) * 1e-6 for run in sorted(begin)[1:])


def run_case(bench, model, network, part):
    """Measures all plans that fit into `part` of the memory of data parallelism."""
    ample = bench.cluster(network, 1 << 34)
    plain, _ = bench.compile(bench.flags(model, PLANS[0], ample), ample)
    memory = int(part * plain["memory"]["total"])
    cluster = bench.cluster(network, memory)
    rows, programs = [], []
    for plan in PLANS:
        simulated, program = bench.compile(bench.flags(model, plan, ample), ample)
        if simulated and simulated["memory"]["total"] > memory:
            simulated, program = bench.compile(bench.flags(model, plan, cluster),
                                               cluster)
        if simulated is None:
            continue
        total = simulated["memory"]["total"]
        rows.append({"plan": plan, "memory": total, "fits": total <= memory,
                     "predicted": simulated["seconds"]})
        programs.append(program)
    chosen = bench.path(f"{model}-{network}-{part}.plan.json")
    result = bench.heddle("plan", bench.path(model), "--cluster", cluster,
                          "--batch", str(ROWS), "--seq", "64", "--json", "-o",
                          chosen, "--quiet", may_fail=True, nice=True)
    if not result.stdout:
        sys.exit(f"heddle plan: {result.stderr}")
    answer = json.loads(result.stdout)
    case = {"model": model, "network": network, "part": part, "limit": memory,
            "plans": rows, "feasible": answer["feasible"],
            "options": answer["options"]}
    if answer["feasible"]:
        micro = answer["micro_batches"]
        flags = [bench.path(model), "--plan", chosen, "--batch",
                 str(ROWS // micro), "--micro-batches", str(micro), "--seq",
                 "64", "--cluster", cluster]
        simulated, program = bench.compile(flags, cluster)
        if simulated is None:
            sys.exit(f"{chosen} does not compile within {memory} bytes")
        case["memory"] = simulated["memory"]["total"]
        case["predicted"] = answer["seconds"]
        case["simulated"] = simulated["seconds"]
        case["measured"] = bench.measure(program, cluster)
    for row, program in zip(rows, programs):
        if row["fits"]:
            row["measured"] = bench.measure(program, cluster)
    return case


def report(case):
    fitting = sorted((row["measured"], row["plan"]) for row in case["plans"]
                     if row["fits"])
    name = (f"{case['model']:6} {case['network']:13} "
            f"{case['limit'] / 2**20:6.2f} MiB ")
    if not case["feasible"]:
        verdict = f"but {fitting[0][1]} does" if fitting else "and no expert's does"
        print(f"{name} nothing fits, {verdict}", flush=True)
        return not fitting
    best = fitting[0] if fitting else (float("inf"), "none fits")
    ratio = case["measured"] / best[0]
    fits = case["memory"] <= case["limit"]
    print(f"{name} {case['predicted']:.3f} s predicted, {case['measured']:.3f} s "
          f"measured, experts {best[0]:.3f} s, ratio {ratio:.3f}"
          f"{'' if fits else ', DOES NOT FIT'}\n    {case['options']}\n    of "
          f"{len(fitting)} that fit, {best[1]}", flush=True)
    return fits and ratio <= 1.05


def write(cases, path):
    if not path:
        return
    with open(path + ".new", "w") as file:
        json.dump(cases, file, indent=1)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--models", default="gpt2,llama")
    parser.add_argument("--networks", default="fast,slow,hierarchical")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--folder", default="measured")
    parser.add_argument("--json")
    parser.add_argument("--limits", default="1.5,0.6,0.3")
    options = parser.parse_args()
    for folder in ("programs", "compiled"):
        os.makedirs(os.path.join(options.folder, folder), exist_ok=True)
    bench = Bench(options)
    done = []
    if options.json and os.path.exists(options.json):
        with open(options.json) as file:
            done = json.load(file)
    asked, good = 0, 0
    for model in options.models.split(","):
        for network in options.networks.split(","):
            bench.measured.clear()
            for part in map(float, options.limits.split(",")):
                case = next((case for case in done
                             if (case["model"], case["network"], case["part"])
                             == (model, network, part)), None)
                if not case:
                    case = run_case(bench, model, network, part)
                    done.append(case)
                    write(done, options.json)
                asked += 1
                good += report(case)
    print(f"{good} of {asked} cases within 5 % of the best")


main()
