"""Checks the memory of a GPT-2 XL layer in slices, with ZeRO-3 on 8 devices.

    split_memory.py heddle CONFIG FOLDER

Compiles one layer for 1, 2, 4 and 8 slices of every large operator and prints
the arena of each program. The largest weight is that of the MLP, 1600 x 6400.
With n slices only 1/n of it is gathered at once. All other values at the peak
stay the same, so the arena must shrink by the rest of that weight.
"""

import json
import pathlib
import subprocess
import sys

heddle, source, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
folder.mkdir(parents=True, exist_ok=True)
config = json.loads(pathlib.Path(source).read_text())
# One layer and few tokens, so that the weights decide.
config.update(n_layer=1, n_positions=16, vocab_size=256)
(folder / "config.json").write_text(json.dumps(config))
weight = config["n_embd"] * 4 * config["n_embd"] * 4  # bytes of f32

arenas = {}
for slices in (1, 2, 4, 8):
    plan = {"version": 1, "mesh": {"dp": 8}, "operators": {"*": {"b": ["dp"]}},
            "storage": {"*": {"0": ["dp"]}}}
    if slices > 1:
        plan["splits"] = {"h.*.c_*": {"h": {"slices": slices}}}
    (folder / "plan.json").write_text(json.dumps(plan))
    artifact = folder / "model.heddle"
    subprocess.run(
        [heddle, "compile", folder / "config.json", "--plan", folder / "plan.json",
         "--batch", "8", "--seq", "16", "--optimizer", "sgd",
         "--micro-batches", "2", "-o", artifact],
        check=True, stdout=subprocess.DEVNULL)
    manifest = json.loads((artifact / "manifest.json").read_text())
    arenas[slices] = {program["name"]: program["arena_bytes"]
                      for program in manifest["programs"]}

for program in ("evaluate", "accumulate"):
    rest = arenas[1][program] - weight
    for slices, arena in arenas.items():
        gathered = arena[program] - rest
        print("%s, %d slices: arena %d bytes, of them gathered %d" %
              (program, slices, arena[program], gathered))
        if not abs(gathered - weight / slices) <= 0.01 * weight:
            sys.exit("expected about %d bytes of gathered weight, a %d-th of %d" %
                     (weight // slices, slices, weight))
