"""Prints the products, attentions and collectives of one layer of @step.

    heddle compile ... --stop-after scheduled | layer.py h.1.

One line an op, in the order of the text, with the name of its operator. A
collective in flight has two lines, "start" and "wait". Collectives count only if
their tensors have the dimensions of activations. The last line counts the
all-reduces.
"""

import re
import sys

prefix = sys.argv[1]
OP = re.compile(r"(?:(%\w+)(?::\d+)? = )?(heddle\.(?:contract|attention|attention_grad)|"
                r"comm\.\w+)\b")
inside, starts, pending, count = False, {}, None, 0
for line in sys.stdin:
    if line.lstrip().startswith("func.func"):
        inside = "@step(" in line
        continue
    found = OP.search(line) if inside else None
    if not found:
        continue
    result, op = found.group(1), found.group(2).split(".")[1]
    if op == "start":
        pending = result
        continue
    if op == "yield":
        pending = None
        continue
    if op == "wait":
        name = starts.get(re.search(r"comm\.wait (%\w+)", line).group(1))
        if name:
            print("wait", name)
        continue
    names = re.search(r'serves<(\w+) \[(.*?)\]>', line)
    if not names or '"' + prefix not in names.group(2):
        continue
    name = re.search(r'"' + re.escape(prefix) + r'([^"]*)"', names.group(2)).group(1)
    if op == "contract":
        op = "product"
        way = re.search(r"pass\((\w+)\)", line)
        op += " " + way.group(1) if way else ""
    elif op.startswith("attention"):
        op = op.replace("_grad", " gradient")
    elif not re.search(r"tensor<\d+x\d+x\d+xf32>$", line.strip()):
        continue
    elif op == "all_reduce":
        count += 1
    text = op + " " + name
    if pending:
        starts[pending] = text
        text = "start " + text
    print(text)
print("all-reduces:", count)
