"""Measures how well heddle simulate predicts the time of a step on this machine.

    accuracy.py [--runs N] [--steps N] [--folder F] [PROGRAM...]

Profiles the first half of the programs below and predicts all of them. Then runs each
program several times on emulated links; the programs take turns. Prints the predicted
and the measured time (the median over runs of the median over steps), the error, and
the median and the largest error of both halves. The targets are a median error of at
most 5 % and a largest error of at most 10 %. With --keep-profile, the profile of the
folder is used as it is, so that the programs can be measured in several sessions.

The machine should be idle, because other work would slow the measured calls.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

MODELS = {
    "small": "--layers 4 --hidden 256 --heads 4 --vocab 256 --seq 128",
    "deep": "--layers 8 --hidden 256 --heads 4 --vocab 256 --seq 128",
    "wide": "--layers 4 --hidden 512 --heads 8 --vocab 256 --seq 128",
    "long": "--layers 4 --hidden 256 --heads 4 --vocab 256 --seq 512",
}
# Each program has a name, a model, options, and the bytes a second of a link.
PROFILED = [
    ("serial", "small", "--batch 4", 1e9),
    ("dp2", "small", "--batch 8 --mesh dp=2", 1e9),
    ("dp2 slow", "small", "--batch 8 --mesh dp=2", 1e8),
    ("tp2", "small", "--batch 4 --mesh tp=2", 1e9),
    ("tp2 slow", "small", "--batch 4 --mesh tp=2", 1e8),
    ("tp2 auto", "small", "--batch 4 --mesh tp=2 --overlap auto", 1e8),
    ("tp2 parts", "small", "--batch 4 --mesh tp=2 --sub-batches 2 --overlap auto", 1e8),
    ("zero3", "small", "--batch 8 --mesh dp=2 --zero 3", 2e8),
]
# Programs that are not profiled. They have other models, batches, plans and links.
OTHERS = [
    ("deep dp2", "deep", "--batch 8 --mesh dp=2", 2e8),
    ("deep tp2", "deep", "--batch 4 --mesh tp=2", 2e8),
    ("wide tp2", "wide", "--batch 4 --mesh tp=2", 2e8),
    ("wide tp2 auto", "wide", "--batch 4 --mesh tp=2 --overlap auto", 2e8),
    ("long tp2", "long", "--batch 2 --mesh tp=2", 2e8),
    ("zero3 auto", "small", "--batch 8 --mesh dp=2 --zero 3 --overlap auto", 1e8),
    ("tp2 parts fast", "small", "--batch 4 --mesh tp=2 --sub-batches 2 --overlap auto", 4e8),
    ("dp2 bigger", "small", "--batch 16 --mesh dp=2", 2e8),
]


def heddle(*arguments):
    result = subprocess.run(["heddle", *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"heddle {' '.join(arguments)}:\n{result.stderr}")
    return result.stdout


def write_cluster(folder, bandwidth):
    """Writes a cluster of two devices with links of this bandwidth. Returns the path."""
    path = os.path.join(folder, f"links-{bandwidth:.0e}.json")
    cluster = {
        "version": 1,
        "name": f"links of {bandwidth:.0e} B/s",
        "device": {"kind": "cpu", "memory": 1 << 34, "memory_bandwidth": 2e10,
                   "launch": 1e-6, "peak": {"f32": 2e11, "bf16": 4e11}},
        "levels": [{"name": "link", "count": 2, "latency": 1e-4,
                    "bandwidth": bandwidth, "links": 1}],
    }
    with open(path, "w") as file:
        json.dump(cluster, file)
    return path


class Bench:
    def __init__(self, options):
        self.options = options
        self.profile = os.path.join(options.folder, "profile.json")
        self.text = os.path.join(options.folder, "text")
        with open(self.text, "w") as file:
            file.write("The quick brown fox jumps over the lazy dog. " * 2000)

    def flags(self, program):
        name, model, plan, bandwidth = program
        cluster = write_cluster(self.options.folder, bandwidth)
        return [*MODELS[model].split(), *plan.split(), "--cluster", cluster], cluster

    def path(self, program, suffix):
        return os.path.join(self.options.folder,
                            program[0].replace(" ", "-") + suffix)

    def measure_profile(self, program):
        heddle("profile", *self.flags(program)[0], "--cores", "1",
               "--runs", str(self.options.profile_runs), "-o", self.profile)

    def compile(self, program):
        text = self.path(program, ".mlir")
        heddle("compile", *self.flags(program)[0], "--profile", self.profile,
               "--stop-after", "executable", "-o", text)
        heddle("compile", text, "-o", self.path(program, ".heddle"))

    def simulate(self, program, *more):
        return json.loads(heddle(
            "simulate", self.path(program, ".mlir"), "--cluster",
            self.flags(program)[1], "--profile", self.profile, "--json", *more))

    def run(self, program):
        trace = self.path(program, "-trace.json")
        heddle("train", self.path(program, ".heddle"), "--emulate",
               self.flags(program)[1], "--cores", "1", "--data", self.text,
               "--steps", str(self.options.steps), "--trace", trace,
               "--trace-steps", str(max(1, self.options.steps - 2)),
               "--eval-windows", "1", "--no-checkpoints",
               "-o", os.path.join(self.options.folder, "run"))
        return self.simulate(program, "--compare", trace)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--profile-runs", type=int, default=10)
    parser.add_argument("--folder", default="accuracy")
    parser.add_argument("--keep-profile", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    bench = Bench(options)
    chosen = [p for p in PROFILED + OTHERS
              if not options.programs or p[0] in options.programs]
    if not options.keep_profile:
        for program in PROFILED:
            bench.measure_profile(program)
    for program in chosen:
        bench.compile(program)
    runs = {program[0]: [] for program in chosen}
    for _ in range(options.runs):
        for program in chosen:
            runs[program[0]].append(bench.run(program))
    results = []
    print(f"{'program':16} {'predicted':>12} {'measured':>12} {'error':>8}")
    for program in chosen:
        predicted = bench.simulate(program)["seconds"]
        comparisons = runs[program[0]]
        measured = [run["step"]["measured"] for run in comparisons]
        error = predicted / statistics.median(measured) - 1
        parts = {key: statistics.median(run[key]["error"] for run in comparisons)
                 for key in ("computing", "communicating")}
        results.append({"name": program[0], "profiled": program in PROFILED,
                        "predicted": predicted, "measured": measured,
                        "error": error, **parts})
        print(f"{program[0]:16} {predicted * 1e3:9.2f} ms "
              f"{statistics.median(measured) * 1e3:9.2f} ms "
              f"{100 * error:+7.1f} %   computing {100 * parts['computing']:+.1f} "
              f"%, communicating {100 * parts['communicating']:+.1f} %",
              flush=True)
    for profiled in True, False:
        errors = [abs(r["error"]) for r in results if r["profiled"] == profiled]
        if errors:
            print(f"{'profiled' if profiled else 'not profiled'}: median "
                  f"{100 * statistics.median(errors):.1f} %, worst "
                  f"{100 * max(errors):.1f} %")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


main()
