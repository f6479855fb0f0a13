"""Trains tiny models with dropout under every schedule.

    schedules.py --heddle build/bin/heddle --heddle-run build/bin/heddle-run \\
                 --scratch FOLDER

Under every schedule and plan, the losses of ten steps and the gradients must be
those of the serial program, which has no schedule, within the bounds of
matrix.py. In each case the runtime executes the streams in another random order.
The order follows from the case's name, so a case that is run again has the same
order. A failure states the order.
"""

import zlib

from matrix import GRADIENT, LOSS, Model, compare, stream_order
from programs import Failure, Programs, Report, get_parser

SCHEDULES = {name: ["--overlap", name] for name in (
    "default", "fine-grained-recompute", "cross-pass", "oases", "auto")}
SCHEDULES["layer"] = ["--recompute", "layer"]
SCHEDULES["auto-layer-2"] = ["--overlap", "auto", "--recompute", "layer",
                             "--sub-batches", "2"]
# The compiler chooses sub-batches and recomputation by simulation.
SCHEDULES["auto-chosen"] = ["--overlap", "auto", "--cluster", "laptop-cpu"]
# Products are cut into chunks that run beside the gathers and scatters along the
# sequence.
SCHEDULES["exchange-chunks"] = ["--overlap", "auto", "--exchange-chunks", "2"]
# The next three split the work behind sums over the rows (scatter), compute products
# in the steps of a ring (ring), or do both.
SCHEDULES["scatter-sums"] = ["--overlap", "auto", "--scatter-sums",
                             "--sub-batches", "1", "--cluster", "laptop-cpu"]
SCHEDULES["ring"] = ["--overlap", "auto", "--exchange-ring"]
SCHEDULES["scatter-ring"] = ["--overlap", "auto", "--scatter-sums",
                             "--exchange-ring", "--sub-batches", "2",
                             "--cluster", "laptop-cpu"]
PLANS = ["serial", "tp4", "dp2-tp2", "zero3", "ring4", "sequence4"]
MODELS = ["gpt2-dropout", "llama-dropout"]
# The cases of every check. Each schedule, plan and model is in a case, but not each
# combination of them.
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
        "zero3": ["oases", "auto-layer-2"],
        "ring4": ["auto"],
        "sequence4": ["exchange-chunks"]},
}


def check_case(name, check):
    """Runs check() in the case's order of streams."""
    order = "random:%d" % zlib.crc32(name.encode())
    try:
        with stream_order(order):
            return check()
    except Failure as failure:
        raise Failure("with HEDDLE_RT_STREAM_ORDER=%s: %s" % (order, failure))


def main():
    parser = get_parser(__doc__, long="all schedules under all plans")
    options = parser.parse_args()
    report = Report()
    programs = Programs(options.heddle, options.heddle_run, options.sanitize)

    def run_case(name, check):
        report.case(name, lambda: check_case(name, check))

    for name in MODELS:
        model = Model(name, programs, options.scratch)
        model.reference = None

        def reference():
            model.reference = model.run("serial", [], repeat=False)
            losses = model.reference[0]
            return "loss %.4f -> %.4f" % (losses[0], losses[-1])

        run_case(name + " serial", reference)
        if model.reference is None:
            continue
        for plan in PLANS:
            names = (SCHEDULES if options.long
                     else COVER[name].get(plan, []))
            for schedule in names:
                arguments = [] if plan == "serial" else model.plan(plan)
                run_case(
                    "%s %s %s" % (name, plan, schedule),
                    lambda: compare(
                        model.run("%s-%s" % (plan, schedule),
                                  arguments + SCHEDULES[schedule],
                                  repeat=False),
                        model.reference, LOSS, GRADIENT))
    report.finish()


if __name__ == "__main__":
    main()
