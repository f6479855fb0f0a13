"""Asserts that layer 0 has its sequence and its variables whole in the plan of
the given file, and that layer 1 does not."""

import fnmatch
import json
import sys

with open(sys.argv[1]) as file:
    plan = json.load(file)


def find(entries, name, key=None):
    """Returns the entry that decides, as docs/plan.md defines it."""
    matching = [
        glob
        for glob, entry in entries.items()
        if fnmatch.fnmatchcase(name, glob) and (key is None or key in entry)
    ]
    glob = max(matching, key=lambda g: len(g.replace("*", "").replace("?", "")))
    return entries[glob]


for layer, axes in ((0, []), (1, ["tp"])):
    entry = find(plan["operators"], f"h.{layer}.ln_1", "s")
    assert entry["s"] == axes, (layer, entry)
for layer, whole in ((0, True), (1, False)):
    for name in ("ln_1.weight", "mlp.c_fc.weight", "attn.c_attn.bias"):
        entry = find(plan["storage"], f"h.{layer}.{name}")
        assert (entry == {}) == whole, (layer, name, entry)
