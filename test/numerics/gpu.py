"""Trains tiny models on an emulated GPU and compares with the serial program for
this CPU.

    gpu.py --heddle build/bin/heddle --heddle-run build/bin/heddle-run \\
           --gpu build/lib/emulated-gpu --scratch FOLDER [--long] [--part K/N] \\
           [--only CASE ...] [MODEL ...]

A case is a plan of matrix.py, a plan with a schedule of schedules.py (tp4+oases), or a
pipeline of pipelines.py (pp2-tp2/zb-h1). In the first two kinds of case, --gpu-rows can
force the shape of rows (serial+bf16@warp). --only may occur several times; it also takes
patterns of the cases of --long ('pp*/1f1b'). The bounds are those of these scripts. The
emulated GPU runs its streams in a random legal order. Pipelines run a second time, in
another order, and must give the same bits. With --long, every case does.
"""

import argparse
import fnmatch
import os
import pathlib

import matrix
import pipelines
from programs import Failure, Programs, Report
from schedules import SCHEDULES

SCHEDULES = dict(SCHEDULES, parts=["--sub-batches", "2"], bf16=["--bf16"])

# The cases of every check, and their number of steps. With --long, cases take the
# steps of matrix.py.
SHORT_STEPS = 4
SHORT = {
    "gpt2-dropout": ["pp2-tp2/zb-h1"],
    "llama": ["zero3+auto"],
}
# The cases of --long: each plan with each schedule, and each mesh with each schedule of
# pipelines.
PLANS = ["serial", "tp4", "dp2-tp2", "zero1", "zero2", "zero3", "ring4", "sequence4"]
MESHES = ["pp2", "pp2-tp2", "pp2-dp2", "pp2-zero1", "pp2-zero3", "pp2-recompute", "pp2-parts",
          "pp2-tp2-oases", "pp2-tp2-auto", "pp2-bf16", "pp2-free", "pp4"]
LONG = PLANS + ["%s+%s" % (plan, schedule) for plan in PLANS for schedule in SCHEDULES] + [
    "%s/%s" % (mesh, schedule) for mesh in MESHES for schedule in pipelines.SCHEDULES]
MODELS = ["gpt2", "llama", "gpt2-odd", "gpt2-dropout", "llama-dropout"]
# Rows of tiny models fit one warp. So these cases force each shape of rows, and these
# models have rows of 31, 33, 1000 and 4097 elements.
SHAPED = ["%s@%s" % (case, rows) for case in ("serial", "serial+bf16", "zero3")
          for rows in ("thread", "warp", "block")]
matrix.MODELS.update({
    "gpt2-31": matrix.gpt2(33, 31, 1, inner=1000),
    "gpt2-33": matrix.gpt2(31, 33, 3, inner=4097),
    "gpt2-1000": matrix.gpt2(64, 1000, 8, inner=33)})
WIDTHS = ["serial", "serial+bf16"] + [case for case in SHAPED if "zero3" not in case]
LONG_CASES = {name: LONG + SHAPED for name in MODELS}
LONG_CASES.update({name: WIDTHS for name in ("gpt2-31", "gpt2-33", "gpt2-1000")})


def parse_part(text):
    """Reads K/N. Returns the index of the part, from 0, and their number."""
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError("expected K/N with K from 1 to N, got " + text)
    return int(part) - 1, int(parts)


def choose(name, patterns):
    """Returns the cases of a model that --only names. A case need not be one of --long, but
    a pattern must match such a case."""
    chosen = []
    for pattern in patterns:
        is_pattern = any(letter in pattern for letter in "*?[")
        cases = fnmatch.filter(LONG_CASES.get(name, LONG), pattern) if is_pattern else [pattern]
        if not cases:
            raise SystemExit("--only: no case of %s matches %s" % (name, pattern))
        chosen += [case for case in cases if case not in chosen]
    return chosen


class GpuPrograms(Programs):
    """Compiles for GPUs, and runs on the emulated one."""

    def __init__(self, gpu, *arguments):
        super().__init__(*arguments)
        self.environment["HEDDLE_RT_CUDA_PATH"] = str(gpu)
        self.runs = 0

    @staticmethod
    def module(artifact):
        return artifact.with_suffix(".mlir")

    def compile(self, model, artifact, arguments):
        super().compile(model, self.module(artifact),
                        arguments + ["--target-gpu", "sm_80", "--stop-after", "llvm"])
        # The module does not contain the seed of the initial parameters.
        seed = arguments.index("--seed")
        super().compile(self.module(artifact), artifact, arguments[seed:seed + 2])

    def use(self, artifact):
        self.runs += 1
        self.environment.update(HEDDLE_EMULATED_GPU_MODULE=str(self.module(artifact)),
                                HEDDLE_EMULATED_GPU_SEED=str(self.runs))

    def train(self, artifact, arguments):
        self.use(artifact)
        return super().train(artifact, arguments)

    def evaluate(self, artifact, arguments):
        self.use(artifact)
        super().evaluate(artifact, arguments)


