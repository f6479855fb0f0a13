"""The plans that matrix.py trains under. Each is a list of arguments of `heddle
compile`, or a function that returns a plan for a family of models."""

LAYER = {"gpt2": "h.%d.mlp.*", "llama": "layers.%d.mlp.*"}


def plan_mixed(family):
    """Stores parameters and optimizer state of the first layer's MLP sharded, and
    all other variables whole."""
    variables = LAYER[family] % 0
    return {
        "version": 1, "mesh": {"dp": 4},
        "operators": {"*": {"b": ["dp"]}},
        "storage": {variables: {"0": ["dp"]}, "adamw.?." + variables: {"0": ["dp"]}}}


# The attention op itself, without the projections before and after it.
ATTENTION = {"gpt2": "*.attn", "llama": "*.self_attn"}


def plan_context(attention, mesh, operators):
    """Splits the model by the entries `operators`, which split its sequence over cp, and
    its attention by the entries `attention`."""
    return lambda family: {
        "version": 1, "mesh": mesh,
        "operators": {"*": operators, ATTENTION[family]: attention}}


CP4 = {"cp": 4}, {"s": ["cp"]}
# These plans also split heads, feed-forward and vocabulary over tp. The second one also
# splits the batch over dp.
CP2_TP2 = {"cp": 2, "tp": 2}, {
    "s": ["cp"], "n": ["tp"], "f": ["tp"], "v": ["tp"]}
DP2_CP2_TP2 = {"dp": 2, "cp": 2, "tp": 2}, {"b": ["dp"], **CP2_TP2[1]}
GATHER = {"s": ["cp"], "t": []}   # gathers keys and values
RING = {"s": ["cp"], "t": ["cp"]}  # passes keys and values around a ring
KEYS = {"s": [], "t": ["cp"]}     # combines outputs over parts of the keys


def heads(axes):                  # splits heads instead of the sequence
    return {"s": [], "t": [], "n": axes}


NORMS = {"gpt2": ["*.ln_?", "ln_f"], "llama": ["*norm"]}


def plan_sequence(mesh, attention=None):
    """Splits products by tensor parallelism over tp, and the norms between them
    along the sequence over tp. Splits the sequence of all operators over cp, if
    there is one."""
    letters = {"b": "dp", "s": "cp", "n": "tp", "f": "tp", "v": "tp"}

    def plan(family):
        operators = {"*": {letter: [axis] for letter, axis in letters.items()
                           if axis in mesh}}
        if attention:
            operators[ATTENTION[family]] = attention
        for norm in NORMS[family]:
            operators[norm] = {"s": [axis for axis in ("cp", "tp") if axis in mesh]}
        return {"version": 1, "mesh": mesh, "operators": operators}
    return plan


def with_zero3(plan):
    def build(family):
        result = plan(family)
        result["storage"] = {"*": {"0": ["dp"]}}
        return result
    return build




# Large operators. All of them have the factor "h", which tensor parallelism leaves whole.
LARGE = {"gpt2": ["h.*.attn.c_attn", "h.*.attn.c_proj", "h.*.mlp.*"],
         "llama": ["layers.*_proj"]}
ALL = {"b": ["dp"], "n": ["tp"], "f": ["tp"], "v": ["tp"]}


def plan_split(slices, sharded, mesh, more=None):
    """Cuts large operators into slices along the hidden size h, and stores the
    weights of `sharded` of the slices over dp. An operator may sum over h (c_fc)
    or not (c_proj)."""
    def plan(family):
        splits = {name: {"h": {"slices": slices, "sharded": sharded}}
                  for name in LARGE[family]}
        splits.update((more or {}).get(family, {}))
        return {"version": 1, "mesh": mesh,
                "operators": {"*": {key: axes for key, axes in ALL.items()
                                    if axes[0] in mesh}},
                "storage": {name + ".weight": {"0": ["dp"]} for name in splits},
                "splits": splits}
    return plan


# Splits into slices of the vocabulary and of the feed-forward size. The embedding looks
# up rows in each slice. The number of slices, 3 or 5, does not divide the size.
UNEVEN = {"gpt2": {"wte": {"v": {"slices": 3, "sharded": 2}},
                   "h.*.mlp.c_fc": {"f": {"slices": 5, "sharded": 3}}},
          "llama": {"embed_tokens": {"v": {"slices": 3, "sharded": 2}},
                    "layers.*.mlp.down_proj": {"f": {"slices": 5}}}}


HALVES = {"gpt2": ("h.%d.attn.c_*", "h.%d.mlp.c_*"),
          "llama": ("layers.%d.self_attn.*_proj", "layers.%d.mlp.*_proj")}


def plan_osdp(answer, slices):
    """Returns the plan of an answer of OSDP. For each layer, the answer has two
    numbers: how many slices of the attention's operators and how many of the MLP's are
    stored sharded."""
    def plan(family):
        splits = {half % layer: {"h": {"slices": slices, "sharded": sharded}}
                  for layer, counts in enumerate(answer)
                  for half, sharded in zip(HALVES[family], counts)}
        return {"version": 1, "mesh": {"dp": 4},
                "operators": {"*": {"b": ["dp"]}},
                "storage": {name + ".weight": {"0": ["dp"]} for name in splits},
                "splits": splits}
    return plan


