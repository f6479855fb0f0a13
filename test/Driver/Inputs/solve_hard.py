"""Writes a problem whose optimum is hard to prove: a grid with a tight limit and
costs without structure. Arguments: file, rows, columns."""

import json
import random
import sys

path, rows, columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(5)
strategies = 6


def numbers(count, low, high):
    return [chance.randint(low, high) for _ in range(count)]


nodes = {"intervals": [], "costs": [], "usages": []}
edges = {"nodes": [], "costs": []}
for node in range(rows * columns):
    row, column = divmod(node, columns)
    begin = chance.randint(0, 40)
    nodes["intervals"].append([begin, begin + chance.randint(1, 40)])
    nodes["costs"].append(numbers(strategies, 0, 10000))
    nodes["usages"].append(numbers(strategies, 1000, 9000))
    for other, there in ((node - 1, column > 0), (node - columns, row > 0)):
        if there:
            edges["nodes"].append([other, node])
            edges["costs"].append(numbers(strategies**2, 0, 10000))

# The limit lies between the peak of the nodes' least usages and that of their
# average usages.
peak = {}
for (begin, end), usages in zip(nodes["intervals"], nodes["usages"]):
    for time in range(begin, end):
        low, middle = peak.get(time, (0, 0))
        peak[time] = (low + min(usages), middle + sum(usages) / strategies)
low, middle = max(peak.values())
limit = int(low + 0.3 * (middle - low))
problem = {"name": "hard", "nodes": nodes, "edges": edges, "usage_limit": limit}
with open(path, "w") as file:
    json.dump({"problem": problem}, file)
