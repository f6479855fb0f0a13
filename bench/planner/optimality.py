#!/usr/bin/env python3
"""Compares the planner's choice with every plan of a subspace.

    optimality.py PLANNER_BENCH HEDDLE CONFIGS [--stride N] [--case NAME ...]

The models are gpt2 and llama with two layers each. The folder CONFIGS has their configs,
gpt2.json and Llama-3.2-1B.json. A batch has 8 rows of 512 tokens. The devices are 2 and 4
devices of a DGX A100, and two servers of two devices each. Optimality.cpp defines the
subspace.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

MODELS = {"gpt2": ("gpt2.json", "n_layer", ["h.*.attn*", "h.*.mlp*", "lm_head*"]),
          "llama": ("Llama-3.2-1B.json", "num_hidden_layers",
                    ["layers.*.self_attn*", "layers.*.mlp*", "lm_head*"])}
DEVICES = {"2": 2, "4": 4, "2x2": 4}

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("bench")
parser.add_argument("heddle")
parser.add_argument("configs", type=pathlib.Path)
parser.add_argument("--stride", default="1", help="simulate every Nth plan")
parser.add_argument("--case", action="append", help="such as gpt2-2x2 (default: all)")
options = parser.parse_args()

with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    text = subprocess.check_output([options.heddle, "info", "dgx-a100:2"], text=True)
    cluster = json.loads(text[text.index("{"):])
    cluster["levels"][0]["count"] = 2
    (folder / "2x2.json").write_text(json.dumps(cluster))
    for model, (file, layers, globs) in MODELS.items():
        config = json.loads((options.configs / file).read_text())
        config[layers] = 2
        path = folder / f"{model}.json"
        path.write_text(json.dumps(config))
        for name, devices in DEVICES.items():
            case = f"{model}-{name}"
            if options.case and case not in options.case:
                continue
            place = str(folder / "2x2.json") if name == "2x2" else "dgx-a100:1"
            print(case, flush=True)
            subprocess.run([options.bench, path, "512", place, str(devices), "8",
                            options.stride, *globs], check=True)
