"""Compares the bytes that one device sends in a training step, as reported by
`heddle-report-communication`, with a table of formulas. They must be equal.

Usage: volumes.py --bin DIR --scratch DIR TABLE

The table follows the line `//--- table` of its file. Its columns are: model,
plan, part (layer or outside), op, a formula for the elements, and the bytes that
the formula gives. A communication that the table lacks is an error, too.
"""

import argparse
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

DEVICES = 4
BATCH = 8

GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "vocab_size": 50304,
        "n_positions": 1024}
LLAMA = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
         "num_attention_heads": 32, "num_key_value_heads": 8,
         "vocab_size": 128256, "max_position_embeddings": 8192,
         "rms_norm_eps": 1e-5, "tie_word_embeddings": False}


def letters_of_gpt2():
    h, v, p = GPT2["n_embd"], GPT2["vocab_size"], GPT2["n_positions"]
    return {"h": h, "v": v, "p": p, "P": 12 * h * h + 13 * h,
            "R": v * h + p * h + 2 * h}


def letters_of_llama():
    h, v, f = (LLAMA[key] for key in
               ("hidden_size", "vocab_size", "intermediate_size"))
    k = h // LLAMA["num_attention_heads"] * LLAMA["num_key_value_heads"]
    return {"h": h, "v": v, "f": f, "k": k,
            "P": 2 * h * h + 2 * h * k + 3 * h * f + 2 * h,
            "R": 2 * v * h + h}


# Name: config, the config's key for the number of layers, letters, sequence
# length, pattern of the norms' names.
MODELS = {
    "gpt2": (GPT2, "n_layer", letters_of_gpt2, 1024, "*ln_?"),
    "gpt2-short": (GPT2, "n_layer", letters_of_gpt2, 256, "*ln_?"),
    "llama": (LLAMA, "num_hidden_layers", letters_of_llama, 1024, "*norm"),
}


def plan_options(plan, norms, scratch):
    """Options of heddle compile."""
    if plan.startswith("dp"):
        return ["--mesh", "dp=%d,tp=1" % DEVICES]
    if plan == "tp":
        return ["--mesh", "dp=1,tp=%d" % DEVICES]
    if plan == "sp":
        path = scratch / "sp.json"
        path.write_text(json.dumps({
            "version": 1, "mesh": {"tp": DEVICES},
            "operators": {"*": {"f": ["tp"], "n": ["tp"], "v": ["tp"]},
                          norms: {"s": ["tp"]}}}))
        return ["--plan", path]
    return ["--mesh", "dp=%d,tp=1" % DEVICES, "--zero", plan[len("zero")]]


@functools.cache
def build_step(bin, folder, name, layers, micro_batches):
    """Returns the file of a training step for one device."""
    config, key, _, sequence, _ = MODELS[name]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**config, key: layers}))
    program = folder / "program.mlir"
    step = folder / ("step-%d-%d.mlir" % (layers, micro_batches))
    subprocess.run([bin / "heddle", "import", folder, "--batch", str(BATCH),
                    "--seq", str(sequence), "-o", program], check=True)
    subprocess.run(
        [bin / "heddle-opt", program,
         "--heddle-build-training-step=evaluate=false micro-batches=%d"
         % micro_batches, "--canonicalize", "--cse", "-o", step], check=True)
    text = step.read_text().replace(
        "module attributes {", 'module attributes {heddle.phase = "autodiff", ',
        1)
    step.write_text(text)
    return step


def measure(bin, scratch, name, plan, layers):
    """Bytes by op of a training step; with micro-batches, of one and of the
    update."""
    folder = scratch / name
    step = build_step(bin, folder, name, layers,
                      2 if plan.endswith("micro") else 1)
    norms = MODELS[name][-1]
    local = folder / "local.mlir"
    with open(local, "w") as file:
        subprocess.run([bin / "heddle", "compile", step, "--stop-after",
                        "localized", *plan_options(plan, norms, folder)],
                       check=True, stdout=file)
    report = subprocess.run(
        [bin / "heddle-opt", local, "--heddle-report-communication",
         "-o", os.devnull],
        check=True, stderr=subprocess.PIPE, text=True).stderr
    lines = re.findall(r'@\w+ (\w+) \{.*?\}: \d+ ops, (\d+) bytes', report)
    if not lines:
        sys.exit("expected a report, got:\n" + report)
    sums = {}
    for op, count in lines:
        sums[op] = sums.get(op, 0) + int(count)
    return sums


def evaluate(name, formula):
    _, _, letters, sequence, _ = MODELS[name]
    n = DEVICES
    scope = {**letters(), "b": BATCH, "s": sequence, "N": n,
             "AR": lambda x: 2 * (n - 1) * x / n,
             "AG": lambda x: (n - 1) * x / n, "RS": lambda x: (n - 1) * x / n}
    return 4 * eval(formula, {"__builtins__": {}}, scope)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    parser.add_argument("table", type=pathlib.Path)
    options = parser.parse_args()
    text = options.table.read_text().split("//--- table\n")[1]
    rows = [[cell.strip() for cell in line.split("|")]
            for line in text.splitlines()
            if line and not line.startswith("//")]
    failures = 0
    measured = {}
    for name, plan in dict.fromkeys((row[0], row[1]) for row in rows):
        two, three = (measure(options.bin, options.scratch, name, plan, layers)
                      for layers in (2, 3))
        for op in sorted(set(two) | set(three)):
            layer = three.get(op, 0) - two.get(op, 0)
            measured[name, plan, "layer", op] = layer
            measured[name, plan, "outside", op] = two.get(op, 0) - 2 * layer
    for name, plan, part, op, formula, count in rows:
        value = evaluate(name, formula)
        got = measured.pop((name, plan, part, op), 0)
        if not value == int(count) == got:
            failures += 1
            print("%s %s: %s %s: %s is %d bytes, the table has %s, sent are %d"
                  % (name, plan, part, op, formula, value, count, got))
    for (name, plan, part, op), got in measured.items():
        if got != 0:
            failures += 1
            print("%s %s: %s %s: %d bytes are sent that the table does not have"
                  % (name, plan, part, op, got))
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
