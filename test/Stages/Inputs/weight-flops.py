"""Counts the FLOPs of the products that make gradients of weights, in the weights'
passes of a step's pipeline and elsewhere.

    weight-flops.py PROGRAM.mlir

Prints both counts, and fails if the weights' passes hold less than 95 %.
"""

import re
import sys

PRODUCT = re.compile(
    r'pass\(wgrad\) \[(\w+), (\w+) -> (\w+)\].* : \(tensor<([^>]*)>, tensor<([^>]*)>\)')


def count_flops(match):
    sizes = {}
    for factors, shape in zip(match.group(1, 2), match.group(4, 5)):
        extents = [int(size) for size in shape.split("x")[:-1]]
        assert len(factors) == len(extents), match.group(0)
        sizes.update(zip(factors, extents))
    flops = 2
    for size in sizes.values():
        flops *= size
    return flops


inside, outside, count = 0, 0, 0
function = ""
with open(sys.argv[1]) as file:
    for line in file:
        if found := re.search(r"func\.func @(\w+)", line):
            function = found.group(1)
        product = PRODUCT.search(line)
        assert product or "pass(wgrad)" not in line, line
        if not product or not function.startswith("step_"):
            continue
        count += 1
        if function.startswith("step_backward_weights_"):
            inside += count_flops(product)
        else:
            outside += count_flops(product)
assert inside + outside > 0
share = 100 * inside / (inside + outside)
print(f"{count} products, {inside + outside} FLOPs, {share:.1f} % in weights' passes")
sys.exit(share < 95)
