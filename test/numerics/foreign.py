#!/usr/bin/env python3
"""Partitions programs of upstream dialects by the shardings that they state. Runs them
on the devices of their mesh and on one device. The results must agree, and two runs
must give the same bits.

Usage: foreign.py --heddle HEDDLE --heddle-run HEDDLE_RUN --scratch DIR
                  [--cluster CLUSTER] [--sub-batches N] [--overlap SCHEDULE]
                  [--stages N] [--gradients] FILE...

With --sub-batches, the program of many devices runs its batch in parts. With
--overlap, it has the order of that schedule, and the runtime executes its streams in
random legal orders. With --stages, it is cut into stages, which lie on twice as many
devices. With --stages and --gradients, each program becomes a training step, its stages
begin at random places, and its gradients are compared.
"""

import array
import json
import os
import pathlib
import random
import shutil

import programs
import tensors
import trained

CUTS = 4  # random cuts that are tried for each program with --gradients
F32_BOUND = 1e-5


def inputs_of(artifact):
    """Returns numbers for @main's arguments. A number depends only on the positions of
    the argument and of the element, not on the sharding."""
    manifest = json.loads((artifact / "manifest.json").read_text())
    (main,) = [p for p in manifest["programs"] if p["name"] == "main"]
    result = {}
    for i, argument in enumerate(main["arguments"]):
        generator = random.Random(i)
        count = 1
        for size in argument["shape"]:
            count *= size
        values = array.array("f", (generator.uniform(-1, 1) for _ in range(count)))
        result[argument["name"] or "arg%d" % i] = tensors.Tensor(
            "F32", argument["shape"], values)
    return result


def check(run, source, scratch, flags, many_flags, stages):
    many = source.read_text()
    one = programs.on_one_device(many)
    if stages:
        many = programs.as_pipeline(many, stages)
    results = {}
    for name, text in (("one", one), ("many", many)):
        module, artifact = scratch / (name + ".mlir"), scratch / name
        module.write_text(text)
        run.compile(module, artifact,
                    flags + (many_flags if name == "many" else []))
        if name == "one":  # a pipeline has several programs
            tensors.write(scratch / "in.safetensors", inputs_of(artifact))
        for attempt in ("", "-again"):
            if "--overlap" in many_flags:
                os.environ["HEDDLE_RT_STREAM_ORDER"] = "random:%d" % len(attempt)
            output = scratch / (name + attempt + ".safetensors")
            run.call([run.runner, "call", artifact, "--inputs",
                      scratch / "in.safetensors", "-o", output] + run.run_flags)
            results[name + attempt] = tensors.read(output)
            results[name + attempt + "-bits"] = output.read_bytes()
    if results["many-bits"] != results["many-again-bits"]:
        raise programs.Failure("two runs differ")
    worst = 0.0
    for name, expected in results["one"].items():
        if not any(expected.values):
            raise programs.Failure("'%s' is zero: the test means nothing" % name)
        distance = tensors.distance(results["many"][name], expected)
        if not distance <= F32_BOUND:
            raise programs.Failure("'%s' differs by %g" % (name, distance))
        worst = max(worst, distance)
    return "%d results, largest difference %.1e" % (len(results["one"]), worst)


def check_gradients(run, source, scratch, stages, seed):
    training = trained.as_training(source.read_text(), "main")
    note = trained.compare_gradients(run, training, scratch, stages, seed,
                                     trained.get_inputs(training), F32_BOUND)
    if note.startswith("not compared"):
        raise programs.Failure(note)
    return note


def main():
    parser = programs.get_parser(__doc__)
    parser.add_argument("--cluster")
    parser.add_argument("--sub-batches")
    parser.add_argument("--overlap")
    parser.add_argument("--stages", type=int)
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    report = programs.Report()
    flags = ["--cluster", options.cluster] if options.cluster else []
    many_flags = []
    for flag in "sub_batches", "overlap":
        if value := getattr(options, flag):
            many_flags += ["--" + flag.replace("_", "-"), value]
    run = programs.Programs(options.heddle, options.heddle_run, options.sanitize,
                            optimizes=not (many_flags or options.stages))
    for source in options.files:
        scratch = options.scratch / source.stem
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        if not options.gradients:
            report.case(source.stem, lambda: check(
                run, source, scratch, flags, many_flags, options.stages))
            continue
        for seed in range(1, CUTS + 1):
            report.case("%s, cut %d" % (source.stem, seed), lambda: check_gradients(
                run, source, scratch, options.stages, seed))
    report.finish()


if __name__ == "__main__":
    main()
