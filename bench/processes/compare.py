#!/usr/bin/env python3
"""Trains GPT-2 124M in two processes beside PyTorch's DDP and FSDP2, in one run.

    bench/processes/compare.py [--heddle build/bin/heddle] [--steps 6]

Needs a Python with torch and transformers (test/reference/environment makes
one). Every contender has two processes of one thread, which communicate by Gloo, and
the same configuration, tokens and optimizer (AdamW, clipping at 1.0, no dropout).
Prints the median time of a step and the ratio to PyTorch. Then stops one of Heddle's
processes. When the other one has nothing left to do, prints the part of three seconds
in which it uses a core.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "training"))
import compare  # noqa: E402  bench/training/compare.py: inputs and config

ROWS, SEQUENCE, PROCESSES = 4, 128, 2


def run_pytorch(mode, steps, folder):
    """Trains one rank. Rank 0 prints one JSON object."""
    import torch
    import torch.distributed as dist
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = GPT2LMHeadModel(GPT2Config.from_json_file(
        os.path.join(folder, "config.json"))).train()
    if mode == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (PROCESSES,))
        for block in model.transformer.h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    with open(os.path.join(folder, "tokens.bin"), "rb") as f:
        data = torch.frombuffer(bytearray(f.read()), dtype=torch.uint16).long()
    rows, times, losses = ROWS // PROCESSES, [], []
    for step in range(steps):
        first = (step * ROWS + rank * rows) * SEQUENCE
        window = data[first:first + rows * SEQUENCE + 1]
        dist.barrier()
        start = time.perf_counter()
        logits = model(window[:-1].view(rows, SEQUENCE)).logits
        loss = torch.nn.functional.cross_entropy(
            logits.view(-1, compare.VOCABULARY), window[1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        dist.barrier()
        times.append(time.perf_counter() - start)
        losses.append(loss.item())
    if rank == 0:
        print(json.dumps({"times": times, "loss": losses}))
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def measure_pytorch(mode, args, folder):
    port = free_port()
    ranks = []
    for rank in range(PROCESSES):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank),
                           WORLD_SIZE=str(PROCESSES), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port), OMP_NUM_THREADS="1")
        ranks.append(subprocess.Popen(
            [sys.executable, __file__, "--contender", mode, "--steps",
             str(args.steps), "--folder", folder],
            env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{mode}: failed")
    return json.loads(outputs[0].strip().splitlines()[-1])


def heddle_command(args, folder, zero, steps, name):
    return [args.heddle, "train", folder, "--processes", str(PROCESSES), "--data",
            os.path.join(folder, "tokens.bin"), "--batch", str(ROWS), "--seq",
            str(SEQUENCE), "--steps", str(steps), "--mesh", f"dp={PROCESSES}",
            "--zero", str(zero), "--cores", "1", "--lr", "3e-4", "--clip", "1",
            "--no-dropout", "--no-checkpoints", "--eval-every", "0",
            "--eval-windows", "1", "--output", os.path.join(folder, name),
            "--json"]


def measure_heddle(args, folder, zero):
    output = subprocess.run(
        heddle_command(args, folder, zero, args.steps, f"zero{zero}"),
        check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = [json.loads(line) for line in output.splitlines()
            if line.startswith("{")]
    steps = [row for row in rows if "seconds_by_kind" in row]
    return {"times": [row["seconds"] for row in steps],
            "loss": [row["loss"] for row in steps]}


def processes_below(pid):
    found = [pid]
    for parent in found:
        try:
            text = pathlib.Path(f"/proc/{parent}/task/{parent}/children")
            found += [int(word) for word in text.read_text().split()]
        except FileNotFoundError:
            pass
    return found


def cpu_seconds(pid):
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure_waiting(args, folder, seconds=3.0):
    """Stops one of two processes. Returns the part of the time in which the other
    process, which waits, uses a core."""
    run = subprocess.Popen(heddle_command(args, folder, 0, 1000, "waiting"),
                           stdout=subprocess.PIPE, text=True)
    for line in run.stdout:
        if '"seconds_by_kind"' in line:
            break
    # The trainers are the two processes that use most CPU time.
    trainers = sorted(processes_below(run.pid), key=cpu_seconds)[-PROCESSES:]
    stopped, waiting = trainers
    os.kill(stopped, signal.SIGSTOP)
    time.sleep(15)  # until the other one has nothing left to do
    before = cpu_seconds(waiting)
    time.sleep(seconds)
    used = cpu_seconds(waiting) - before
    os.kill(stopped, signal.SIGCONT)
    for pid in processes_below(run.pid):
        os.kill(pid, signal.SIGKILL)
    run.wait()
    return used / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--contender", choices=["ddp", "fsdp2"],
                        help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        run_pytorch(args.contender, args.steps, args.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        compare.write_inputs(folder, args.steps + 2)
        results = {"DDP": measure_pytorch("ddp", args, folder),
                   "Heddle dp 2": measure_heddle(args, folder, 0),
                   "FSDP2": measure_pytorch("fsdp2", args, folder),
                   "Heddle ZeRO-3": measure_heddle(args, folder, 3)}
        # The first two steps warm up.
        median = {name: statistics.median(result["times"][2:])
                  for name, result in results.items()}
        print(f"f32, {ROWS} x {SEQUENCE}, {PROCESSES} processes of one thread")
        for name in results:
            print(f"{name:14}{median[name]:9.3f} s/step")
        print(f"{median['DDP'] / median['Heddle dp 2']:.2f} x DDP, "
              f"{median['FSDP2'] / median['Heddle ZeRO-3']:.2f} x FSDP2")
        print(f"a waiting process uses {measure_waiting(args, folder):.1%} of a core")


if __name__ == "__main__":
    main()
