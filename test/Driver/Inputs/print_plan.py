"""Prints the plan that a module in the file keeps.

Usage: print_plan.py MODULE.mlir
"""

import re
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    text = re.search(r'heddle\.plan = "(.*?)"[,}]', file.read()).group(1)
print(re.sub(r"\\([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), text))
