"""Compares losses, logits and gradients with those of PyTorch and transformers.

    golden.py --heddle build/bin/heddle --scratch FOLDER MODEL_FOLDER ...

With --heddle-run PROGRAM, heddle only compiles, and PROGRAM runs the artifacts.
PROGRAM may come from a build with sanitizers.

test/reference/make_reference.py writes the model folders. On one device and on
four, loss, logits and every gradient must be within 1e-4 (relative L2; on four with
--long), and ten losses of AdamW within 1e-5 (relative).
"""

import json
import pathlib
import shutil

import tensors
from programs import Failure, Programs, Report, get_parser

MESHES = {"one device": [], "dp2-tp2": ["--mesh", "dp=2,tp=2"]}


def run(programs, command, folder, compile_flags, run_flags, scratch):
    """Runs `heddle COMMAND`, or `heddle compile` and `heddle-run COMMAND`, and
    returns what the command prints."""
    if not programs.runner:
        return programs.call([programs.compiler, command, folder]
                             + compile_flags + run_flags)
    artifact = scratch / "model.heddle"
    rows, sequence = tensors.read(folder / "batch.safetensors")["tokens"].shape
    programs.compile(folder, artifact, compile_flags + [
        "--batch", rows, "--seq", sequence, "--gradients"])
    return programs.call([programs.runner, command, artifact]
                         + programs.run_flags + run_flags)


def evaluate(programs, folder, mesh, scratch):
    output = scratch / "actual.safetensors"
    run(programs, "evaluate", folder, mesh,
        ["--data", folder / "batch.safetensors", "--gradients", "-o", output],
        scratch)
    actual = tensors.read(output)
    expected = tensors.read(folder / "expected.safetensors")
    del expected["losses"]
    if set(actual) != set(expected):
        raise Failure("other tensors: %s" % sorted(set(actual) ^ set(expected)))
    far = {name: tensors.distance(actual[name], expected[name])
           for name in expected}
    bad = ["%s %.1e" % item for item in far.items() if not item[1] <= 1e-4]
    if bad:
        raise Failure("beyond 1e-4: " + ", ".join(bad))
    return "at most %.1e (%s)" % max((value, name) for name, value in far.items())


def train(programs, folder, mesh, scratch):
    training = json.loads((folder / "training.json").read_text())
    expected = list(tensors.read(folder / "expected.safetensors")["losses"].values)
    rate = training["learning_rate"]
    compile_flags = [
        "--lr", rate, "--final-ratio", training["min_learning_rate"] / rate,
        "--schedule", training["schedule"], "--warmup", training["warmup"],
        "--betas", "%r,%r" % (training["beta1"], training["beta2"]),
        "--epsilon", training["epsilon"], "--clip", training["clip"],
        "--weight-decay", training["weight_decay"]]
    steps = ["--steps", training["steps"]]
    if programs.runner:
        compile_flags += steps  # the length of the learning rate's schedule
    output = run(programs, "train", folder, compile_flags + mesh, steps + [
        "--data", folder / "batch.safetensors", "--no-checkpoints", "--json"],
        scratch)
    actual = [entry["loss"] for entry in map(json.loads, output.splitlines())
              if "loss" in entry]
    if len(actual) != len(expected):
        raise Failure("expected %d steps, got %d" % (len(expected), len(actual)))
    worst = tensors.largest(abs(a - e) / e for a, e in zip(actual, expected))
    if not worst <= 1e-5:
        raise Failure("losses differ by %.1e\n  got      %s\n  expected %s"
                      % (worst, actual, expected))
    return "losses within %.1e" % worst


def main():
    parser = get_parser(__doc__, needs_runner=False,
                        long="also compare the gradients of four devices")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    programs = Programs(options.heddle, options.heddle_run, options.sanitize,
                        optimizes=True)
    report = Report()
    shutil.rmtree(options.scratch, ignore_errors=True)
    options.scratch.mkdir(parents=True)
    for folder in options.folders:
        for title, mesh in MESHES.items():
            for what, check in ("gradients", evaluate), ("ten steps", train):
                if mesh and check is evaluate and not options.long:
                    continue
                report.case(
                    "%s %s, %s" % (folder.name, what, title),
                    lambda: check(programs, folder, mesh, options.scratch))
    report.finish()


if __name__ == "__main__":
    main()
