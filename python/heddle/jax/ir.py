"""Helpers on modules of jaxlib's MLIR bindings."""

import itertools
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np
from jaxlib.mlir import ir, passmanager

_counter = itertools.count()

# Marker functions have names that begin so. Their calls are replaced by ops.
MARKER = "heddle_"
# Stands between the name of a function and the number that makes it unique.
SEPARATOR = "__heddle"


class Refusal(Exception):
    """Constructs that Heddle cannot take: one line for each, with its place."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(dict.fromkeys(lines))
        super().__init__("\n".join(self.lines))


def source(op: ir.Operation) -> str:
    """Returns "file.py:12: 'dot_general'" of an op, as far as it is known. Where
    JAX's own code made the op, the line is that of the construct around it."""
    name, place = scope(op) or op.name, None
    while op is not None and place is None:
        place = re.search(r'"([^"]+)":(\d+)', str(op.location))
        op = op.parent
    return f"{place[1]}:{place[2]}: '{name}'" if place else f"'{name}'"


def scope(op: ir.Operation) -> str:
    """Returns the name of the op in JAX's program, such as "h_3/attn/dot_general".

    Transformations (jvp, transpose, checkpoint, ...) and the functions between
    them are left out, so that a layer's forward and backward ops share a name.
    """
    # Names stand inside out: "dot_general"("jit(f)/h_3/attn"("file.py":3:1)).
    strings = re.findall(r'"([^"]*)"(:\d+)?', str(op.location))
    names = [text for text, line in strings if not line]
    return scope_of_text("/".join(reversed(names)))


_TRANSFORMS = (
    "jit",
    "pjit",
    "jvp",
    "transpose",
    "vmap",
    "remat",
    "checkpoint",
    "custom_jvp",
    "custom_vjp",
)
_STRUCTURE = (
    "checkpoint",
    "rematted_computation",
    "closed_call",
    "while",
    "body",
    "cond",
)


def scope_of_text(text: str) -> str:
    parts = []
    for part in text.split("/"):
        while match := re.fullmatch(r"(\w+)\((.*)\)", part):
            if match[1] not in _TRANSFORMS:
                break
            part = "" if match[1] in ("jit", "pjit") else match[2]
        if part and part not in _STRUCTURE:
            parts.append(part)
    return "/".join(parts)


def walk(root: Any) -> list[ir.Operation]:
    """Returns all ops below `root` in pre-order, as a list."""
    ops: list[ir.Operation] = []

    def visit(op: Any) -> ir.WalkResult:
        ops.append(op.operation)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return ops[1:]


def create(
    name: str,
    results: Sequence[ir.Type],
    operands: Sequence[ir.Value],
    attributes: dict[str, ir.Attribute] | None = None,
    regions: int = 0,
    *,
    at: ir.Operation | ir.InsertionPoint,
    loc: ir.Location | None = None,
) -> ir.Operation:
    """Creates an op before `at` (an op), or at an insertion point."""
    point = at if isinstance(at, ir.InsertionPoint) else ir.InsertionPoint(at)
    with point:
        return ir.Operation.create(
            name,
            results=list(results),
            operands=list(operands),
            attributes=attributes or {},
            regions=regions,
            loc=loc or at.location,
        )


def replace(op: ir.Operation, values: Sequence[ir.Value]) -> None:
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def users(value: ir.Value) -> list[ir.Operation]:
    return [use.owner.operation for use in value.uses]


def terminate(
    block: ir.Block,
    name: str,
    loc: ir.Location,
    values: Sequence[ir.Value] | None = None,
) -> None:
    """Replaces the terminator of a block by one of another dialect."""
    old = block.operations[len(block.operations) - 1].operation
    values = list(old.operands) if values is None else values
    create(name, [], values, at=old, loc=loc)
    old.erase()


