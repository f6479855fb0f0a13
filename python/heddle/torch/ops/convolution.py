"""Convolutions: one product for each position of the kernel. If the strides equal the
kernel's sizes (patches), one product for all positions."""

import math
from collections.abc import Sequence

import numpy as np

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op
from heddle.torch.ops.product import add_bias
from heddle.torch.ops.shape import flip, padded
from heddle.torch.text import Shape, Value


def per_dimension(value: int | Sequence[int], count: int) -> list[int]:
    if isinstance(value, int):
        return [value] * count
    return list(value) * (count if len(value) == 1 else 1)


@op("conv1d", "conv2d", "conv3d", "convolution")
def convolution(
    e: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    *rest: object,
    groups: int = 1,
) -> Value:
    count = len(weight.shape) - 2
    if len(rest) == 3:  # aten.convolution: transposed, output padding, groups
        groups = int(rest[2])  # type: ignore[call-overload]
        if rest[0]:
            extra = per_dimension(rest[1], count)  # type: ignore[arg-type]
            return _transposed(
                e, x, weight, bias, stride, padding, extra, groups, dilation
            )
    elif rest:
        groups = int(rest[0])  # type: ignore[call-overload]
    if len(x.shape) == count + 1:
        raise e.refuse("expected a batch dimension")
    strides, dilations = per_dimension(stride, count), per_dimension(dilation, count)
    kernel = weight.shape[2:]
    low, high = _padding(padding, kernel, dilations)
    x = e.builder.pad(x, [0, 0, *low], [0, 0, *high], 0)
    if groups != 1:
        return _grouped(e, x, weight, bias, strides, dilations, groups)
    y = _windows(e, x, weight, strides, dilations)
    return add_bias(e, y, bias, [1])


