"""Pooling."""

import functools
import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op, op_name
from heddle.torch.ops.convolution import per_dimension, window
from heddle.torch.ops.norm import scaled
from heddle.torch.ops.reduction import average
from heddle.torch.ops.resample import along
from heddle.torch.ops.shape import take
from heddle.torch.text import Value


def _dimensions(e: Emitter) -> int:
    """Returns the number in the op's name: 2 for avg_pool2d."""
    return next(n for n in (1, 2, 3) if f"{n}d" in op_name(e.node))


@op(
    "max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices",
    "max_pool3d_with_indices",
)  # fmt: skip
def max_pool(
    e: Emitter,
    x: Value,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> object:
    count = _dimensions(e)
    sizes, pads = per_dimension(kernel, count), per_dimension(padding, count)
    strides = per_dimension(stride or kernel, count)
    dilations = per_dimension(dilation, count)
    high = list(pads)
    for i in range(count):  # with ceil_mode, the last window may reach beyond the end
        reach = (e.shape[2 + i] - 1) * strides[i] + dilations[i] * (sizes[i] - 1) + 1
        high[i] = max(pads[i], reach - x.shape[2 + i] - pads[i])
    x = e.builder.pad(x, [0, 0, *pads], [0, 0, *high], -3.0e38)
    y: Value | None = None
    for place in np.ndindex(*sizes):
        part = window(e, x, place, e.shape[2:], strides, dilations)
        y = part if y is None else e.builder.elementwise("arith.maximumf", y, part)
    return [y, None] if "indices" in op_name(e.node) else y


@op("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    e: Emitter,
    x: Value,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Value:
    count = _dimensions(e)
    sizes, pads = per_dimension(kernel, count), per_dimension(padding, count)
    if ceil_mode or (any(pads) and not count_include_pad):
        if divisor is not None:
            raise e.refuse("expected ceil_mode=False with divisor_override")
        strides = per_dimension(stride or kernel, count)
        for i in range(count):

            def pool(rows: torch.Tensor, i: int = i) -> torch.Tensor:
                return F.avg_pool1d(
                    rows, sizes[i], strides[i], pads[i], ceil_mode, count_include_pad
                )

            x = along(e, x, 2 + i, pool)
        return x
    x = e.builder.pad(x, [0, 0, *pads], [0, 0, *pads], 0)
    y: Value | None = None
    for place in np.ndindex(*sizes):
        part = window(
            e,
            x,
            place,
            e.shape[2:],
            per_dimension(stride or kernel, count),
            [1] * count,
        )
        y = part if y is None else e.builder.binary("add", y, part)
    assert y is not None
    return scaled(e, y, 1 / (divisor or math.prod(sizes)))


@op(
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
)  # fmt: skip
def adaptive_avg_pool(e: Emitter, x: Value, size: Sequence[int]) -> Value:
    count = _dimensions(e)
    old, new = x.shape[-count:], e.shape[-count:]
    if any(a % b for a, b in zip(old, new, strict=True)):
        for i, size in enumerate(new, len(x.shape) - count):
            x = along(
                e, x, i, functools.partial(F.adaptive_avg_pool1d, output_size=size)
            )
        return x
    pairs = [n for a, b in zip(old, new, strict=True) for n in (b, a // b)]
    lead = x.shape[:-count]
    blocks = e.builder.reshape(x, (*lead, *pairs))
    dims = [len(lead) + 2 * i + 1 for i in range(count)]
    return e.builder.reshape(average(e, blocks, dims), e.shape)


@op("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(e: Emitter, x: Value, size: Sequence[int]) -> list[Value | None]:
    """The windows of a dimension overlap where its size is no multiple of their
    number."""
    for dim in range(len(x.shape) - _dimensions(e), len(x.shape)):
        old, new = x.shape[dim], e.shape[dim]
        if old % new == 0:
            blocks = (*x.shape[:dim], new, old // new, *x.shape[dim + 1 :])
            x = e.builder.reduce("max", e.builder.reshape(x, blocks), [dim + 1])
            continue
        parts = []
        for i in range(new):
            begin, end = i * old // new, -(-(i + 1) * old // new)
            part = take(e, x, dim, begin, end - begin)
            shape = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
            parts.append(e.builder.reshape(e.builder.reduce("max", part, [dim]), shape))
        x = e.builder.concat(parts, dim)
    return [x, None]
