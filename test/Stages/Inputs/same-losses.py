"""Compares the losses and norms of two runs' steps within 1e-5."""

import json
import sys


def read(path):
    with open(path) as f:
        rows = [json.loads(line) for line in f]
    return [(row["loss"], row["gradient_norm"]) for row in rows if "loss" in row]


one, other = read(sys.argv[1]), read(sys.argv[2])
assert one and len(one) == len(other), (one, other)
for a, b in zip(one, other):
    for x, y in zip(a, b):
        assert abs(x - y) <= 1e-5 * abs(x), (one, other)
