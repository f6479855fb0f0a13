#!/usr/bin/env python3
"""Compares the planner's choice with every uniform plan of three uneven models.

    uneven.py PLANNER_BENCH [--stride N] [--case NAME ...]

A uniform plan splits all operators alike, by one mesh of data, context, tensor and
pipeline parallelism. It may have any ZeRO level, sequence parallelism, micro-batches,
sub-batches, recomputation and schedule. In each model, some operators are fastest if they
are split differently from the others. The devices are 4 of a server of RTX 3090:

  vocabulary    a GPT whose table and head outweigh its layers
  images        convolutions, and dense layers that have most of the parameters
                ("one weird trick": Krizhevsky, 2014)
  ratings       a recommender: a large table of embeddings, and dense layers

Prints the number of uniform plans that were simulated, the best of them, and the
planner's plan.
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile


class Program:
    """The text of a model with one batch, in Heddle's dialect."""

    def __init__(self, inputs, labels):
        self.inputs, self.labels = inputs, labels
        self.variables, self.body, self.count = [], [], 0

    def value(self, text):
        self.count += 1
        self.body.append(f"    %{self.count} = {text}")
        return f"%{self.count}"

    def parameter(self, name, *shape):
        kind = tensor(shape)
        self.variables.append(f"  heddle.variable @{name}.weight : {kind} parameter "
                              "init(normal<0.02>)")
        return self.value(f"heddle.load @{name}.weight : {kind}")

    def contract(self, name, letters, x, shape, w, kernel, result):
        return self.value(f'heddle.contract "{name}" [{letters}] {x}, {w} : '
                          f"({tensor(shape)}, {tensor(kernel)}) -> {tensor(result)}")

    def binary(self, name, op, a, b, shape):
        return self.value(f'arith.{op} {a}, {b} {{heddle.name = "{name}"}} : '
                          f"{tensor(shape)}")

    def relu(self, name, x, shape):
        zero = self.value(f"arith.constant dense<0.0> : {tensor(shape)}")
        return self.binary(name, "maximumf", x, zero, shape)

    def dense(self, name, letters, x, shape, kernel, result):
        y = self.contract(name, letters, x, shape, self.parameter(name, *kernel),
                          kernel, result)
        return self.relu(f"{name}.relu", y, result)

    def convolution(self, name, letters, x, shape, channels, stride):
        """Adds a padded convolution of 3 by 3, as a product for each place of the
        kernel. Returns its result and the result's shape."""
        rows, old, size, _ = shape
        self.count += 1
        zero, padded = f"%zero{self.count}", f"%padded{self.count}"
        wide = (rows, old, size + 2, size + 2)
        self.body.append(f"    {zero} = arith.constant 0.0 : f32")
        self.body.append(
            f"    {padded} = tensor.pad {x} low[0, 0, 1, 1] high[0, 0, 1, 1] {{\n"
            "    ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):\n"
            f"      tensor.yield {zero} : f32\n"
            f'    }} {{heddle.name = "{name}"}} : {tensor(shape)} to {tensor(wide)}')
        size //= stride
        result = (rows, channels, size, size)
        total = None
        for i in range(3):
            for j in range(3):
                window = (rows, old, size, size)
                part = self.value(
                    f"tensor.extract_slice {padded}[0, 0, {i}, {j}] "
                    f"[{rows}, {old}, {size}, {size}] [1, 1, {stride}, {stride}] "
                    f'{{heddle.name = "{name}"}} : {tensor(wide)} to {tensor(window)}')
                kernel = (channels, old)
                weight = self.parameter(f"{name}.{i}{j}", *kernel)
                y = self.contract(name, letters, part, window, weight, kernel, result)
                total = y if total is None else self.binary(name, "addf", total, y,
                                                            result)
        return self.relu(f"{name}.relu", total, result), result

    def finish(self, logits, rows, classes):
        shape, one = (rows, classes), tensor((rows,))
        i32 = tensor(self.labels, "i32")
        self.body += [
            f'    %loss, %lse = heddle.cross_entropy "loss" {logits}, %labels : '
            f"{tensor(shape)}, {i32} -> {one}, {one}",
            f'    %sum = heddle.reduce "loss" sum %loss over [0] : {one} -> tensor<f32>',
            f"    %ignored = arith.constant dense<-100> : {i32}",
            "    %is = arith.cmpi ne, %labels, %ignored "
            f'{{heddle.name = "loss.count"}} : {i32}',
            '    %ones = arith.uitofp %is {heddle.name = "loss.count"} : '
            f"{tensor(self.labels, 'i1')} to {one}",
            f'    %count = heddle.reduce "loss.count" sum %ones over [0] : {one} '
            "-> tensor<f32>"]

        def port(name, role):
            return f'{{heddle.name = "{name}", heddle.role = #heddle.port_role<{role}>}}'

        return "\n".join([
            "module {", *self.variables,
            f"  func.func @forward(%x: {self.inputs} {port('input', 'features')}, "
            f"%labels: {i32} {port('labels', 'labels')}) -> (tensor<f32> "
            f"{port('loss_sum', 'loss_sum')}, tensor<f32> "
            f"{port('count', 'label_count')}, {tensor(shape)} "
            f"{port('logits', 'output')}) {{",
            *self.body,
            f"    return %sum, %count, {logits} : tensor<f32>, tensor<f32>, "
            f"{tensor(shape)}",
            "  }", "}", ""])


