#!/usr/bin/env python3
"""Counts the calls of the runtime that each program of an artifact makes.

    bench/gpu/launches.py MODEL.heddle [--most N]

Prints a line for each program: the number of all calls, and the numbers of those
that launch a kernel, of products, and of others. A launch that serves many tensors
is one call. With --most N, ends with 1 if `step` makes more than N calls.
"""

import argparse
import collections
import json
import pathlib
import sys


def read_calls(library):
    """Reads the JSON text `heddle_calls` in a program.so. Returns {program: calls}."""
    data = library.read_bytes()
    begin = data.rfind(b'{"', 0, max(0, data.find(b':[{"call"')))
    if begin < 0:
        sys.exit(f"{library} names no calls")
    return json.loads(data[begin:data.index(b"\0", begin)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("artifact", type=pathlib.Path)
    parser.add_argument("--most", type=int)
    arguments = parser.parse_args()
    programs = read_calls(arguments.artifact / "program.so")
    print(f"{'program':16}{'calls':>7}{'kernels':>9}{'products':>10}{'others':>8}")
    for name, calls in programs.items():
        kinds = collections.Counter(
            "kernels" if call.get("call", "").startswith("kernel_")
            else "products" if call.get("call") == "matmul" else "others"
            for call in calls)
        print(f"{name:16}{len(calls):7}{kinds['kernels']:9}{kinds['products']:10}"
              f"{kinds['others']:8}")
    if arguments.most and len(programs.get("step", [])) > arguments.most:
        sys.exit(f"expected at most {arguments.most} calls in a step")


if __name__ == "__main__":
    main()
