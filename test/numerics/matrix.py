"""Trains tiny models under many plans and compares with one device.

    matrix.py --heddle build/bin/heddle --heddle-run build/bin/heddle-run \\
              --scratch FOLDER [MODEL ...]

For every plan: the loss of each of ten optimizer steps within 1e-5 relative of
the one-device program's, every gradient of the first batch within 1e-4 relative
L2, all replicas equal, and the same bits when the same is run twice. bf16 has
bounds of its own.
"""

import argparse
import json
import pathlib
import shutil

import tensors
from programs import Failure, Programs, Report

STEPS = 10
LOSS, GRADIENT = 1e-5, 1e-4  # relative; relative L2
# bf16 has 8 bits. Against f32 on one device; measured were 5e-5 and 9e-3.
BF16_LOSS, BF16_GRADIENT = 1e-3, 3e-2


def gpt2(vocabulary, hidden, heads, inner=None, dropout=0.0):
    return {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
        "vocab_size": vocabulary, "n_positions": 16, "n_embd": hidden,
        "n_layer": 2, "n_head": heads, "n_inner": inner,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": dropout,
        "initializer_range": 0.02, "tie_word_embeddings": True}


def llama(vocabulary, heads, groups, head=4, inner=48, tied=False, dropout=0.0):
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"],
        "vocab_size": vocabulary, "hidden_size": 32, "intermediate_size": inner,
        "num_hidden_layers": 2, "num_attention_heads": heads,
        "num_key_value_heads": groups, "head_dim": head, "hidden_act": "silu",
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": tied,
        "attention_dropout": dropout, "initializer_range": 0.02}


MODELS = {
    "gpt2": gpt2(64, 32, 4),
    # Vocabulary, heads and feed-forward that neither 2 nor 4 divides.
    "gpt2-odd": gpt2(67, 30, 3, inner=50),
    "gpt2-dropout": gpt2(64, 32, 4, dropout=0.1),
    "gpt2-length": gpt2(67, 30, 3),
    # Queries see later keys, too; neither 2 nor 4 divides the length.
    "gpt2-both-ways-length": gpt2(64, 32, 4),
    "llama": llama(64, 8, 4),
    "llama-length": llama(67, 8, 2),
    "llama-dropout": llama(64, 8, 4, dropout=0.1),
    "llama-odd": llama(67, 6, 3, inner=50, tied=True),
    # Fewer key/value heads than devices.
    "llama-groups": llama(64, 8, 2),
    "llama-one-group": llama(64, 4, 1, head=6),
}

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
CONTEXT = ["gather4", "ring4", "heads4", "keys4", "gather2-tp2", "ring2-tp2",
           "heads2-tp2"]
SEQUENCE = ["sequence4", "dp2-sequence2", "ring2-sequence2"]
BASIC = ["dp4", "tp4", "dp2-tp2", "zero1", "zero2", "zero3", "zero3-tp2", "mixed"]

# model: the plans that it is run under, besides one device
MATRIX = {
    "gpt2": BASIC + CONTEXT + SEQUENCE + [
        "dp2-ring2-tp2", "split4-2", "split3-tp2", "split-uneven", "groups",
        "hierarchy-zero3", "degrees4", "degrees8"],
    "gpt2-odd": ["tp4", "dp2-tp2", "zero3-tp2", "hierarchy-zero3"],
    "gpt2-dropout": ["dp4", "tp4", "dp2-tp2"] + CONTEXT,
    # A length that neither 2 nor 4 divides.
    "gpt2-length": CONTEXT + ["sequence4"],
    "gpt2-both-ways-length": CONTEXT,
    "llama": BASIC + CONTEXT + SEQUENCE + [
        "dp2-ring2-tp2", "split2-1", "split-uneven", "osdp", "groups-tp2",
        "hierarchy-dp", "hierarchy-groups", "degrees4", "degrees8"],
    "llama-length": CONTEXT + ["sequence4"],
    "llama-dropout": ["dp4", "tp4", "dp2-tp2"],
    "llama-odd": ["tp4", "dp2-tp2", "zero3-tp2"],
    "llama-groups": ["tp4", "dp2-tp2"],
    "llama-one-group": ["tp4"],
}
# With --long, or asked for by --only.
LONG = {"gpt2": list(PLANS), "llama": list(PLANS)}
BF16 = {"gpt2": ["dp4", "dp2-tp2", "ring4"], "llama": ["tp4", "zero3", "ring2-tp2"]}
# With several micro-batches a step, against one of the whole size.
ACCUMULATE = {"gpt2": ["dp4", "zero2"], "llama": ["dp2-tp2"]}

