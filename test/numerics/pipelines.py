"""Trains tiny models as pipelines and compares with one device.

    pipelines.py --heddle build/bin/heddle --heddle-run build/bin/heddle-run \\
                 --scratch FOLDER [--long] [--only CASE] [MODEL ...]

A case is a mesh and a schedule, such as pp2-tp2/zb-h1. It is compared with the
program for one device that has the same micro-batches. The loss of each of ten
optimizer steps must be within 1e-5 (relative), and every gradient of one micro-batch
within 1e-4 (relative L2). All replicas must be equal. A second run executes the streams
in a random legal order and must give the same bits.
"""

import argparse
import os
import pathlib

import matrix
from programs import Failure, Programs, Report

ROWS = 2  # the rows of a micro-batch
FREE = ["--pipeline-barrier", "none"]
MESHES = {
    "pp2": (["--mesh", "pp=2"], 4),
    "pp4": (["--mesh", "pp=4"], 6),
    "pp2-tp2": (["--mesh", "pp=2,tp=2"], 4),
    "pp2-dp2": (["--mesh", "pp=2,dp=2"], 4),
    "pp2-dp2-tp2": (["--mesh", "pp=2,dp=2,tp=2"], 4),
    "pp2-zero1": (["--mesh", "pp=2,dp=2", "--zero", "1"], 4),
    "pp2-zero2": (["--mesh", "pp=2,dp=2", "--zero", "2"], 4),
    "pp2-cp2": (["--mesh", "pp=2,cp=2"], 4),
    "pp2-sequence2": (["--mesh", "pp=2,tp=2", "--sequence"], 4),
    # Pipelines together with other decisions of a plan.
    "pp3": (["--mesh", "pp=3"], 5),
    # gpt2-odd has three heads, so one device of tp has two and the other has one.
    "pp2-dp2-tp2-zero1": (["--mesh", "pp=2,dp=2,tp=2", "--zero", "1",
                           "--sub-batches", "2"], 3),
    "pp2-zero3": (["--mesh", "pp=2,dp=2", "--zero", "3"], 3),
    "pp2-recompute": (["--mesh", "pp=2", "--recompute", "layer"], 4),
    "pp2-tp2-recompute": (["--mesh", "pp=2,tp=2", "--recompute", "communication"], 4),
    "pp2-zero3-recompute": (["--mesh", "pp=2,dp=2", "--zero", "3",
                             "--recompute", "layer"], 4),
    "pp2-parts": (["--mesh", "pp=2", "--sub-batches", "2"], 4),
    "pp2-tp2-oases": (["--mesh", "pp=2,tp=2", "--overlap", "oases"], 4),
    "pp2-tp2-auto": (["--mesh", "pp=2,tp=2", "--overlap", "auto"], 4),
    "pp2-bf16": (["--mesh", "pp=2", "--bf16"], 4),
    # Successive steps overlap.
    "pp2-free": (["--mesh", "pp=2"] + FREE, 4),
    "pp4-free": (["--mesh", "pp=4"] + FREE, 6),
    "pp2-dp2-tp2-free": (["--mesh", "pp=2,dp=2,tp=2"] + FREE, 4),
    "pp2-zero2-free": (["--mesh", "pp=2,dp=2", "--zero", "2"] + FREE, 4),
}
SCHEDULES = ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"]
# With these models each stage has two layers, so that there are segments to recompute.
matrix.MODELS["gpt2-deep"] = dict(matrix.gpt2(64, 32, 4, dropout=0.1), n_layer=4)
matrix.MODELS["llama-deep"] = dict(matrix.llama(64, 8, 4), num_hidden_layers=4)
MODELS = ["gpt2", "llama", "gpt2-odd", "gpt2-dropout", "gpt2-deep", "llama-deep"]
# The cases of every check. Each schedule is in a case, and so is each other decision of
# a plan, but not each pair of a schedule and a decision.
SHORT = {
    "gpt2": ["pp2-free/zb-h2", "pp2-tp2/zb-h1", "pp2-dp2/gpipe",
             "pp2-zero1/interleaved", "pp4/zb-v"],
    "llama": ["pp4-free/1f1b"],
    # The copies of the tied table are updated in different kernels.
    "gpt2-odd": ["pp2-dp2-tp2-zero1/1f1b"],
    "gpt2-deep": ["pp2-recompute/zb-h1"],
    "llama-deep": ["pp2-tp2-recompute/interleaved", "pp2-zero3-recompute/zb-v"],
    "gpt2-dropout": ["pp2-parts/zb-h1", "pp2-tp2-oases/interleaved",
                     "pp2-tp2-auto/1f1b", "pp2-bf16/zb-v"],
}


