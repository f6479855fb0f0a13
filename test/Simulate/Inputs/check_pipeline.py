"""Checks the trace of a simulated pipeline.

    check_pipeline.py TRACE DEVICES MICRO_BATCHES
"""

import json
import sys

trace = json.load(open(sys.argv[1]))
devices, micro_batches = int(sys.argv[2]), int(sys.argv[3])
events = trace["traceEvents"]
calls = [e for e in events if e["ph"] == "X"]
transfers = {"send": [], "recv": []}
for call in calls:
    if call["args"]["call"] in transfers:
        assert "program" not in call["args"], call
        transfers[call["args"]["call"]].append(call)

# Each device works on each micro-batch, in programs of its own.
for device in range(devices):
    own = [c for c in calls if c["pid"] == device and c["cat"] == "compute"]
    assert {c["args"]["micro_batch"] for c in own} == set(range(micro_batches))
    assert all(c["args"]["program"] and c["args"]["index"] >= 0 for c in own)
    assert any(e["ph"] == "C" and e["pid"] == device for e in events)

# What is sent arrives, once for each micro-batch and direction at least.
assert len(transfers["send"]) == len(transfers["recv"])
assert len(transfers["send"]) >= 2 * micro_batches * (devices - 1)
sent = sorted((c["name"], c["args"]["micro_batch"], c["ts"] + c["dur"])
              for c in transfers["send"])
received = sorted((c["name"], c["args"]["micro_batch"], c["ts"] + c["dur"])
                  for c in transfers["recv"])
for a, b in zip(sent, received):
    assert a[:2] == b[:2] and abs(a[2] - b[2]) < 1e-3, (a, b)
