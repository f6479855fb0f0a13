"""Calls of the programs under test. `heddle` compiles, `heddle-run` runs: the
latter may be a build with a sanitizer, for which programs are compiled then."""

import json
import re
import subprocess
import sys


class Failure(Exception):
    """A program failed, or numbers differ."""


def on_one_device(text):
    """The program with all axes of its mesh of size 1."""
    return re.sub(r"(heddle\.mesh .*)",
                  lambda mesh: re.sub(r"=\d+", "=1", mesh.group(0)), text, count=1)


class Programs:
    def __init__(self, compiler, runner, sanitizer=None):
        self.compiler, self.runner = compiler, runner
        self.compile_flags = ["--sanitize", sanitizer] if sanitizer else []
        # So that there are threads within a device on any machine.
        self.run_flags = ["--cores", 2] if sanitizer else []

    def call(self, arguments):
        result = subprocess.run(
            [str(a) for a in arguments], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        if result.returncode != 0:
            raise Failure("exit code %d of %s\n%s" % (
                result.returncode, " ".join(map(str, arguments)),
                result.stderr.strip()[-3000:]))
        return result.stdout

    def compile(self, model, artifact, arguments):
        self.call([self.compiler, "compile", model, "-o", artifact]
                  + self.compile_flags + arguments)

    def train(self, artifact, arguments):
        """One list entry a step: the JSON object that was printed."""
        output = self.call(
            [self.runner, "train", artifact, "--json"] + self.run_flags + arguments)
        entries = [json.loads(line) for line in output.splitlines()]
        return [entry for entry in entries if "loss" in entry]

    def evaluate(self, artifact, arguments):
        self.call([self.runner, "evaluate", artifact, "--gradients"]
                  + self.run_flags + arguments)


class Report:
    """Collects the outcomes of cases; says so as they come."""

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
