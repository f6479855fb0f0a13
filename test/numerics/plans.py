"""The plans that matrix.py trains under: arguments of `heddle compile`, or a
function from a model's family to a plan."""

LAYER = {"gpt2": "h.%d.mlp.*", "llama": "layers.%d.mlp.*"}


def plan_mixed(family):
    """Parameters and state of one layer's MLP are stored sharded, of the rest
    not."""
    variables = LAYER[family] % 0
    return {
        "version": 1, "mesh": {"dp": 4},
        "operators": {"*": {"b": ["dp"]}},
        "storage": {variables: {"0": ["dp"]}, "adamw.?." + variables: {"0": ["dp"]}}}


# Attention itself, not the products before and after it.
ATTENTION = {"gpt2": "*.attn", "llama": "*.self_attn"}


def plan_context(attention, mesh, operators):
    """The model split along the sequence over cp, and its attention so."""
    return lambda family: {
        "version": 1, "mesh": mesh,
        "operators": {"*": operators, ATTENTION[family]: attention}}


CP4 = {"cp": 4}, {"s": ["cp"]}
# Also the batch over dp, and heads, feed-forward and vocabulary over tp.
CP2_TP2 = {"cp": 2, "tp": 2}, {
    "s": ["cp"], "n": ["tp"], "f": ["tp"], "v": ["tp"]}
DP2_CP2_TP2 = {"dp": 2, "cp": 2, "tp": 2}, {"b": ["dp"], **CP2_TP2[1]}
GATHER = {"s": ["cp"], "t": []}   # keys and values gathered
RING = {"s": ["cp"], "t": ["cp"]}  # keys and values go round
KEYS = {"s": [], "t": ["cp"]}     # outputs over a part of the keys combined


def heads(axes):                  # heads exchanged with the sequence
    return {"s": [], "t": [], "n": axes}


NORMS = {"gpt2": ["*.ln_?", "ln_f"], "llama": ["*norm"]}


def plan_sequence(mesh, attention=None):
    """Tensor parallel products; what lies between them split along the sequence
    over tp (and all of it over cp)."""
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




# Large operators, and a factor of each that tensor parallelism leaves whole.
LARGE = {"gpt2": ["h.*.attn.c_attn", "h.*.attn.c_proj", "h.*.mlp.*"],
         "llama": ["layers.*_proj"]}
ALL = {"b": ["dp"], "n": ["tp"], "f": ["tp"], "v": ["tp"]}


def plan_split(slices, sharded, mesh, more=None):
    """Large operators in slices, of which some are stored over dp. Whether the
    hidden size is summed (c_fc) or not (c_proj), it is what is cut."""
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


# Slices of vocabulary (the embedding looks rows up in each) and feed-forward;
# neither 3 nor 5 divides what it cuts.
UNEVEN = {"gpt2": {"wte": {"v": {"slices": 3, "sharded": 2}},
                   "h.*.mlp.c_fc": {"f": {"slices": 5, "sharded": 3}}},
          "llama": {"embed_tokens": {"v": {"slices": 3, "sharded": 2}},
                    "layers.*.mlp.down_proj": {"f": {"slices": 5}}}}


HALVES = {"gpt2": ("h.%d.attn.c_*", "h.%d.mlp.c_*"),
          "llama": ("layers.%d.self_attn.*_proj", "layers.%d.mlp.*_proj")}


def plan_osdp(answer, slices):
    """An answer of `heddle solve --osdp`: for each layer, how many slices of its
    attention's and its MLP's operators are stored sharded."""
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
    """Every half-layer with a degree of its own: for each layer the axes of its
    attention's heads and of its MLP; `rest` for the vocabulary. The batch is
    over the axes that are left."""
    def assign(factor, axes):
        parts = [] if axes == ["tp"] else [
            "tp.%d" % part for part in range(len(mesh["tp"]))]
        return {factor: axes,
                "b": [axis for axis in mesh if axis != "tp"] +
                     [part for part in parts if part not in axes]}

    def plan(family):
        # Norms follow the half-layers around them.
        operators = {"*": {"v": rest}, "lm_head": assign("v", rest)}
        for layer, halves in enumerate(zip(attention, mlp)):
            for names, factor, axes in zip(DEGREES[family], "nf", halves):
                for name in names:
                    operators[name % layer] = assign(factor, axes)
        return {"version": 1, "mesh": mesh, "operators": operators}
    return plan


def plan_hierarchy(storage):
    """Data parallel over two levels, whose collectives are made level by level;
    everything is stored over `storage`."""
    return lambda family: {
        "version": 1, "mesh": {"dp": [2, 2]}, "operators": {"*": {"b": ["dp"]}},
        "storage": {"*": {"0": storage}} if storage else {},
        "hierarchy": "always"}


# What half-layers end with, and the weights that are first heard of.
ENDS = {"gpt2": ["h.*.c_proj"], "llama": ["*.o_proj", "*.down_proj"]}


def plan_pins(family):
    """Sums of half-layers pinned along the sequence, the embedding whole; the
    head is heard of last."""
    pins = {name: {"b": ["dp"], "s": ["tp"]} for name in ENDS[family]}
    pins[{"gpt2": "wte", "llama": "embed_tokens"}[family]] = {}
    return {"version": 1, "mesh": {"dp": 2, "tp": 2}, "operators": {"*": ALL},
            "pins": pins, "priorities": {"lm_head": 1, "loss": 2}}


# The operators of a half-layer that its factor runs over.
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
    # Vocabulary and sequence at once, and three kinds of parallelism.
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
    # Two groups of two that each hold all of the state.
    "groups": ["--mesh", "dp=2x2", "--zero", "3"],
    "groups-zero1": ["--mesh", "dp=2x2", "--zero", "1"],
    "groups-zero2": ["--mesh", "dp=2x2", "--zero", "2"],
    "groups-tp2": ["--mesh", "dp=2x2,tp=2", "--zero", "3"],
    # All-reduces, reduce-scatters and all-gathers over both levels, by levels.
    "hierarchy-dp": plan_hierarchy([]),
    "hierarchy-groups": plan_hierarchy(["dp.1"]),
    "hierarchy-zero3": plan_hierarchy(["dp"]),
    # Attention over both parts of tp, MLP over one, and the other way round.
    "degrees4": plan_degrees({"tp": [2, 2]}, [["tp"], ["tp.0"]],
                             [["tp.0"], ["tp"]], ["tp"]),
    "degrees8": plan_degrees({"dp": 2, "tp": [2, 2]}, [["tp"], ["tp.1"]],
                             [["tp.0"], ["tp"]], ["tp.1"]),
    "degrees-none": plan_degrees({"tp": [2, 2]}, [["tp"], []], [[], ["tp"]],
                                 ["tp.0"]),
}
