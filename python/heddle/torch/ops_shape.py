"""Ops that move elements, and reductions."""

import math
from collections.abc import Sequence

import numpy as np

from heddle.torch.emit import Emitter, op
from heddle.torch.ops_elementwise import Operand, as_value, operands
from heddle.torch.text import Shape, Value

_END = 1 << 62


def axis(dim: int, rank: int) -> int:
    return dim + rank if dim < 0 else dim


def axes(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    if dims is None or (isinstance(dims, Sequence) and not dims):
        return list(range(rank))
    if isinstance(dims, int):
        dims = [dims]
    return sorted(axis(dim, rank) for dim in dims)


# Shapes. PyTorch has inferred the result's shape.


@op(
    "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten",
    "_reshape_alias", "view_as", "reshape_as",
)  # fmt: skip
def reshape(e: Emitter, x: Value, *unused: object, **named: object) -> Value:
    return e.builder.reshape(x, e.shape)


@op("expand", "expand_as", "broadcast_to")
def expand(e: Emitter, x: Value, *unused: object, **named: object) -> Value:
    return e.builder.broadcast(x, e.shape)


@op("permute", "movedim", "moveaxis")
def permute(e: Emitter, x: Value, dims: Sequence[int], *to: Sequence[int]) -> Value:
    rank = len(x.shape)
    if to:
        return _move(e, x, axes(dims, rank), axes(to[0], rank))
    return e.builder.transpose(x, [axis(dim, rank) for dim in dims])


def _move(e: Emitter, x: Value, old: list[int], new: list[int]) -> Value:
    order = [dim for dim in range(len(x.shape)) if dim not in old]
    for source, target in sorted(zip(old, new, strict=True), key=lambda p: p[1]):
        order.insert(target, source)
    return e.builder.transpose(x, order)


@op("transpose", "swapaxes", "swapdims")
def transpose(e: Emitter, x: Value, first: int, second: int) -> Value:
    order = list(range(len(x.shape)))
    a, b = axis(first, len(order)), axis(second, len(order))
    order[a], order[b] = order[b], order[a]
    return e.builder.transpose(x, order)


@op("t", "numpy_T", "mT", "adjoint")
def reverse(e: Emitter, x: Value) -> Value:
    rank = len(x.shape)
    if rank < 2:
        return x
    return transpose(e, x, rank - 2, rank - 1)


# Slices.


def take(e: Emitter, x: Value, dim: int, start: int, size: int, step: int = 1) -> Value:
    offsets, sizes = [0] * len(x.shape), list(x.shape)
    strides = [1] * len(x.shape)
    offsets[dim], sizes[dim], strides[dim] = start, size, step
    return e.builder.slice(x, offsets, tuple(sizes), strides)


def _range(start: int | None, end: int | None, size: int) -> tuple[int, int]:
    start, end = start or 0, size if end is None else min(end, size)
    start = max(0, start + size if start < 0 else min(start, size))
    return start, max(start, end + size if end < 0 else end)


@op("slice")
def slice_(
    e: Emitter,
    x: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    dim = axis(dim, len(x.shape))
    first, last = _range(start, end, x.shape[dim])
    return take(e, x, dim, first, math.ceil((last - first) / step), step)


@op("narrow")
def narrow(e: Emitter, x: Value, dim: int, start: int, length: int) -> Value:
    dim = axis(dim, len(x.shape))
    return take(e, x, dim, start, length)


@op("select")
def select(e: Emitter, x: Value, dim: int, index: int) -> Value:
    dim = axis(dim, len(x.shape))
    part = take(e, x, dim, axis(index, x.shape[dim]), 1)
    return e.builder.reshape(part, e.shape)


@op(
    "split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_chunk"
)
def split(e: Emitter, x: Value, sizes: object, dim: int = 0) -> list[Value]:
    dim = axis(dim, len(x.shape))
    parts = [part.shape[dim] for part in e.node.meta["val"]]
    if grouped := _factored(e, x, dim, parts):
        return grouped
    starts = [sum(parts[:i]) for i in range(len(parts))]
    return [
        take(e, x, dim, start, size) for start, size in zip(starts, parts, strict=True)
    ]


def _factored(e: Emitter, x: Value, dim: int, parts: list[int]) -> list[Value]:
    """Returns the slices of a product that was made for this split."""
    stacked = e.stacks.get(x.name)
    if stacked is None or dim != len(x.shape) - 1 or len(set(parts)) != 1:
        return []
    return e.unstack(stacked) if stacked.shape[0] == len(parts) else []


@op("unbind")
def unbind(e: Emitter, x: Value, dim: int = 0) -> list[Value]:
    dim = axis(dim, len(x.shape))
    shape = x.shape[:dim] + x.shape[dim + 1 :]
    return [
        e.builder.reshape(take(e, x, dim, i, 1), shape) for i in range(x.shape[dim])
    ]


@op("slice_scatter")
def slice_scatter(
    e: Emitter,
    x: Value,
    part: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    dim = axis(dim, len(x.shape))
    first, _ = _range(start, end, x.shape[dim])
    offsets, strides = [0] * len(x.shape), [1] * len(x.shape)
    offsets[dim], strides[dim] = first, step
    return e.builder.insert(part, x, offsets, strides)


@op("select_scatter")
def select_scatter(e: Emitter, x: Value, part: Value, dim: int, index: int) -> Value:
    dim = axis(dim, len(x.shape))
    shape = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    offsets = [0] * len(x.shape)
    offsets[dim] = axis(index, x.shape[dim])
    part = e.builder.reshape(part, shape)
    return e.builder.insert(part, x, offsets, [1] * len(x.shape))


# Compositions.


@op("cat", "concat", "concatenate")
def concat(e: Emitter, parts: Sequence[Value], dim: int = 0) -> Value:
    kept = [e.builder.convert(part, e.element) for part in parts if part.shape != (0,)]
    return e.builder.concat(kept, axis(dim, len(e.shape)))


@op("stack")
def stack(e: Emitter, parts: Sequence[Value], dim: int = 0) -> Value:
    dim = axis(dim, len(e.shape))
    shape = (*e.shape[:dim], 1, *e.shape[dim + 1 :])
    parts = [
        e.builder.reshape(e.builder.convert(part, e.element), shape) for part in parts
    ]
    return e.builder.concat(parts, dim)


@op("constant_pad_nd", "pad")
def pad(
    e: Emitter,
    x: Value,
    widths: Sequence[int],
    mode: object = "constant",
    value: float | None = None,
) -> Value:
    if isinstance(mode, (int, float)):  # constant_pad_nd's value
        mode, value = "constant", mode
    if mode != "constant":
        raise e.refuse(f"expected padding with a constant, got {mode}")
    rank, pairs = len(x.shape), len(widths) // 2
    low, high = [0] * rank, [0] * rank
    for i in range(pairs):
        low[rank - 1 - i], high[rank - 1 - i] = widths[2 * i], widths[2 * i + 1]
    if min(low + high) < 0:
        start = [max(0, -width) for width in low]
        sizes = tuple(
            size + min(0, a) + min(0, b)
            for a, size, b in zip(low, x.shape, high, strict=True)
        )
        x = e.builder.slice(x, start, sizes, [1] * rank)
    low, high = [max(0, w) for w in low], [max(0, w) for w in high]
    return e.builder.pad(x, low, high, value or 0)


@op("repeat", "tile")
def repeat(e: Emitter, x: Value, counts: Sequence[int]) -> Value:
    extra = len(e.shape) - len(x.shape)
    old = (1,) * extra + x.shape
    counts = [1] * (len(e.shape) - len(counts)) + list(counts)
    pairs = [(count, size) for count, size in zip(counts, old, strict=True)]
    many = tuple(number for pair in pairs for number in pair)
    single = tuple(number for _, size in pairs for number in (1, size))
    return e.builder.reshape(
        e.builder.broadcast(e.builder.reshape(x, single), many), e.shape
    )


@op("repeat_interleave")
def repeat_interleave(
    e: Emitter, x: Value, count: object, dim: int | None = None, **unused: object
) -> Value:
    if not isinstance(count, int):
        raise e.refuse("expected one number of repetitions")
    if dim is None:
        x, dim = e.builder.reshape(x, (math.prod(x.shape),)), 0
    dim = axis(dim, len(x.shape))
    single = (*x.shape[: dim + 1], 1, *x.shape[dim + 1 :])
    many = (*x.shape[: dim + 1], count, *x.shape[dim + 1 :])
    return e.builder.reshape(
        e.builder.broadcast(e.builder.reshape(x, single), many), e.shape
    )


@op("flip")
def flip(e: Emitter, x: Value, dims: Sequence[int]) -> Value:
    for dim in axes(dims, len(x.shape)):
        parts = [take(e, x, dim, i, 1) for i in reversed(range(x.shape[dim]))]
        x = e.builder.concat(parts, dim)
    return x


@op("roll")
def roll(
    e: Emitter, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()
) -> Value:
    if not dims:
        raise e.refuse("expected dimensions to roll along")
    for shift, dim in zip(shifts, axes(dims, len(x.shape)), strict=True):
        size = x.shape[dim]
        first = -shift % size
        if first:
            tail = take(e, x, dim, first, size - first)
            x = e.builder.concat([tail, take(e, x, dim, 0, first)], dim)
    return x


@op("tril", "triu")
def triangle(e: Emitter, x: Value, diagonal: int = 0) -> Value:
    keep = np.tril if e.node.target._opname == "tril" else np.triu
    kept = keep(np.ones(x.shape[-2:], np.bool_), diagonal)
    mask = e.builder.broadcast(e.builder.constant(kept, "i1"), x.shape)
    return e.builder.select(mask, x, e.builder.splat(0, x.shape, x.type))


# Gathers.


def one_hot_product(e: Emitter, table: Value, ids: Value) -> Value:
    """Returns table[..., ids[...]] along the last dimension: for each id the sum
    of the row's elements, of which all but one are multiplied by zero."""
    size, count = table.shape[-1], ids.shape[-1]
    rows = (*table.shape[:-1], count, size)
    wide = e.builder.broadcast(
        e.builder.reshape(table, (*table.shape[:-1], 1, size)), rows
    )
    numbers = e.builder.constant(np.arange(size, dtype=np.int32), "i32")
    hit = e.builder.compare(
        "eq",
        e.builder.broadcast(e.builder.reshape(ids, (*ids.shape, 1)), rows),
        e.builder.broadcast(numbers, rows),
    )
    zero = e.builder.splat(0, rows, table.type)
    picked = e.builder.select(hit, wide, zero)
    return e.builder.reduce("sum", picked, [len(rows) - 1])


@op("gather")
def gather(
    e: Emitter, x: Value, dim: int, ids: Value, sparse_grad: bool = False
) -> Value:
    rank = len(x.shape)
    order = [i for i in range(rank) if i != axis(dim, rank)] + [axis(dim, rank)]
    x, ids = e.builder.transpose(x, order), e.builder.transpose(ids, order)
    leading = tuple(ids.shape[:-1])
    if leading != x.shape[:-1]:
        x = e.builder.slice(x, [0] * rank, (*leading, x.shape[-1]), [1] * rank)
    picked = one_hot_product(e, x, ids)
    back = [order.index(i) for i in range(rank)]
    return e.builder.transpose(picked, back)


@op("index_select")
def index_select(e: Emitter, x: Value, dim: int, ids: Value) -> Value:
    dim, rank = axis(dim, len(x.shape)), len(x.shape)
    order = [dim, *(i for i in range(rank) if i != dim)]
    back = [order.index(i) for i in range(rank)]
    return e.builder.transpose(rows(e, e.builder.transpose(x, order), ids), back)


def rows(e: Emitter, table: Value, ids: Value) -> Value:
    """Returns table[ids[...], ...]."""
    place = _place_of(ids)
    if place is not None:
        _, start, count = place
        sizes, strides = (count, *table.shape[1:]), [1] * len(table.shape)
        part = e.builder.slice(table, [start] + [0] * (len(sizes) - 1), sizes, strides)
        return e.builder.reshape(part, (*ids.shape, *table.shape[1:]))
    width = math.prod(table.shape[1:])
    flat = e.builder.reshape(table, (table.shape[0], width))
    shape = (*ids.shape, width)
    if not table.is_float:  # whole numbers stay exact up to 2^24
        found = rows(e, e.builder.convert(table, "f32"), ids)
        return e.builder.convert(found, table.type)
    found = e.builder.op(
        f"heddle.embedding {e.builder.quoted} {flat.name}, {ids.name} : {flat.tensor}, "
        f"{ids.tensor} -> {Value('', shape, table.type).tensor}",
        [flat, ids],
        shape,
        table.type,
    )
    return e.builder.reshape(found, (*ids.shape, *table.shape[1:]))


@op("embedding")
def embedding(
    e: Emitter, table: Value, ids: Value, padding: int = -1, *unused: object
) -> Value:
    found = rows(e, table, ids)
    e.features[found.name] = "h"
    if padding < 0:
        return found
    # The row of padding gets no gradient.
    hit = e.builder.compare("eq", ids, e.builder.splat(padding, ids.shape, ids.type))
    wide = e.builder.broadcast_along(hit, found.shape, range(len(ids.shape)))
    result = e.builder.select(wide, e.builder.without_gradient(found), found)
    e.features[result.name] = "h"
    return result


@op("index")
def index(e: Emitter, x: Value, indices: Sequence[Value | None]) -> Value:
    used = [i for i, ids in enumerate(indices) if ids is not None]
    if any(indices[i].type == "i1" for i in used):  # type: ignore[union-attr]
        raise e.refuse("the size of the result depends on data")
    if used == list(range(len(used))):
        grid = _index_grid(e, x, [indices[i] for i in used])  # type: ignore[misc]
        if grid is not None:
            return grid
    if len(used) == 1:
        return _index_one(e, x, used[0], indices[used[0]])  # type: ignore[arg-type]
    if used == list(range(len(used))):
        return _index_leading(e, x, [indices[i] for i in used])  # type: ignore[misc]
    raise e.refuse("expected indices of leading dimensions")


def _place_of(ids: Value) -> tuple[int, int, int] | None:
    """Returns the axis along which constant indices count up by one, the first
    index and their number; None for other indices."""
    if not ids.source or ids.source[0] != "constant":
        return None
    array = ids.source[1]
    long = [i for i, size in enumerate(array.shape) if size > 1]
    flat = array.reshape(-1)
    if len(long) > 1 or (np.diff(flat) != 1).any() or flat[0] < 0:
        return None
    # Counted from the end, because PyTorch aligns shapes there.
    place = long[0] - len(array.shape) if long else 0
    return place, int(flat[0]), len(flat)


def _index_grid(e: Emitter, x: Value, indices: Sequence[Value]) -> Value | None:
    """Returns a slice of x, if constant indices say no more than that: one range
    along each axis."""
    places = [_place_of(ids) for ids in indices]
    ranges = [place for place in places if place is not None]
    if len(ranges) < len(indices):
        return None
    shape = np.broadcast_shapes(*(ids.shape for ids in indices))
    # A single index stays in its place, before the dimension of size 1.
    axis_of = [place + len(shape) if place else -1 for place, _, _ in ranges]
    used = [axis for axis in axis_of if axis >= 0]
    if len(set(used)) != len(used):
        return None
    rest = len(x.shape) - len(indices)
    offsets = [start for _, start, _ in ranges] + [0] * rest
    sizes = (*(count for _, _, count in ranges), *x.shape[len(indices) :])
    part = e.builder.slice(x, offsets, sizes, [1] * len(x.shape))
    order = sorted(range(len(indices)), key=axis_of.__getitem__)
    part = e.builder.transpose(part, [*order, *range(len(indices), len(x.shape))])
    return e.builder.reshape(part, (*shape, *x.shape[len(indices) :]))


def _index_one(e: Emitter, x: Value, dim: int, ids: Value) -> Value:
    if dim == 0:
        return rows(e, x, ids)
    flat = e.builder.reshape(ids, (math.prod(ids.shape),))
    return e.builder.reshape(index_select(e, x, dim, flat), e.shape)


def _index_leading(e: Emitter, x: Value, indices: Sequence[Value]) -> Value:
    """Counts the rows of all indexed dimensions together."""
    shape = np.broadcast_shapes(*(ids.shape for ids in indices))
    row = e.builder.splat(0, shape, "i32")
    for size, ids in zip(x.shape, indices, strict=False):
        scale = e.builder.splat(size, shape, "i32")
        row = e.builder.binary("mul", row, scale)
        row = e.builder.binary("add", row, e.builder.broadcast(ids, shape))
    count = len(indices)
    table = e.builder.reshape(x, (math.prod(x.shape[:count]), *x.shape[count:]))
    return rows(e, table, row)


@op("one_hot")
def one_hot(e: Emitter, ids: Value, classes: int = -1) -> Value:
    numbers = e.builder.constant(np.arange(e.shape[-1], dtype=np.int32), "i32")
    wide = e.builder.broadcast(e.builder.reshape(ids, (*ids.shape, 1)), e.shape)
    hit = e.builder.compare("eq", wide, e.builder.broadcast(numbers, e.shape))
    return e.builder.convert(hit, e.element)


# Reductions.


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
