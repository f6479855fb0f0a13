"""The plans that measured.py measures: those of experts, and varied ones."""

import random

DEVICES = 4
ROWS = 16  # the rows of a step
LAYERS = 6

# The plans of experts: Megatron's plans, ZeRO, mixtures of the two, and pipelines, with
# and without overlap, recomputation and sequence parallelism.
EXPERTS = [
    "--mesh dp=4 --overlap none", "--mesh dp=4 --overlap auto",
    "--mesh dp=4 --zero 1 --overlap none", "--mesh dp=4 --zero 1 --overlap auto",
    "--mesh dp=4 --zero 2 --overlap auto", "--mesh dp=4 --zero 3 --overlap none",
    "--mesh dp=4 --zero 3 --overlap auto",
    "--mesh dp=4 --zero 3 --overlap auto --recompute layer",
    "--mesh tp=4 --overlap none", "--mesh tp=4 --overlap default",
    "--mesh tp=4 --overlap oases", "--mesh tp=4 --overlap auto",
    "--mesh tp=4 --sequence --overlap auto",
    "--mesh dp=2,tp=2 --overlap none", "--mesh dp=2,tp=2 --overlap auto",
    "--mesh dp=2,tp=2 --zero 1 --overlap auto",
    "--mesh dp=2,tp=2 --zero 3 --overlap auto",
    "--mesh dp=2,tp=2 --zero 3 --sequence --overlap auto",
    "--mesh dp=2,tp=2 --zero 3 --overlap auto --recompute layer",
    "--mesh pp=4 --pipeline 1f1b --micro-batches 8",
    "--mesh pp=4 --pipeline zb-h1 --micro-batches 8",
    "--mesh pp=4 --pipeline interleaved --micro-batches 8",
    "--mesh pp=2,dp=2 --pipeline 1f1b --micro-batches 8 --zero 1",
    "--mesh pp=2,tp=2 --pipeline 1f1b --micro-batches 8",
    "--mesh pp=2,tp=2 --pipeline zb-h1 --micro-batches 8",
]
VARIED = 120  # how many plans of all combinations are in the list


def meshes():
    """Yields pp, dp, cp and tp whose product is the number of devices."""
    sizes = [size for size in range(1, DEVICES + 1) if DEVICES % size == 0]
    for pp in sizes:
        for dp in sizes:
            for cp in sizes:
                for tp in sizes:
                    if pp * dp * cp * tp == DEVICES:
                        yield pp, dp, cp, tp


def schedules(pp, rows):
    """Yields the words that order a program whose devices have `rows` rows of a
    micro-batch."""
    for mode in ("none", "communication", "layer", "optimal"):
        recompute = f"--recompute {mode}"
        yield f"--overlap none {recompute}"
        for parts in (1, 2):
            if rows % parts == 0:
                yield f"--overlap auto --sub-batches {parts} {recompute}"


def combinations():
    for pp, dp, cp, tp in meshes():
        sizes = zip(("pp", "dp", "cp", "tp"), (pp, dp, cp, tp))
        mesh = ",".join(f"{axis}={size}" for axis, size in sizes if size > 1)
        pipelines = ["1f1b", "zb-h1"] if pp > 1 else [None]
        if 1 < pp <= LAYERS // 2:
            pipelines.append("interleaved")
        for zero in range(4 if dp > 1 else 1):
            for sequence in ("", " --sequence") if tp > 1 else ("",):
                for micro in (1, 2, 4, 8, 16):
                    if micro < pp or ROWS // micro % dp:
                        continue
                    for pipeline in pipelines:
                        for words in schedules(pp, ROWS // micro // dp):
                            yield (f"--mesh {mesh}"
                                   + (f" --pipeline {pipeline}" if pipeline else "")
                                   + (f" --zero {zero}" if zero else "")
                                   + sequence
                                   + (f" --micro-batches {micro}" if micro > 1
                                      else "") + f" {words}")


def varied_plans():
    """Returns varied plans, always the same ones in the same order."""
    plans = list(combinations())
    random.Random(18).shuffle(plans)
    return plans[:VARIED]


def get(plan, option, default):
    """Returns the value of an option of a plan."""
    words = plan.split()
    return words[words.index(option) + 1] if option in words else default


# The keys of a plan that say what a schedule chose.
SCHEDULE = ("sub_batches", "recompute", "recompute_bytes", "exchange_chunks",
            "exchange_ring", "scatter_sums")


def pins(plan, chosen):
    """Returns what `heddle plan` is asked for this plan: its pins, and the part of a
    plan that states the mesh, the pipeline's schedule and what the schedule chose
    (SCHEDULE)."""
    overlap = get(plan, "--overlap", "none")
    pinned = {"zero": get(plan, "--zero", "0"),
              "sequence": "on" if "--sequence" in plan.split() else "off",
              "micro-batches": get(plan, "--micro-batches", "1"),
              "overlap": overlap}
    parts, recompute = {"default": (1, "layer"),
                        "oases": (2, "communication")}.get(overlap, (1, "none"))
    sizes = [axis.split("=") for axis in get(plan, "--mesh", "").split(",")]
    # With a mesh, the stages of a pipeline are cut as `heddle compile` does it.
    part = {"version": 1, "mesh": {axis: int(size) for axis, size in sizes},
            "sub_batches": parts, "recompute": recompute, **chosen}
    if "--pipeline" in plan.split():
        part["pipeline"] = get(plan, "--pipeline", None)
    return [word for key, value in pinned.items()
            for word in ("--pin", f"{key}={value}")], part
