"""Compares the bubbles of pipelines: simulated, measured, and by the schedules' formulas.

    bubbles.py [--real] [--no-barrier] [--folder F] [--steps N] [SCHEDULE...]

Runs a model of equal stages with every schedule. Transfers over the links take much less
time than computation.

Without --real, four stages run with --emulate-compute: each call sleeps for the
time that the simulator assumes for it. So only the simulator's order of events is
tested. On a busy machine a sleeper may wake late, but never early, so the fastest step
counts.
With --real, two stages compute on two cores, and the simulator takes the calls' times
from `heddle profile`. The machine should be idle: calls take longer beside other work.
The result is the median of the steps whose calls take at most 5 % longer than those of
the quickest step. The script also prints how long the calls of a step take, from the
quickest step to the slowest one, and the part of the cores' time that other processes
(or, on a virtual machine, its host) took. If this part is above 2 %, the figures mean
little.

With --no-barrier, steps overlap (--pipeline-barrier none), and a step's time is the
period of steps. The model's embedding and head are not tied then: the gradients of
a tied table wait for each other.

A bubble is the part of a step in which the compute stream of a device runs no
call, as the mean over devices. Prints for each schedule the step and the bubble,
simulated and measured, the error of the simulated step, and the bubble of the
schedule's formula for equal stages. This formula ignores embedding, head, update
and links. The targets are: the simulated step is within 5 % of the measured one. The
bubbles of GPipe and 1F1B are within 3 percentage points of (p-1)/(m+p-1), and that of
`interleaved` with v chunks is within 3 points of (p-1)/(vm+p-1). The bubbles of
zero-bubble schedules are less than half of 1F1B's.
"""

import argparse
import collections
import json
import os
import resource
import statistics
import subprocess
import sys
import time

Run = collections.namedtuple("Run", ["seconds", "bubble", "calls"])
SCHEDULES = ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"]


