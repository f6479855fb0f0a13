"""Compiles, plans and trains for measured.py, and keeps what was compiled."""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import threading

from variety import LAYERS, ROWS, SCHEDULE, get, pins

MODELS = {
    "gpt2": {"model_type": "gpt2", "n_layer": LAYERS, "n_embd": 64, "n_head": 4,
             "vocab_size": 256, "n_positions": 64, "n_inner": 256},
    "llama": {"model_type": "llama", "num_hidden_layers": LAYERS, "hidden_size": 64,
              "num_attention_heads": 4, "num_key_value_heads": 4,
              "intermediate_size": 192, "vocab_size": 256,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
              "hidden_act": "silu", "tie_word_embeddings": False},
}
# For each network, its levels: the number of devices, and the bytes a second.
NETWORKS = {"fast": [(4, 1e9)], "slow": [(4, 2e7)],
            "hierarchical": [(2, 1e9), (2, 2e7)]}
AMPLE = 1 << 34  # bytes of a device that fit any plan
ROUNDS = 2  # how often each program is measured


def name_of(*texts):
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    """Writes a file at once, so that it is never seen in part."""
    new = f"{path}.{threading.get_ident()}"
    with open(new, "w") as file:
        file.write(text)
    os.replace(new, path)


def read_schedule(text):
    """Returns what the plan of a program says about its schedule."""
    plan = re.search(r'heddle\.plan = "([^"]*)"', text).group(1)
    plan = re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code.group(1), 16)), plan)
    return {key: value for key, value in json.loads(plan).items() if key in SCHEDULE}


