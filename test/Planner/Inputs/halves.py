"""Writes a profile of half-layers of GPT-2: halves.py SECONDS_OF_A_CHANGE FILE."""
import json
import sys

change = float(sys.argv[1])


def block(half, few, many):
    factor = "n" if half == "attn" else "f"
    return {"glob": f"h.*.{half}",
            # An MLP comes before the next layer's attention.
            "next": {f"h.*.{'mlp' if half == 'attn' else 'attn'}":
                     [[0, change], [change, 0]]},
            "strategies": [
                {"name": "few", "seconds": few, "bytes": 0,
                 "operators": {"{block}*": {"b": ["tp"], factor: []}}},
                {"name": "many", "seconds": many, "bytes": 0,
                 "operators": {"{block}*": {"b": [], factor: ["tp"]}}}]}


with open(sys.argv[2], "w") as file:
    json.dump({"version": 1, "mesh": "dp=1,tp=2",
               "blocks": [block("attn", 0.006, 0.003),
                          block("mlp", 0.003, 0.004)]}, file)