class Comparison:
    """A model on the CPU's one device, and on the GPU under many plans."""

    def __init__(self, name, cpu, gpu, scratch, long):
        self.name = name
        self.long = long
        self.cpu = {kind: kind(name, cpu, scratch / "cpu" / kind.__name__)
                    for kind in (matrix.Model, pipelines.Pipelines)}
        self.gpu = {kind: kind(name, gpu, scratch / "gpu" / kind.__name__)
                    for kind in self.cpu}
        self.serial = {}

    def expect(self, key, train):
        """Returns the result of train(), and runs it only once for each key."""
        if key not in self.serial:
            losses, _ = self.serial[key] = train()
            # At this learning rate a very wide model overshoots.
            if not losses[-1] < losses[0] and self.name in MODELS:
                raise Failure("the loss does not fall: %s" % losses)
        return self.serial[key]

    def run(self, case):
        if "/" in case:
            arguments, actual, expected = self.run_pipeline(*case.split("/"))
        else:
            plan, rows = (case + "@").split("@")[:2]
            arguments, actual, expected = self.run_plan(*(plan + "+").split("+")[:2], rows)
        bounds = matrix.LOSS, matrix.GRADIENT
        if "--bf16" in arguments:
            bounds = matrix.BF16_LOSS, matrix.BF16_GRADIENT
        return matrix.compare(actual, expected, *bounds)

    def run_plan(self, plan, schedule, rows):
        model = self.gpu[matrix.Model]
        arguments = [] if plan == "serial" else model.plan(plan)
        arguments = arguments + SCHEDULES.get(schedule, [])
        if rows:
            arguments = arguments + ["--gpu-rows", rows]
        expected = self.expect("whole", lambda: self.cpu[matrix.Model].run(
            "serial", [], repeat=False))
        actual = model.run(plan + schedule + rows, arguments, repeat=self.long)
        return arguments, actual, expected

    def run_pipeline(self, mesh, schedule):
        arguments, micro = pipelines.MESHES[mesh]
        free = "--pipeline-barrier" in arguments
        expected = self.expect(
            (micro, free), lambda: self.cpu[pipelines.Pipelines].train(
                "serial-%d%s" % (micro, "-free" * free), ["--clip", "0"] * free, micro))
        actual = self.gpu[pipelines.Pipelines].train(
            "%s-%s" % (mesh, schedule), arguments + ["--pipeline", schedule], micro)
        return arguments, actual, expected


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", required=True)
    parser.add_argument("--heddle-run", required=True)
    parser.add_argument("--gpu", type=pathlib.Path, required=True,
                        help="the folder of the emulated GPU's libraries")
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    parser.add_argument("--only", action="append", metavar="CASE",
                        help="run these cases only; may be a pattern")
    parser.add_argument("--long", action="store_true",
                        default=bool(os.environ.get("HEDDLE_LONG_TESTS")),
                        help="run all plans, schedules and pipelines")
    parser.add_argument("--part", type=parse_part, default=(0, 1), metavar="K/N",
                        help="run every Nth case, from the Kth on")
    parser.add_argument("models", nargs="*", metavar="MODEL", default=[])
    options = parser.parse_args()
    report = Report()
    cpu = Programs(options.heddle, options.heddle_run)
    gpu = GpuPrograms(options.gpu.resolve(), options.heddle, options.heddle_run)
    known = LONG_CASES if options.long else SHORT
    if not options.long:
        matrix.STEPS = SHORT_STEPS
    cases = [(name, case) for name in options.models or known
             for case in (choose(name, options.only) if options.only
                          else known.get(name, LONG))]
    part, parts = options.part
    model = None
    for name, case in cases[part::parts]:
        if not model or model.name != name:
            model = Comparison(name, cpu, gpu, options.scratch, options.long)
        report.case("%s %s" % (name, case), lambda: model.run(case))
    report.finish()


if __name__ == "__main__":
    main()
