"""Reductions."""

import math
from collections.abc import Sequence

import numpy as np

from heddle.torch.emit import Emitter, op
from heddle.torch.ops.elementwise import Operand, as_value, operands
from heddle.torch.ops.shape import axes, axis
from heddle.torch.text import Shape, Value


def sum_over(e: Emitter, x: Value, dims: Sequence[int]) -> Value:
    return e.builder.reduce("sum", x, dims)


def keep(e: Emitter, x: Value) -> Value:
    """Gives a reduction the shape of the current node, with or without the
    dimensions that were summed."""
    return e.builder.reshape(x, e.shape)


@op("sum")
def sum_(
    e: Emitter, x: Value, dims: object = None, keepdim: bool = False, **named: object
) -> Value:
    x = e.builder.convert(x, e.element)
    return keep(e, sum_over(e, x, axes(dims, len(x.shape))))  # type: ignore[arg-type]


def average(e: Emitter, x: Value, dims: Sequence[int]) -> Value:
    total = sum_over(e, x, dims)
    count = math.prod(x.shape[dim] for dim in dims)
    factor = e.builder.splat(1 / count, total.shape, total.type)
    return e.builder.binary("mul", total, factor)


@op("mean")
def mean(
    e: Emitter, x: Value, dims: object = None, keepdim: bool = False, **named: object
) -> Value:
    x = e.builder.convert(x, e.element)
    return keep(e, average(e, x, axes(dims, len(x.shape))))  # type: ignore[arg-type]


@op("amax", "max")
def amax(e: Emitter, x: Value, dims: object = None, keepdim: bool = False) -> Value:
    if isinstance(dims, Value):
        left, right = operands(e, x, dims)
        return e.builder.elementwise("arith.maximumf", left, right)
    if isinstance(e.node.meta["val"], (list, tuple)):
        raise e.refuse("Heddle has no indices of maxima; expected amax")
    return keep(e, e.builder.reduce("max", x, axes(dims, len(x.shape))))  # type: ignore[arg-type]


@op("amin", "min")
def amin(e: Emitter, x: Value, dims: object = None, keepdim: bool = False) -> Value:
    low = e.builder.elementwise("arith.negf", x)
    if isinstance(dims, Value) or isinstance(e.node.meta["val"], (list, tuple)):
        raise e.refuse("Heddle has no indices of minima; expected amin")
    low = e.builder.reduce("max", low, axes(dims, len(x.shape)))  # type: ignore[arg-type]
    return keep(e, e.builder.elementwise("arith.negf", low))


def spread(e: Emitter, x: Value, shape: Shape, dims: Sequence[int]) -> Value:
    """Repeats a reduction along the dimensions that it was over."""
    along = [i for i in range(len(shape)) if i not in dims]
    return e.builder.broadcast_along(x, shape, along)


def variance(
    e: Emitter, x: Value, dims: Sequence[int], correction: float
) -> tuple[Value, Value]:
    """Returns the variance and the mean."""
    center = average(e, x, dims)
    distance = e.builder.binary("sub", x, spread(e, center, x.shape, dims))
    squares = sum_over(e, e.builder.binary("mul", distance, distance), dims)
    count = math.prod(x.shape[dim] for dim in dims)
    factor = e.builder.splat(1 / max(count - correction, 1e-30), squares.shape, x.type)
    return e.builder.binary("mul", squares, factor), center


def _correction(unbiased: object, named: dict[str, object]) -> float:
    if "correction" in named:
        given = named["correction"]
        return 1.0 if given is None else float(given)  # type: ignore[arg-type]
    return float(bool(named.get("unbiased", unbiased)))


@op("var", "std")
def var(
    e: Emitter, x: Value, dims: object = None, unbiased: object = True, *rest: object,
    **named: object,
) -> Value:  # fmt: skip
    over = (
        axes(dims, len(x.shape))
        if not isinstance(dims, bool)
        else axes(None, len(x.shape))
    )  # type: ignore[arg-type]
    y, _ = variance(e, x, over, _correction(unbiased, named))
    if e.node.target._opname == "std":
        y = e.builder.elementwise("math.sqrt", y)
    return keep(e, y)


@op("var_mean")
def var_mean(
    e: Emitter, x: Value, dims: object = None, unbiased: object = True, *rest: object,
    **named: object,
) -> list[Value]:  # fmt: skip
    over = axes(dims, len(x.shape))  # type: ignore[arg-type]
    parts = variance(e, x, over, _correction(unbiased, named))
    return [keep(e, part) for part in parts]


@op("linalg_vector_norm", "norm")
def norm(
    e: Emitter, x: Value, order: Operand = 2, dims: object = None, *rest: object,
    **named: object,
) -> Value:  # fmt: skip
    if order != 2:
        raise e.refuse(f"expected the norm of order 2, got {order}")
    over = axes(dims, len(x.shape))  # type: ignore[arg-type]
    total = sum_over(e, e.builder.binary("mul", x, x), over)
    return keep(e, e.builder.elementwise("math.sqrt", total))


@op("any", "all")
def any_(e: Emitter, x: Value, dims: object = None, keepdim: bool = False) -> Value:
    truth = e.builder.convert(e.builder.convert(x, "i1"), "f32")
    every = e.node.target._opname == "all"
    one = e.builder.splat(1.0, x.shape, "f32")
    if every:
        truth = e.builder.binary("sub", one, truth)
    found = e.builder.reduce("max", truth, axes(dims, len(x.shape)))  # type: ignore[arg-type]
    zero = e.builder.splat(0.0, found.shape, "f32")
    return keep(e, e.builder.compare("eq" if every else "gt", found, zero))


@op("cumsum")
def cumsum(e: Emitter, x: Value, dim: int, **named: object) -> Value:
    """A product with a triangle of ones. Whole numbers stay exact up to 2^24."""
    result, dim = e.element, axis(dim, len(x.shape))
    y = as_value(e, x, x.shape, "f32" if not x.is_float else x.type)
    order = [i for i in range(len(x.shape)) if i != dim] + [dim]
    y = e.builder.transpose(y, order)
    letters = "bsxyzuw"[: len(order) - 1]
    size = x.shape[dim]
    ones = np.triu(np.ones((size, size), np.float32))
    triangle_ = e.builder.constant(ones, y.type)
    y = e.builder.contract(f"{letters}t, to -> {letters}o", y, triangle_)
    back = [order.index(i) for i in range(len(order))]
    return e.builder.convert(e.builder.transpose(y, back), result)
