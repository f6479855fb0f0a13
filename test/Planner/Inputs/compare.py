"""Compares a plan's prediction with a simulation: compare.py PLAN SIMULATION."""

import json
import sys

prediction = json.load(open(sys.argv[1]))["prediction"]
simulation = json.load(open(sys.argv[2]))
assert prediction["micro_batches"] == 1, "the simulation has one micro-batch"
for key in "seconds", "exposed":
    expected, got = prediction[key], simulation[key]
    assert abs(expected - got) <= 1e-9 * expected, (key, expected, got)
for key, size in prediction["memory"].items():
    if key != "limit":
        assert size == simulation["memory"][key], (key, size)
