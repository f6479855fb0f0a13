"""The last changes to a module: signless types, names, variables, text."""

import dataclasses
import re

from jaxlib.mlir import ir

from . import shardings
from .ir import Refusal, create, scope, source, walk
from .leaf import Leaf
from .rewrites import updates

# Arrays of other types cannot be passed to a program or returned.
_BOUNDARY_TYPES = (
    *("float32", "bfloat16", "float16", "float64", "bool"),
    *("int8", "int32", "int64", "uint8", "uint32", "uint64"),
)


def finish(
    module: ir.Module,
    arguments: list[tuple[Leaf, bool]],
    results: list[Leaf],
    mesh: dict[str, int],
) -> tuple[list[Leaf], list[Leaf]]:
    """Changes the module, and returns the leaves of its arguments and results.

    If a result replaces a donated argument, the leaves of both name the variable.
    """
    remove_signs(module)
    name_operators(module)
    main = next(op for op in walk(module) if op.name == "func.func")
    check_types(arguments, results)
    count = len(main.regions[0].blocks[0].arguments)
    if count != len(arguments):
        raise Refusal(
            f"expected {len(arguments)} arrays as arguments, got {count}: pass arrays "
            "that the function reads as arguments"
        )
    leaves = make_variables(module, main, arguments, results, mesh)
    updates.order_updates(main)
    return leaves


def check_types(arguments: list[tuple[Leaf, bool]], results: list[Leaf]) -> None:
    lines = []
    types = ", ".join(_BOUNDARY_TYPES)
    for what, leaves in (
        ("argument", [leaf for leaf, _ in arguments]),
        ("result", results),
    ):
        for leaf in leaves:
            if leaf.dtype.name not in _BOUNDARY_TYPES:
                lines.append(
                    f"{what} {leaf.name}: expected one of {types}, got "
                    f"{leaf.dtype.name}: convert it in the function's caller"
                )
    if lines:
        raise Refusal(*lines)


def remove_signs(module: ir.Module) -> None:
    """Makes all integers signless, and drops casts from and to unsigned integers."""

    def signless(kind: ir.Type) -> ir.Type | None:
        text = str(kind)
        if "ui" not in text:
            return None
        return ir.Type.parse(
            re.sub(r"\bui(\d+)|(?<=x)ui(\d+)", lambda m: "i" + (m[1] or m[2]), text)
        )

    ops = walk(module)
    for op in ops:
        values = list(op.results)
        for region in op.regions:
            for block in region.blocks:
                values += block.arguments
        for value in values:
            if kind := signless(value.type):
                value.set_type(kind)
        if op.name == "func.func":
            kind = ir.TypeAttr(op.attributes["function_type"]).value
            if new := signless(kind):
                op.attributes["function_type"] = ir.TypeAttr.get(new)
    for op in walk(module):
        if op.name != "builtin.unrealized_conversion_cast":
            continue
        if op.operands[0].type != op.results[0].type:
            raise Refusal(
                f"{source(op)}: a cast from {op.operands[0].type} to "
                f"{op.results[0].type} is not supported"
            )
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()


def is_operator(op: ir.Operation) -> bool:
    """Whether plans may name the op: it computes sums, or is Heddle's own."""
    if op.name.startswith("heddle."):
        return True
    if op.name == "linalg.generic":
        return "reduction" in str(op.attributes["iterator_types"])
    if op.name.startswith("linalg."):
        return op.name not in (
            "linalg.fill",
            "linalg.yield",
            "linalg.transpose",
            "linalg.broadcast",
            "linalg.map",
            "linalg.index",
        )
    return False


def name_operators(module: ir.Module) -> None:
    for op in walk(module):
        if is_operator(op) and (name := scope(op)):
            key = "op_name" if op.name.startswith("heddle.") else "heddle.name"
            op.attributes[key] = ir.StringAttr.get(name)


def clean(name: str) -> str:
    return re.sub(r"[^\w.]+", ".", name).strip(".") or "value"


def unique(names: list[str]) -> list[str]:
    """Returns the names with numbers on those that occur again."""
    taken, out = set(), []
    for name in map(clean, names):
        candidate, number = name, 1
        while candidate in taken:
            candidate, number = f"{name}.{number}", number + 1
        taken.add(candidate)
        out.append(candidate)
    return out


def pair(arguments: list[tuple[Leaf, bool]], results: list[Leaf]) -> dict[int, int]:
    """Returns the result that takes the place of each donated argument.

    It has the argument's shape and type. A result at the same path within its tree
    is preferred (new["w"] for state["w"]); otherwise it is the first one left.
    """

    def fits(leaf: Leaf, other: Leaf) -> bool:
        return (
            leaf.shape == other.shape
            and leaf.dtype == other.dtype
            and leaf.key == other.key
        )

    def tail(name: str) -> str:
        return name.split(".", 1)[1] if "." in name else ""

    pairs, free = {}, list(range(len(results)))
    donated = [i for i, (_, is_donated) in enumerate(arguments) if is_donated]
    for compare in (
        lambda a, r: tail(a.name) == tail(r.name),
        lambda a, r: tail(a.name) == r.name,
        lambda a, r: True,
    ):
        for i in donated:
            if i in pairs:
                continue
            match = next(
                (
                    j
                    for j in free
                    if fits(arguments[i][0], results[j])
                    and compare(arguments[i][0], results[j])
                ),
                None,
            )
            if match is not None:
                pairs[i] = match
                free.remove(match)
    return pairs


