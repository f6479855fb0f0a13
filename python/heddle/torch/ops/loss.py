"""Losses."""

import math

import numpy as np
from torch.fx import Node

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op, op_name
from heddle.torch.ops.elementwise import as_value, relu
from heddle.torch.ops.gather import one_hot_product
from heddle.torch.ops.norm import scaled
from heddle.torch.ops.product import source_rows
from heddle.torch.ops.reduction import average, sum_over
from heddle.torch.ops.softmax import log_softmax
from heddle.torch.text import Value

MEAN, SUM = 1, 2


def _reduced(e: Emitter, x: Value, reduction: int) -> Value:
    dims = list(range(len(x.shape)))
    if reduction == MEAN:
        return average(e, x, dims)
    return sum_over(e, x, dims) if reduction == SUM else x


@op("mse_loss")
def mse_loss(e: Emitter, x: Value, target: Value, reduction: int = MEAN) -> Value:
    element = x.type
    shape = np.broadcast_shapes(x.shape, target.shape)
    a, b = as_value(e, x, shape, element), as_value(e, target, shape, element)
    distance = e.builder.binary("sub", a, b)
    return _reduced(e, e.builder.binary("mul", distance, distance), reduction)


@op("l1_loss")
def l1_loss(e: Emitter, x: Value, target: Value, reduction: int = MEAN) -> Value:
    distance = e.builder.binary("sub", x, e.builder.convert(target, x.type))
    return _reduced(e, e.builder.elementwise("math.absf", distance), reduction)


@op("smooth_l1_loss", "huber_loss")
def smooth_l1(
    e: Emitter, x: Value, target: Value, reduction: int = MEAN, beta: float = 1.0
) -> Value:
    distance = e.builder.binary("sub", x, e.builder.convert(target, x.type))
    size = e.builder.elementwise("math.absf", distance)
    is_huber = op_name(e.node) == "huber_loss"
    square = e.builder.binary("mul", distance, distance)
    near = scaled(e, square, 0.5 if is_huber else 0.5 / beta)
    half = e.builder.splat(0.5 * beta, size.shape, size.type)
    far = e.builder.binary("sub", size, half)
    far = scaled(e, far, beta) if is_huber else far
    limit = e.builder.splat(beta, size.shape, size.type)
    chosen = e.builder.select(e.builder.compare("lt", size, limit), near, far)
    return _reduced(e, chosen, reduction)


@op("binary_cross_entropy_with_logits")
def bce_with_logits(
    e: Emitter,
    x: Value,
    target: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = MEAN,
) -> Value:
    """max(x, 0) - x y + log(1 + exp(-|x|))."""
    y = e.builder.convert(target, x.type)
    decay = e.builder.elementwise("math.absf", x)
    decay = e.builder.elementwise("arith.negf", decay)
    decay = e.builder.elementwise("math.exp", decay)
    soft = e.builder.elementwise("math.log1p", decay)
    if pos_weight is None:
        loss = e.builder.binary("sub", relu(e, x), e.builder.binary("mul", x, y))
        loss = e.builder.binary("add", loss, soft)
    else:
        loss = _weighted_bce(e, x, y, soft, as_value(e, pos_weight, x.shape, x.type))
    if weight is not None:
        loss = e.builder.binary("mul", loss, as_value(e, weight, x.shape, x.type))
    return _reduced(e, loss, reduction)


def _weighted_bce(e: Emitter, x: Value, y: Value, soft: Value, weight: Value) -> Value:
    """(1 - y) x + (1 + (weight - 1) y) (log(1 + exp(-|x|)) + max(-x, 0))."""
    one = e.builder.splat(1.0, x.shape, x.type)
    low = relu(e, e.builder.elementwise("arith.negf", x))
    more = e.builder.binary("mul", e.builder.binary("sub", weight, one), y)
    factor = e.builder.binary("add", one, more)
    right = e.builder.binary("mul", factor, e.builder.binary("add", soft, low))
    left = e.builder.binary("mul", e.builder.binary("sub", one, y), x)
    return e.builder.binary("add", left, right)


