"""Trains tiny models under many plans and compares with one device.

    matrix.py --heddle build/bin/heddle --heddle-run build/bin/heddle-run \\
              --scratch FOLDER [MODEL ...]

Under every plan, the loss of each of ten optimizer steps must be within 1e-5
(relative) of the one-device program's, and every gradient of the first batch
within 1e-4 (relative L2). All replicas must be equal, and a second run must give
the same bits. bf16 has other bounds.
"""

import contextlib
import json
import os
import shutil

import tensors
from plans import PLANS
from programs import Failure, Programs, Report, get_parser

STEPS = 10
LOSS, GRADIENT = 1e-5, 1e-4  # relative; relative L2
# The same bounds for bf16 programs, which are compared with the f32 program on one
# device. bf16 has 8 bits of precision. The largest errors measured are 5e-5 (losses)
# and 9e-3 (gradients).
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
    # Neither 2 nor 4 divides the vocabulary, heads and feed-forward.
    "gpt2-odd": gpt2(67, 30, 3, inner=50),
    "gpt2-dropout": gpt2(64, 32, 4, dropout=0.1),
    "gpt2-length": gpt2(67, 30, 3),
    # Queries see later keys, too; neither 2 nor 4 divides the length.
    "gpt2-both-ways-length": gpt2(64, 32, 4),
    "llama": llama(64, 8, 4),
    "llama-length": llama(67, 8, 2),
    "llama-dropout": llama(64, 8, 4, dropout=0.1),
    "llama-odd": llama(67, 6, 3, inner=50, tied=True),
    # These models have fewer key/value heads than "tp4" has devices.
    "llama-groups": llama(64, 8, 2),
    "llama-one-group": llama(64, 4, 1, head=6),
}

CONTEXT = ["gather4", "ring4", "heads4", "keys4", "gather2-tp2", "ring2-tp2",
           "heads2-tp2"]

# For each model, the plans of every check. The program for one device runs in
# addition. Most plans run with only one of GPT-2 and Llama. Each way to split
# attention runs with dropout, with a length that no number of devices divides, and
# without a causal mask. LONG has further pairs of model and plan.
MATRIX = {
    "gpt2": ["zero1", "zero3", "mixed", "dp2-sequence2", "dp2-ring2-tp2", "split4-2",
             "groups", "hierarchy-zero3", "degrees8"],
    "gpt2-odd": ["tp4", "zero3-tp2"],
    "gpt2-dropout": ["dp4", "dp2-tp2", "gather4", "ring2-tp2", "heads4", "keys4"],
    # Neither 2 nor 4 divides the sequence's length.
    "gpt2-length": ["ring4", "heads4", "gather2-tp2", "sequence4"],
    "gpt2-both-ways-length": ["gather4", "keys4", "ring2-tp2", "heads2-tp2"],
    "llama": ["tp4", "zero2", "zero3-tp2", "ring2-sequence2", "split2-1",
              "split3-tp2", "split-uneven", "osdp", "groups-tp2", "hierarchy-dp",
              "hierarchy-groups", "degrees4"],
    "llama-length": ["gather4", "keys4", "ring2-tp2", "heads2-tp2"],
    "llama-dropout": ["tp4"],
    "llama-odd": ["dp2-tp2"],
    "llama-groups": ["tp4"],
    "llama-one-group": ["tp4"],
}
# Further plans, which run only with --long, or if --only names them.
LONG = {
    "gpt2": list(PLANS), "llama": list(PLANS),
    "gpt2-odd": ["dp2-tp2", "hierarchy-zero3"],
    "gpt2-dropout": ["tp4"] + CONTEXT, "gpt2-length": CONTEXT,
    "gpt2-both-ways-length": CONTEXT, "llama-length": CONTEXT + ["sequence4"],
    "llama-dropout": ["dp4", "dp2-tp2"], "llama-odd": ["tp4", "zero3-tp2"],
    "llama-groups": ["dp2-tp2"]}
BF16 = {"gpt2": ["dp2-tp2", "ring4"], "llama": ["tp4", "zero3"]}
LONG_BF16 = {"gpt2": ["dp4"], "llama": ["ring2-tp2"]}
# Plans that also run with two micro-batches per step. The serial program that they
# are compared with computes the whole batch at once.
ACCUMULATE = {"gpt2": ["dp4", "zero2"], "llama": ["dp2-sequence2"]}
LONG_ACCUMULATE = {"gpt2": ["zero1"], "llama": ["dp2-tp2"]}

# For each model, plans and numbers of sub-batches that they also run with. Three
# sub-batches of the batch of 4 have 2, 1 and 1 samples. The plan "serial" is one
# device.
SUB_BATCHES = {
    "gpt2-dropout": [("serial", 3), ("dp2-tp2", 2), ("ring4", 3)],
    "llama-dropout": [("serial", 2), ("dp2-tp2", 3), ("zero3", 2)]}
LONG_SUB_BATCHES = {
    name: [(plan, parts) for plan in ("serial", "dp2-tp2", "zero3", "ring4")
           for parts in (2, 3)] for name in SUB_BATCHES}

TRAINING = ["--lr", "1e-3", "--warmup", "2", "--schedule", "cosine",
            "--weight-decay", "0.1", "--seed", "7",
            "--steps", str(STEPS)]


