"""Makes training steps from functions of other compilers, and compares their gradients
in a pipeline with those on one device."""

import array
import json
import math
import pathlib
import random
import re

import programs
import tensors

# The errors by which the compiler refuses a program without a gradient, or one that it
# cannot compile for one device.
NOT_TRAINED = re.compile(r"error: '[a-z_.0-9]+' op .*")


def split_list(text):
    """Splits a list at the commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def is_float(tensor):
    return re.search(r"[<x]b?f\d+>$", tensor) is not None


def cast(result, value, source, target):
    """Returns the op that casts floats to another type, and the name of its result. For
    the same type there is no op."""
    if source == target:
        return "", value
    widths = [int(re.search(r"f(\d+)>$", kind).group(1)) for kind in (source, target)]
    op = "extf" if widths[0] < widths[1] else "truncf"
    return "%s = arith.%s %s : %s to %s\n" % (result, op, value, source, target), result


def as_f32(tensor):
    return re.sub(r"b?f\d+>$", "f32>", tensor)


def as_training(text, function):
    """Returns the program with the function as @forward, or None if it has no floats.
    A parameter is added to each argument of floats. The loss is the sum of
    r / (1 + |r|) over the numbers r of all results of floats."""
    head = re.search(r"^ *func\.func (?:public )?@%s\((.*?)\)\s*-> (.*?) \{\n" % function,
                     text, re.M | re.S)
    end = re.compile(r"^ *return (.*) : (.*)\n", re.M).search(text, head.end())
    arguments, parameters, begin = [], "", ""
    for i, argument in enumerate(split_list(head.group(1))):
        name, kind, attributes = re.match(r"(%\w+): (tensor<[^>]*>)(?: \{(.*)\})?$",
                                          argument).groups()
        attributes = [a for a in split_list(attributes or "")
                      if not a.startswith(("heddle.name", "heddle.role"))]
        attributes += ['heddle.name = "argument%d"' % i,
                       "heddle.role = #heddle.port_role<features>"]
        port = name + "_data" if is_float(kind) else name
        arguments.append("%s: %s {%s}" % (port, kind, ", ".join(attributes)))
        if not is_float(kind):
            continue
        stored = as_f32(kind)
        parameters += "heddle.variable @p%d : %s parameter init(normal<0.3>)\n" % (i, stored)
        begin += "%s_stored = heddle.load @p%d : %s\n" % (name, i, stored)
        op, added = cast(name + "_added", name + "_stored", stored, kind)
        begin += op + "%s = arith.addf %s, %s : %s\n" % (name, port, added, kind)
    loss, total = "", None
    for i, (value, kind) in enumerate(zip(split_list(end.group(1)), split_list(end.group(2)))):
        if not is_float(kind):
            continue
        n = "%%loss%d" % i
        op, number = cast(n + "_cast", value, kind, as_f32(kind))
        kind = as_f32(kind)
        loss += op + (
            "{n}_one = arith.constant dense<1.0> : {t}\n"
            "{n}_abs = math.absf {v} : {t}\n"
            "{n}_sum = arith.addf {n}_abs, {n}_one : {t}\n"
            "{n} = arith.divf {v}, {n}_sum : {t}\n").format(n=n, t=kind, v=number)
        rank = kind.count("x")
        if rank > 0:
            loss += "%s_all = heddle.reduce sum %s over [%s] : %s -> tensor<f32>\n" % (
                n, n, ", ".join(map(str, range(rank))), kind)
            n += "_all"
        if total:
            loss += "%s_total = arith.addf %s, %s : tensor<f32>\n" % (n, total, n)
            n += "_total"
        total = n
    if not parameters or not total:
        return None
    mesh = re.search(r"^ *heddle\.mesh .*\n", text, re.M)
    return "".join([
        text[:mesh.end()], parameters, text[mesh.end():head.start()],
        "func.func @forward(%s) -> (tensor<f32> {heddle.name = \"loss_sum\", "
        "heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.name = "
        "\"count\", heddle.role = #heddle.port_role<label_count>}) {\n" % ", ".join(arguments),
        begin, text[head.end():end.start()], loss,
        "%count = arith.constant dense<1.0> : tensor<f32>\n",
        "return %s, %%count : tensor<f32>, tensor<f32>\n" % total, text[end.end():]])


def get_inputs(training):
    """Returns numbers for the arguments of a program of as_training, all of f32."""
    inputs = {}
    for shape, number in re.findall(
            r': tensor<([\dx]*)f32> \{[^%]*heddle\.name = "argument(\d+)"', training):
        sizes = [int(size) for size in shape.split("x") if size]
        generator = random.Random(int(number))
        inputs["argument" + number] = tensors.Tensor("F32", sizes, array.array(
            "f", (generator.uniform(-1, 1) for _ in range(math.prod(sizes)))))
    return inputs


def build_step(run, program, scratch, name):
    """Returns the training step of a program of as_training."""
    module = scratch / (name + ".mlir")
    module.write_text(program)
    return run.call([pathlib.Path(run.compiler).with_name("heddle-opt"), module,
                     "--heddle-build-training-step=micro-batches=4 gradients=true",
                     "--canonicalize", "--cse"])


def compile_step(run, step, scratch, name):
    """Compiles a training step. Returns the outputs of its table that are gradients, by
    the names of their parameters."""
    module, artifact = scratch / (name + "-step.mlir"), scratch / name
    module.write_text(step)
    run.compile(module, artifact, [])
    manifest = json.loads((artifact / "manifest.json").read_text())
    (table,) = [t for t in manifest["tables"] if t.get("role") == "gradients"]
    return {port["parameter"]: port["name"] for port in table["outputs"]
            if port["role"] == "gradient"}


def compare_gradients(run, training, scratch, stages, seed, inputs, bound):
    """Cuts a program of as_training into stages at random places. Its gradients must
    be those on one device."""
    try:
        one = build_step(run, programs.on_one_device(training), scratch, "one")
        names = compile_step(run, one, scratch, "one")
    except programs.Failure as failure:
        if NOT_TRAINED.search(str(failure)):
            return "not compared: " + NOT_TRAINED.search(str(failure)).group(0)
        raise
    whole = scratch / "whole.mlir"
    whole.write_text(programs.as_pipeline(training, stages))
    cut = programs.cut_anywhere(run, whole, stages, seed, "forward")
    compile_step(run, build_step(run, cut, scratch, "many"), scratch, "many")
    tensors.write(scratch / "in.safetensors", inputs)
    results = {}
    for name in ("one", "many"):
        output = scratch / (name + ".safetensors")
        run.call([run.runner, "call", scratch / name, "--program", "gradients",
                  "--inputs", scratch / "in.safetensors", "-o", output] + run.run_flags)
        results[name] = tensors.read(output)
    worst = count = 0
    for parameter, name in names.items():
        expected = results["one"][name]
        if not all(map(math.isfinite, expected.values)):
            return "not compared: numbers that are not finite"
        distance = tensors.distance(results["many"][name], expected)
        if not distance <= bound:
            raise programs.Failure("the gradient of '%s' differs by %g" % (
                parameter, distance))
        count += any(expected.values)
        worst = max(worst, distance)
    if count == 0:
        return "not compared: all gradients are zero"
    return "%d gradients, largest difference %.1e" % (count, worst)
