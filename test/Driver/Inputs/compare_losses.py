"""Compares the losses that two trainings printed as JSON.

usage: compare_losses.py A B BOUND

Exits with 1 if the losses of a step differ by more than BOUND, relatively, or if
there are none.
"""

import json
import sys


def losses(path):
    with open(path) as file:
        events = [json.loads(line) for line in file if line.startswith("{")]
    return [event["loss"] for event in events if "loss" in event]


a, b, bound = losses(sys.argv[1]), losses(sys.argv[2]), float(sys.argv[3])
if not a or len(a) != len(b):
    sys.exit("expected as many losses, got %s and %s" % (a, b))
for step, (x, y) in enumerate(zip(a, b)):
    if not abs(x - y) <= bound * abs(x):
        sys.exit("step %d: %r and %r" % (step, x, y))
