"""Trains tiny models with all collectives in flight, in many orders.

    streams.py --heddle build/bin/heddle --heddle-run build/bin/heddle-run \\
               --scratch FOLDER

A schedule changes no bits: for every plan and order, the losses and gradients
equal those of the program whose collectives run on the compute stream.
"""


from matrix import Model, expect_bits, keep_bits, stream_order
from programs import Programs, Report, get_parser

# The scheduler's own order, and orders that test the limits of streams and events.
ORDERS = ["auto", "earliest", "latest"] + [
    "random:%d" % seed for seed in range(1, 11)]
# For each model, the plans that it runs under and the number of orders.
CONFIGURATIONS = {
    "gpt2": {"zero3-tp2": 4, "ring2-tp2": 3, "hierarchy-zero3": 2},
    "llama-odd": {"dp2-tp2": 2},
    "gpt2-dropout": {"heads4": 2},
}


def check(model, plan, order):
    artifact = plan + "-" + order.replace(":", "-")
    # The runtime executes the streams in such an order, too.
    schedule, executed = (("--overlap=auto", "random:0") if order == "auto"
                          else ("--start-collectives=" + order, order))
    with stream_order(executed):
        losses, _ = model.run(artifact, model.plan(plan) + [schedule],
                              repeat=False)
    expect_bits(losses, model.gradients_file(artifact, 0).read_bytes(),
                model.reference)
    return "loss %.4f -> %.4f" % (losses[0], losses[-1])


def main():
    parser = get_parser(__doc__, long="all orders of every configuration")
    options = parser.parse_args()
    report = Report()
    programs = Programs(options.heddle, options.heddle_run, options.sanitize)
    for name, plans in CONFIGURATIONS.items():
        model = Model(name, programs, options.scratch)
        for plan, count in plans.items():
            model.reference = None
            report.case("%s %s" % (name, plan), lambda: keep_bits(
                model, plan, model.plan(plan)))
            if model.reference is None:
                continue
            for order in ORDERS if options.long else ORDERS[:count]:
                report.case("%s %s %s" % (name, plan, order),
                            lambda: check(model, plan, order))
    report.finish()


if __name__ == "__main__":
    main()
