"""Checks how a simulated pipeline counts waits for other ranks.

    check_waits.py TEXT JSON TRACE RUN

Writes the trace as that of a real run to RUN, for a comparison.
"""

import json
import re
import sys

text, data = open(sys.argv[1]).read(), json.load(open(sys.argv[2]))
calls = data["collectives"]
for call in calls:
    assert call["start"] <= call["begun"] <= call["end"], call
    seconds = call["end"] - call["begun"]
    assert abs(seconds - call["hidden"] - call["exposed"]) < 1e-9, call
# The stages come to the sum of the losses at different times.
assert any(c["call"] == "all_reduce" and c["begun"] > c["start"] for c in calls)

# The text adds up the same calls.
count, seconds, hidden = re.search(
    r"collectives +(\d+) in ([-\d.]+) ms, of which ([-\d.]+) ms", text).groups()
assert int(count) == sum(c["repeat"] for c in calls)
exposed = 1e3 * sum(c["repeat"] * c["exposed"] for c in calls)
assert abs(float(hidden) - 1e3 * sum(c["repeat"] * c["hidden"] for c in calls)) < 0.01
assert abs(float(seconds) - float(hidden) - exposed) < 0.01

trace = json.load(open(sys.argv[3]))
trace["heddle"]["source"] = "run"
events = trace["traceEvents"]
for event in events:
    if event["ph"] == "X":
        event["args"] |= {"table": "step", "run": 0}
for process in {e["pid"] for e in events}:
    events.append({"ph": "X", "cat": "run", "pid": process, "tid": 100, "ts": 0,
                   "dur": 1e6 * data["seconds"],
                   "args": {"table": "step", "run": 0}})
json.dump(trace, open(sys.argv[4], "w"))
