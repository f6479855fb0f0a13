"""Attention."""

import dataclasses
import math

import numpy as np
from torch.fx import Node

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op
from heddle.torch.ops.product import LEADING
from heddle.torch.ops.softmax import drop, softmax
from heddle.torch.text import Value, number


@dataclasses.dataclass
class Mask:
    """A mask taken apart: the order of positions, a window, and the rest. The rest is a
    value of i1 or f32 [batch, head, query, key] in which any size may be 1."""

    is_causal: bool = False
    window: int | None = None
    rest: Value | None = None


@dataclasses.dataclass
class Weighting:
    """How the products of queries and keys become weights."""

    mask: Mask
    scale: float
    dropout: float = 0.0


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
    named = e.node.kwargs.get("attn_mask")
    source = named if named is not None else (*e.node.args, *[None] * 4)[3]
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    if len(query.shape) not in (3, 4) or (dropout and is_trained(e, source)):
        y = _stored_scores(e, query, key, value, mask, dropout, is_causal, scale)
        e.features[y.name] = "f"
        return y
    if mask is not None and len(query.shape) == 3:
        mask = with_heads(e, mask)
    parts = take_apart(e, mask, query.shape[-2], key.shape[-2])
    parts = combine(e, parts, Mask(is_causal))
    return attend(e, query, key, value, Weighting(parts, scale, dropout))


def with_heads(e: Emitter, x: Value) -> Value:
    """Gives a tensor [batch, position, size] one head."""
    if len(x.shape) != 3:
        return x
    return e.builder.reshape(x, (x.shape[0], 1, *x.shape[1:]))


def attend(
    e: Emitter, query: Value, key: Value, value: Value, weighting: Weighting
) -> Value:
    """Builds the attention of queries, keys and values [batch, head, position, size] or
    [batch, position, size]."""
    shape = (*query.shape[:-1], value.shape[-1])
    query, key, value = (with_heads(e, x) for x in (query, key, value))
    key, value = _unrepeated(key), _unrepeated(value)
    y = e.builder.reshape(_fused(e, query, key, value, weighting), shape)
    e.features[y.name] = "f"
    return y


# Masks.


def is_trained(e: Emitter, source: object) -> bool:
    """Tells whether a node depends on a parameter, as a bias of positions does.
    With dropout, masks of heddle.attention have no gradients."""
    waiting, seen = [source], set()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Node) or node in seen:
            continue
        seen.add(node)
        state = e.captured.states.get(node.name) if node.op == "placeholder" else None
        if state is not None and state.is_trained:
            return True
        waiting.extend(node.all_input_nodes)
    return False


def take_apart(e: Emitter, mask: Value | None, queries: int, keys: int) -> Mask:
    """Recognizes constant masks of order and windows, also as parts of masks that
    depend on data."""
    if mask is None:
        return Mask()
    kind = mask.source[0] if mask.source else ""
    if kind == "arith.andi":
        first, second = (take_apart(e, x, queries, keys) for x in mask.source[1:])
        return combine(e, first, second)
    if kind == "arith.select" and _hides(*mask.source[2:]):
        return take_apart(e, mask.source[1], queries, keys)
    small = _compact(e, mask)
    if small.source and small.source[0] == "constant":
        if small.name not in e.masks:
            e.masks[small.name] = _band_of(small, queries, keys)
        band = e.masks[small.name]
        if band is not None:
            return Mask(*band)
    elif small.name != mask.name and small.source:
        if small.source[0] in ("arith.andi", "arith.select"):
            return take_apart(e, small, queries, keys)
    return Mask(rest=small)


# Added to a score, such a number hides the key.
_HIDING = -1e4


def _hides(added: Value, otherwise: Value) -> bool:
    """Tells whether adding a choice between the two values to scores hides keys and
    changes no other score."""
    if any(not x.source or x.source[0] != "constant" for x in (added, otherwise)):
        return False
    return not added.source[1].any() and bool((otherwise.source[1] < _HIDING).all())


def combine(e: Emitter, a: Mask, b: Mask) -> Mask:
    """Returns the mask of keys that both masks show."""
    windows = [x.window for x in (a, b) if x.window is not None]
    rest = a.rest if b.rest is None else b.rest
    if a.rest is not None and b.rest is not None:
        rest = _combine_values(e, a.rest, b.rest)
    return Mask(a.is_causal or b.is_causal, min(windows, default=None), rest)


def _combine_values(e: Emitter, a: Value, b: Value) -> Value:
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = e.builder.broadcast(a, shape), e.builder.broadcast(b, shape)
    if a.type == b.type == "i1":
        return e.builder.elementwise("arith.andi", a, b)
    if "i1" not in (a.type, b.type):
        return e.builder.binary("add", a, b)
    seen, added = (a, b) if a.type == "i1" else (b, a)
    low = e.builder.splat(_LOWEST[added.type], shape, added.type)
    return e.builder.select(seen, added, low)


