"""Norms, pooling and losses."""

import math
from collections.abc import Sequence

import numpy as np
from torch.fx import Node

from heddle.torch.emit import Emitter, op, op_name
from heddle.torch.ops_elementwise import as_value, relu
from heddle.torch.ops_product import log_softmax, per_dimension, source_rows, window
from heddle.torch.ops_shape import average, one_hot_product, spread, sum_over, variance
from heddle.torch.text import Value, number

# Activations that are one op of Heddle.


@op("gelu")
def gelu(e: Emitter, x: Value, approximate: str = "none") -> Value:
    return e.builder.op(
        f"heddle.gelu {e.builder.quoted} {x.name} approximate({approximate}) : "
        f"{x.tensor}",
        [x],
        x.shape,
        x.type,
    )


@op("silu")
def silu(e: Emitter, x: Value) -> Value:
    return e.builder.op(
        f"heddle.silu {e.builder.quoted} {x.name} : {x.tensor}", [x], x.shape, x.type
    )


@op("glu")
def glu(e: Emitter, x: Value, dim: int = -1) -> Value:
    from heddle.torch.ops_elementwise import logistic
    from heddle.torch.ops_shape import axis, take

    dim = axis(dim, len(x.shape))
    half = x.shape[dim] // 2
    gate = logistic(e, take(e, x, dim, half, half))
    return e.builder.binary("mul", take(e, x, dim, 0, half), gate)


# Norms.


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
        return _affine(
            e, _normalized(e, x, mean, wide, dims, epsilon), weight, bias, 1
        ), []
    own, center = variance(e, x, dims, 0)
    y = _affine(e, _normalized(e, x, center, own, dims, epsilon), weight, bias, 1)
    if mean is None or wide is None:
        return y, []
    count = math.prod(x.shape[i] for i in dims)
    unbiased = _scale(e, own, count / max(count - 1, 1))
    updated = [
        e.builder.binary("add", _scale(e, old, 1 - momentum), _scale(e, new, momentum))
        for old, new in ((mean, center), (wide, unbiased))
    ]
    return y, updated


def _scale(e: Emitter, x: Value, factor: float) -> Value:
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
    if "no_training" in name:
        momentum, epsilon = rest
        train = False
    else:
        train, momentum, epsilon = bool(rest[0]), rest[1], rest[2]
    if train and mean is not None:
        raise e.refuse("expected running statistics as results")
    y, _ = _batch_norm(e, x, weight, bias, mean, wide, train, momentum, epsilon)
    return y if name == "batch_norm" else [y, None, None]


# Pooling.


