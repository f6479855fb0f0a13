"""Reductions."""

import math
from collections.abc import Sequence

import numpy as np

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op, op_name
from heddle.torch.ops.elementwise import Operand, as_value, operands, promote
from heddle.torch.ops.shape import axes, axis, take
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
def amax(e: Emitter, x: Value, dims: object = None, keepdim: bool = False) -> object:
    if isinstance(dims, Value):
        left, right = operands(e, x, dims)
        return e.builder.elementwise("arith.maximumf", left, right)
    largest = keep(e, e.builder.reduce("max", x, axes(dims, len(x.shape))))  # type: ignore[arg-type]
    if isinstance(e.node.meta["val"], (list, tuple)):
        return [largest, place_of_largest(e, x, int(dims))]  # type: ignore[call-overload]
    return largest


@op("amin", "min")
def amin(e: Emitter, x: Value, dims: object = None, keepdim: bool = False) -> object:
    low = e.builder.elementwise("arith.negf", x)
    if isinstance(dims, Value):
        left, right = operands(e, x, dims)
        return e.builder.elementwise("arith.minimumf", left, right)
    least = e.builder.reduce("max", low, axes(dims, len(x.shape)))  # type: ignore[arg-type]
    least = keep(e, e.builder.elementwise("arith.negf", least))
    if isinstance(e.node.meta["val"], (list, tuple)):
        return [least, place_of_largest(e, low, int(dims))]  # type: ignore[call-overload]
    return least


def place_of_largest(e: Emitter, x: Value, dim: int) -> Value:
    """Returns the first index of the maximum along a dimension. Numbers the elements
    from the end, so that the first maximum has the largest number."""
    x = e.builder.convert(x, "f32")
    dim, size = axis(dim, len(x.shape)), x.shape[axis(dim, len(x.shape))]
    largest = spread(e, e.builder.reduce("max", x, [dim]), x.shape, [dim])
    hit = e.builder.compare("eq", x, largest)
    numbers = np.arange(size, 0, -1, dtype=np.float32)
    back = e.builder.broadcast_along(e.builder.constant(numbers, "f32"), x.shape, [dim])
    zero = e.builder.splat(0.0, x.shape, "f32")
    first = e.builder.reduce("max", e.builder.select(hit, back, zero), [dim])
    count = e.builder.splat(float(size), first.shape, "f32")
    return keep(e, e.builder.convert(e.builder.binary("sub", count, first), "i32"))


@op("argmax", "argmin")
def argmax(
    e: Emitter, x: Value, dim: int | None = None, keepdim: bool = False
) -> Value:
    if dim is None:
        x, dim = e.builder.reshape(x, (math.prod(x.shape),)), 0
    x = e.builder.convert(x, "f32")
    if e.node.target._opname == "argmin":
        x = e.builder.elementwise("arith.negf", x)
    return place_of_largest(e, x, dim)


def spread(e: Emitter, x: Value, shape: Shape, dims: Sequence[int]) -> Value:
    """Repeats a reduction along the dimensions that were reduced."""
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
        y = root(e, y)
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
    over = axes(dims, len(x.shape))  # type: ignore[arg-type]
    if order != 2:
        return keep(e, _general_norm(e, x, order, over))
    total = sum_over(e, e.builder.binary("mul", x, x), over)
    return keep(e, root(e, total))


def root(e: Emitter, x: Value, power: float = 0.5) -> Value:
    """Returns a power of numbers that are at least zero. The gradient at zero is zero,
    like that of PyTorch's norms."""
    zero, one = (e.builder.splat(n, x.shape, x.type) for n in (0.0, 1.0))
    is_zero = e.builder.compare("eq", x, zero)  # false for NaN, so NaN stays
    x = e.builder.select(is_zero, one, x)
    if power == 0.5:
        y = e.builder.elementwise("math.sqrt", x)
    else:
        exponent = e.builder.splat(power, x.shape, x.type)
        y = e.builder.elementwise("math.powf", x, exponent)
    return e.builder.select(is_zero, zero, y)


def _general_norm(e: Emitter, x: Value, order: Operand, dims: Sequence[int]) -> Value:
    if not isinstance(order, (int, float)) or order <= 0:
        raise e.refuse(f"expected the norm of an order above 0, got {order}")
    size = e.builder.elementwise("math.absf", x)
    if order == math.inf:
        return e.builder.reduce("max", size, dims)
    if order == 1:
        return sum_over(e, size, dims)
    total = sum_over(e, root(e, size, float(order)), dims)
    return root(e, total, 1 / float(order))


