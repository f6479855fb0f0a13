"""Simulates GPT-2 124M on a mesh, with collectives started early and without.

Checks that the early ones hide communication and shorten the step, and that no
simulated time is below the lower bound.
"""

import json
import subprocess
import sys


def simulate(*flags):
    command = ["heddle", "simulate", "--layers", "12", "--hidden", "768"]
    command += ["--heads", "12", "--vocab", "50257", "--seq", "1024"]
    command += ["--batch", "4", "--cluster", "dgx-a100", "--json", "--mesh"]
    output = subprocess.run(
        command + sys.argv[1:] + list(flags), check=True, stdout=subprocess.PIPE
    ).stdout
    return json.loads(output)


plain = simulate()
early = simulate("--start-collectives=earliest")
for result in plain, early:
    assert result["seconds"] >= result["bounds"]["seconds"] > 0
    hidden = sum(c["hidden"] for c in result["collectives"])
    exposed = sum(c["exposed"] for c in result["collectives"])
    assert abs(exposed - result["exposed"]) < 1e-9, (exposed, result["exposed"])
    compute = result["streams"][0]["computing"]
    assert abs(compute + exposed - result["seconds"]) < 1e-9
    print(result["seconds"], hidden, exposed)
assert all(c["hidden"] < 1e-12 for c in plain["collectives"])
assert early["exposed"] < 0.99 * plain["exposed"], "expected less exposed time"
assert early["seconds"] < plain["seconds"]