def cross_entropy_sums(
    e: Emitter, logits: Value, target: Value, ignored: int
) -> tuple[Value, Value]:
    """Returns the loss of each label and the number of labels that count."""
    if len(logits.shape) > 2 and len(target.shape) == len(logits.shape) - 1:
        order = [0, *range(2, len(logits.shape)), 1]
        if logits.shape[:1] + logits.shape[2:] == target.shape:
            logits = e.builder.transpose(logits, order)
    logits, target = _unmerged(e, logits, target)
    # The gradient of a mean needs the count. It comes first, so that loss and
    # gradient can be one kernel, also where labels are made by ops.
    counts = e.builder.compare(
        "ne", target, e.builder.splat(ignored, target.shape, target.type)
    )
    count = _all(e, e.builder.convert(counts, "f32"))
    stats = target.shape
    losses = e.builder.fresh(stats, "f32")
    sums = e.builder.fresh(stats, "f32")
    e.builder.append(
        f"heddle.cross_entropy {e.builder.quoted} {logits.name}, {target.name} "
        f"ignore({ignored}) : {logits.tensor}, {target.tensor} -> {losses.tensor}, "
        f"{sums.tensor}",
        [logits, target],
        [losses, sums],
    )
    return losses, count


def _unmerged(e: Emitter, logits: Value, target: Value) -> tuple[Value, Value]:
    """Undoes the merge of batch and sequence that comes before most losses."""
    rows = source_rows(e, logits)
    return rows, e.builder.reshape(target, rows.shape[:-1])


def _all(e: Emitter, x: Value) -> Value:
    return sum_over(e, x, list(range(len(x.shape))))


def at_least_one(e: Emitter, count: Value) -> Value:
    return e.builder.elementwise(
        "arith.maximumf", count, e.builder.splat(1.0, (), count.type)
    )


@op("cross_entropy_loss")
def cross_entropy_loss(
    e: Emitter,
    logits: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = MEAN,
    ignored: int = -100,
    smoothing: float = 0.0,
) -> Value:
    if target.is_float or weight is not None or smoothing:
        return _general_cross_entropy(
            e, logits, target, weight, reduction, ignored, smoothing
        )
    losses, count = cross_entropy_sums(e, logits, target, ignored)
    if reduction == SUM:
        return _all(e, losses)
    if reduction != MEAN:
        return e.builder.reshape(losses, e.shape)
    return e.builder.binary("div", _all(e, losses), at_least_one(e, count))


def _general_cross_entropy(
    e: Emitter,
    logits: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignored: int,
    smoothing: float,
) -> Value:
    """Builds cross-entropy for targets that are probabilities, smoothed labels, or
    weights of classes."""
    logs = log_softmax(e, _classes_last(e, logits))
    classes = logs.shape[-1]
    if not target.is_float:
        rows = e.builder.reshape(target, logs.shape[:1])
        y = _smoothed(e, logs, rows, weight, reduction, ignored, smoothing)
        return e.builder.reshape(y, e.shape)
    target = _classes_last(e, target)
    if weight is not None:
        logs = e.builder.binary("mul", logs, e.builder.broadcast(weight, logs.shape))
    goal = scaled(e, target, 1 - smoothing)
    shift = e.builder.splat(smoothing / classes, goal.shape, goal.type)
    goal = e.builder.binary("add", goal, shift)
    rows = scaled(e, sum_over(e, e.builder.binary("mul", logs, goal), [1]), -1.0)
    return _reduced(e, rows, reduction)


def _classes_last(e: Emitter, x: Value) -> Value:
    """Returns [rows, classes] of [batch, classes, ...] or [classes]."""
    if len(x.shape) < 2:
        return e.builder.reshape(x, (1, *x.shape))
    rank, classes = len(x.shape), x.shape[1]
    x = e.builder.transpose(x, [0, *range(2, rank), 1])
    return e.builder.reshape(x, (math.prod(x.shape[:-1]), classes))