def training(arguments):
    """Returns the options of training for a plan's arguments. Gradients are clipped,
    except in a pipeline without a barrier between steps, which cannot clip them."""
    if "--clip" in arguments:
        return TRAINING
    clip = "0" if "--pipeline-barrier" in arguments else "1"
    return TRAINING + ["--clip", clip]


def write_tokens(path, vocabulary, count=4000):
    """Writes a text in which most tokens are followed by 7 * token + 3, so that a model
    can learn to predict them."""
    state, token, data = 12345, 0, bytearray()
    for _ in range(count):
        state = (1103515245 * state + 12345) % 2**31
        token = (state >> 8) % vocabulary if state % 5 == 0 else (7 * token + 3) % vocabulary
        data.append(token)
    path.write_bytes(data)


def write_batch(path, vocabulary, rows, sequence):
    """Writes random tokens and targets. Every seventh target is -100, which the loss
    ignores."""
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
        """Trains ten steps under one plan. Returns the losses and, without
        micro-batches, the gradients of one batch."""
        artifact = self.folder / (name + ".heddle")
        shape = ["--batch", str(self.ROWS // micro), "--seq", str(self.sequence)]
        source = self.path
        if "both-ways" in self.name:
            source, shape = self.without_mask(shape), []
        self.programs.compile(
            source, artifact, arguments + training(arguments) + shape +
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
        """Imports the model and makes its attention non-causal; returns the file."""
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
    """Returns a note with the largest differences. Raises Failure if one exceeds
    its bound."""
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


def keep_bits(model, plan, arguments, micro=1):
    """Runs a plan and keeps its losses and gradients in model.reference. The
    gradients of micro-batches are None."""
    losses, _ = model.run(plan, arguments, micro, repeat=False)
    gradients = (model.gradients_file(plan, 0).read_bytes() if micro == 1
                 else None)
    model.reference = losses, gradients
    return "loss %.4f -> %.4f" % (losses[0], losses[-1])


def expect_bits(losses, gradients, expected):
    """Raises Failure if losses or gradients are not exactly the expected ones."""
    if losses != expected[0]:
        raise Failure("other losses\n  got      %s\n  expected %s" % (
            losses, expected[0]))
    if gradients != expected[1]:
        raise Failure("the losses agree, the gradients differ")


@contextlib.contextmanager
def stream_order(order):
    """While this context is active, the runtime executes streams in this order."""
    os.environ["HEDDLE_RT_STREAM_ORDER"] = order
    try:
        yield
    finally:
        del os.environ["HEDDLE_RT_STREAM_ORDER"]


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

    def cases(short, more):
        """Returns the entries of this model that are to run."""
        entries = list(short.get(name, []))
        if only or long:
            entries += [entry for entry in more.get(name, []) if entry not in entries]
        return [entry for entry in entries
                if wanted(entry[0] if isinstance(entry, tuple) else entry)]

    for plan in cases(MATRIX, LONG):
        report.case(name + " " + plan, lambda: compare(
            model.run(plan, model.plan(plan)), serial, LOSS, GRADIENT))
    for plan, parts in cases(SUB_BATCHES, LONG_SUB_BATCHES):
        arguments = [] if plan == "serial" else model.plan(plan)
        report.case("%s %s in %d parts" % (name, plan, parts), lambda: compare(
            model.run("%s-%d" % (plan, parts),
                      arguments + ["--sub-batches", str(parts)], repeat=False),
            serial, LOSS, GRADIENT))
    for plan in cases(ACCUMULATE, LONG_ACCUMULATE):
        report.case(name + " " + plan + " accumulate", lambda: compare(
            model.run(plan + "-accumulate", model.plan(plan), micro=2),
            serial, LOSS, GRADIENT))
    # Sub-batches together with micro-batches, with slices, and with bf16.
    if name == "llama" or (name == "gpt2" and (only or long)):
        if wanted("sub-batches"):
            run_parts(model, serial, report)
    if name in BF16 and wanted("bf16"):
        report.case(name + " bf16 one device", lambda: compare(
            model.run("bf16", ["--bf16"]), serial, BF16_LOSS, BF16_GRADIENT))
        for plan in BF16[name] + LONG_BF16[name] * bool(only or long):
            report.case(name + " bf16 " + plan, lambda: compare(
                model.run("bf16-" + plan, model.plan(plan) + ["--bf16"]),
                serial, BF16_LOSS, BF16_GRADIENT))


def run_parts(model, serial, report):
    """Runs cases with two sub-batches that have another feature, too."""
    name, plan = model.name, "dp2-sequence2" if model.name == "llama" else "zero2"
    report.case(name + " " + plan + " accumulate in 2 parts", lambda: compare(
        model.run(plan + "-accumulate-2",
                  model.plan(plan) + ["--sub-batches", "2"], micro=2,
                  repeat=False), serial, LOSS, GRADIENT))
    report.case(name + " split-uneven in 2 parts", lambda: compare(
        model.run("split-uneven-2", model.plan("split-uneven") +
                  ["--sub-batches", "2"], repeat=False),
        serial, LOSS, GRADIENT))
    report.case(name + " bf16 in 2 parts", lambda: compare(
        model.run("bf16-2", ["--bf16", "--sub-batches", "2"], repeat=False),
        serial, BF16_LOSS, BF16_GRADIENT))


def main():
    parser = get_parser(__doc__, long="run all plans, not only those of every "
                        "check")
    parser.add_argument("--only", action="append",
                        help="run these plans only, beside one device")
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
