"""keep.py TIGHT WIDE ESTIMATE LAYER: checks reports of heddle plan --json: plans within little and
within more memory, one by few layers, and one that computes whole layers again."""

import json
import sys

tight, wide, estimate, layer = (json.load(open(path)) for path in sys.argv[1:])
for report, limit in ((tight, 12), (wide, 20)):
    assert "--recompute optimal" in report["options"], report["options"]
    assert report["memory"]["total"] <= limit << 20, report["memory"]
assert "--recompute layer" in layer["options"], layer["options"]
assert wide["seconds"] < 0.97 * tight["seconds"] < layer["seconds"], (wide, tight, layer)
assert abs(estimate["seconds"] / wide["seconds"] - 1) < 0.05, (estimate, wide)
assert all(report["bound"] <= report["seconds"] for report in (tight, wide, estimate, layer))
