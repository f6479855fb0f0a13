"""Concatenations, empty tensors, and the gradient of a pooling by maximum."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir import ir

from ..ir import Refusal, Splicer, constant_of, create, replace, shape_of, source


def is_empty(op: ir.Operation) -> bool:
    """Whether the op makes one tensor without elements."""
    return (
        op.name.startswith("stablehlo.")
        and op.name != "stablehlo.constant"
        and len(op.results) == 1
        and 0 in shape_of(op.results[0])
    )


def convert_empty(op: ir.Operation) -> None:
    """Makes a constant: jaxlib's passes refuse slices without elements."""
    kind = op.results[0].type
    value = ir.Attribute.parse(f"dense<> : {kind}")
    made = create("stablehlo.constant", [kind], [], {"value": value}, at=op)
    replace(op, list(made.results))


def pads_nothing(op: ir.Operation) -> bool:
    """Whether the op pads a tensor without elements, as the gradient of an empty
    slice does."""
    return op.name == "stablehlo.pad" and 0 in shape_of(op.operands[0])


def convert_empty_pad(op: ir.Operation) -> None:
    nothing = ir.DenseI64ArrayAttr.get([])
    made = create(
        "stablehlo.broadcast_in_dim",
        [op.results[0].type],
        [op.operands[1]],
        {"broadcast_dimensions": nothing},
        at=op,
    )
    replace(op, list(made.results))


def convert_concatenate(op: ir.Operation) -> None:
    dim = ir.IntegerAttr(op.attributes["dimension"]).value
    # Heddle's concat takes no tensor without elements.
    operands = [v for v in op.operands if shape_of(v)[dim]]
    if len(operands) == 1:
        replace(op, operands)
        return
    attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)
    made = create(
        "tensor.concat", [op.results[0].type], operands, {"dim": attribute}, at=op
    )
    replace(op, list(made.results))


def integers(op: ir.Operation, name: str, default: list[int]) -> list[int]:
    if name not in op.attributes:
        return list(default)
    attr = op.attributes[name]
    if isinstance(attr, ir.DenseI64ArrayAttr):
        return list(ir.DenseI64ArrayAttr(attr))
    return np.array(ir.DenseIntElementsAttr(attr)).reshape(-1).tolist()


def convert_select_and_scatter(op: ir.Operation, splicer: Splicer) -> None:
    """The element that a window selected gets the window's gradient."""
    select = op.regions[0].blocks[0]
    scatter = op.regions[1].blocks[0]
    test, add = select.operations[0].operation, scatter.operations[0].operation
    direction = (
        str(test.attributes["comparison_direction"])
        if test.name == "stablehlo.compare"
        else ""
    )
    is_max, is_min = "GE>" in direction, "LE>" in direction
    if (
        not (is_max or is_min)
        or add.name != "stablehlo.add"
        or constant_of(op.operands[2]) != 0
    ):
        raise Refusal(
            f"{source(op)}: expected the gradient of a pooling by maximum or minimum"
        )
    rank = len(shape_of(op.operands[0]))
    window = integers(op, "window_dimensions", [1] * rank)
    strides = integers(op, "window_strides", [1] * rank)
    padding = np.zeros((rank, 2), int)
    if "padding" in op.attributes:
        padding = np.array(ir.DenseIntElementsAttr(op.attributes["padding"])).reshape(
            rank, 2
        )

    def function(
        operand: jax.Array, gradient: jax.Array, zero: jax.Array
    ) -> tuple[jax.Array]:
        return (unpool(operand, gradient, window, strides, padding.tolist(), is_max),)

    key = ("unpool", tuple(window), tuple(strides), str(padding.tolist()), is_max)
    replace(op, splicer.call(key, function, op, op.operands))


def unpool(
    operand: jax.Array,
    gradient: jax.Array,
    window: list[int],
    strides: list[int],
    padding: list[list[int]],
    is_max: bool,
) -> jax.Array:
    out = gradient.shape
    if jnp.issubdtype(operand.dtype, jnp.floating):
        worst = -jnp.inf if is_max else jnp.inf
    else:
        info = jnp.iinfo(operand.dtype)
        worst = info.min if is_max else info.max
    padded = lax.pad(
        operand, jnp.array(worst, operand.dtype), [(lo, hi, 0) for lo, hi in padding]
    )
    offsets = list(np.ndindex(*window))

    def at(values: jax.Array, offset: tuple[int, ...]) -> jax.Array:
        limits = [
            o + s * (n - 1) + 1 for o, s, n in zip(offset, strides, out, strict=True)
        ]
        return lax.slice(values, offset, limits, strides)

    best = at(padded, offsets[0])
    chosen = jnp.zeros(out, jnp.int32)
    for number, offset in enumerate(offsets[1:], 1):
        candidate = at(padded, offset)
        better = candidate > best if is_max else candidate < best
        best = jnp.where(better, candidate, best)
        chosen = jnp.where(better, jnp.int32(number), chosen)
    zero = jnp.zeros((), gradient.dtype)
    total = jnp.zeros(padded.shape, gradient.dtype)
    for number, offset in enumerate(offsets):
        part = jnp.where(chosen == jnp.int32(number), gradient, zero)
        config = [
            (o, size - (o + s * (n - 1) + 1), s - 1)
            for o, s, n, size in zip(offset, strides, out, padded.shape, strict=True)
        ]
        total = total + lax.pad(part, zero, config)
    starts = [lo for lo, _ in padding]
    limits = [lo + n for (lo, _), n in zip(padding, operand.shape, strict=True)]
    return lax.slice(total, starts, limits)
