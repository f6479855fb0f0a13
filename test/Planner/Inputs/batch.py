"""Checks the rows that were chosen: batch.py REPORT PLAN.json"""

import json
import re
import sys

with open(sys.argv[1]) as file:
    report = file.read()
with open(sys.argv[2]) as file:
    plan = json.load(file)
tried = re.findall(r"^ +(\d+) +([\d.e+]+) +--mesh", report, re.MULTILINE)
rates = [float(rate) for _, rate in tried]
gains = [after / before for before, after in zip(rates, rates[1:])]
assert all(gain >= 1.02 for gain in gains[:-1]) and gains[-1] < 1.02, gains
chosen = int(tried[-2][0])
assert plan["prediction"]["rows"] == chosen, (plan["prediction"], chosen)
assert f"\nrows: {chosen}\n" in report
