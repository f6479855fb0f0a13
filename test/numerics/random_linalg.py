#!/usr/bin/env python3
"""Compiles random programs and runs them on the devices of their mesh and on one
device. The programs consist of ops of upstream dialects
(test/unit/Shard/LinalgGenerator/LinalgGenerator.h), or of loops, branches and calls
(ControlFlowTest.cpp). The results must be those of the interpreter. The compiler may
refuse a few programs, by an error at an op.

Usage: random_linalg.py --heddle HEDDLE --heddle-run HEDDLE_RUN
         --generator SHARD_TEST --scratch DIR [--kind linalg|control-flow]
         [--first SEED] [--count N] [--start-collectives] [--stages] [--anywhere]
         [--gradients] [--long]

With --gradients, the programs become training steps, and the gradients of one
micro-batch on many devices must be those on one device. The compiler may refuse
programs with ops that have no gradient.
"""

import json
import os
import re
import shutil
import subprocess

import programs
import tensors
import trained

# Bounds on errors, relative to the largest number of a result. Errors come from
# rounding and from the polynomials that approximate functions such as exp and tanh.
BOUND = {"f64": 1e-5, "f32": 1e-4, "f16": 3e-2, "bf16": 1e-1}
DTYPES = {"i1": "BOOL", "f64": "F64", "f32": "F32", "f16": "F16",
          "bf16": "BF16", "i8": "I8", "i32": "I32", "i64": "I64"}
# For each kind, the test that writes the programs, and the environment variable
# that sets their number.
KINDS = {"linalg": ("RandomLinalgTest.*", "HEDDLE_RANDOM_LINALG"),
         "control-flow": ("ControlFlowTest.SameNumbersAsOneDevice",
                          "HEDDLE_RANDOM_PROGRAMS")}
# The interpreter computes in f64. If a result is larger than this, an f32 may
# have overflowed in native code.
LARGE = 1e30
REFUSED = re.compile(r"error: '[a-z_.0-9]+' op ")


def tensor_of(entry):
    dtype = DTYPES[entry["type"]]
    whole = entry["type"].startswith("i")
    values = [int(v) if whole else v for v in entry["values"]]
    return tensors.Tensor(dtype, entry["shape"], values)


def expect_near(name, actual, expected, bound):
    if actual.shape != tuple(expected["shape"]):
        raise programs.Failure("'%s' has shape %s, expected %s" % (
            name, actual.shape, expected["shape"]))
    scale = max([1.0] + [abs(v) for v in expected["values"]])
    worst = 0.0
    for i, (a, e) in enumerate(zip(actual.values, expected["values"])):
        if a == e:
            continue
        if not abs(a - e) <= bound * scale:
            raise programs.Failure("'%s'[%d] is %g, expected %g" % (name, i, a, e))
        worst = max(worst, abs(a - e) / scale)
    return worst


def check(run, source, scratch, flags, stages=0, anywhere=None):
    text = source.read_text()
    numbers = json.loads(source.with_suffix(".json").read_text())
    if any(abs(v) > LARGE for r in numbers["results"] for v in r["values"]):
        return "not compared: numbers beyond %g" % LARGE
    inputs = {"argument%d" % i: tensor_of(entry)
              for i, entry in enumerate(numbers["arguments"])}
    tensors.write(scratch / "in.safetensors", inputs)
    bound = max(BOUND[t] for t in BOUND if t in text or t == "f64")
    worst = 0.0
    many = programs.as_pipeline(text, stages) if stages else text
    if anywhere:
        module = scratch / "whole.mlir"
        module.write_text(many)
        many = programs.cut_anywhere(run, module, stages, anywhere)
        if "heddle.stage =" not in many:
            return "not compared: no ops to cut"
    for name, program in (("one", programs.on_one_device(text)), ("many", many)):
        module, artifact = scratch / (name + ".mlir"), scratch / name
        module.write_text(program)
        try:
            run.compile(module, artifact, flags)
        except programs.Failure as failure:
            if REFUSED.search(str(failure)):
                return "refused " + str(failure)[REFUSED.search(str(failure)).start():].splitlines()[0]
            raise
        output = scratch / (name + ".safetensors")
        run.call([run.runner, "call", artifact, "--program", "f", "--inputs",
                  scratch / "in.safetensors", "-o", output] + run.run_flags)
        results = tensors.read(output)
        for i, expected in enumerate(numbers["results"]):
            key = "result%d" % i
            worst = max(worst, expect_near("%s of %s" % (key, name), results[key],
                                           expected, bound))
    return "largest difference %.1e" % worst


def check_gradients(run, source, scratch, stages, seed):
    """Compares the gradients of a program that is cut at random places with those
    of one device."""
    training = trained.as_training(source.read_text(), "f")
    if not training:
        return "not compared: no floats"
    numbers = json.loads(source.with_suffix(".json").read_text())
    inputs = {"argument%d" % i: tensor_of(entry)
              for i, entry in enumerate(numbers["arguments"])}
    bound = max(BOUND[t] for t in BOUND if t in training or t == "f64")
    return trained.compare_gradients(run, training, scratch, stages, seed, inputs, bound)


def main():
    parser = programs.get_parser(__doc__, long="eight times as many programs")
    parser.add_argument("--generator", required=True)
    parser.add_argument("--kind", choices=sorted(KINDS), default="linalg")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--start-collectives", action="store_true",
                        help="all collectives in flight, in a random order")
    parser.add_argument("--stages", action="store_true",
                        help="cut each program into 2, 4 or 6 stages on two times "
                        "as many devices")
    parser.add_argument("--anywhere", action="store_true",
                        help="as --stages, cut at random places")
    parser.add_argument("--gradients", action="store_true",
                        help="as --anywhere, with the programs' gradients")
    options = parser.parse_args()
    if options.long:
        options.count *= 8
    run = programs.Programs(options.heddle, options.heddle_run, options.sanitize,
                            optimizes=options.kind == "linalg" and not (
                                options.start_collectives or options.stages or
                                options.anywhere))
    shutil.rmtree(options.scratch, ignore_errors=True)
    options.scratch.mkdir(parents=True)
    test, count = KINDS[options.kind]
    subprocess.run(
        [options.generator, "--gtest_filter=" + test], check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=dict(os.environ, HEDDLE_RANDOM_WRITE=str(options.scratch),
                 HEDDLE_RANDOM_FIRST=str(options.first),
                 **{count: str(options.count)}))
    report = programs.Report()
    refused, compared = [], []
    for seed in range(options.first, options.first + options.count):
        scratch = options.scratch / ("seed%d" % seed)
        scratch.mkdir()

        def checked():
            source = options.scratch / ("%d.mlir" % seed)
            stages = 2 * (seed % 3 + 1)
            if options.gradients:
                note = check_gradients(run, source, scratch, stages, seed)
            else:
                flags = (["--start-collectives=random:%d" % seed]
                         if options.start_collectives else [])
                note = check(run, source, scratch, flags,
                             stages if options.stages or options.anywhere else 0,
                             seed if options.anywhere else None)
            if note.startswith("refused"):
                refused.append(seed)
            compared.append("largest" in note)
            return note

        report.case("seed %d" % seed, checked)
    if len(refused) > options.count // 10:
        report.failures.append("%d of %d were refused" % (
            len(refused), options.count))
    if options.gradients and sum(compared) < options.count // 5:
        report.failures.append("only %d of %d were compared" % (
            sum(compared), options.count))
    report.finish()


if __name__ == "__main__":
    main()
