"""Checks what `heddle plan --front` wrote: front.py FRONT.json PAGE.html FOLDER DEVICES..."""

import json
import os
import re
import sys

front = json.load(open(sys.argv[1]))
page = open(sys.argv[2]).read()
data = json.loads(re.search(r"application/json.>(.*?)</script>", page, re.S).group(1))
assert data == front and "PAGE_" not in page

plans = front["plans"]
numbers = [int(number) for number in sys.argv[4:]]
assert {plan["devices"] for plan in plans} <= set(numbers), plans
# The fewest and the fastest are always there.
assert plans[0]["devices"] == numbers[0] and plans[-1]["devices"] == numbers[-1], plans


def figures(plan):
    return plan["seconds"], plan["memory"]["total"], plan["devices"]


for plan in plans:
    assert plan["memory"]["total"] <= front["limit"]
    assert abs(plan["device_hours"] - plan["seconds"] * plan["devices"] / 3600) < 1e-15
    for other in plans:
        if other is not plan:
            assert any(a < b for a, b in zip(figures(plan), figures(other))), (plan, other)
# Several limits of memory were tried for one number of devices at least.
assert len(plans) > len({plan["devices"] for plan in plans}), plans

for number, plan in enumerate(plans, 1):
    written = json.load(open(os.path.join(sys.argv[3], f"{number}.json")))
    assert written["prediction"]["seconds"] == plan["seconds"]
assert len(os.listdir(sys.argv[3])) == len(plans)
