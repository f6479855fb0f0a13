#!/usr/bin/env python3
"""Trains GPT-2 124M beside PyTorch, eager and compiled, in one run.

    bench/training/compare.py [--heddle build/bin/heddle] [--steps 8]

Needs a Python with torch and transformers (test/reference/environment makes
one). Each contender runs in a process of its own, one after the other, with the
same configuration, tokens, optimizer (AdamW, clipping at 1.0, no dropout) and
number of threads. Prints the median time of a step, the ratio to the better
PyTorch, the peak memory of the process, and Heddle's time for each kind of work.
"""

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

BATCH, SEQUENCE, VOCABULARY = 4, 256, 50257
CONFIG = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "vocab_size": VOCABULARY, "n_positions": 1024, "n_embd": 768, "n_layer": 12,
    "n_head": 12, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
    "attn_pdrop": 0.0, "tie_word_embeddings": True,
}


def write_inputs(folder, rows):
    """Writes a config and random tokens, the same for every contender."""
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(CONFIG, f)
    state, tokens = 12345, []
    for _ in range(rows * BATCH * SEQUENCE + 1):
        state = (state * 1103515245 + 12345) % 2**31
        tokens.append((state >> 8) % VOCABULARY)
    with open(os.path.join(folder, "tokens.bin"), "wb") as f:
        f.write(struct.pack(f"<{len(tokens)}H", *tokens))
    return tokens


def peak_memory_gib():
    """Returns the peak resident memory of this process."""
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 2**20
    return float("nan")


def run_pytorch(mode, dtype, steps, threads, folder):
    """Trains in PyTorch, in a process of its own; prints one JSON object."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config.from_json_file(
        os.path.join(folder, "config.json"))).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    with open(os.path.join(folder, "tokens.bin"), "rb") as f:
        data = torch.frombuffer(bytearray(f.read()), dtype=torch.uint16).long()

    def forward(tokens, targets):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            logits = model(tokens).logits
        return torch.nn.functional.cross_entropy(
            logits.float().view(-1, VOCABULARY), targets.reshape(-1))

    loss_of = torch.compile(forward) if mode == "compile" else forward
    times, losses = [], []
    for step in range(steps):
        first = step * BATCH * SEQUENCE
        window = data[first:first + BATCH * SEQUENCE + 1]
        tokens = window[:-1].view(BATCH, SEQUENCE)
        targets = window[1:].view(BATCH, SEQUENCE)
        start = time.perf_counter()
        loss = loss_of(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
    print(json.dumps({"times": times, "loss": losses,
                      "memory": peak_memory_gib()}))


def measure_pytorch(mode, dtype, args, folder):
    output = subprocess.run(
        [sys.executable, __file__, "--contender", mode, "--dtype", dtype,
         "--steps", str(args.steps), "--threads", str(args.threads),
         "--folder", folder],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.strip().splitlines()[-1])


def measure_heddle(dtype, args, folder):
    command = [args.heddle, "train", folder, "--data",
               os.path.join(folder, "tokens.bin"), "--batch", str(BATCH),
               "--seq", str(SEQUENCE), "--steps", str(args.steps), "--devices",
               "1", "--cores", str(args.threads), "--lr", "3e-4", "--clip", "1",
               "--no-dropout", "--no-checkpoints", "--eval-every", "0",
               "--eval-windows", "1", "--output", os.path.join(folder, "run"),
               "--json"]
    if dtype == "bf16":
        command.append("--bf16")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in process.stdout]
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: failed")
    steps = [row for row in rows if "loss" in row]
    kinds = steps[-1]["seconds_by_kind"]
    return {"times": [row["seconds"] for row in steps],
            "loss": [row["loss"] for row in steps],
            "memory": usage.ru_maxrss / 2**20,
            "kinds": {kind: statistics.median(row["seconds_by_kind"][kind]
                                              for row in steps[2:])
                      for kind in kinds}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["f32", "bf16"])
    parser.add_argument("--contender", choices=["eager", "compile"],
                        help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        run_pytorch(args.contender, args.dtype, args.steps, args.threads,
                    args.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(folder, args.steps + 2)
        for dtype in [args.dtype] if args.dtype else ["f32", "bf16"]:
            rows = {
                "PyTorch eager": measure_pytorch("eager", dtype, args, folder),
                "PyTorch compiled": measure_pytorch("compile", dtype, args,
                                                    folder),
                "Heddle": measure_heddle(dtype, args, folder),
            }
            # The first two steps compile and warm up.
            median = {name: statistics.median(row["times"][2:])
                      for name, row in rows.items()}
            best = min(median["PyTorch eager"], median["PyTorch compiled"])
            print(f"\n{dtype}, batch {BATCH} x {SEQUENCE}, {args.threads} "
                  "threads, one device")
            print(f"{'':18}{'s/step':>9}{'speed':>8}{'GiB':>7}   loss after "
                  f"{args.steps} steps")
            for name, row in rows.items():
                print(f"{name:18}{median[name]:9.3f}"
                      f"{best / median[name]:8.2f}"
                      f"{row.get('memory', float('nan')):7.2f}"
                      f"   {row['loss'][-1]:.4f}")
            for kind, seconds in rows["Heddle"]["kinds"].items():
                print(f"    {kind:24}{seconds:9.3f} s/step")


if __name__ == "__main__":
    main()
