#!/usr/bin/env python3
"""Trains GPT-2 on a GPU beside PyTorch, compiled and with SDPA, in one run.

    bench/training/compare_gpu.py ARTIFACT --heddle-run heddle-run [--steps 30]

ARTIFACT was compiled for a GPU (heddle compile GPT-2 --bf16 --no-dropout
--target-gpu sm_80 --batch B --seq S); the sizes are read from its manifest. Each
contender runs in a process of its own, on the first visible GPU, with the same
tokens, AdamW and clipping at 1.0. Prints, and with --json writes, the median time
of a step, tokens a second, MFU and memory of both, and the ratio. Needs a Python
with torch for PyTorch's part. Ends with 3 if there is no GPU, before anything runs.
A contender whose result is already in the file of --json, for the same GPU, sizes and
steps, does not run again. With --rehearse, both contenders run on the CPU, and ARTIFACT is a small artifact for the
CPU. Nothing is measured. A rehearsal finds errors of the script itself before the first
run on a GPU.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

# In a bundle, all scripts are in one folder.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
from gpu_machine import find_gpu, make_environment, query_gpu  # noqa: E402

# For words of a GPU's name, the dense bf16 FLOP/s that NVIDIA states. The first entry
# that fits counts. GPUs whose figure we do not know for sure are missing, such as those
# of RTX PRO: then MFU is left out.
PEAKS = [("A100", 312e12), ("H100 PCIe", 756e12), ("H100 NVL", 835e12), ("H100", 989e12),
         ("H200 NVL", 835e12), ("H200", 989e12), ("GH200", 989e12), ("GB200", 2500e12),
         ("B200", 2250e12), ("L40S", 362e12), ("RTX 4090", 165e12), ("RTX 5090", 209e12),
         ("RTX A6000", 155e12)]
# Variants of these GPUs, which are slower.
SLOWER = r"(?! ?(D|Laptop|Max-Q)\b)"
NO_GPU = 3


def find_peak(name):
    """Returns the peak of a GPU, or None."""
    if "MIG" in os.environ.get("CUDA_VISIBLE_DEVICES", ""):
        return None  # a part of the GPU
    return next((peak for words, peak in PEAKS
                 if re.search(rf"\b{words}\b{SLOWER}", name)), None)


class MemoryWatch(threading.Thread):
    """Polls the GPU's memory in use, and keeps the largest value, in GiB."""

    def __init__(self, gpu):
        super().__init__(daemon=True)
        self.gpu, self.most, self.stopped = gpu, 0.0, threading.Event()

    def run(self):
        # Seldom: each query takes time of the driver.
        while self.gpu and not self.stopped.wait(2):
            used = query_gpu(self.gpu, "memory.used")
            if used:
                self.most = max(self.most, float(used) / 1024)

    def stop(self):
        self.stopped.set()
        self.join()
        return self.most


def read_sizes(artifact):
    """Returns layers, hidden size, heads, vocabulary, batch and sequence."""
    manifest = json.loads((artifact / "manifest.json").read_text())
    config = manifest["model"]["config"]
    if isinstance(config, str):
        config = json.loads(config)
    features = next(a for p in manifest["programs"] for a in p["arguments"]
                    if a.get("role") == "features")
    batch, sequence = features["shape"][:2]
    return {"layers": config["n_layer"], "hidden": config["n_embd"],
            "heads": config["n_head"], "vocabulary": config["vocab_size"],
            "batch": batch, "sequence": sequence}


def count_flops(sizes):
    """Returns the FLOPs of a step: 6 for each token and weight of a product, plus those
    of attention. The causal mask is ignored, as is usual for MFU."""
    hidden, layers = sizes["hidden"], sizes["layers"]
    weights = 12 * layers * hidden**2 + sizes["vocabulary"] * hidden
    per_token = 6 * weights + 12 * layers * hidden * sizes["sequence"]
    return per_token * sizes["batch"] * sizes["sequence"]


def write_tokens(path, sizes, rows):
    state, tokens = 12345, []
    for _ in range(rows * sizes["sequence"] + 1):
        state = (state * 1103515245 + 12345) % 2**31
        tokens.append((state >> 8) % sizes["vocabulary"])
    path.write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))


def run_pytorch(sizes, steps, data, device):
    """Trains in PyTorch; prints one JSON object."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    hidden, heads = sizes["hidden"], sizes["heads"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.c_attn = nn.Linear(hidden, 3 * hidden)
            self.c_proj = nn.Linear(hidden, hidden)
            self.c_fc = nn.Linear(hidden, 4 * hidden)
            self.c_out = nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            b, s, _ = x.shape
            q, k, v = (t.view(b, s, heads, -1).transpose(1, 2)
                       for t in self.c_attn(self.ln_1(x)).split(hidden, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.c_proj(y.transpose(1, 2).reshape(b, s, hidden))
            return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte = nn.Embedding(sizes["vocabulary"], hidden)
            self.wpe = nn.Embedding(sizes["sequence"], hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(sizes["layers"]))
            self.ln_f = nn.LayerNorm(hidden)
            nn.init.normal_(self.wte.weight, std=0.02)
            nn.init.normal_(self.wpe.weight, std=0.02)

        def forward(self, tokens, targets):
            x = self.wte(tokens) + self.wpe.weight
            for block in self.blocks:
                x = block(x)
            logits = self.ln_f(x) @ self.wte.weight.T
            return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = Gpt2().to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01,
                                  fused=True)
    on_gpu = device == "cuda"
    compiled = torch.compile(model, backend="inductor" if on_gpu else "eager")
    numbers = torch.frombuffer(bytearray(data.read_bytes()), dtype=torch.uint16).long()
    window = sizes["batch"] * sizes["sequence"]
    shape = (sizes["batch"], sizes["sequence"])
    times, losses = [], []
    for step in range(steps):
        part = numbers[step * window:(step + 1) * window + 1].to(device)
        if on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast(device, torch.bfloat16):
            loss = compiled(part[:-1].view(shape), part[1:].view(shape))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
    allocated = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0
    print(json.dumps({"times": times, "loss": losses, "allocated": allocated}))


def measure(args, command):
    """Runs a contender; returns its output and the GPU's memory in use."""
    watch = MemoryWatch(args.gpu)
    watch.start()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=make_environment(args.python))
    memory = watch.stop()
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: ended with "
                           f"{done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout, memory