def element_type(value: ir.Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type


def shape_of(value: ir.Value) -> tuple[int, ...]:
    return tuple(ir.RankedTensorType(value.type).shape)


def tensor_type(shape: Sequence[int], element: ir.Type) -> ir.Type:
    return ir.RankedTensorType.get(list(shape), element)


_DTYPES = {
    "i1": "bool",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip


def dtype_of(value: ir.Value) -> np.dtype | None:
    """Returns the numpy type of a tensor's elements, or None."""
    name = _DTYPES.get(str(element_type(value)))
    return jax.numpy.dtype(name) if name else None


def struct_of(value: ir.Value) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape_of(value), dtype_of(value))


def origin(value: ir.Value) -> ir.Value:
    """Looks through barriers and through loops that carry the value unchanged."""
    while True:
        if isinstance(value.owner, ir.Block):
            op = value.owner.owner
            if op is None or op.operation.name != "stablehlo.while":
                return value
            number = ir.BlockArgument(value).arg_number
            body = op.operation.regions[1].blocks[0]
            end = body.operations[len(body.operations) - 1].operation
            if end.operands[number] != body.arguments[number]:
                return value
            value = op.operation.operands[number]
        elif value.owner.operation.name == "stablehlo.optimization_barrier":
            value = value.owner.operation.operands[ir.OpResult(value).result_number]
        else:
            return value


def constant_of(value: ir.Value) -> int | float | None:
    """Returns the single number of a scalar or splat constant, or None."""
    value = origin(value)
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name == "stablehlo.broadcast_in_dim":
        return constant_of(op.operands[0])
    if op.name == "stablehlo.convert":
        return constant_of(op.operands[0])
    if op.name != "stablehlo.constant":
        return None
    attr = op.attributes["value"]
    if not isinstance(attr, ir.DenseElementsAttr):
        return None
    attr = ir.DenseElementsAttr(attr)
    if attr.is_splat:
        array = np.array(attr.get_splat_value().value)
        return array.item()
    return None


class Splicer:
    """Puts JAX functions into a module, as functions that ops call.

    A function that is requested twice with the same key is lowered once.
    """

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.cache: dict[Hashable, tuple[str, list[ir.Type]]] = {}

    def call(
        self,
        key: Hashable,
        function: Callable[..., Any],
        op: ir.Operation,
        operands: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Calls `function` on `operands` before `op`; returns the results."""
        structs = [struct_of(value) for value in operands]
        key = (key, tuple((s.shape, str(s.dtype)) for s in structs))
        if key not in self.cache:
            self.cache[key] = self._insert(function, structs)
        name, types = self.cache[key]
        callee = ir.FlatSymbolRefAttr.get(name)
        made = create("func.call", types, operands, {"callee": callee}, at=op)
        return list(made.results)

    def _insert(
        self, function: Callable[..., Any], structs: list[jax.ShapeDtypeStruct]
    ) -> tuple[str, list[ir.Type]]:
        # Without 64 bits, JAX would make other types of i64 operands.
        with jax.enable_x64(True):
            lowered = jax.jit(function, keep_unused=True).trace(*structs)
            text = str(
                lowered.lower(lowering_platforms=("cpu",)).compiler_ir("stablehlo")
            )
        suffix = f"{SEPARATOR}{next(_counter)}"
        main = None
        parsed = ir.Module.parse(text)
        strip = passmanager.PassManager.parse("builtin.module(strip-debuginfo)")
        strip.run(parsed.operation)
        for op in parsed.body.operations:
            if op.operation.name != "func.func":
                continue
            clone = op.operation.clone()
            name = ir.StringAttr(clone.attributes["sym_name"]).value
            clone.attributes["sym_name"] = ir.StringAttr.get(name + suffix)
            clone.attributes["sym_visibility"] = ir.StringAttr.get("private")
            for inner in walk(clone):
                if inner.name == "func.call":
                    callee = ir.FlatSymbolRefAttr(inner.attributes["callee"]).value
                    inner.attributes["callee"] = ir.FlatSymbolRefAttr.get(
                        callee + suffix
                    )
            ir.InsertionPoint(self.module.body).insert(clone)
            if name == "main":
                main = clone
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        return ir.StringAttr(main.attributes["sym_name"]).value, list(kind.results)
