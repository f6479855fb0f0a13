"""Writes a profile in the form of Oases', and models: oases.py PROFILE MODELS.

A device computes as fast with each degree. A degree of two adds all-reduces, which take
longer than the computation beside them. So it pays only where memory is short."""

import json
import sys


def row(hidden, degree, batch):
    work = batch * (hidden / 1024) ** 2 / degree
    return {"hidden": hidden, "tensor_parallel": degree, "batch": batch,
            "attn_forward_ms": work, "attn_backward_ms": 2 * work,
            "mlp_forward_ms": 2 * work, "mlp_backward_ms": 4 * work,
            "all_reduce_ms": 4 * work if degree > 1 else 0.1,
            "runtime_memory_mib": 100}


with open(sys.argv[1], "w") as file:
    json.dump({"rows": [row(hidden, degree, degree * rows) for hidden in (1024, 8192)
                        for degree in (1, 2) for rows in (1, 2)]}, file)
models = [{"hidden": 1024, "layers": 1}, {"hidden": 8192, "layers": 2},
          {"hidden": 8192, "layers": 4}, {"hidden": 4096, "layers": 4}]
figures = {"oases": [1.5] * len(models)}
with open(sys.argv[2], "w") as file:
    json.dump({"models": models, "nvlink_3090": figures, "pcie_3090": figures}, file)