def measure_heddle(args, data, folder):
    output, memory = measure(
        args, [args.heddle_run, "train", str(args.artifact), "--data", str(data),
         "--held-out", "0", "--steps", str(args.steps), "--no-checkpoints",
         "--eval-every", "0", "--output", os.path.join(folder, "run"), "--json"])
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    rows = [row for row in rows if "loss" in row and "seconds" in row]
    return {"times": [row["seconds"] for row in rows],
            "loss": [row["loss"] for row in rows], "memory": memory}


def measure_pytorch(args, sizes, data):
    command = [args.python, __file__, "--pytorch", json.dumps(sizes), "--steps",
               str(args.steps), "--data", str(data)]
    output, memory = measure(args, command + (["--rehearse"] if args.rehearse else []))
    return {**json.loads(output.strip().splitlines()[-1]), "memory": memory}


def describe(result, sizes, peak):
    # The first steps compile, choose algorithms and record the graph.
    times = result["times"]
    seconds = statistics.median(times[len(times) // 3:])
    tokens = sizes["batch"] * sizes["sequence"]
    return {"seconds": seconds, "tokens_per_second": tokens / seconds,
            "mfu": count_flops(sizes) / seconds / peak if peak else None,
            "memory_gib": result["memory"], "last_loss": result["loss"][-1]}


def read_results(path, what):
    """Returns the rows of an earlier run of the same measurement."""
    try:
        saved = json.loads(path.read_text())
        return saved["rows"] if all(saved[key] == what[key] for key in what) else {}
    except (AttributeError, OSError, ValueError, KeyError):
        return {}


def write_results(path, results):
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(results, indent=1))
    part.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("artifact", type=pathlib.Path, nargs="?")
    parser.add_argument("--heddle-run", default="build/bin/heddle-run")
    parser.add_argument("--python", default=sys.executable, help="one with torch")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json", type=pathlib.Path, help="also write the results here")
    parser.add_argument("--dry-run", action="store_true",
                        help="without a GPU: check the artifact and say what would run")
    parser.add_argument("--rehearse", action="store_true",
                        help="run both on the CPU; measure nothing")
    parser.add_argument("--pytorch", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.pytorch:
        return run_pytorch(json.loads(args.pytorch), args.steps, args.data,
                           "cpu" if args.rehearse else "cuda")
    if not args.artifact:
        parser.error("expected an artifact")
    sizes = read_sizes(args.artifact)
    what = (f"{sizes['layers']} layers of {sizes['hidden']}, "
            f"{sizes['batch']} x {sizes['sequence']}, {count_flops(sizes):.3g} FLOPs a step")
    if args.dry_run:
        print(f"{args.artifact}: {what}; nothing was measured")
        return 0
    args.gpu = None if args.rehearse else find_gpu()
    if not args.rehearse and not args.gpu:
        print("no GPU at hand (nvidia-smi shows none that CUDA_VISIBLE_DEVICES chooses): "
              "nothing was measured", file=sys.stderr)
        return NO_GPU
    name = "a rehearsal" if args.rehearse else query_gpu(args.gpu, "name") or "an unknown GPU"
    peak = find_peak(name)
    if not peak and not args.rehearse:
        print(f"the peak of {name} is not known: MFU is left out", file=sys.stderr)
    setting = {"gpu": name, "sizes": sizes, "steps": args.steps}
    rows, errors = read_results(args.json, setting), {}
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "tokens.bin"
        write_tokens(data, sizes, (args.steps + 2) * sizes["batch"])
        for contender, run in (
                ("Heddle", lambda: measure_heddle(args, data, folder)),
                ("PyTorch", lambda: measure_pytorch(args, sizes, data))):
            if contender in rows:
                continue
            try:
                rows[contender] = describe(run(), sizes, peak)
            except (RuntimeError, OSError, ValueError, IndexError) as error:
                errors[contender] = str(error)
            # After each one: what was measured outlives the end of this process.
            if args.json and not args.rehearse:
                write_results(args.json, {**setting, "rows": rows, "errors": errors})
    ratio = (rows["PyTorch"]["seconds"] / rows["Heddle"]["seconds"]
             if len(rows) == 2 else None)
    if args.rehearse:
        for row in rows.values():
            print(f"{row['last_loss']:.4f}")
        rows, ratio = {}, None
        what += "; nothing was measured"
    if args.json:
        write_results(args.json, {**setting, "rows": rows, "errors": errors, "speed": ratio})
    print(f"{name}: {what}")
    if not args.rehearse:
        print(f"{'':10}{'s/step':>9}{'tokens/s':>11}{'MFU':>7}{'GiB':>7}   last loss")
    for contender, row in rows.items():
        mfu = f"{row['mfu']:7.1%}" if row["mfu"] else f"{'?':>7}"
        print(f"{contender:10}{row['seconds']:9.4f}{row['tokens_per_second']:11.0f}{mfu}"
              f"{row['memory_gib']:7.2f}   {row['last_loss']:.4f}")
    if ratio:
        print(f"Heddle is {ratio:.2f} x as fast as PyTorch")
    for contender, error in errors.items():
        print(f"{contender}: {error}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