def plan_degrees(mesh, attention, mlp, rest):
    """Gives every half-layer its own degree of tensor parallelism. `attention` has for
    each layer the axes that split its heads, and `mlp` those that split its MLP. `rest`
    has the axes that split the vocabulary. The other axes split the batch."""
    def assign(factor, axes):
        parts = [] if axes == ["tp"] else [
            "tp.%d" % part for part in range(len(mesh["tp"]))]
        return {factor: axes,
                "b": [axis for axis in mesh if axis != "tp"] +
                     [part for part in parts if part not in axes]}

    def plan(family):
        # Norms are not assigned; propagation shards them like their neighbours.
        operators = {"*": {"v": rest}, "lm_head": assign("v", rest)}
        for layer, halves in enumerate(zip(attention, mlp)):
            for names, factor, axes in zip(DEGREES[family], "nf", halves):
                for name in names:
                    operators[name % layer] = assign(factor, axes)
        return {"version": 1, "mesh": mesh, "operators": operators}
    return plan


def plan_hierarchy(storage):
    """Data parallelism over two levels. Collectives run level by level, and all
    variables are stored over the axes `storage`."""
    return lambda family: {
        "version": 1, "mesh": {"dp": [2, 2]}, "operators": {"*": {"b": ["dp"]}},
        "storage": {"*": {"0": storage}} if storage else {},
        "hierarchy": "always"}


# The last operators of half-layers.
ENDS = {"gpt2": ["h.*.c_proj"], "llama": ["*.o_proj", "*.down_proj"]}


def plan_pins(family):
    """Pins the results of half-layers along the sequence and the embedding's
    result whole. Gives the head and the loss later priorities in propagation."""
    pins = {name: {"b": ["dp"], "s": ["tp"]} for name in ENDS[family]}
    pins[{"gpt2": "wte", "llama": "embed_tokens"}[family]] = {}
    return {"version": 1, "mesh": {"dp": 2, "tp": 2}, "operators": {"*": ALL},
            "pins": pins, "priorities": {"lm_head": 1, "loss": 2}}


# The operators of attention's half-layer (which have the factor n) and of the
# MLP's (factor f).
DEGREES = {"gpt2": (["h.%d.attn", "h.%d.attn.c_*"], ["h.%d.mlp.c_*"]),
           "llama": (["layers.%d.self_attn", "layers.%d.self_attn.*_proj"],
                     ["layers.%d.mlp.*_proj"])}

PLANS = {
    "dp4": ["--mesh", "dp=4"],
    "tp4": ["--mesh", "tp=4"],
    "dp2-tp2": ["--mesh", "dp=2,tp=2"],
    "zero1": ["--mesh", "dp=4", "--zero", "1"],
    "zero2": ["--mesh", "dp=4", "--zero", "2"],
    "zero3": ["--mesh", "dp=4", "--zero", "3"],
    "zero3-tp2": ["--mesh", "dp=2,tp=2", "--zero", "3"],
    # Plan files.
    "mixed": plan_mixed,
    # Megatron's sequence parallelism, alone and with context parallelism.
    "sequence4": plan_sequence({"tp": 4}),
    "dp2-sequence2": with_zero3(plan_sequence({"dp": 2, "tp": 2})),
    "ring2-sequence2": plan_sequence({"cp": 2, "tp": 2}, RING),
    "gather4": plan_context(GATHER, *CP4),
    "ring4": plan_context(RING, *CP4),
    "heads4": plan_context(heads(["cp"]), *CP4),
    "keys4": plan_context(KEYS, *CP4),
    "pins": plan_pins,
    # Tensor parallelism together with context and data parallelism.
    "gather2-tp2": plan_context(GATHER, *CP2_TP2),
    "ring2-tp2": plan_context(RING, *CP2_TP2),
    "heads2-tp2": plan_context(heads(["tp", "cp"]), *CP2_TP2),
    "dp2-ring2-tp2": with_zero3(plan_context(RING, *DP2_CP2_TP2)),
    "split2-0": plan_split(2, 0, {"dp": 4}),
    "split2-1": plan_split(2, 1, {"dp": 4}),
    "split2-2": plan_split(2, 2, {"dp": 4}),
    "split4-0": plan_split(4, 0, {"dp": 4}),
    "split4-1": plan_split(4, 1, {"dp": 4}),
    "split4-2": plan_split(4, 2, {"dp": 4}),
    "split4-3": plan_split(4, 3, {"dp": 4}),
    "split4-4": plan_split(4, 4, {"dp": 4}),
    "split3-tp2": plan_split(3, 2, {"dp": 2, "tp": 2}),
    "split-uneven": plan_split(3, 2, {"dp": 2}, UNEVEN),
    "osdp": plan_osdp([(2, 4), (0, 1)], 4),
    # Two groups of two devices; each group holds all of the state.
    "groups": ["--mesh", "dp=2x2", "--zero", "3"],
    "groups-zero1": ["--mesh", "dp=2x2", "--zero", "1"],
    "groups-zero2": ["--mesh", "dp=2x2", "--zero", "2"],
    "groups-tp2": ["--mesh", "dp=2x2,tp=2", "--zero", "3"],
    # These have all-reduces, reduce-scatters and all-gathers over both levels of dp.
    "hierarchy-dp": plan_hierarchy([]),
    "hierarchy-groups": plan_hierarchy(["dp.1"]),
    "hierarchy-zero3": plan_hierarchy(["dp"]),
    # The first layer splits its attention over both parts of tp and its MLP over one.
    # The second layer does it the other way round.
    "degrees4": plan_degrees({"tp": [2, 2]}, [["tp"], ["tp.0"]],
                             [["tp.0"], ["tp"]], ["tp"]),
    "degrees8": plan_degrees({"dp": 2, "tp": [2, 2]}, [["tp"], ["tp.1"]],
                             [["tp.0"], ["tp"]], ["tp.1"]),
    "degrees-none": plan_degrees({"tp": [2, 2]}, [["tp"], []], [[], ["tp"]],
                                 ["tp.0"]),
}