def sharding_of(
    leaf: Leaf, attributes: dict[str, ir.Attribute], mesh: dict[str, int]
) -> ir.Attribute | None:
    """Returns the sharding that the caller gave, else the one in the module."""
    if not mesh or not leaf.shape:
        return None
    if leaf.spec is not None:
        found = shardings.Sharding.of_spec(leaf.spec, len(leaf.shape))
        unknown = {axis for axes, _ in found.dims for axis in axes} - set(mesh)
        if len(found.dims) != len(leaf.shape) or unknown:
            raise Refusal(
                f"{leaf.name}: expected a sharding of {len(leaf.shape)} dimensions "
                f"over the axes {', '.join(mesh)}, got {leaf.spec}"
            )
    elif "sdy.sharding" in attributes:
        found = shardings.parse(str(attributes["sdy.sharding"]), leaf.name)
    else:
        return None
    return None if found.is_open else found.attribute()


def attributes_of(
    main: ir.Operation, name: str, count: int
) -> list[dict[str, ir.Attribute]]:
    if name not in main.attributes:
        return [{}] * count
    dictionaries = []
    for attr in ir.ArrayAttr(main.attributes[name]):
        entries = ir.DictAttr(attr)
        dictionaries.append(
            {entries[i].name: entries[i].attr for i in range(len(entries))}
        )
    return dictionaries


def make_variables(
    module: ir.Module,
    main: ir.Operation,
    arguments: list[tuple[Leaf, bool]],
    results: list[Leaf],
    mesh: dict[str, int],
) -> tuple[list[Leaf], list[Leaf]]:
    """Moves donated arguments to variables, and gives all others their names."""
    block = main.regions[0].blocks[0]
    end = block.operations[len(block.operations) - 1].operation
    argument_attributes = attributes_of(main, "arg_attrs", len(arguments))
    result_attributes = attributes_of(main, "res_attrs", len(results))
    pairs = pair(arguments, results)
    names = unique([leaf.name for leaf, _ in arguments])
    new_arguments, new_attributes = [], []
    declarations = []
    first = block.operations[0].operation
    for i, ((leaf, _), name) in enumerate(zip(arguments, names, strict=True)):
        sharding = sharding_of(leaf, argument_attributes[i], mesh)
        leaf = dataclasses.replace(leaf, name=name)
        if i in pairs:
            j = pairs[i]
            sharding = sharding or sharding_of(results[j], result_attributes[j], mesh)
            value = block.arguments[i]
            reference = ir.FlatSymbolRefAttr.get(name)
            loaded = create(
                "heddle.load",
                [value.type],
                [],
                {"variable": reference},
                at=first,
                loc=main.location,
            )
            value.replace_all_uses_with(loaded.results[0])
            create(
                "heddle.store",
                [],
                [end.operands[pairs[i]]],
                {"variable": reference},
                at=end,
                loc=main.location,
            )
            role = (
                "parameter"
                if leaf.dtype.kind == "f" or leaf.dtype.name == "bfloat16"
                else "counter"
            )
            storage = (
                f" storage({str(sharding).removeprefix('#heddle.sharding')})"
                if sharding
                else ""
            )
            declarations.append(
                f'heddle.variable @"{name}" : {value.type} {role} init(zeros){storage}'
            )
            leaf = dataclasses.replace(leaf, variable=name)
        else:
            entries = {"heddle.name": ir.StringAttr.get(name)}
            if sharding:
                entries["heddle.sharding"] = sharding
            new_attributes.append(ir.DictAttr.get(entries))
        new_arguments.append(leaf)
    for i in sorted(pairs, reverse=True):
        block.erase_argument(i)
    stored = {j: new_arguments[i].name for i, j in pairs.items()}
    new_results, returned = [], []
    new_result_attributes = []
    for j, (leaf, name) in enumerate(
        zip(results, unique([leaf.name for leaf in results]), strict=True)
    ):
        leaf = dataclasses.replace(leaf, name=name, variable=stored.get(j))
        if j not in stored:
            entries = {"heddle.name": ir.StringAttr.get(name)}
            if sharding := sharding_of(leaf, result_attributes[j], mesh):
                entries["heddle.sharding"] = sharding
            new_result_attributes.append(ir.DictAttr.get(entries))
            returned.append(end.operands[j])
        new_results.append(leaf)
    create("func.return", [], returned, at=end, loc=end.location)
    types = [value.type for value in returned]
    end.erase()
    kind = ir.FunctionType.get([a.type for a in block.arguments], types)
    main.attributes["function_type"] = ir.TypeAttr.get(kind)
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(new_attributes)
    main.attributes["res_attrs"] = ir.ArrayAttr.get(new_result_attributes)
    module.operation.attributes["heddle.declarations"] = ir.StringAttr.get(
        "\n".join(declarations)
    )
    return new_arguments, new_results


def print_module(module: ir.Module, mesh: dict[str, int]) -> str:
    attributes = module.operation.attributes
    declarations = ir.StringAttr(attributes["heddle.declarations"]).value
    for name in [name for name in attributes]:
        if name != "sym_name":
            del attributes[name]
    lines = []
    if mesh:
        axes = ", ".join(f'"{name}"={size}' for name, size in mesh.items())
        lines.append(f"heddle.mesh @{shardings.MESH} <[{axes}]>")
    lines += declarations.split("\n") if declarations else []
    text = module.operation.get_asm(enable_debug_info=True, large_elements_limit=None)
    head = re.search(r"^module .*\{$", text, re.MULTILINE)
    body = "".join(f"\n  {line}" for line in lines)
    return text[: head.end()] + body + text[head.end() :]
