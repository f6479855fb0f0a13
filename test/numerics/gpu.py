"""Trains tiny models on an emulated GPU and compares with the serial program for
this CPU.

    gpu.py --heddle build/bin/heddle --heddle-run build/bin/heddle-run \\
           --gpu build/lib/emulated-gpu --scratch FOLDER [--long] [--only CASE] [MODEL ...]

A case is a plan of matrix.py, a schedule of schedules.py (tp4+oases) or a
pipeline of pipelines.py (pp2-tp2/zb-h1). Bounds are those of these scripts. The
emulated GPU runs its streams in a random legal order. A second run, in another
order, must give the same bits: that of a pipeline, and with --long that of every
case.
"""

import argparse
import os
import pathlib

import matrix
import pipelines
from programs import Failure, Programs, Report
from schedules import SCHEDULES

SCHEDULES = dict(SCHEDULES, parts=["--sub-batches", "2"], bf16=["--bf16"])

# The cases of every check.
SHORT = {
    "gpt2": ["pp2-tp2/zb-h1"],
    "gpt2-dropout": ["dp2-tp2+oases"],
    "llama": ["zero3+auto"],
}
# With --long, these plans with each of these schedules, and these pipelines.
PLANS = ["serial", "tp4", "dp2-tp2", "zero1", "zero2", "zero3", "ring4", "sequence4"]
MESHES = ["pp2", "pp2-tp2", "pp2-dp2", "pp2-zero1", "pp2-zero3", "pp2-recompute", "pp2-parts",
          "pp2-tp2-oases", "pp2-tp2-auto", "pp2-bf16", "pp2-free", "pp4"]
LONG = PLANS + ["%s+%s" % (plan, schedule) for plan in PLANS for schedule in SCHEDULES] + [
    "%s/%s" % (mesh, schedule) for mesh in MESHES for schedule in pipelines.SCHEDULES]
MODELS = ["gpt2", "llama", "gpt2-odd", "gpt2-dropout", "llama-dropout"]


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
        # A module does not keep the seed of the initial parameters.
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
        self.long = long
        self.cpu = {kind: kind(name, cpu, scratch / "cpu" / kind.__name__)
                    for kind in (matrix.Model, pipelines.Pipelines)}
        self.gpu = {kind: kind(name, gpu, scratch / "gpu" / kind.__name__)
                    for kind in self.cpu}
        self.serial = {}

    def expect(self, key, train):
        """Returns what train() does, which one call of each key does."""
        if key not in self.serial:
            losses, _ = self.serial[key] = train()
            if not losses[-1] < losses[0]:
                raise Failure("the loss does not fall: %s" % losses)
        return self.serial[key]

    def run(self, case):
        if "/" in case:
            arguments, actual, expected = self.run_pipeline(*case.split("/"))
        else:
            arguments, actual, expected = self.run_plan(*(case + "+").split("+")[:2])
        bounds = matrix.LOSS, matrix.GRADIENT
        if "--bf16" in arguments:
            bounds = matrix.BF16_LOSS, matrix.BF16_GRADIENT
        return matrix.compare(actual, expected, *bounds)

    def run_plan(self, plan, schedule):
        model = self.gpu[matrix.Model]
        arguments = [] if plan == "serial" else model.plan(plan)
        arguments = arguments + SCHEDULES.get(schedule, [])
        expected = self.expect("whole", lambda: self.cpu[matrix.Model].run(
            "serial", [], repeat=False))
        actual = model.run(plan + schedule, arguments, repeat=self.long)
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
    parser.add_argument("--only", action="append", help="run these cases only")
    parser.add_argument("--long", action="store_true",
                        default=bool(os.environ.get("HEDDLE_LONG_TESTS")),
                        help="run all plans, schedules and pipelines")
    parser.add_argument("models", nargs="*", metavar="MODEL", default=[])
    options = parser.parse_args()
    report = Report()
    cpu = Programs(options.heddle, options.heddle_run)
    gpu = GpuPrograms(options.gpu.resolve(), options.heddle, options.heddle_run)
    for name in options.models or (MODELS if options.long else SHORT):
        cases = options.only or (LONG if options.long else SHORT[name])
        model = Comparison(name, cpu, gpu, options.scratch, options.long)
        for case in cases:
            report.case("%s %s" % (name, case), lambda: model.run(case))
    report.finish()


if __name__ == "__main__":
    main()
