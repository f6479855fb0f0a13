"""Products, convolutions and attention."""

import math
from collections.abc import Sequence

import numpy as np

from heddle.torch.emit import Emitter, op
from heddle.torch.ops_elementwise import operands
from heddle.torch.ops_shape import axis
from heddle.torch.text import Shape, Value, number

# The letters of leading dimensions: b is the batch and s the sequence.
_LEADING = "bsxyzuw"


def leading(rank: int) -> str:
    return _LEADING[:rank]


# Linear layers.


def source_rows(e: Emitter, x: Value) -> Value:
    """Returns the rows x [rows, features] with the dimensions that were merged to
    make them, so that batch and sequence keep their own dimensions."""
    source = x
    while source.source and source.source[0] == "reshape":
        source = source.source[1]
    if len(x.shape) != 2 or len(source.shape) < 3:
        return x
    for rank in range(2, len(source.shape)):
        if math.prod(source.shape[:rank]) == x.shape[0]:
            rows = e.builder.reshape(source, (*source.shape[:rank], x.shape[1]))
            if x.name in e.features:
                e.features[rows.name] = e.features[x.name]
            return rows
    return x


def _inner_letters(e: Emitter, x: Value, out: int) -> tuple[str, str]:
    """Returns the letters of a layer's input and output features. f is the inner
    dimension of a block, which tensor parallelism splits."""
    if e.features.get(x.name) == "f":
        return "f", "h"
    return "h", "v" if out in e.vocabularies else "f"


def _add_bias(e: Emitter, y: Value, bias: Value | None, along: Sequence[int]) -> Value:
    if bias is None:
        return y
    wide = e.builder.broadcast_along(bias, y.shape, along)
    return e.builder.binary("add", y, wide)


def layer(
    e: Emitter, x: Value, weight: Value, bias: Value | None, is_transposed: bool
) -> Value:
    """Builds x W^T + bias for a weight [out, in], or x W + bias."""
    rows = source_rows(e, x)
    dims = leading(len(rows.shape) - 1)
    out = weight.shape[0 if is_transposed else 1]
    h, f = _inner_letters(e, rows, out)
    if stack := e.stacked_weight(weight):
        y = _stacked_layer(e, rows, stack, bias, dims, is_transposed)
        e.features[y.name] = "f"
    else:
        letters = f"{f}{h}" if is_transposed else f"{h}{f}"
        y = e.builder.contract(f"{dims}{h}, {letters} -> {dims}{f}", rows, weight)
        y = _add_bias(e, y, bias, [len(dims)])
        e.features[y.name] = "h" if f == "h" else "f"
    result = e.builder.reshape(y, (*x.shape[:-1], out))
    e.features[result.name] = e.features[y.name]
    return result


def _stacked_layer(
    e: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None,
    dims: str,
    is_transposed: bool,
) -> Value:
    """Builds several products of one input, such as query, key and value, with
    the part as the first dimension of the result."""
    letters = "cfh" if is_transposed else "hcf"
    y = e.builder.contract(f"{dims}h, {letters} -> c{dims}f", x, weight)
    if bias is not None:
        parts = e.stacked_weight(bias)
        y = _add_bias(e, y, parts, [0, len(dims) + 1])
    rank = len(y.shape)
    order = [*range(1, rank - 1), 0, rank - 1]
    merged = e.builder.reshape(
        e.builder.transpose(y, order), (*y.shape[1:-1], y.shape[0] * y.shape[-1])
    )
    # The split that follows takes the parts themselves.
    merged = Value(merged.name, merged.shape, merged.type)
    e.stacks[merged.name] = y
    return merged


@op("linear")
def linear(e: Emitter, x: Value, weight: Value, bias: Value | None = None) -> Value:
    return layer(e, x, weight, bias, is_transposed=True)


@op("addmm")
def addmm(
    e: Emitter, bias: Value, x: Value, weight: Value, beta: float = 1, alpha: float = 1
) -> Value:
    if beta != 1 or alpha != 1 or len(bias.shape) != 1:
        raise e.refuse("expected a bias of one dimension, beta 1 and alpha 1")
    return product(e, x, weight, bias)


def _load_of(weight: Value) -> tuple[Value, bool] | None:
    """Returns the loaded parameter behind a weight, and whether the weight is
    its transpose."""
    if weight.source and weight.source[0] == "load":
        return weight, False
    if weight.source and weight.source[0] == "transpose":
        inner = weight.source[1]
        if inner.source and inner.source[0] == "load" and len(inner.shape) == 2:
            return inner, True
    return None


