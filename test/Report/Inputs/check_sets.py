"""check_sets.py PAGE SETS: checks a page of a simulation with so many rank sets.

The memory is that of one of them, and the one whose computation waits longest
is among those that the page shows.
"""

import json
import re
import sys

page = open(sys.argv[1], encoding="utf-8").read()
data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
count = int(sys.argv[2])
summary = data["summary"]

memory = summary["memory"]
assert memory["total"] == sum(part["bytes"] for part in memory["parts"]), memory
assert any(p["name"] == "slots" and p["bytes"] > 0 for p in memory["parts"])
assert data["memory_of"] == summary["lists"][memory["list"]]
assert memory["peak"] == max(size for _, size in data["memory"])

shown = [process["name"] for process in data["processes"]]
assert len(shown) == min(count, 16) and data["all_processes"] == count
assert len(set(shown)) == len(shown)
exposed = {name: times["exposed"] for name, times in
           zip(summary["lists"], summary["list_times"])}
assert abs(exposed[data["most_exposed"]] - max(exposed.values())) < 1e-9
assert abs(data["exposed"] - max(exposed.values())) < 1e-9
assert data["most_exposed"] in shown, (data["most_exposed"], shown)
