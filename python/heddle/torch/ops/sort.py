"""Sorting: the place of an element is the number of elements before it. So a row
of n elements costs n * n comparisons, which is little for the scores of experts."""

import numpy as np

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op
from heddle.torch.ops.shape import axis
from heddle.torch.text import Value

# Comparisons of one op.
_LIMIT = 1 << 28


def _places(e: Emitter, x: Value, descending: bool) -> Value:
    """Returns for each element [..., n] its place in its sorted row, as f32.
    Equal elements stay in order."""
    size = x.shape[-1]
    shape = (*x.shape, size)
    lead = list(range(len(x.shape) - 1))
    own = e.builder.broadcast_along(x, shape, [*lead, len(lead)])
    other = e.builder.broadcast_along(x, shape, [*lead, len(lead) + 1])
    is_first = e.builder.compare("gt" if descending else "lt", other, own)
    is_equal = e.builder.compare("eq", other, own)
    earlier = e.builder.constant(np.tri(size, k=-1, dtype=np.bool_), "i1")
    earlier = e.builder.broadcast(earlier, shape)
    is_equal = e.builder.elementwise("arith.andi", is_equal, earlier)
    before = e.builder.elementwise("arith.ori", is_first, is_equal)
    return e.builder.reduce("sum", e.builder.convert(before, "f32"), [len(lead) + 1])


def _sorted(
    e: Emitter, x: Value, dim: int, descending: bool, first: int, count: int
) -> tuple[Value, Value]:
    """Returns `count` elements of the sorted rows from place `first`, and their
    indices."""
    rank, kind = len(x.shape), x.type
    x = e.builder.reshape(x, x.shape or (1,))
    order = [i for i in range(len(x.shape)) if i != axis(dim, len(x.shape))]
    order.append(axis(dim, len(x.shape)))
    rows = e.builder.transpose(x, order)
    # Whole numbers are compared and picked as such: f32 would join some.
    rows = rows if rows.is_float else e.builder.convert(rows, "i32")
    size = rows.shape[-1]
    if np.prod(rows.shape) * size > _LIMIT:
        raise e.refuse(f"expected shorter rows to sort, got {size} elements")
    shape = (*rows.shape, count)
    along = list(range(len(rows.shape)))
    places = e.builder.broadcast_along(_places(e, rows, descending), shape, along)
    wanted = e.builder.constant(
        np.arange(first, first + count, dtype=np.float32), "f32"
    )
    wanted = e.builder.broadcast(wanted, shape)
    hit = e.builder.compare("eq", places, wanted)
    numbers = e.builder.constant(np.arange(size, dtype=np.float32), "f32")
    results = []
    for values, end, at in (
        (rows, kind, along), (numbers, "i32", [len(along) - 1]),
    ):  # fmt: skip
        wide = e.builder.broadcast_along(values, shape, at)
        zero = e.builder.splat(0, shape, wide.type)
        picked = e.builder.select(hit, wide, zero)
        picked = e.builder.reduce("sum", picked, [len(along) - 1])
        back = [order.index(i) for i in range(len(order))]
        picked = e.builder.transpose(picked, back)
        picked = e.builder.convert(picked, end)
        results.append(picked if rank else e.builder.reshape(picked, ()))
    return results[0], results[1]


@op("topk")
def topk(
    e: Emitter, x: Value, count: int, dim: int = -1, largest: bool = True,
    is_sorted: bool = True,
) -> list[Value]:  # fmt: skip
    return list(_sorted(e, x, dim, largest, 0, count))


@op("sort", "argsort")
def sort(
    e: Emitter, x: Value, dim: int = -1, descending: bool = False, **named: object
) -> object:
    dim = int(named.get("dim", dim))  # type: ignore[call-overload]
    descending = bool(named.get("descending", descending))
    size = x.shape[dim] if x.shape else 1
    values, indices = _sorted(e, x, dim, descending, 0, size)
    return indices if e.node.target._opname == "argsort" else [values, indices]


@op("kthvalue")
def kthvalue(
    e: Emitter, x: Value, place: int, dim: int = -1, keepdim: bool = False
) -> list[Value]:
    found = _sorted(e, x, dim, False, place - 1, 1)
    return [e.builder.reshape(value, e.shape) for value in found]


@op("median")
def median(
    e: Emitter, x: Value, dim: int | None = None, keepdim: bool = False
) -> object:
    """The lower one of two elements in the middle."""
    if dim is None:
        x = e.builder.reshape(x, (int(np.prod(x.shape)),))
        values, _ = _sorted(e, x, 0, False, (x.shape[0] - 1) // 2, 1)
        return e.builder.reshape(values, ())
    return kthvalue(e, x, (x.shape[dim] - 1) // 2 + 1, dim)
