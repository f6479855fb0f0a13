"""compare-memory.py FITS [MUCH NONE]: of simulated pipelines, the first one fits into each
device, and the first and the third need less memory than the second, which has room for all."""

import json
import sys


def read(path):
    with open(path) as f:
        return json.load(f)["list_times"]


fits, *others = map(read, sys.argv[1:])
for ranks in fits:
    assert ranks["memory"] <= ranks["capacity"], ranks
if others:
    most = [max(ranks["memory"] for ranks in run) for run in (fits, *others)]
    assert most[0] < most[1] and most[2] < most[1], most