class Bench:
    def __init__(self, heddle, folder, steps):
        self.program, self.folder, self.steps = heddle, folder, steps
        self.measured = {}  # what its runs took, by program; a limit may not change it
        self.locks = {}  # by the names of `remember`
        self.pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
        for name in ("programs", "known", "models"):
            os.makedirs(self.path(name), exist_ok=True)
        self.text = self.path("text")
        write(self.text, "The quick brown fox jumps over the lazy dog. " * 2000)
        for name, config in MODELS.items():
            os.makedirs(self.path("models", name), exist_ok=True)
            write(self.path("models", name, "config.json"), json.dumps(config))

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def model(self, name):
        return self.path("models", name)

    def map(self, function, items):
        """Calls a function for all items on all cores, and returns the results."""
        return list(self.pool.map(function, items))

    def heddle(self, *arguments, may_fail=False, nice=True):
        prefix = ["nice", "-n", "19"] if nice else []
        result = subprocess.run([*prefix, self.program, *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)
        if result.returncode and not may_fail:
            sys.exit(f"heddle {' '.join(arguments)}:\n{result.stderr}")
        return result

    def cluster(self, network, memory):
        path = self.path(f"{network}-{memory}.json")
        if os.path.exists(path):
            return path
        levels = [{"name": f"level{i}", "count": count, "latency": 2e-6,
                   "bandwidth": bandwidth, "links": 1}
                  for i, (count, bandwidth) in enumerate(NETWORKS[network])]
        write(path, json.dumps(
            {"version": 1, "name": network,
             "device": {"kind": "emulated", "memory": memory,
                        "memory_bandwidth": 1e9, "launch": 1e-5,
                        "peak": {"f32": 3e9}}, "levels": levels}))
        return path

    def remember(self, name, compute):
        """Returns what `compute` returned for this name, in an earlier run, too."""
        known = self.path("known", name + ".json")
        # Two threads may ask the same, and would write the same files.
        with self.locks.setdefault(name, threading.Lock()):
            if not os.path.exists(known):
                write(known, json.dumps(compute()))
        return json.loads(read(known))

    def compile(self, model, plan, cluster):
        """Compiles an expert's or a varied plan."""
        micro = int(get(plan, "--micro-batches", 1))
        return self.compile_flags(model, plan.split(), ROWS // micro, cluster)

    def compile_chosen(self, model, answer, cluster):
        """Compiles the plan that `heddle plan` wrote."""
        micro = answer["micro_batches"]
        return self.compile_flags(
            model, ["--plan", answer["file"], "--micro-batches", str(micro)],
            ROWS // micro, cluster)

    def compile_flags(self, model, words, rows, cluster):
        """Compiles a program, and returns its predicted `seconds`, the `bytes` of a
        device, `text`, the name of the program, and `schedule`, what its schedule
        chose. If the plan is refused, `error` is the reason, and `too_large` says
        whether it is that the variables alone exceed the memory."""
        flags = [self.model(model), *words, "--batch", str(rows), "--seq", "64",
                 "--cluster", cluster]
        files = [b for a, b in zip(words, words[1:]) if a == "--plan"]
        name = name_of(*flags, *map(read, [cluster, *files]))

        def compute():
            text = self.path("programs", name + ".mlir")
            result = self.heddle("compile", *flags, "--stop-after", "executable",
                                 "-o", text, may_fail=True)
            if result.returncode:
                return {"error": result.stderr, "too_large":
                        "optimizer state (" in result.stderr}
            simulated = json.loads(self.heddle("simulate", text, "--cluster", cluster,
                                               "--json").stdout)
            program = read(text)
            same = self.path("programs", name_of(program) + ".mlir")
            os.replace(text, same)
            return {"seconds": simulated["seconds"], "text": same,
                    "bytes": simulated["memory"]["total"],
                    "schedule": read_schedule(program)}

        return self.remember(name, compute)

    def plan(self, model, cluster, words=(), part=None):
        """Returns the answer of `heddle plan`, with `file`, the plan that it wrote. If
        it refuses the request, `error` is the reason."""
        words = [self.model(model), "--cluster", cluster, "--batch", str(ROWS),
                 "--seq", "64", *words]
        name = name_of("plan", *words, json.dumps(part), read(cluster))

        def compute():
            file = self.path("programs", name + ".plan.json")
            stated = self.path("programs", name + ".part.json")
            if part:
                write(stated, json.dumps(part))
            result = self.heddle("plan", *words, *(["--plan", stated] if part else []),
                                 "--json", "--quiet", "-o", file, may_fail=True)
            if not result.stdout:
                return {"error": result.stderr}
            answer = json.loads(result.stdout)
            keys = ("feasible", "seconds", "memory", "memory_bound", "options",
                    "micro_batches", "infeasible_predictions", "left_out")
            return {"file": file, **{key: answer[key] for key in keys
                                     if key in answer}}

        return self.remember(name, compute)

    def judge(self, model, plan, schedule, cluster):
        """Returns what `heddle plan` says about a plan whose schedule chose what
        `schedule` says."""
        words, part = pins(plan, schedule)
        return self.plan(model, cluster, [*words, "--work", "4"], part)

    def link(self, text):
        """Compiles a program's code, and returns its artifact."""
        artifact = text.removesuffix(".mlir")
        if not os.path.exists(artifact):
            self.heddle("compile", text, "-o", artifact)
        return artifact

    def measure(self, texts, cluster):
        """Returns for each program the seconds of its fastest step, and the most bytes
        that the runtime took of a device. What disturbs the machine for a while should not
        slow down one program alone, so each is measured in several rounds."""
        for _ in range(ROUNDS):
            for text in dict.fromkeys(texts):
                runs = self.measured.setdefault(text, [])
                if len(runs) < ROUNDS:
                    runs.append(self.train(self.link(text), cluster))
        return {text: (min(seconds for seconds, _ in self.measured[text]),
                       max(taken for _, taken in self.measured[text]))
                for text in texts}

    def train(self, artifact, cluster):
        trace = self.path("trace.json")
        steps = str(self.steps + 1)
        result = self.heddle(
            "train", artifact, "--emulate", cluster, "--emulate-compute", "--cores",
            "1", "--data", self.text, "--steps", steps, "--trace", trace,
            "--trace-steps", steps, "--eval-windows", "1", "--no-checkpoints",
            "--json", "-o", self.path("run"), nice=False)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        taken = max(line["bytes_per_device"] for line in lines
                    if "bytes_per_device" in line)
        begin, end = {}, {}
        for event in json.loads(read(trace))["traceEvents"]:
            if event["ph"] != "X" or event["cat"] != "run" or \
                    event["args"].get("table") != "step":
                continue
            run = event["args"]["run"]
            begin[run] = min(begin.get(run, event["ts"]), event["ts"])
            finish = event["ts"] + event["dur"]
            end[run] = max(end.get(run, finish), finish)
        seconds = min((end[run] - begin[run]) * 1e-6 for run in sorted(begin)[1:])
        return seconds, taken
