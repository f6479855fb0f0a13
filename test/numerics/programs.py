"""Calls the programs under test: `heddle` compiles, and `heddle-run` runs the
artifacts. If `heddle-run` is built with a sanitizer, `heddle` instruments its code for
the same sanitizer."""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys


class Failure(Exception):
    """A program failed, or numbers differ."""


def on_one_device(text):
    """Returns the program with every axis of its mesh set to size 1."""
    return re.sub(r"(heddle\.mesh .*)",
                  lambda mesh: re.sub(r"=\d+", "=1", mesh.group(0)), text, count=1)


def as_pipeline(text, stages):
    """Returns the program with a new first axis of its mesh, "pp" of size 2, and the
    attribute that cuts it into `stages` stages."""
    schedule = "one_f_one_b" if stages == 2 else "interleaved"
    pipeline = 'heddle.pipeline = #heddle.pipeline<"pp", %s, stages %d>' % (
        schedule, stages)
    text = re.sub(r"(heddle\.mesh @\w+ <\[)", r'\1"pp"=2, ', text, count=1)
    module = re.search(r"^module( @\w+)?( attributes \{)?", text, re.M)
    if module:
        return "%s%s%s%s" % (
            text[:module.end()], "" if module.group(2) else " attributes {",
            pipeline + (", " if module.group(2) else "}"), text[module.end():])
    # Aliases of attributes stay outside of the module.
    mesh = re.search(r"^heddle\.mesh .*\n", text, re.M)
    text = text[:mesh.start()] + text[mesh.end():]
    start = re.search(r"^(heddle\.|func\.)", text, re.M).start()
    return "%smodule attributes {%s} {\n%s%s\n}\n" % (
        text[:start], pipeline, mesh.group(0), text[start:])


def cut_anywhere(run, text, stages, seed, function="f"):
    """Returns a pipeline's program whose function is cut at random places, by
    heddle.stage on each of its ops."""
    generic = run.call([pathlib.Path(run.compiler).with_name("heddle-opt"),
                        "--mlir-print-op-generic", text])
    lines = generic.splitlines()
    start = next(i for i, line in enumerate(lines)
                 if '"func.func"' in line and 'sym_name = "%s"' % function in line)
    indent = len(lines[start]) - len(lines[start].lstrip()) + 2
    # The last lines of the ops in the function's own block.
    ends = []
    for i in range(start + 1, len(lines)):
        own = len(lines[i]) - len(lines[i].lstrip())
        body = lines[i].lstrip()
        if own < indent and body.startswith("})"):
            break
        is_end = own == indent and body.startswith(("%", "})")) and " : (" in body
        if is_end and '"arith.constant"' not in body and "({" not in body:
            ends.append(i)
    cuts = sorted(random.Random(seed).choices(range(len(ends) + 1), k=stages - 1))
    for place, i in enumerate(ends):
        stage = "heddle.stage = %d : i64" % sum(cut <= place for cut in cuts)
        before, types = lines[i].rsplit(" : (", 1)
        if before.endswith("}") and not before.endswith(">}"):
            before = "%s, %s}" % (before[:-1], stage)
        else:
            before += " {%s}" % stage
        lines[i] = before + " : (" + types
    return "\n".join(lines) + "\n"


def get_parser(description, long=None, needs_runner=True):
    """Returns a parser of the arguments of every script here: the programs and a
    scratch folder. `description` is the script's docstring; `long` says what
    --long adds."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--heddle", required=True)
    parser.add_argument("--heddle-run", required=needs_runner)
    parser.add_argument("--sanitize", choices=["address", "thread"],
                        help="what heddle-run is built with")
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    if long:
        parser.add_argument("--long", action="store_true",
                            default=bool(os.environ.get("HEDDLE_LONG_TESTS")),
                            help=long + " (also with HEDDLE_LONG_TESTS=1)")
    return parser


class Programs:
    """Calls `heddle` and `heddle-run`. Kernels are optimized if `optimizes` is set
    (by golden.py, foreign.py and random_linalg.py), or with HEDDLE_LONG_TESTS=1.
    Otherwise they are not optimized, so that they compile quickly. With
    HEDDLE_LONG_TESTS=1, programs are verified after each pass, not only after each
    phase."""

    def __init__(self, compiler, runner, sanitizer=None, optimizes=False):
        self.compiler, self.runner = compiler, runner
        self.compile_flags = ["--sanitize", sanitizer] if sanitizer else []
        # Two cores, so that a device has threads on any machine.
        self.run_flags = ["--cores", 2] if sanitizer else []
        # Variables that are added to the environment of this process.
        is_long = bool(os.environ.get("HEDDLE_LONG_TESTS"))
        self.environment = {
            "HEDDLE_OPTIMIZE_KERNELS": str(int(optimizes or is_long)),
            "HEDDLE_VERIFY_EACH_PASS": str(int(is_long))}

    def call(self, arguments):
        result = subprocess.run(
            [str(a) for a in arguments], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, **self.environment))
        if result.returncode != 0:
            raise Failure("exit code %d of %s\n%s" % (
                result.returncode, " ".join(map(str, arguments)),
                result.stderr.strip()[-3000:]))
        return result.stdout

    def compile(self, model, artifact, arguments):
        self.call([self.compiler, "compile", model, "-o", artifact]
                  + self.compile_flags + arguments)

    def train(self, artifact, arguments):
        """Trains and returns the JSON objects that the runner printed, one for
        each step."""
        output = self.call(
            [self.runner, "train", artifact, "--json"] + self.run_flags + arguments)
        entries = [json.loads(line) for line in output.splitlines()]
        return [entry for entry in entries if "loss" in entry]

    def evaluate(self, artifact, arguments):
        self.call([self.runner, "evaluate", artifact, "--gradients"]
                  + self.run_flags + arguments)


class Report:
    """Prints the outcome of each case and collects the failures."""

    def __init__(self):
        self.failures = []

    def case(self, name, check):
        """Runs check(), which returns a note or raises Failure."""
        try:
            print("ok      %-34s %s" % (name, check()), flush=True)
        except Failure as failure:
            self.failures.append(name)
            print("FAILED  %-34s %s" % (name, failure), flush=True)

    def finish(self):
        if self.failures:
            sys.exit("%d failed: %s" % (
                len(self.failures), ", ".join(self.failures)))
