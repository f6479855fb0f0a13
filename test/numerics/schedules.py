"""Trains tiny models with dropout under every schedule.

    schedules.py --heddle build/bin/heddle --heddle-run build/bin/heddle-run \\
                 --scratch FOLDER

Under every schedule and plan, the losses of ten steps and the gradients must be
those of the serial program, which has no schedule, within the bounds of
matrix.py. The runtime executes streams in a random order.
"""

import os

from matrix import GRADIENT, LOSS, Model, compare
from programs import Programs, Report, get_parser

SCHEDULES = {name: ["--overlap", name] for name in (
    "default", "fine-grained-recompute", "cross-pass", "oases", "auto")}
SCHEDULES["layer"] = ["--recompute", "layer"]
SCHEDULES["auto-layer-2"] = ["--overlap", "auto", "--recompute", "layer",
                             "--sub-batches", "2"]
# Sub-batches and recomputation are chosen by simulation.
SCHEDULES["auto-chosen"] = ["--overlap", "auto", "--cluster", "laptop-cpu"]
# Products are cut into chunks that run beside the gathers and scatters along the
# sequence.
SCHEDULES["exchange-chunks"] = ["--overlap", "auto", "--exchange-chunks", "2"]
# The work that follows sums is split over the rows, and products are computed in
# the steps of a ring.
SCHEDULES["scatter-sums"] = ["--overlap", "auto", "--scatter-sums",
                             "--sub-batches", "1", "--cluster", "laptop-cpu"]
SCHEDULES["ring"] = ["--overlap", "auto", "--exchange-ring"]
SCHEDULES["scatter-ring"] = ["--overlap", "auto", "--scatter-sums",
                             "--exchange-ring", "--sub-batches", "2",
                             "--cluster", "laptop-cpu"]
PLANS = ["serial", "tp4", "dp2-tp2", "zero3", "ring4", "sequence4"]
MODELS = ["gpt2-dropout", "llama-dropout"]
# The cases of every check: each schedule, plan and model, but not all of their
# combinations.
COVER = {
    "gpt2-dropout": {
        "serial": ["layer"],
        "tp4": ["oases", "ring"],
        "dp2-tp2": ["fine-grained-recompute", "scatter-sums"],
        "zero3": ["cross-pass", "auto-chosen"],
        "ring4": ["default"]},
    "llama-dropout": {
        "tp4": ["scatter-ring"],
        "dp2-tp2": ["auto-layer-2"],
        "zero3": ["oases"],
        "ring4": ["auto"],
        "sequence4": ["exchange-chunks"]},
}


def main():
    parser = get_parser(__doc__, long="all schedules under all plans")
    options = parser.parse_args()
    report = Report()
    programs = Programs(options.heddle, options.heddle_run, options.sanitize)
    os.environ["HEDDLE_RT_STREAM_ORDER"] = "random:1"
    for name in MODELS:
        model = Model(name, programs, options.scratch)
        model.reference = None

        def reference():
            model.reference = model.run("serial", [], repeat=False)
            losses = model.reference[0]
            return "loss %.4f -> %.4f" % (losses[0], losses[-1])

        report.case(name + " serial", reference)
        if model.reference is None:
            continue
        for plan in PLANS:
            names = (SCHEDULES if options.long
                     else COVER[name].get(plan, []))
            for schedule in names:
                arguments = [] if plan == "serial" else model.plan(plan)
                report.case(
                    "%s %s %s" % (name, plan, schedule),
                    lambda: compare(
                        model.run("%s-%s" % (plan, schedule),
                                  arguments + SCHEDULES[schedule],
                                  repeat=False),
                        model.reference, LOSS, GRADIENT))
    report.finish()


if __name__ == "__main__":
    main()
