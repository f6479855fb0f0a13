"""Trains tiny models with all collectives in flight, in many orders.

    streams.py --heddle build/bin/heddle --heddle-run build/bin/heddle-run \\
               --scratch FOLDER

A schedule changes no bits: for every plan and order, the losses and gradients
equal those of the program whose collectives run on the compute stream.
"""

import argparse
import os
import pathlib

from matrix import Model
from programs import Failure, Programs, Report

# The scheduler's own order, and orders that test what streams and events allow.
ORDERS = ["auto", "earliest", "latest"] + [
    "random:%d" % seed for seed in range(1, 11)]
# For each model, the plans that it runs under and the number of orders.
CONFIGURATIONS = {
    "gpt2": {"zero3-tp2": len(ORDERS), "ring2-tp2": 5, "hierarchy-zero3": 4},
    "llama-odd": {"dp2-tp2": 4},
    "gpt2-dropout": {"heads4": 4},
}


def check(model, plan, order):
    artifact = plan + "-" + order.replace(":", "-")
    # The runtime executes the streams in such an order, too.
    schedule, os.environ["HEDDLE_RT_STREAM_ORDER"] = (
        ("--overlap=auto", "random:0") if order == "auto"
        else ("--start-collectives=" + order, order))
    try:
        losses, _ = model.run(artifact, model.plan(plan) + [schedule],
                              repeat=False)
    finally:
        del os.environ["HEDDLE_RT_STREAM_ORDER"]
    if losses != model.reference[0]:
        raise Failure("other losses\n  got      %s\n  expected %s" % (
            losses, model.reference[0]))
    if model.gradients_file(artifact, 0).read_bytes() != model.reference[1]:
        raise Failure("the losses agree, the gradients differ")
    return "loss %.4f -> %.4f" % (losses[0], losses[-1])


def reference(model, plan):
    losses, _ = model.run(plan, model.plan(plan), repeat=False)
    model.reference = losses, model.gradients_file(plan, 0).read_bytes()
    return "loss %.4f -> %.4f" % (losses[0], losses[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", required=True)
    parser.add_argument("--heddle-run", required=True)
    parser.add_argument("--sanitize", choices=["address", "thread"],
                        help="what heddle-run is built with")
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    parser.add_argument("--long", action="store_true",
                        default=bool(os.environ.get("HEDDLE_LONG_TESTS")),
                        help="all orders of every configuration")
    options = parser.parse_args()
    report = Report()
    programs = Programs(options.heddle, options.heddle_run, options.sanitize)
    for name, plans in CONFIGURATIONS.items():
        model = Model(name, programs, options.scratch)
        for plan, count in plans.items():
            model.reference = None
            report.case("%s %s" % (name, plan), lambda: reference(model, plan))
            if model.reference is None:
                continue
            for order in ORDERS if options.long else ORDERS[:count]:
                report.case("%s %s %s" % (name, plan, order),
                            lambda: check(model, plan, order))
    report.finish()


if __name__ == "__main__":
    main()
