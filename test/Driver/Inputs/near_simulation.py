"""Compares the time that `auto` predicted for its choice with the simulated time.

    near_simulation.py REMARKS SIMULATION.json TOLERANCE
"""

import json
import re
import sys

remarks, simulation, tolerance = sys.argv[1:]
with open(remarks) as file:
    predicted = float(
        re.search(r"'auto' takes .*?: ([0-9.]+) ms", file.read()).group(1)) / 1e3
with open(simulation) as file:
    whole = json.load(file)["seconds"]
if abs(predicted / whole - 1) > float(tolerance):
    sys.exit("expected %g s within %s, got %g s" % (whole, tolerance, predicted))
