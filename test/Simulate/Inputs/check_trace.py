"""check_trace.py TRACE STEPS RANKS: checks the trace of a real run.

It must have so many runs of `step`, with the same calls on every rank, each
within its run, and operators for every call.
"""

import collections
import json
import sys

trace = json.load(open(sys.argv[1]))
steps, ranks = int(sys.argv[2]), int(sys.argv[3])
assert trace["heddle"]["source"] == "run" and trace["heddle"]["version"] == 1
assert trace["heddle"]["devices"] == ranks, trace["heddle"]

runs = {}
calls = collections.defaultdict(list)
for event in trace["traceEvents"]:
    if event["ph"] != "X" or event["args"]["table"] != "step":
        continue
    place = event["pid"], event["args"]["run"]
    if event["cat"] == "run":
        runs[place] = event["ts"], event["ts"] + event["dur"]
    else:
        calls[place].append(event)
assert len(runs) == steps * ranks, runs
assert set(runs) == set(calls)
first = None
for place, (begin, end) in runs.items():
    for event in calls[place]:
        assert begin <= event["ts"] and event["ts"] + event["dur"] <= end + 0.01
        assert event["args"]["operators"], event
        assert event["cat"] in ("compute", "communication"), event
        assert ("axes" in event["args"]) == (event["cat"] == "communication")
    order = sorted((e["args"]["index"], e["args"]["call"]) for e in calls[place])
    assert [index for index, _ in order] == list(range(len(order)))
    first = first or order
    assert order == first