@op("max_pool2d", "max_pool1d", "max_pool2d_with_indices")
def max_pool(
    e: Emitter,
    x: Value,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> object:
    if ceil_mode:
        raise e.refuse("expected ceil_mode=False")
    count = 1 if "1d" in op_name(e.node) else 2
    sizes, pads = per_dimension(kernel, count), per_dimension(padding, count)
    strides = per_dimension(stride or kernel, count)
    x = e.builder.pad(x, [0, 0, *pads], [0, 0, *pads], -3.0e38)
    y: Value | None = None
    for place in np.ndindex(*sizes):
        part = window(e, x, place, e.shape[2:], strides, per_dimension(dilation, count))
        y = part if y is None else e.builder.elementwise("arith.maximumf", y, part)
    return [y, None] if "indices" in op_name(e.node) else y


@op("avg_pool2d", "avg_pool1d")
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
    count = 1 if "1d" in op_name(e.node) else 2
    sizes, pads = per_dimension(kernel, count), per_dimension(padding, count)
    if ceil_mode or (any(pads) and not count_include_pad):
        raise e.refuse("expected ceil_mode=False and count_include_pad=True")
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
    return _scale(e, y, 1 / (divisor or math.prod(sizes)))


@op("adaptive_avg_pool2d", "adaptive_avg_pool1d", "_adaptive_avg_pool2d")
def adaptive_avg_pool(e: Emitter, x: Value, size: Sequence[int]) -> Value:
    count = 1 if "1d" in op_name(e.node) else 2
    old, new = x.shape[-count:], e.shape[-count:]
    if any(a % b for a, b in zip(old, new, strict=True)):
        raise e.refuse(f"expected {old} to be a multiple of {new}")
    pairs = [n for a, b in zip(old, new, strict=True) for n in (b, a // b)]
    lead = x.shape[:-count]
    blocks = e.builder.reshape(x, (*lead, *pairs))
    dims = [len(lead) + 2 * i + 1 for i in range(count)]
    return e.builder.reshape(average(e, blocks, dims), e.shape)


# Losses.

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
    near = _scale(e, square, 0.5 if is_huber else 0.5 / beta)
    half = e.builder.splat(0.5 * beta, size.shape, size.type)
    far = e.builder.binary("sub", size, half)
    far = _scale(e, far, beta) if is_huber else far
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
    if pos_weight is not None:
        raise e.refuse("expected no pos_weight")
    y = e.builder.convert(target, x.type)
    decay = e.builder.elementwise("math.absf", x)
    decay = e.builder.elementwise("arith.negf", decay)
    decay = e.builder.elementwise("math.exp", decay)
    loss = e.builder.binary("sub", relu(e, x), e.builder.binary("mul", x, y))
    loss = e.builder.binary("add", loss, e.builder.elementwise("math.log1p", decay))
    if weight is not None:
        loss = e.builder.binary("mul", loss, as_value(e, weight, x.shape, x.type))
    return _reduced(e, loss, reduction)


def cross_entropy_sums(
    e: Emitter, logits: Value, target: Value, ignored: int
) -> tuple[Value, Value]:
    """Returns the loss of each label and 1 for each label that counts."""
    if len(logits.shape) > 2 and len(target.shape) == len(logits.shape) - 1:
        order = [0, *range(2, len(logits.shape)), 1]
        if logits.shape[:1] + logits.shape[2:] == target.shape:
            logits = e.builder.transpose(logits, order)
    logits, target = _unmerged(e, logits, target)
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
    counts = e.builder.compare(
        "ne", target, e.builder.splat(ignored, target.shape, target.type)
    )
    return losses, e.builder.convert(counts, "f32")


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
    losses, counts = cross_entropy_sums(e, logits, target, ignored)
    if reduction == SUM:
        return _all(e, losses)
    if reduction != MEAN:
        return e.builder.reshape(losses, e.shape)
    count = at_least_one(e, _all(e, counts))
    return e.builder.binary("div", _all(e, losses), count)


def _general_cross_entropy(
    e: Emitter,
    logits: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignored: int,
    smoothing: float,
) -> Value:
    """Probabilities as targets, or smoothed labels."""
    if weight is not None or len(logits.shape) != 2:
        raise e.refuse("expected no weights of classes, and logits [rows, classes]")
    logs = log_softmax(e, logits)
    classes = logits.shape[-1]
    if not target.is_float:
        return _smoothed(e, logs, target, reduction, ignored, smoothing)
    goal = _scale(e, target, 1 - smoothing)
    shift = e.builder.splat(smoothing / classes, goal.shape, goal.type)
    goal = e.builder.binary("add", goal, shift)
    rows = _scale(e, sum_over(e, e.builder.binary("mul", logs, goal), [1]), -1.0)
    return _reduced(e, rows, reduction)


def _smoothed(
    e: Emitter, logs: Value, target: Value, reduction: int, ignored: int, part: float
) -> Value:
    ids = e.builder.reshape(target, (*target.shape, 1))
    own = e.builder.reshape(one_hot_product(e, logs, ids), target.shape)
    rows = e.builder.binary(
        "add", _scale(e, own, part - 1), _scale(e, average(e, logs, [1]), -part)
    )
    counts = e.builder.compare(
        "ne", target, e.builder.splat(ignored, target.shape, target.type)
    )
    ones = e.builder.convert(counts, "f32")
    rows = e.builder.binary("mul", rows, ones)
    if reduction == 0:
        return rows
    total = _all(e, rows)
    if reduction == SUM:
        return total
    return e.builder.binary("div", total, at_least_one(e, _all(e, ones)))


@op("nll_loss", "nll_loss_nd", "nll_loss_forward")
def nll_loss(
    e: Emitter,
    logs: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = MEAN,
    ignored: int = -100,
) -> object:
    if weight is not None or len(logs.shape) != 2:
        raise e.refuse("expected no weights of classes, and rows of logarithms")
    ids = e.builder.reshape(target, (*target.shape, 1))
    own = e.builder.reshape(one_hot_product(e, logs, ids), target.shape)
    counts = e.builder.compare(
        "ne", target, e.builder.splat(ignored, target.shape, target.type)
    )
    ones = e.builder.convert(counts, "f32")
    rows = e.builder.binary("mul", _scale(e, own, -1.0), ones)
    count = _all(e, ones)
    result = rows if reduction == 0 else _all(e, rows)
    if reduction == MEAN:
        result = e.builder.binary("div", result, at_least_one(e, count))
    return [result, count] if op_name(e.node) == "nll_loss_forward" else result


@op("kl_div")
def kl_div(
    e: Emitter, x: Value, target: Value, reduction: int = MEAN, log_target: bool = False
) -> Value:
    if not log_target:
        raise e.refuse("expected log_target=True")
    goal = e.builder.elementwise("math.exp", target)
    rows = e.builder.binary("mul", goal, e.builder.binary("sub", target, x))
    return _reduced(e, rows, reduction)


# The loss of the whole program.

_SAME = {"clone", "_to_copy", "to", "alias", "view", "reshape", "squeeze", "contiguous"}


def loss_parts(e: Emitter, node: Node) -> tuple[Value, Value]:
    """Returns the sum of the losses and the number of labels. A mean of
    cross-entropies becomes both, so that labels that are ignored weigh nothing;
    any other loss counts as one."""
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
    losses, counts = cross_entropy_sums(
        e,
        e.value(logits),
        labels,
        int(named["ignore_index"]),  # type: ignore[call-overload]
    )
    return _all(e, losses), _all(e, counts)