def tensor(shape, element="f32"):
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def make_images(rows):
    """Returns the program of the model for images, which come as patches of 4 by 4
    pixels. The letter f stands for the features that tensor parallelism splits. Every
    second layer has it in its result, so that two layers need only one sum."""
    shape = (rows, 48, 32, 32)
    program = Program(tensor(shape), (rows,))
    x, last = "%x", shape
    for name, letters, channels, stride in [
            ("conv1", "bcxy, fc -> bfxy", 128, 1), ("conv2", "bfxy, cf -> bcxy", 256, 2),
            ("conv3", "bcxy, fc -> bfxy", 256, 1), ("conv4", "bfxy, cf -> bcxy", 256, 2)]:
        x, last = program.convolution(name, letters, x, last, channels, stride)
    hidden, classes = 4096, 1000
    x = program.dense("fc1", "bcxy, cxyf -> bf", x, last, (*last[1:], hidden),
                      (rows, hidden))
    x = program.dense("fc2", "bf, fh -> bh", x, (rows, hidden), (hidden, hidden),
                      (rows, hidden))
    kernel = (classes, hidden)
    logits = program.contract("head", "bh, vh -> bv", x, (rows, hidden),
                              program.parameter("head", *kernel), kernel,
                              (rows, classes))
    return program.finish(logits, rows, classes)


def make_ratings(rows):
    """Returns the program of the recommender. Each row has 26 entries of one table."""
    entries, table, width, hidden, classes = 26, 1 << 20, 64, 1024, 8
    tokens = tensor((rows, entries), "i32")
    program = Program(tokens, (rows,))
    kernel, shape = (table, width), (rows, entries, width)
    weight = program.parameter("table", *kernel)
    x = program.value(f'heddle.embedding "table" {weight}, %x : {tensor(kernel)}, '
                      f"{tokens} -> {tensor(shape)}")
    row = (rows, hidden)
    x = program.dense("tower.0", "bsh, shf -> bf", x, shape,
                      (entries, width, hidden), row)
    for layer in range(1, 4):
        letters = "bf, fh -> bh" if layer % 2 else "bh, hf -> bf"
        x = program.dense(f"tower.{layer}", letters, x, row, (hidden, hidden), row)
    kernel = (classes, hidden)
    logits = program.contract("head", "bh, vh -> bv", x, row,
                              program.parameter("head", *kernel), kernel,
                              (rows, classes))
    return program.finish(logits, rows, classes)


def make_vocabulary():
    return json.dumps({"model_type": "gpt2", "n_layer": 4, "n_embd": 256, "n_head": 4,
                       "vocab_size": 131072, "n_positions": 512, "n_inner": 1024})


# For each model: the rows of a step, the numbers of micro-batches for which a program
# is made, the function that makes it, and the file. A config does not fix the number of
# micro-batches, so the planner tries every number.
CASES = {"vocabulary": (8, [1], lambda rows: make_vocabulary(), "config.json"),
         "images": (128, [1, 2, 4], make_images, "images.mlir"),
         "ratings": (2048, [1, 2, 4], make_ratings, "ratings.mlir")}

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
parser.add_argument("bench", help="planner_bench")
parser.add_argument("--stride", default="1", help="simulate every Nth plan")
parser.add_argument("--case", action="append", choices=CASES, help="(default: all)")
parser.add_argument("--folder", type=pathlib.Path, help="keep the models here")
options = parser.parse_args()

with tempfile.TemporaryDirectory() as temporary:
    folder = options.folder or pathlib.Path(temporary)
    for name in options.case or CASES:
        rows, counts, make, file = CASES[name]
        path = folder / file
        plans, best, planner = 0, float("inf"), float("inf")
        for count in counts:
            path.write_text(make(rows // count))
            print(f"{name}, {rows} rows" +
                  (f" in micro-batches of {rows // count}" if count > 1 else ""),
                  flush=True)
            result = subprocess.run([options.bench, path, "512", "rtx3090", "4",
                                     str(rows), options.stride], check=True,
                                    text=True, stdout=subprocess.PIPE)
            print(result.stdout, end="", flush=True)
            plans += int(re.match(r"\d+", result.stdout)[0])
            found, chosen = (float(re.search(rf"{word} ([\d.]+) s", result.stdout)[1])
                             for word in ("best", "planner"))
            best, planner = min(best, found), min(planner, chosen)
        print(f"{name}: the best of {plans} uniform plans takes {best * 1e3:.3f} ms, "
              f"the planner's {planner * 1e3:.3f} ms: {best / planner:.2f} times",
              flush=True)
