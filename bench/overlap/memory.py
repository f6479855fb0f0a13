#!/usr/bin/env python3
"""The cost of a memory limit under the schedule `auto`, by simulation.

    bench/overlap/memory.py [--heddle build/bin/heddle] [--models gpt2,llama]
                            [--limits 80,60,40] [--mesh tp=2] [--folder memory]

The models are GPT-2 124M and Llama-3.2-1B at true size. The peak is the arena of `none`,
which holds activations, gradients and all other values except variables. With a limit of
80, 60 and 40 % of the peak, `auto` chooses the values to recompute. Prints the arena, the
predicted time of a step and the slow-down against `none`. The table also has a row for
`--recompute layer`. This mode is PyTorch's activation checkpointing of every layer: it
recomputes each layer's whole forward pass.
"""

import argparse
import json
import os
import re
import subprocess
import sys

CONFIGS = {
    "gpt2": ({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
        "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12,
        "n_head": 12, "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5, "initializer_range": 0.02,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        "tie_word_embeddings": True}, "--batch 8 --seq 1024"),
    "llama": ({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"],
        "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": 16, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 64, "hidden_act": "silu",
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0, "initializer_range": 0.02,
        "attention_bias": False, "mlp_bias": False,
        "tie_word_embeddings": True}, "--batch 4 --seq 1024"),
}


class Bench:
    def __init__(self, options, model):
        self.options = options
        config, self.sizes = CONFIGS[model]
        self.model = os.path.join(options.folder, model + ".json")
        with open(self.model, "w") as file:
            json.dump(config, file)

    def cluster(self, memory):
        path = os.path.join(self.options.folder, "cluster.json")
        with open(path, "w") as file:
            json.dump({
                "version": 1, "name": "A100s of a size",
                "device": {"kind": "A100", "memory": memory,
                           "memory_bandwidth": 2.039e12, "launch": 5e-6,
                           "peak": {"f32": 1.95e13, "bf16": 3.12e14}},
                "levels": [{"name": "nvswitch", "count": 8, "latency": 3e-6,
                            "bandwidth": 2.5e10, "links": 12}]}, file)
        return path

    def simulate(self, memory, *more):
        command = [self.options.heddle, "simulate", self.model,
                   *self.sizes.split(), "--bf16", "--mesh", self.options.mesh,
                   "--cluster", self.cluster(memory), "--remarks=1e15",
                   "--json", *more]
        result = subprocess.run(command, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        if result.returncode:
            sys.exit(f"{' '.join(command)}:\n{result.stderr}")
        simulation = json.loads(result.stdout)
        found = re.search(r"'auto' (?:takes|found is) (.*?):", result.stderr)
        choice = found.group(1) if found else ""
        if "no schedule fits" in result.stderr:
            choice = "does not fit; least: " + choice
        return simulation, choice


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--models", default="gpt2,llama")
    parser.add_argument("--limits", default="80,60,40")
    parser.add_argument("--mesh", default="tp=2")
    parser.add_argument("--folder", default="memory")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    print("| model | limit | choice | arena MiB | of none | step ms | slow-down "
          "|\n|---|---|---|---|---|---|---|", flush=True)
    for model in options.models.split(","):
        bench = Bench(options, model)
        ample = 1 << 40
        none, _ = bench.simulate(ample, "--overlap", "none")
        memory = none["memory"]
        peak = memory["arena"]

        def show(limit, choice, simulation):
            arena, seconds = simulation["memory"]["arena"], simulation["seconds"]
            print(f"| {model} | {limit} | {choice} | {arena / 2**20:.1f} | "
                  f"{100 * arena / peak:.0f} % | {seconds * 1e3:.2f} | "
                  f"{seconds / none['seconds']:.3f} |", flush=True)

        show("", "none", none)
        again, _ = bench.simulate(ample, "--overlap", "none", "--recompute",
                                  "layer")
        show("", "none, layers computed again (PyTorch's)", again)
        simulation, choice = bench.simulate(ample, "--overlap", "auto")
        show("", "auto: " + choice, simulation)
        for percent in map(int, options.limits.split(",")):
            limit = memory["total"] - peak + peak * percent // 100
            simulation, choice = bench.simulate(limit, "--overlap", "auto")
            show(f"{percent} %", "auto: " + choice, simulation)


main()
