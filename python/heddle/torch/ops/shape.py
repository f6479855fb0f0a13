"""Ops that move elements."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op
from heddle.torch.text import Value

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


@dataclasses.dataclass
class _Rows:
    """The rows of a slice: every `step`th row from `start` to before `end`."""

    dim: int = 0
    start: int | None = None
    end: int | None = None
    step: int = 1

    def of(self, x: Value) -> tuple[int, int, int, int]:
        """Returns the dimension, the first row, the number of rows, the step."""
        dim = axis(self.dim, len(x.shape))
        first, last = _range(self.start, self.end, x.shape[dim])
        return dim, first, math.ceil((last - first) / self.step), self.step


@op("slice")
def slice_(e: Emitter, x: Value, *place: Any, **named: Any) -> Value:
    return take(e, x, *_Rows(*place, **named).of(x))


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
    e: Emitter, x: Value, part: Value, *place: Any, **named: Any
) -> Value:
    dim, first, _, step = _Rows(*place, **named).of(x)
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
    rank, pairs = len(x.shape), len(widths) // 2
    low, high = [0] * rank, [0] * rank
    for i in range(pairs):
        low[rank - 1 - i], high[rank - 1 - i] = widths[2 * i], widths[2 * i + 1]
    if mode != "constant":
        for dim in range(rank):
            x = _pad_along(e, x, dim, low[dim], high[dim], str(mode))
        return x
    return padded(e, x, low, high, value or 0)


def _pad_along(e: Emitter, x: Value, dim: int, low: int, high: int, mode: str) -> Value:
    """Repeats rows of x itself before its first and after its last row."""
    size = x.shape[dim]
    rows = np.pad(np.arange(size), (low, high), _PADDINGS[mode])
    before = [take(e, x, dim, int(row), 1) for row in rows[:low]]
    after = [take(e, x, dim, int(row), 1) for row in rows[low + size :]]
    return e.builder.concat([*before, x, *after], dim)


# PyTorch's modes in NumPy's words.
_PADDINGS: dict[str, Any] = {
    "reflect": "reflect", "replicate": "edge", "circular": "wrap",
}  # fmt: skip


def padded(
    e: Emitter, x: Value, low: Sequence[int], high: Sequence[int], value: float
) -> Value:
    """Appends a number on both sides of each dimension. A negative width removes
    elements instead."""
    rank = len(x.shape)
    if min([*low, *high]) < 0:
        start = [max(0, -width) for width in low]
        sizes = tuple(
            size + min(0, a) + min(0, b)
            for a, size, b in zip(low, x.shape, high, strict=True)
        )
        x = e.builder.slice(x, start, sizes, [1] * rank)
    low, high = [max(0, w) for w in low], [max(0, w) for w in high]
    return e.builder.pad(x, low, high, value)


@op("unfold")
def unfold(e: Emitter, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows along a dimension, with their elements as the last dimension."""
    dim, count = axis(dim, len(x.shape)), e.shape[axis(dim, len(x.shape))]
    parts = [take(e, x, dim, i, count, step) for i in range(size)]
    shape = (*parts[0].shape, 1)
    return e.builder.concat([e.builder.reshape(p, shape) for p in parts], len(x.shape))


@op("diagonal")
def diagonal(e: Emitter, x: Value, offset: int = 0, a: int = 0, b: int = 1) -> Value:
    rank = len(x.shape)
    pair = [axis(a, rank), axis(b, rank)]
    order = [i for i in range(rank) if i not in pair] + pair
    x = e.builder.transpose(x, order)
    length, start = e.shape[-1], [0] * (rank - 2)
    start += [max(0, -offset), max(0, offset)]
    x = e.builder.slice(x, start, (*x.shape[:-2], length, length), [1] * rank)
    eye = e.builder.constant(np.eye(length, dtype=np.bool_), "i1")
    zero = e.builder.splat(0, x.shape, x.type)
    kept = e.builder.select(e.builder.broadcast(eye, x.shape), x, zero)
    return e.builder.reduce("sum", kept, [rank - 1])


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