def heddle(*arguments):
    result = subprocess.run(["heddle", *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"heddle {' '.join(arguments)}:\n{result.stderr}")
    return result.stdout


def formula(schedule, stages, micro_batches):
    """Returns the bubble of equal stages, or None for schedules without a formula."""
    rest = stages - 1
    if schedule in ("gpipe", "1f1b"):
        return rest / (micro_batches + rest)
    if schedule == "interleaved":
        return rest / (2 * micro_batches + rest)
    return None


def read_trace(path, step, overlaps):
    """Returns for each run of the step its seconds, its bubble, and the seconds of
    its calls, as the mean over devices. If runs overlap, a run takes the time from the
    end of the one before."""
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    begin, end = collections.defaultdict(list), collections.defaultdict(list)
    busy, ranks = collections.Counter(), set()
    for event in events:
        if event["ph"] != "X" or event["args"].get("table") != step:
            continue
        run = event["args"]["run"]
        if event["cat"] == "run":
            ranks.add(event["pid"])
            begin[run].append(event["ts"])
            end[run].append(event["ts"] + event["dur"])
        elif event["cat"] == "compute":
            busy[run] += event["dur"]
    runs = []
    for run in sorted(begin)[1:]:  # the first run warms up
        since = max(end[run - 1]) if overlaps else min(begin[run])
        seconds, calls = max(end[run]) - since, busy[run] / len(ranks)
        runs.append(Run(seconds * 1e-6, 1 - calls / seconds, calls * 1e-6))
    # No other run overlaps the end of the last one, so the last one is left out.
    return runs[:-1] if overlaps else runs


def others_seconds():
    """Returns the core seconds that other processes and the host of a virtual machine
    took. Children for which this process has waited do not count as other processes."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, *others = map(int, file.readline().split()[1:9])
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ((user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")
            - own.ru_utime - own.ru_stime)


class Bench:
    def __init__(self, options):
        self.options = options
        self.stages = 2 if options.real else options.stages
        self.text = os.path.join(options.folder, "text")
        with open(self.text, "w") as file:
            file.write("The quick brown fox jumps over the lazy dog. " * 2000)
        self.cluster = os.path.join(options.folder, "cluster.json")
        # An emulated device is slow, so that a call takes milliseconds.
        device = {"kind": "cpu", "memory": 1 << 34, "launch": 1e-6,
                  "memory_bandwidth": 2e10 if options.real else 1.2e9,
                  "peak": {"f32": 1e11 if options.real else 1.2e10}}
        with open(self.cluster, "w") as file:
            json.dump({"version": 1, "name": "bubbles", "device": device,
                       "levels": [{"name": "link", "count": self.stages,
                                   "latency": 1e-6, "bandwidth": 1e11,
                                   "links": 1}]}, file)
        self.profile = os.path.join(options.folder, "profile.json")

    def flags(self, schedule):
        return [*self.size(), "--batch", "2", "--mesh", f"pp={self.stages}",
                "--pipeline", schedule, "--micro-batches",
                str(self.options.micro_batches), "--cluster", self.cluster,
                *(["--pipeline-barrier", "none", "--clip", "0"]
                  if self.options.no_barrier else [])]

    def size(self):
        if self.options.no_barrier:
            model = os.path.join(self.options.folder, "config.json")
            with open(model, "w") as file:
                json.dump({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
                           "vocab_size": 128, "n_positions": 64, "n_embd": 128,
                           "n_layer": 16, "n_head": 4, "tie_word_embeddings": False,
                           "activation_function": "gelu_new"}, file)
            return [model, "--seq", "64"]
        return ["--layers", "16", "--hidden", "256" if self.options.real else "128",
                "--heads", "4", "--vocab", "128", "--seq", "64"]

    def measure_profile(self):
        """Measures the calls of a pipeline, which cannot be profiled itself. Two
        devices compute the whole model at once, each for the rows of a micro-batch."""
        heddle("profile", *self.size(), "--batch", "4", "--mesh", "dp=2",
               "--micro-batches", "2",
               "--cluster", self.cluster, "--cores", "1", "--runs", "10",
               "-o", self.profile)

    def run(self, schedule):
        flags = self.flags(schedule)
        timing = ["--profile", self.profile] if self.options.real else []
        simulated = json.loads(heddle("simulate", *flags, *timing, "--json"))
        trace = os.path.join(self.options.folder, f"{schedule}.json")
        emulate = [] if self.options.real else ["--emulate-compute"]
        steps = str(self.options.steps + 1)
        begin, others = time.monotonic(), others_seconds()
        heddle("train", *flags, *timing, "--emulate", self.cluster, *emulate,
               "--cores", "1", "--data", self.text, "--steps", steps,
               "--trace", trace, "--trace-steps", steps, "--eval-windows", "1",
               "--no-checkpoints", "-o", os.path.join(self.options.folder, "run"))
        others = (others_seconds() - others) / (time.monotonic() - begin)
        runs = read_trace(trace, "step", self.options.no_barrier)
        calls = [run.calls for run in runs]
        if self.options.real:
            runs = [run for run in runs if run.calls <= 1.05 * min(calls)]
        choose = statistics.median if self.options.real else min
        measured = choose(run.seconds for run in runs)
        computing = [times["computing"] for times in simulated["list_times"]]
        seconds = simulated["seconds"]
        return {"schedule": schedule, "simulated": seconds, "measured": measured,
                "error": seconds / measured - 1,
                "simulated_bubble": 1 - statistics.mean(computing) / seconds,
                "measured_bubble": choose(run.bubble for run in runs),
                "calls": [min(calls), max(calls)],
                "others": others / os.cpu_count(),
                "formula": formula(schedule, self.stages,
                                   self.options.micro_batches)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--no-barrier", action="store_true")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=12)
    parser.add_argument("--folder", default="bubbles")
    parser.add_argument("--json")
    parser.add_argument("schedules", nargs="*", metavar="SCHEDULE")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    bench = Bench(options)
    if options.real:
        bench.measure_profile()
    print(f"{'schedule':12} {'simulated':>12} {'measured':>12} {'error':>8}   "
          f"{'bubble simulated':>16} {'measured':>9} {'formula':>8}")
    results = []
    for schedule in options.schedules or SCHEDULES:
        row = bench.run(schedule)
        results.append(row)
        times = [1e3 * seconds for seconds in row["calls"]]
        known = "" if row["formula"] is None else f"{100 * row['formula']:6.1f} %"
        print(f"{schedule:12} {1e3 * row['simulated']:9.1f} ms "
              f"{1e3 * row['measured']:9.1f} ms {100 * row['error']:+6.1f} %   "
              f"{100 * row['simulated_bubble']:14.1f} % "
              f"{100 * row['measured_bubble']:7.1f} % {known:>8}"
              + options.real * (f"   calls {times[0]:.0f} to {times[1]:.0f} ms, others "
                                f"{100 * row['others']:.1f} %"), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


main()
