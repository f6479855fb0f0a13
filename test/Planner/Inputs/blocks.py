"""Writes a profile of blocks for GPT-2: blocks.py FILE [BYTES]."""
import json
import sys

storage = {"none": [], "mlp": ["mlp"], "both": ["attn", "mlp"]}
costs = {"none": (0.010, 1000), "mlp": (0.012, 700), "both": (0.016, 500)}
strategies = []
for name, (seconds, size) in costs.items():
    entries = {f"{variable}.{half}.*": {"0": ["dp"]} for half in storage[name]
               for variable in ("{block}", "adamw.?.{block}")}
    strategies.append({"name": name, "seconds": seconds, "bytes": size,
                       "storage": entries})
with open(sys.argv[1], "w") as file:
    json.dump({"version": 1, "mesh": "dp=2", "bytes": 100,
               "blocks": [{"glob": sys.argv[2] if len(sys.argv) > 2 else "h.*",
                           "strategies": strategies}]}, file)