def _band_of(mask: Value, queries: int, keys: int) -> tuple[bool, int | None] | None:
    """Returns whether a constant mask is causal, and its window; None if it has
    another form."""
    array = mask.source[1]
    seen = array if mask.type == "i1" else array == 0
    if mask.type != "i1" and not (array[~seen] < _HIDING).all():
        return None
    if seen.all():
        return False, None
    if seen.shape[-2:] != (queries, keys):
        return None
    apart = np.arange(queries)[:, None] - np.arange(keys)[None, :]
    flat = seen.reshape(-1, queries, keys)
    is_causal = not flat[0][apart < 0].any()
    reach = int(np.abs(apart[flat[0]]).max(initial=0)) + 1
    expected = np.abs(apart) < reach
    if is_causal:
        expected &= apart >= 0
    if not (flat == expected).all():
        return None
    return is_causal, reach if reach < max(queries, keys) else None


def _compact(e: Emitter, mask: Value) -> Value:
    """Returns a mask [batch, head, query, key] before it was repeated."""
    shape = (1,) * (4 - len(mask.shape)) + mask.shape
    if mask.source and mask.source[0] == "broadcast":
        _, small, along = mask.source
        first = len(shape) - len(mask.shape)
        kept = {first + dim for dim in along}
        shape = tuple(size if i in kept else 1 for i, size in enumerate(shape))
        return e.builder.reshape(small, shape)
    return e.builder.reshape(mask, shape)


# The op.


def _unrepeated(x: Value) -> Value:
    """If each head got a copy of its group's keys [b, n * r, t, d], returns the keys of
    the groups [b, n, t, d]."""
    source = x.source
    if not source or source[0] != "reshape" or len(source[1].shape) != 5:
        return x
    wide = source[1].source
    if not wide or wide[0] != "broadcast" or 2 in wide[2]:
        return x
    small = wide[1]
    b, n, _, t, d = source[1].shape
    return small if small.shape == (b, n, t, d) else x


def _widened(e: Emitter, x: Value, size: int) -> Value:
    """Appends zeros to the last dimension."""
    if x.shape[-1] == size:
        return x
    zeros = e.builder.splat(0.0, (*x.shape[:-1], size - x.shape[-1]), x.type)
    return e.builder.concat([x, zeros], len(x.shape) - 1)


def _operand_of(e: Emitter, mask: Value, groups: int, members: int) -> Value:
    """Returns a mask [batch, head, query, key] in the layout of heddle.attention."""
    if mask.type not in ("i1", "f32"):
        mask = e.builder.convert(mask, "f32")
    mask = e.builder.transpose(mask, [0, 2, 1, 3])
    if members == 1:
        return mask
    batch, queries, heads, keys = mask.shape
    split = (1, 1) if heads == 1 else (groups, members)
    return e.builder.reshape(mask, (batch, queries, *split, keys))


def _fused(
    e: Emitter, query: Value, key: Value, value: Value, weighting: Weighting
) -> Value:
    mask, dropout = weighting.mask, weighting.dropout
    batch, heads, queries, _ = query.shape
    groups, size = key.shape[1], max(query.shape[-1], value.shape[-1])
    # Heads come after positions. Queries and keys with zeros have the same
    # products, and values with zeros give outputs with zeros.
    q, k, v = (
        _widened(e, e.builder.transpose(x, [0, 2, 1, 3]), size)
        for x in (query, key, value)
    )
    if groups != heads:
        q = e.builder.reshape(q, (batch, queries, groups, heads // groups, size))
    options = " causal" if mask.is_causal else ""
    options += f" window({mask.window})" if mask.window else ""
    options += f" scale({number(weighting.scale, 'f64')})"
    reads = [q, k, v]
    if dropout:
        step = e.steps()
        options += (
            f" dropout({number(dropout, 'f64')}) step({step.name} : {step.tensor})"
        )
        reads.append(step)
    if mask.rest is not None:
        seen = _operand_of(e, mask.rest, groups, heads // groups)
        options += f" mask({seen.name} : {seen.tensor})"
        reads.append(seen)
    stats = Value("", q.shape[:-1], "f32").tensor
    result = e.builder.fresh(q.shape, q.type)
    sums = e.builder.fresh(q.shape[:-1], "f32")
    e.builder.append(
        f"heddle.attention {e.builder.quoted} {q.name}, {k.name}, {v.name}{options} : "
        f"{q.tensor}, {k.tensor}, {v.tensor} -> {q.tensor}, {stats}",
        reads,
        [result, sums],
    )
    y = e.builder.reshape(result, (batch, queries, heads, size))
    if value.shape[-1] != size:
        own = (batch, queries, heads, value.shape[-1])
        y = e.builder.slice(y, [0] * 4, own, [1] * 4)
    return e.builder.transpose(y, [0, 2, 1, 3])


# Attention in its parts.


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
    """Builds attention that stores its scores, for masks that have gradients,
    with dropout."""
    *batch, heads, queries, _ = query.shape
    groups, keys = key.shape[-3], key.shape[-2]
    dims = LEADING[: len(batch)].replace("s", "x")
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
    weights = drop(e, softmax(e, scores), dropout)
    weights = e.builder.reshape(weights, (*q.shape[:-1], keys))
    letters = f"{score_letters}, {dims}nte -> {score_letters[:-1]}e"
    y = e.builder.contract(letters, weights, value)
    return e.builder.reshape(y, (*batch, heads, queries, value.shape[-1]))


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