TRAINING = ["--lr", "1e-3", "--warmup", "2", "--schedule", "cosine",
            "--weight-decay", "0.1", "--clip", "1", "--seed", "7",
            "--steps", str(STEPS)]


def write_tokens(path, vocabulary, count=4000):
    """A text with something to learn: mostly the successor of a token."""
    state, token, data = 12345, 0, bytearray()
    for _ in range(count):
        state = (1103515245 * state + 12345) % 2**31
        token = (state >> 8) % vocabulary if state % 5 == 0 else (7 * token + 3) % vocabulary
        data.append(token)
    path.write_bytes(data)


def write_batch(path, vocabulary, rows, sequence):
    """Random tokens, and targets of which some are ignored."""
    state, numbers = 99, []
    for _ in range(2 * rows * sequence):
        state = (1103515245 * state + 12345) % 2**31
        numbers.append((state >> 8) % vocabulary)
    tokens, targets = numbers[: rows * sequence], numbers[rows * sequence:]
    targets = [-100 if i % 7 == 3 else t for i, t in enumerate(targets)]
    tensors.write(path, {
        "tokens": tensors.Tensor("I32", (rows, sequence), tokens),
        "targets": tensors.Tensor("I64", (rows, sequence), targets)})


class Model:
    ROWS = 4

    def __init__(self, name, programs, scratch):
        self.name, self.programs = name, programs
        self.sequence = 13 if name.endswith("length") else 16
        self.config = MODELS[name]
        self.folder = scratch / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.path = self.folder / "config.json"
        self.path.write_text(json.dumps(self.config))
        write_tokens(self.folder / "text", self.config["vocab_size"])
        write_batch(self.folder / "batch.safetensors",
                    self.config["vocab_size"], self.ROWS, self.sequence)

    def run(self, name, arguments, micro=1, repeat=True):
        """Ten steps and the gradients of one batch under one plan."""
        artifact = self.folder / (name + ".heddle")
        shape = ["--batch", str(self.ROWS // micro), "--seq", str(self.sequence)]
        source = self.path
        if "both-ways" in self.name:
            source, shape = self.without_mask(shape), []
        self.programs.compile(
            source, artifact, arguments + TRAINING + shape +
            ["--micro-batches", str(micro), "--gradients"])
        train = ["--data", self.folder / "text", "--steps", STEPS,
                 "--eval-every", "0", "--check-replicas", "--no-checkpoints"]
        steps = self.programs.train(artifact, train)
        if len(steps) != STEPS:
            raise Failure("expected %d steps, got %d" % (STEPS, len(steps)))
        gradients = {}
        if micro == 1:
            gradients = self.gradients(artifact, name, 0)
        if repeat:
            again = self.programs.train(artifact, train)
            for a, b in zip(steps, again):
                for key in ("loss", "gradient_norm"):
                    if a[key] != b[key]:
                        raise Failure("step %d: %s is %r, and %r when run again"
                                      % (a["step"], key, a[key], b[key]))
            if gradients and self.bits(artifact, name, 0) != self.bits(artifact, name, 1):
                raise Failure("gradients differ when run again")
        return [step["loss"] for step in steps], gradients

    def without_mask(self, shape):
        """The model, imported, with attention that is not causal."""
        path = self.folder / "model.mlir"
        self.programs.call([self.programs.compiler, "import", self.path,
                            "-o", path, "--seed", "7"] + shape)
        text = path.read_text()
        if text.count(" causal ") != self.config["n_layer"]:
            raise Failure("expected an attention a layer")
        path.write_text(text.replace(" causal ", " "))
        return path

    def gradients_file(self, name, run):
        return self.folder / ("%s-%d.safetensors" % (name, run))

    def gradients(self, artifact, name, run):
        path = self.gradients_file(name, run)
        self.programs.evaluate(
            artifact, ["--data", self.folder / "batch.safetensors", "-o", path])
        return tensors.read(path)

    def bits(self, artifact, name, run):
        path = self.gradients_file(name, run)
        if not path.exists():
            self.gradients(artifact, name, run)
        return path.read_bytes()

    def plan(self, name):
        arguments = PLANS[name]
        if callable(arguments):
            path = self.folder / (name + ".json")
            path.write_text(json.dumps(arguments(self.config["model_type"])))
            arguments = ["--plan", path]
        return [str(argument) for argument in arguments]


def compare(actual, expected, loss_bound, gradient_bound):
    """A note with the largest differences; raises Failure beyond the bounds."""
    (losses, grads), (expected_losses, expected_grads) = actual, expected
    worst = tensors.largest(
        abs(a - e) / abs(e) for a, e in zip(losses, expected_losses))
    if not worst <= loss_bound:
        raise Failure("losses differ by %.1e, expected at most %.0e\n  got      "
                      "%s\n  expected %s" % (worst, loss_bound, losses,
                                             expected_losses))
    note = "loss %.1e" % worst
    if grads:
        if set(grads) != set(expected_grads):
            raise Failure("other tensors: %s" % sorted(
                set(grads) ^ set(expected_grads)))
        far = {name: tensors.distance(grads[name], expected_grads[name])
               for name in grads}
        name = max(far, key=far.get)
        if not far[name] <= gradient_bound:
            bad = ["%s %.1e" % item for item in
                   sorted(far.items(), key=lambda item: -item[1])
                   if not item[1] <= gradient_bound]
            raise Failure("beyond %.0e: %s" % (gradient_bound, ", ".join(bad)))
        note += ", gradient %.1e" % far[name]
    return note


def run_model(name, programs, scratch, report, only, long):
    model = Model(name, programs, scratch)
    serial = None

    def wanted(plan):
        return only is None or plan in only

    def one_device():
        nonlocal serial
        losses, gradients = model.run("serial", [])
        if not losses[-1] < losses[0]:
            raise Failure("the loss does not fall: %s" % losses)
        serial = losses, gradients
        return "loss %.4f -> %.4f" % (losses[0], losses[-1])

    report.case(name + " one device", one_device)
    if serial is None:
        return
    plans = list(MATRIX[name])
    if only or long:
        plans += [plan for plan in LONG.get(name, []) if plan not in plans]
    for plan in filter(wanted, plans):
        report.case(name + " " + plan, lambda: compare(
            model.run(plan, model.plan(plan)), serial, LOSS, GRADIENT))
    for plan in filter(wanted, ACCUMULATE.get(name, [])):
        report.case(name + " " + plan + " accumulate", lambda: compare(
            model.run(plan + "-accumulate", model.plan(plan), micro=2),
            serial, LOSS, GRADIENT))
    if BF16.get(name) and wanted("bf16"):
        report.case(name + " bf16 one device", lambda: compare(
            model.run("bf16", ["--bf16"]), serial, BF16_LOSS, BF16_GRADIENT))
        for plan in BF16[name]:
            report.case(name + " bf16 " + plan, lambda: compare(
                model.run("bf16-" + plan, model.plan(plan) + ["--bf16"]),
                serial, BF16_LOSS, BF16_GRADIENT))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", required=True)
    parser.add_argument("--heddle-run", required=True)
    parser.add_argument("--sanitize", choices=["address", "thread"],
                        help="what heddle-run is built with")
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    parser.add_argument("--only", action="append",
                        help="run these plans only, beside one device")
    parser.add_argument("--long", action="store_true",
                        help="run all plans, not only those of every check")
    parser.add_argument("models", nargs="*", metavar="MODEL", default=[])
    options = parser.parse_args()
    unknown = set(options.models) - set(MODELS)
    if unknown:
        parser.error("no such model: %s" % ", ".join(sorted(unknown)))
    report = Report()
    programs = Programs(options.heddle, options.heddle_run, options.sanitize)
    for name in options.models or MODELS:
        run_model(name, programs, options.scratch, report, options.only,
                  options.long)
    report.finish()


if __name__ == "__main__":
    main()