def product(e: Emitter, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """Builds x [..., in] times a matrix [in, out]."""
    if found := _load_of(weight):
        return layer(e, x, found[0], bias, is_transposed=found[1])
    dims = leading(len(x.shape) - 1)
    y = e.builder.contract(f"{dims}i, io -> {dims}o", x, weight)
    return _add_bias(e, y, bias, [len(dims)])


@op("mm")
def mm(e: Emitter, a: Value, b: Value) -> Value:
    return product(e, a, b)


@op("matmul", "bmm", "dot", "mv")
def matmul(e: Emitter, a: Value, b: Value) -> Value:
    a, b = (e.builder.convert(value, e.element) for value in (a, b))
    if len(b.shape) == 2 and len(a.shape) > 1:
        return product(e, a, b)
    vector_a, vector_b = len(a.shape) == 1, len(b.shape) == 1
    if vector_a:
        a = e.builder.reshape(a, (1, *a.shape))
    if vector_b:
        b = e.builder.reshape(b, (*b.shape, 1))
    batch = tuple(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    a = e.builder.broadcast(a, (*batch, *a.shape[-2:]))
    b = e.builder.broadcast(b, (*batch, *b.shape[-2:]))
    # The last batch dimension of scores is that of heads.
    dims = {0: "", 1: "b"}.get(len(batch), "b" + "xyzuw"[: len(batch) - 2] + "n")
    y = e.builder.contract(f"{dims}pi, {dims}io -> {dims}po", a, b)
    return e.builder.reshape(y, e.shape)


@op("baddbmm")
def baddbmm(
    e: Emitter, x: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1
) -> Value:
    y = e.builder.contract("bpi, bio -> bpo", a, b)
    if alpha != 1:
        y = e.builder.binary("mul", y, e.builder.splat(alpha, y.shape, y.type))
    if beta == 0:
        return y
    (x,) = operands(e, x)
    if beta != 1:
        x = e.builder.binary("mul", x, e.builder.splat(beta, x.shape, x.type))
    return e.builder.binary("add", y, x)


@op("outer")
def outer(e: Emitter, a: Value, b: Value) -> Value:
    wide = [e.builder.reshape(a, (*a.shape, 1)), e.builder.reshape(b, (1, *b.shape))]
    return e.builder.binary("mul", *operands(e, *wide))


@op("einsum")
def einsum(
    e: Emitter, text: str, values: Sequence[Value], path: object = None
) -> Value:
    text = text.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    if "..." in text or not arrow or len(values) != 2 or "," not in inputs:
        raise e.refuse("expected two operands with letters, such as ij,jk->ik")
    left, right = inputs.split(",")
    one_sided = (set(left) ^ set(right)) - set(result)
    if len(set(left)) != len(left) or len(set(right)) != len(right) or one_sided:
        raise e.refuse("expected each letter once, and no sum over one operand")
    return e.builder.contract(f"{left}, {right} -> {result}", *values)


# Convolutions: one product for each position of the kernel. Where strides equal
# the kernel (patches), one product in all.


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
        if rest[0]:
            raise e.refuse("Heddle has no transposed convolutions")
        groups = int(rest[2])  # type: ignore[call-overload]
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
    return _add_bias(e, y, bias, [1])


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
    return _add_bias(e, e.builder.reshape(total, e.shape), bias, [1])


# Attention.


@op("scaled_dot_product_attention")
def attention(
    e: Emitter,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    is_causal, mask = _fold_mask(e, mask, is_causal, query.shape[-2], key.shape[-2])
    is_plain = len(query.shape) == 4 and value.shape[-1] == query.shape[-1]
    parts = None if mask is None else _key_mask(e, mask, query.shape[0], key.shape[-2])
    if not is_plain or (mask is not None and parts is None):
        return _stored_scores(e, query, key, value, mask, dropout, is_causal, scale)
    key, value = _unrepeated(key), _unrepeated(value)
    if parts is None:
        y = _fused(e, query, key, value, dropout, is_causal, scale)
    else:
        y = _with_key_mask(
            e, query, key, value, parts[1], dropout, is_causal or parts[0], scale
        )
    e.features[y.name] = "f"
    return y


def _fold_mask(
    e: Emitter, mask: Value | None, is_causal: bool, queries: int, keys: int
) -> tuple[bool, Value | None]:
    """Recognizes masks that hide nothing and causal ones, if they are constant."""
    if mask is None or not mask.source or mask.source[0] != "constant":
        return is_causal, mask
    if mask.name not in e.masks:
        e.masks[mask.name] = _kind_of_mask(mask, queries, keys)
    hides_nothing, hides_later = e.masks[mask.name]
    if hides_nothing:
        return is_causal, None
    return (True, None) if hides_later and not is_causal else (is_causal, mask)


def _kind_of_mask(mask: Value, queries: int, keys: int) -> tuple[bool, bool]:
    """Tells whether a constant mask hides nothing, and whether it is causal."""
    array = mask.source[1]
    seen = array if mask.type == "i1" else array == 0
    if seen.all():
        return True, False
    if queries != keys or seen.shape[-2:] != (queries, keys):
        return False, False
    is_low = mask.type == "i1" or bool((array[~seen] < -1e4).all())
    causal = np.tril(np.ones((queries, keys), np.bool_))
    return False, is_low and bool((seen == causal).all())


def _key_mask(
    e: Emitter, mask: Value, batch: int, keys: int
) -> tuple[bool, Value] | None:
    """Takes a mask apart into a causal one and one of keys [batch, key], the form
    of a mask of padding; None if it has other parts."""
    if mask.type != "i1":
        return None
    if mask.source and mask.source[0] == "arith.andi":
        found = [_key_mask(e, part, batch, keys) for part in mask.source[1:]]
        if found[0] is None or found[1] is None:
            return None
        both = e.builder.elementwise("arith.andi", found[0][1], found[1][1])
        return found[0][0] or found[1][0], both
    if mask.source and mask.source[0] == "constant":
        queries = mask.shape[-2] if len(mask.shape) > 1 else 1
        is_causal, rest = _fold_mask(e, mask, False, queries, keys)
        all_keys = e.builder.splat(1, (batch, keys), "i1")
        return (is_causal, all_keys) if rest is None else None
    small, along = mask, [i for i, size in enumerate(mask.shape) if size != 1]
    if mask.source and mask.source[0] == "broadcast":
        _, small, along = mask.source
    if len(mask.shape) != 4 or not set(along) <= {0, 3} or 3 not in along:
        return None
    rows = e.builder.reshape(small, (math.prod(small.shape) // keys, keys))
    return False, e.builder.broadcast(rows, (batch, keys))


# Added to the scaled scores of keys that are not seen. Its exponential is 0.
_UNSEEN = -1e5


def _with_key_mask(
    e: Emitter,
    query: Value,
    key: Value,
    value: Value,
    seen: Value,
    dropout: float,
    is_causal: bool,
    scale: float,
) -> Value:
    """Adds a feature that is 1 in queries and the mask's addend in keys. So the
    mask is part of the product, and no scores are stored."""
    batch, heads, queries, size = query.shape
    groups, keys = key.shape[1], key.shape[2]
    zeros = e.builder.splat(0.0, seen.shape, query.type)
    low = e.builder.splat(_UNSEEN / scale, seen.shape, query.type)
    addend = e.builder.select(seen, zeros, low)
    column = e.builder.broadcast_along(addend, (batch, keys, groups, 1), [0, 1])
    one = e.builder.splat(1.0, (batch, queries, heads, 1), query.type)
    nothing = e.builder.splat(0.0, (batch, keys, groups, 1), value.type)
    order = [0, 2, 1, 3]  # heads come after positions, as in heddle.attention
    wide = []
    for x, part in ((query, one), (key, column), (value, nothing)):
        whole = e.builder.concat([e.builder.transpose(x, order), part], 3)
        wide.append(e.builder.transpose(whole, order))
    y = e.builder.transpose(_fused(e, *wide, dropout, is_causal, scale), order)
    y = e.builder.slice(y, [0] * 4, (batch, queries, heads, size), [1] * 4)
    return e.builder.transpose(y, order)


def _unrepeated(x: Value) -> Value:
    """Returns the keys of groups [b, n, t, d] that were repeated for each head,
    [b, n * r, t, d]."""
    source = x.source
    if not source or source[0] != "reshape" or len(source[1].shape) != 5:
        return x
    wide = source[1].source
    if not wide or wide[0] != "broadcast" or 2 in wide[2]:
        return x
    small = wide[1]
    b, n, _, t, d = source[1].shape
    return small if small.shape == (b, n, t, d) else x


def _fused(
    e: Emitter,
    query: Value,
    key: Value,
    value: Value,
    dropout: float,
    is_causal: bool,
    scale: float,
) -> Value:
    batch, heads, queries, size = query.shape
    groups = key.shape[1]
    q = e.builder.transpose(query, [0, 2, 1, 3])
    if groups != heads:
        q = e.builder.reshape(q, (batch, queries, groups, heads // groups, size))
    k = e.builder.transpose(key, [0, 2, 1, 3])
    v = e.builder.transpose(value, [0, 2, 1, 3])
    random = ""
    reads = [q, k, v]
    if dropout:
        step = e.steps()
        random = f" dropout({number(dropout, 'f64')}) step({step.name} : {step.tensor})"
        reads.append(step)
    stats = Value("", q.shape[:-1], "f32").tensor
    result = e.builder.fresh(q.shape, q.type)
    sums = e.builder.fresh(q.shape[:-1], "f32")
    e.builder.append(
        f"heddle.attention {e.builder.quoted} {q.name}, {k.name}, {v.name}"
        f"{' causal' if is_causal else ''} scale({number(scale, 'f64')}){random} : "
        f"{q.tensor}, {k.tensor}, {v.tensor} -> {q.tensor}, {stats}",
        reads,
        [result, sums],
    )
    y = e.builder.reshape(result, (batch, queries, heads, size))
    return e.builder.transpose(y, [0, 2, 1, 3])


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


_LOWEST = {"f32": -3.0e38, "f64": -3.0e38, "bf16": -3.0e38, "f16": -6.0e4}


def _stored_scores(
    e: Emitter,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    dropout: float,
    is_causal: bool,
    scale: float,
) -> Value:
    """Attention in its parts, for masks that depend on data. Stores the scores."""
    *batch, heads, queries, _ = query.shape
    groups, keys = key.shape[-3], key.shape[-2]
    dims = _LEADING[: len(batch)].replace("s", "x")
    q, query_letters = query, f"{dims}nsd"
    if groups != heads:
        q = e.builder.reshape(
            q, (*batch, groups, heads // groups, queries, query.shape[-1])
        )
        query_letters = f"{dims}nrsd"
    score_letters = query_letters[:-1] + "t"
    letters = f"{query_letters}, {dims}ntd -> {score_letters}"
    scores = e.builder.contract(letters, q, key)
    scores = e.builder.reshape(scores, (*batch, heads, queries, keys))
    scores = e.builder.binary(
        "mul", scores, e.builder.splat(scale, scores.shape, scores.type)
    )
    scores = _masked(e, scores, mask, is_causal)
    weights = _dropout(e, softmax(e, scores), dropout)
    weights = e.builder.reshape(weights, (*q.shape[:-1], keys))
    letters = f"{score_letters}, {dims}nte -> {score_letters[:-1]}e"
    y = e.builder.contract(letters, weights, value)
    y = e.builder.reshape(y, (*batch, heads, queries, value.shape[-1]))
    e.features[y.name] = "f"
    return y


def _masked(e: Emitter, scores: Value, mask: Value | None, is_causal: bool) -> Value:
    low = e.builder.splat(_LOWEST[scores.type], scores.shape, scores.type)
    if is_causal:
        seen = np.tril(np.ones(scores.shape[-2:], np.bool_))
        wide = e.builder.broadcast(e.builder.constant(seen, "i1"), scores.shape)
        scores = e.builder.select(wide, scores, low)
    if mask is None:
        return scores
    wide = e.builder.broadcast(mask, scores.shape)
    if mask.type == "i1":
        return e.builder.select(wide, scores, low)
    return e.builder.binary("add", scores, e.builder.convert(wide, scores.type))


def _dropout(e: Emitter, x: Value, rate: float) -> Value:
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
    y = _dropout(e, x, rate if train else 0.0)
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
    if len(dims) != 1:
        raise e.refuse("expected one dimension")
    dim = axis(dims[0], len(x.shape))
    order = [i for i in range(len(x.shape)) if i != dim] + [dim]
    x = e.builder.transpose(x, order)
    stats = Value("", x.shape[:-1], "f32")
    total = e.builder.op(
        f"heddle.logsumexp {e.builder.quoted} {x.name} : {x.tensor} -> {stats.tensor}",
        [x],
        stats.shape,
        "f32",
    )
    return e.builder.reshape(e.builder.convert(total, e.element), e.shape)