def _distances(e: Emitter, a: Value, b: Value, order: float) -> Value:
    """Returns the norms of the differences of all rows of a and of b."""
    rank = len(a.shape) - 2
    shape = (*a.shape[:-1], *b.shape[-2:])
    lead = list(range(rank))
    wide_a = e.builder.broadcast_along(a, shape, [*lead, rank, rank + 2])
    wide_b = e.builder.broadcast_along(b, shape, [*lead, rank + 1, rank + 2])
    apart = e.builder.binary("sub", wide_a, wide_b)
    if order == 2:
        squares = e.builder.binary("mul", apart, apart)
        return root(e, sum_over(e, squares, [rank + 2]))
    return _general_norm(e, apart, order, [rank + 2])


@op("_cdist_forward")
def cdist(
    e: Emitter, a: Value, b: Value, order: float = 2, mode: int | None = None
) -> Value:
    lead = e.shape[:-2]
    a, b = (e.builder.broadcast(x, (*lead, *x.shape[-2:])) for x in (a, b))
    return _distances(e, a, b, order)


@op("_pdist_forward")
def pdist(e: Emitter, x: Value, order: float = 2) -> Value:
    """The distances of all pairs of rows (i, j) with i < j. The pairs of one row i are
    a slice of the matrix of distances."""
    count = x.shape[0]
    if count < 2:
        raise e.refuse("expected pdist of 2 rows or more, whose result has elements")
    square = _distances(e, x, x, order)
    parts = [
        e.builder.reshape(
            e.builder.slice(square, [i, i + 1], (1, count - 1 - i), [1, 1]),
            (count - 1 - i,),
        )
        for i in range(count - 1)
    ]
    return e.builder.concat(parts, 0)


@op("prod")
def prod(
    e: Emitter, x: Value, dim: int | None = None, keepdim: bool = False, **named: object
) -> Value:
    """Multiplies one half of the dimension by the other until one row is left."""
    if dim is None:
        x, dim = e.builder.reshape(x, (math.prod(x.shape),)), 0
    dim = axis(dim, len(x.shape))
    while (size := x.shape[dim]) > 1:
        half = size // 2
        product = e.builder.binary(
            "mul", take(e, x, dim, 0, half), take(e, x, dim, half, half)
        )
        rest = [take(e, x, dim, size - 1, 1)] if size % 2 else []
        x = e.builder.concat([product, *rest], dim)
    return e.builder.reshape(x, e.shape)


@op("cumprod", "cummax", "cummin")
def cumprod(e: Emitter, x: Value, dim: int, **named: object) -> object:
    """Combines each row with the row 1, then 2, 4, ... places before it: by a product,
    or by the larger or smaller element."""
    kind = {
        "cumprod": "arith.mulf" if x.is_float else "arith.muli",
        "cummax": "arith.maximumf" if x.is_float else "arith.maxsi",
        "cummin": "arith.minimumf" if x.is_float else "arith.minsi",
    }[op_name(e.node)]
    dim, places = axis(dim, len(x.shape)), 1
    while places < x.shape[dim]:
        kept = take(e, x, dim, 0, places)
        later = take(e, x, dim, places, x.shape[dim] - places)
        before = take(e, x, dim, 0, x.shape[dim] - places)
        x = e.builder.concat([kept, e.builder.elementwise(kind, later, before)], dim)
        places *= 2
    return x if op_name(e.node) == "cumprod" else [x, None]


@op("bucketize", "searchsorted")
def bucketize(
    e: Emitter, first: Value, second: Value, out_int32: bool = False,
    right: bool = False, side: str | None = None, sorter: object = None,
) -> Value:  # fmt: skip
    """Returns the number of sorted boundaries below each number (up to it, if `right`).
    No boundary is above NaN, so all count."""
    if sorter is not None:
        raise e.refuse("expected searchsorted without a sorter")
    is_search = op_name(e.node) == "searchsorted"
    bounds, x = (first, second) if is_search else (second, first)
    element = promote(bounds, x)
    bounds, x = (e.builder.convert(value, element) for value in (bounds, x))
    shape = (*x.shape, bounds.shape[-1])
    last = len(x.shape)
    lead = range(last - 1) if len(bounds.shape) > 1 else range(0)
    wide = e.builder.broadcast_along(bounds, shape, [*lead, last])
    number = e.builder.broadcast_along(x, shape, range(last))
    kind = "gt" if right or side == "right" else "ge"
    above = e.builder.convert(e.builder.compare(kind, wide, number), "f32")
    count = e.builder.reduce("sum", above, [last])
    everything = e.builder.splat(float(bounds.shape[-1]), count.shape, "f32")
    return e.builder.convert(e.builder.binary("sub", everything, count), "i32")


@op("_assert_async", "_functional_assert_async")
def assertion(e: Emitter, *unused: object) -> None:
    """Leaves out checks of values, such as those of torch.distributions."""


@op("any", "all", "_is_all_true")
def any_(e: Emitter, x: Value, dims: object = None, keepdim: bool = False) -> Value:
    truth = e.builder.convert(e.builder.convert(x, "i1"), "f32")
    every = e.node.target._opname != "any"
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
