"""Softmax and dropout."""

import math
from collections.abc import Sequence

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op
from heddle.torch.ops.shape import axes, axis
from heddle.torch.text import Value, number


def softmax(e: Emitter, x: Value) -> Value:
    """Builds the softmax over the last dimension."""
    return e.builder.elementwise("math.exp", log_softmax(e, x))


def log_softmax(e: Emitter, x: Value) -> Value:
    stats = Value("", x.shape[:-1], "f32")
    total = e.builder.op(
        f"heddle.logsumexp {e.builder.quoted} {x.name} : {x.tensor} -> {stats.tensor}",
        [x],
        stats.shape,
        "f32",
    )
    total = e.builder.convert(total, x.type)
    wide = e.builder.broadcast_along(total, x.shape, range(len(x.shape) - 1))
    return e.builder.binary("sub", x, wide)


def drop(e: Emitter, x: Value, rate: float) -> Value:
    if not rate:
        return x
    step = e.steps()
    return e.builder.op(
        f"heddle.dropout {e.builder.quoted} {x.name}, {step.name} "
        f"rate({number(rate, 'f64')}) : {x.tensor}, {step.tensor} -> {x.tensor}",
        [x, step],
        x.shape,
        x.type,
    )


@op("dropout", "native_dropout", "feature_dropout", "dropout_")
def dropout_(e: Emitter, x: Value, rate: float, train: bool = True) -> object:
    y = drop(e, x, rate if train else 0.0)
    is_pair = e.node.target._opname == "native_dropout"
    return [y, e.builder.splat(1, x.shape, "i1")] if is_pair else y


@op("softmax", "_softmax", "log_softmax", "_log_softmax")
def softmax_(e: Emitter, x: Value, dim: int, *unused: object, **named: object) -> Value:
    x = e.builder.convert(x, e.element)
    build = log_softmax if "log" in e.node.target._opname else softmax
    order = [i for i in range(len(x.shape)) if i != axis(dim, len(x.shape))]
    order.append(axis(dim, len(x.shape)))
    y = build(e, e.builder.transpose(x, order))
    return e.builder.transpose(y, [order.index(i) for i in range(len(order))])


@op("logsumexp")
def logsumexp(
    e: Emitter, x: Value, dims: Sequence[int], keepdim: bool = False
) -> Value:
    over = axes(dims, len(x.shape))
    kept = [i for i in range(len(x.shape)) if i not in over]
    x = e.builder.transpose(x, kept + over)
    x = e.builder.reshape(x, (*x.shape[: len(kept)], math.prod(x.shape[len(kept) :])))
    stats = Value("", x.shape[:-1], "f32")
    total = e.builder.op(
        f"heddle.logsumexp {e.builder.quoted} {x.name} : {x.tensor} -> {stats.tensor}",
        [x],
        stats.shape,
        "f32",
    )
    return e.builder.reshape(e.builder.convert(total, e.element), e.shape)
