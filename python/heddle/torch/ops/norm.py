"""Norms."""

import math
from collections.abc import Sequence

import numpy as np

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op, op_name
from heddle.torch.ops.reduction import spread, variance
from heddle.torch.text import Value, number


def _stats(x: Value) -> str:
    return Value("", x.shape[:-1], "f32").tensor


@op("layer_norm", "native_layer_norm")
def layer_norm(
    e: Emitter,
    x: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    epsilon: float = 1e-5,
    *unused: object,
) -> object:
    width = math.prod(shape)
    rows = e.builder.reshape(x, (*x.shape[: len(x.shape) - len(shape)], width))
    scale = _one_dimension(e, weight, width, 1.0)
    shift = _one_dimension(e, bias, width, 0.0)
    result = e.builder.fresh(rows.shape, x.type)
    stats = [e.builder.fresh(rows.shape[:-1], "f32") for _ in range(2)]
    e.builder.append(
        f"heddle.layer_norm {e.builder.quoted} {rows.name}, {scale.name}, {shift.name} "
        f"epsilon({number(epsilon, 'f64')}) : ({rows.tensor}, {scale.tensor}, "
        f"{shift.tensor}) -> ({rows.tensor}, {_stats(rows)}, {_stats(rows)})",
        [rows, scale, shift],
        [result, *stats],
    )
    y = e.builder.reshape(result, x.shape)
    e.features[y.name] = "h"
    return [y, *stats] if op_name(e.node) == "native_layer_norm" else y


def _one_dimension(e: Emitter, x: Value | None, size: int, default: float) -> Value:
    if x is None:
        return e.builder.splat(default, (size,), "f32")
    return e.builder.reshape(x, (size,))


def rms(e: Emitter, x: Value, weight: Value, epsilon: float) -> Value:
    result = e.builder.fresh(x.shape, x.type)
    stats = e.builder.fresh(x.shape[:-1], "f32")
    e.builder.append(
        f"heddle.rms_norm {e.builder.quoted} {x.name}, {weight.name} "
        f"epsilon({number(epsilon, 'f64')}) : ({x.tensor}, {weight.tensor}) -> "
        f"({x.tensor}, {_stats(x)})",
        [x, weight],
        [result, stats],
    )
    e.features[result.name] = "h"
    return result


@op("rms_norm")
def rms_norm(
    e: Emitter,
    x: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    epsilon: float | None = None,
) -> Value:
    width = math.prod(shape)
    rows = e.builder.reshape(x, (*x.shape[: len(x.shape) - len(shape)], width))
    scale = _one_dimension(e, weight, width, 1.0)
    epsilon = float(np.finfo(np.float32).eps) if epsilon is None else epsilon
    return e.builder.reshape(rms(e, rows, scale, epsilon), x.shape)


def _normalized(
    e: Emitter, x: Value, center: Value, spread_: Value, dims: Sequence[int], eps: float
) -> Value:
    """Builds (x - center) / sqrt(variance + eps)."""
    shifted = e.builder.binary("sub", x, spread(e, center, x.shape, dims))
    wide = e.builder.binary("add", spread_, e.builder.splat(eps, spread_.shape, x.type))
    factor = e.builder.elementwise("math.rsqrt", wide)
    return e.builder.binary("mul", shifted, spread(e, factor, x.shape, dims))


def _affine(
    e: Emitter, x: Value, weight: Value | None, bias: Value | None, dim: int
) -> Value:
    if weight is not None:
        x = e.builder.binary(
            "mul", x, e.builder.broadcast_along(weight, x.shape, [dim])
        )
    if bias is not None:
        x = e.builder.binary("add", x, e.builder.broadcast_along(bias, x.shape, [dim]))
    return x


@op("group_norm")
def group_norm(
    e: Emitter,
    x: Value,
    groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    epsilon: float = 1e-5,
    *unused: object,
) -> Value:
    batch, channels, *rest = x.shape
    rows = e.builder.reshape(x, (batch, groups, channels // groups * math.prod(rest)))
    wide, center = variance(e, rows, [2], 0)
    y = e.builder.reshape(_normalized(e, rows, center, wide, [2], epsilon), x.shape)
    return _affine(e, y, weight, bias, 1)


def _batch_norm(
    e: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    wide: Value | None,
    train: bool,
    momentum: float,
    epsilon: float,
) -> tuple[Value, list[Value]]:
    """Returns the normalized tensor and the new running statistics."""
    dims = [i for i in range(len(x.shape)) if i != 1]
    if not train:
        if mean is None or wide is None:
            raise e.refuse("expected running statistics")
        return (
            _affine(e, _normalized(e, x, mean, wide, dims, epsilon), weight, bias, 1),
            [],
        )
    own, center = variance(e, x, dims, 0)
    y = _affine(e, _normalized(e, x, center, own, dims, epsilon), weight, bias, 1)
    if mean is None or wide is None:
        return y, []
    count = math.prod(x.shape[i] for i in dims)
    unbiased = scaled(e, own, count / max(count - 1, 1))
    updated = [
        e.builder.binary("add", scaled(e, old, 1 - momentum), scaled(e, new, momentum))
        for old, new in ((mean, center), (wide, unbiased))
    ]
    return y, updated


def scaled(e: Emitter, x: Value, factor: float) -> Value:
    return e.builder.binary("mul", x, e.builder.splat(factor, x.shape, x.type))


@op("_native_batch_norm_legit_functional", "_batch_norm_with_update_functional")
def batch_norm_functional(
    e: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    wide: Value,
    *rest: float,
) -> list[Value | None]:
    train = bool(rest[0]) if len(rest) == 3 else True
    momentum, epsilon = rest[-2:]
    y, updated = _batch_norm(e, x, weight, bias, mean, wide, train, momentum, epsilon)
    mean, wide = updated or (mean, wide)
    if len(rest) == 3:
        return [y, None, None, mean, wide]
    return [y, None, None, None, mean, wide]


@op(
    "batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
    "native_batch_norm",
)  # fmt: skip
def batch_norm(
    e: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    wide: Value | None,
    *rest: float,
) -> object:
    name = op_name(e.node)
    if e.node.target._overloadname == "no_stats":  # no statistics as arguments
        rest, mean, wide = (mean, wide, *rest), None, None  # type: ignore[assignment]
    if "no_training" in name:
        momentum, epsilon = rest
        train = False
    else:
        train, momentum, epsilon = bool(rest[0]), rest[1], rest[2]
    if train and mean is not None:
        raise e.refuse("expected running statistics as results")
    y, _ = _batch_norm(e, x, weight, bias, mean, wide, train, momentum, epsilon)
    return y if name == "batch_norm" else [y, None, None]
