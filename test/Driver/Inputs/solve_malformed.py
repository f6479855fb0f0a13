"""Breaks a small problem in one place after another and checks that the
command names that place."""

import copy
import json
import os
import subprocess
import sys

folder, command = sys.argv[1], sys.argv[2:]
PROGRAM = os.path.basename(command[0])
PROBLEM = os.path.join(folder, "problem.json")
GOOD = {
    "name": "two",
    "nodes": {
        "intervals": [[0, 2], [1, 3]],
        "costs": [[1, 2], [3]],
        "usages": [[4, 5], [6]],
    },
    "edges": {"nodes": [[0, 1]], "costs": [[7, 8]]},
    "usage_limit": 100,
}
ABSENT = object()
MAX = 2**63 - 1

# Each case: the place in the problem, its new value, the expected message.
CASES = [
    ("name", 7, "problem.name: expected a string, got 7"),
    ("nodes", ABSENT, "problem.nodes: expected an object, got nothing"),
    ("nodes", [], "problem.nodes: expected an object, got []"),
    ("edges", ABSENT, "problem.edges: expected an object, got nothing"),
    ("edges", 3, "problem.edges: expected an object, got 3"),
    ("nodes/intervals", ABSENT, "nodes.intervals: expected an array, got nothing"),
    ("nodes/costs", {}, "nodes.costs: expected an array, got {}"),
    ("nodes/intervals/0", [0], "nodes.intervals[0]: expected [begin, end], got [0]"),
    (
        "nodes/intervals/0",
        [-1, 2],
        "nodes.intervals[0]: expected 0 <= begin <= end, got [-1, 2]",
    ),
    (
        "nodes/intervals/1",
        [3, 1],
        "nodes.intervals[1]: expected 0 <= begin <= end, got [3, 1]",
    ),
    (
        "nodes/costs",
        [[1, 2]],
        "nodes.costs: expected 2 entries as in nodes.intervals, got 1",
    ),
    (
        "nodes/usages",
        [[4, 5]],
        "nodes.usages: expected 2 entries as in nodes.intervals, got 1",
    ),
    (
        "nodes/usages/0",
        [4],
        "nodes.usages[0]: expected 2 entries as in nodes.costs, got 1",
    ),
    ("nodes/costs/1", [], "nodes.costs[1]: expected at least one strategy, got none"),
    (
        "nodes/costs/0",
        [1, -2],
        "nodes.costs[0][1]: expected a cost of at least 0, got -2",
    ),
    (
        "nodes/usages/0",
        [-4, 5],
        "nodes.usages[0][0]: expected a usage of at least 0, got -4",
    ),
    (
        "nodes/costs/0",
        [1, 1.5],
        "nodes.costs[0][1]: expected a 64-bit integer, got 1.5",
    ),
    (
        "nodes/costs/0",
        [1, MAX + 1],
        "nodes.costs[0][1]: expected a 64-bit integer, got 9223372036854775808",
    ),
    (
        "nodes/usages",
        [[MAX, 0], [1]],
        "nodes.usages: expected sums that fit 64 bits, got an overflow at time 1",
    ),
    ("edges/nodes/0", [0, 2], "edges.nodes[0]: expected a node below 2, got 2"),
    ("edges/nodes/0", [0, -1], "edges.nodes[0][1]: expected a node number, got -1"),
    ("edges/nodes/0", [], "edges.nodes[0]: expected at least one node, got none"),
    ("edges/costs", [], "edges.costs: expected 1 entries as in edges.nodes, got 0"),
    (
        "edges/costs/0",
        [7],
        "edges.costs[0]: expected 2 entries, the product of its nodes' "
        "strategies, got 1",
    ),
    (
        "edges/costs/0",
        [7, -8],
        "edges.costs[0][1]: expected a cost of at least 0, got -8",
    ),
    ("usage_limit", -1, "usage_limit: expected at least 0, got -1"),
    ("usage_limit", "all", 'usage_limit: expected a 64-bit integer, got "all"'),
    (
        "usage_limits",
        5,
        "problem.usage_limits: expected one of name, nodes, edges, usage_limit, "
        "got an unknown key",
    ),
    (
        "nodes/usage",
        [],
        "nodes.usage: expected one of intervals, costs, usages, got an unknown key",
    ),
    (
        "edges/cost",
        [],
        "edges.cost: expected one of nodes, costs, got an unknown key",
    ),
]


def broken(path, value):
    problem = copy.deepcopy(GOOD)
    *parents, last = path.split("/")
    place = problem
    for key in parents:
        place = place[int(key) if isinstance(place, list) else key]
    if value is ABSENT:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return json.dumps({"problem": problem})


def expect(text, code, message):
    with open(PROBLEM, "w") as file:
        file.write(text)
    run = subprocess.run(command + [PROBLEM], capture_output=True, text=True)
    if run.returncode != code or message not in run.stderr.splitlines():
        sys.exit(
            "%s\nexpected exit code %d and '%s', got %d and '%s'"
            % (text, code, message, run.returncode, run.stderr)
        )
    if code and run.stdout:
        sys.exit("%s\nexpected no answer, got '%s'" % (text, run.stdout))


def refuse(text, message):
    expect(text, 2, "%s: error: '%s': %s" % (PROGRAM, PROBLEM, message))


expect(
    json.dumps({"problem": GOOD}), 0, "optimal: cost 11  bound 11  gap 0.0000%"
)
for path, value, message in CASES:
    refuse(broken(path, value), message)
good = json.dumps({"problem": GOOD})
SYNTAX = "line %d, column %d: expected JSON: syntax error while parsing "
refuse(
    "{",
    SYNTAX % (1, 2)
    + "object key - unexpected end of input; expected string literal",
)
refuse(
    "",
    SYNTAX % (1, 1)
    + "value - unexpected end of input; expected '[', '{', or a literal",
)
refuse(
    good[:-9],
    SYNTAX % (1, len(good) - 8)
    + "object key - invalid string: missing closing quote; last read: "
    "'\"usage_limi'; expected string literal",
)
refuse(
    good + "\n}",
    SYNTAX % (2, 1) + "value - unexpected '}'; expected end of input",
)
refuse(
    good.replace("7", "NaN"),
    SYNTAX % (1, good.index("7") + 1)
    + "value - invalid literal; last read: '\"costs\": [[N'",
)
refuse("[]", "the file: expected an object with the key problem, got []")
refuse("{}", "problem: expected an object, got nothing")
refuse(
    good[:-1] + ', "usage_limit": 5}',
    "the file.usage_limit: expected one of problem, got an unknown key",
)
refuse('{"problem": []}', "problem: expected an object, got []")
refuse(
    good.replace('"usage_limit"', '"usage_limit": 1, "usage_limit"'),
    "line 1, column %d: expected each key once, got \"usage_limit\" twice"
    % (good.index('"usage_limit"') + len('"usage_limit": 1, ') + 1),
)
refuse(
    "[" * 100000,
    "line 1, column 65: expected at most 64 lists and objects within one another, "
    "got more",
)