@op("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _transposed(
    e: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Value:
    """Builds the convolution of x, with zeros between its elements, and the reversed
    kernel."""
    count = len(weight.shape) - 2
    strides, dilations = per_dimension(stride, count), per_dimension(dilation, count)
    # Appends stride - 1 zeros to each element, along a new dimension for each spatial
    # one.
    parts = (*x.shape[:2], *(n for size in x.shape[2:] for n in (size, 1)))
    high = [0, 0, *(n for step in strides for n in (0, step - 1))]
    sizes = [size * step for size, step in zip(x.shape[2:], strides, strict=True)]
    x = e.builder.pad(e.builder.reshape(x, parts), [0] * len(parts), high, 0)
    x = e.builder.reshape(x, (*x.shape[:2], *sizes))
    reach = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
    widths = per_dimension(padding, count)
    extra = per_dimension(output_padding, count)
    low = [0, 0, *(a - b for a, b in zip(reach, widths, strict=True))]
    high = [0, 0]
    for a, b, more, step in zip(reach, widths, extra, strides, strict=True):
        high.append(a - b + more - (step - 1))
    x = padded(e, x, low, high, 0)
    weight = flip(e, weight, range(2, 2 + count))
    rows, columns, *kernel = weight.shape
    weight = e.builder.reshape(weight, (groups, rows // groups, columns, *kernel))
    order = [0, 2, 1, *range(3, 3 + count)]
    weight = e.builder.transpose(weight, order)
    weight = e.builder.reshape(weight, (groups * columns, rows // groups, *kernel))
    if groups != 1:
        return _grouped(e, x, weight, bias, [1] * count, dilations, groups)
    y = _windows(e, x, weight, [1] * count, dilations)
    return add_bias(e, y, bias, [1])


def _padding(
    padding: int | str | Sequence[int], kernel: Shape, dilations: Sequence[int]
) -> tuple[list[int], list[int]]:
    if padding == "valid":
        padding = 0
    if padding == "same":
        total = [d * (size - 1) for d, size in zip(dilations, kernel, strict=True)]
        return [t // 2 for t in total], [t - t // 2 for t in total]
    widths = per_dimension(padding, len(kernel))  # type: ignore[arg-type]
    return widths, widths


def _windows(
    e: Emitter,
    x: Value,
    weight: Value,
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Value:
    """Builds the convolution of x [b, c, ...] with weight [k, c, ...]."""
    kernel = weight.shape[2:]
    spatial = "xyz"[: len(kernel)]
    sizes = _output_sizes(x.shape[2:], kernel, strides, dilations)
    exact = tuple(a * b for a, b in zip(sizes, kernel, strict=True)) == x.shape[2:]
    if list(kernel) == list(strides) and set(dilations) == {1} and exact:
        return _patches(e, x, weight, sizes)
    total: Value | None = None
    for place in np.ndindex(*kernel):
        part = window(e, x, place, sizes, strides, dilations)
        kernel_part = e.builder.slice(
            weight,
            [0, 0, *place],
            (*weight.shape[:2], *(1 for _ in kernel)),
            [1] * len(weight.shape),
        )
        kernel_part = e.builder.reshape(kernel_part, weight.shape[:2])
        letters = f"bc{spatial}, kc -> bk{spatial}"
        y = e.builder.contract(letters, part, kernel_part)
        total = y if total is None else e.builder.binary("add", total, y)
    assert total is not None
    return total


def window(
    e: Emitter,
    x: Value,
    place: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Value:
    """Returns the elements that one position of a kernel sees."""
    starts = [i * d for i, d in zip(place, dilations, strict=True)]
    return e.builder.slice(x, [0, 0, *starts], (*x.shape[:2], *sizes), [1, 1, *strides])


def _output_sizes(
    sizes: Shape, kernel: Shape, strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    return tuple(
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)
    )


def _patches(e: Emitter, x: Value, weight: Value, sizes: Sequence[int]) -> Value:
    kernel = weight.shape[2:]
    pairs = [number for pair in zip(sizes, kernel, strict=True) for number in pair]
    blocks = e.builder.reshape(x, (*x.shape[:2], *pairs))
    outer_ = "xyz"[: len(kernel)]
    inner = "uwt"[: len(kernel)]
    mixed = "".join(a + b for a, b in zip(outer_, inner, strict=True))
    return e.builder.contract(f"bc{mixed}, kc{inner} -> bk{outer_}", blocks, weight)


def _grouped(
    e: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> Value:
    """Builds one product for each position of the kernel, with the group as a
    batch dimension."""
    kernel, spatial = weight.shape[2:], "xyz"[: len(weight.shape) - 2]
    sizes = _output_sizes(x.shape[2:], kernel, strides, dilations)
    total: Value | None = None
    for place in np.ndindex(*kernel):
        part = window(e, x, place, sizes, strides, dilations)
        part = e.builder.reshape(
            part, (x.shape[0], groups, x.shape[1] // groups, *sizes)
        )
        kernel_part = e.builder.slice(
            weight,
            [0, 0, *place],
            (*weight.shape[:2], *(1 for _ in kernel)),
            [1] * len(weight.shape),
        )
        kernel_part = e.builder.reshape(
            kernel_part, (groups, weight.shape[0] // groups, weight.shape[1])
        )
        letters = f"bgc{spatial}, gkc -> bgk{spatial}"
        y = e.builder.contract(letters, part, kernel_part)
        total = y if total is None else e.builder.binary("add", total, y)
    assert total is not None
    return add_bias(e, e.builder.reshape(total, e.shape), bias, [1])


@op("col2im")
def fold(
    e: Emitter,
    x: Value,
    size: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """Adds patches [b, c * kernel, patches] into images, by one product for each
    dimension. Its matrix has a one at the place of each element of a patch."""
    tables, counts = [], []
    for full, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True):
        count = (full + 2 * p - d * (k - 1) - 1) // s + 1
        table = np.zeros((k, count, full), np.float32)
        for tap, patch in np.ndindex(k, count):
            place = patch * s + tap * d - p
            if 0 <= place < full:
                table[tap, patch, place] = 1
        tables.append(e.builder.convert(e.builder.constant(table, "f32"), x.type))
        counts.append(count)
    lead = e.shape[:-3]
    patches = e.builder.reshape(x, (math.prod(lead), e.shape[-3], *kernel, *counts))
    y = e.builder.contract("bckuxy, kxo -> bcuyo", patches, tables[0])
    y = e.builder.contract("bcuyo, uyw -> bcow", y, tables[1])
    return e.builder.reshape(y, e.shape)