class Pipelines(matrix.Model):
    ROWS = ROWS

    def train(self, name, arguments, micro):
        """Trains ten steps. Returns the losses and the gradients of a batch."""
        artifact = self.folder / (name.replace("/", "-") + ".heddle")
        self.programs.compile(
            self.path, artifact, arguments + matrix.training(arguments) +
            ["--batch", str(ROWS), "--seq", str(self.sequence),
             "--micro-batches", str(micro), "--gradients"])
        train = ["--data", self.folder / "text", "--steps", matrix.STEPS,
                 "--eval-every", str(matrix.STEPS), "--check-replicas",
                 "--no-checkpoints"]
        steps = self.programs.train(artifact, train)
        if len(steps) != matrix.STEPS:
            raise Failure("expected %d steps, got %d" % (matrix.STEPS, len(steps)))
        os.environ["HEDDLE_RT_STREAM_ORDER"] = "random:%d" % (len(name) + micro)
        try:
            again = self.programs.train(artifact, train)
        finally:
            del os.environ["HEDDLE_RT_STREAM_ORDER"]
        for a, b in zip(steps, again):
            for key in ("loss", "gradient_norm"):
                if a[key] != b[key]:
                    raise Failure("step %d: %s is %r, and %r in another order of "
                                  "streams" % (a["step"], key, a[key], b[key]))
        return ([step["loss"] for step in steps],
                self.gradients(artifact, name.replace("/", "-"), 0))


def run_model(name, programs, scratch, report, cases):
    model = Pipelines(name, programs, scratch)
    serial = {}
    for case in cases:
        mesh, schedule = case.split("/")
        arguments, micro = MESHES[mesh]

        def run():
            free = "--pipeline-barrier" in arguments
            key = micro, free
            if key not in serial:
                serial[key] = model.train("serial-%d%s" % (micro, "-free" * free),
                                          ["--clip", "0"] * free, micro)
                losses = serial[key][0]
                if not losses[-1] < losses[0]:
                    raise Failure("the loss does not fall: %s" % losses)
            bounds = (matrix.LOSS, matrix.GRADIENT)
            if "--bf16" in arguments:
                bounds = (matrix.BF16_LOSS, matrix.BF16_GRADIENT)
            return matrix.compare(
                model.train(case, arguments + ["--pipeline", schedule], micro),
                serial[key], *bounds)

        report.case(name + " " + case, run)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", required=True)
    parser.add_argument("--heddle-run", required=True)
    parser.add_argument("--sanitize", choices=["address", "thread"])
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    parser.add_argument("--only", action="append", help="run these cases only")
    parser.add_argument("--long", action="store_true",
                        default=bool(os.environ.get("HEDDLE_LONG_TESTS")),
                        help="run all meshes with all schedules")
    parser.add_argument("models", nargs="*", metavar="MODEL", default=[])
    options = parser.parse_args()
    report = Report()
    programs = Programs(options.heddle, options.heddle_run, options.sanitize)
    everything = [mesh + "/" + schedule for mesh in MESHES for schedule in SCHEDULES]
    for name in options.models or MODELS:
        cases = options.only or (everything if options.long else SHORT[name])
        run_model(name, programs, options.scratch, report, cases)
    report.finish()


if __name__ == "__main__":
    main()
