"""Compares what `heddle explain` says with `heddle simulate`."""

import json
import sys

explained = json.load(open(sys.argv[1]))["simulated"]
simulated = json.load(open(sys.argv[2]))

assert explained["seconds"] == simulated["seconds"]
assert explained["exposed"] == simulated["exposed"]
# On one kind of device, a step is computing and waiting.
total = sum(o["computing"] + o["exposed"] for o in explained["operators"])
assert abs(total - explained["seconds"]) < 0.02 * explained["seconds"], total