def _smoothed(
    e: Emitter,
    logs: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignored: int,
    part: float,
) -> Value:
    counts = e.builder.compare(
        "ne", target, e.builder.splat(ignored, target.shape, target.type)
    )
    ones = e.builder.convert(counts, "f32")
    if weight is not None:
        wide = e.builder.broadcast(weight, logs.shape)
        logs = e.builder.binary("mul", logs, wide)
        ones = e.builder.binary("mul", ones, _of_labels(e, wide, target))
    own = _of_labels(e, logs, target)
    rows = e.builder.binary(
        "add", scaled(e, own, part - 1), scaled(e, average(e, logs, [1]), -part)
    )
    zero = e.builder.splat(0.0, rows.shape, rows.type)
    return _over_labels(
        e, e.builder.select(counts, rows, zero), ones, reduction, weight is not None
    )


def _of_labels(e: Emitter, rows: Value, target: Value) -> Value:
    """Returns the element of each row that its label names."""
    ids = e.builder.reshape(target, (*target.shape, 1))
    return e.builder.reshape(one_hot_product(e, rows, ids), target.shape)


def _over_labels(
    e: Emitter, rows: Value, ones: Value, reduction: int, is_weighted: bool
) -> Value:
    """Reduces the losses of labels whose weights are `ones`."""
    if reduction == 0:
        return rows
    total, count = _all(e, rows), _all(e, ones)
    if reduction == SUM:
        return total
    return e.builder.binary(
        "div", total, count if is_weighted else at_least_one(e, count)
    )


@op("nll_loss", "nll_loss_nd", "nll_loss_forward")
def nll_loss(
    e: Emitter,
    logs: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = MEAN,
    ignored: int = -100,
) -> object:
    logs = _classes_last(e, logs)
    target = e.builder.reshape(target, logs.shape[:1])
    result = _smoothed(e, logs, target, weight, reduction, ignored, 0.0)
    result = e.builder.reshape(result, e.shape)
    return [result, None] if op_name(e.node) == "nll_loss_forward" else result


@op("kl_div")
def kl_div(
    e: Emitter, x: Value, target: Value, reduction: int = MEAN, log_target: bool = False
) -> Value:
    if log_target:
        goal = e.builder.elementwise("math.exp", target)
    else:
        goal, zero = target, e.builder.splat(0.0, target.shape, target.type)
        # A goal of 0 adds nothing.
        positive = e.builder.compare("gt", goal, zero)
        one = e.builder.splat(1.0, target.shape, target.type)
        logs = e.builder.select(positive, goal, one)
        target = e.builder.elementwise("math.log", logs)
    rows = e.builder.binary("mul", goal, e.builder.binary("sub", target, x))
    return _reduced(e, rows, reduction)


# The loss of the whole program.

_SAME = {"clone", "_to_copy", "to", "alias", "view", "reshape", "squeeze", "contiguous"}


def loss_parts(e: Emitter, node: Node) -> tuple[Value, Value]:
    """Returns the sum of the losses and the number of labels. A mean of cross-entropies
    becomes both, so that ignored labels do not count. Any other loss counts as one
    label."""
    last = node
    while op_name(last) in _SAME and isinstance(last.args[0], Node):
        last = last.args[0]
    if op_name(last) == "cross_entropy_loss":
        found = _mean_of_labels(e, last)
        if found is not None:
            return found
    value = e.value(node)
    if math.prod(value.shape) != 1:
        raise e.refuse(f"expected the loss to be one number, got {value.shape}")
    total = e.builder.convert(e.builder.reshape(value, ()), "f32")
    return total, e.builder.splat(1.0, (), "f32")


def _mean_of_labels(e: Emitter, node: Node) -> tuple[Value, Value] | None:
    logits, target, weight, reduction, ignored, smoothing = (
        *node.args,
        *(None, MEAN, -100, 0.0)[len(node.args) - 2 :],
    )
    named = {"weight": weight, "reduction": reduction, "ignore_index": ignored}
    named |= {"label_smoothing": smoothing} | dict(node.kwargs)
    labels = e.value(target)
    if named["weight"] is not None or named["reduction"] != MEAN or labels.is_float:
        return None
    if named["label_smoothing"]:
        return None
    losses, count = cross_entropy_sums(
        e,
        e.value(logits),
        labels,
        int(named["ignore_index"]),  # type: ignore[call-overload]
    )
    return _all(e, losses), count
