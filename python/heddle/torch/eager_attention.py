"""Raises attention that is written out: the softmax of masked and scaled products
of queries and keys, times values."""

import dataclasses
from typing import Any

from torch.fx import Node

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op_name
from heddle.torch.ops.attention import (
    Mask,
    Weighting,
    attend,
    combine,
    is_trained,
    take_apart,
    with_heads,
)
from heddle.torch.text import Value

_CASTS = {"to", "_to_copy", "type_as", "clone", "contiguous", "alias"}
_PRODUCTS = {"matmul", "bmm"}
_SOFTMAX = {"softmax", "_softmax"}


@dataclasses.dataclass
class _Scores:
    """Scores: a scaled product of queries and keys, with masks. A mask is a node that
    is added, or a condition of seen keys with the number for the other keys."""

    query: Node
    key: Node
    scale: float = 1.0
    added: list[Any] = dataclasses.field(default_factory=list)
    shown: list[tuple[Node, bool]] = dataclasses.field(default_factory=list)


def _strip(node: Any) -> Any:
    """Skips casts among floats."""
    while isinstance(node, Node) and op_name(node) in _CASTS:
        source = node.args[0]
        if not isinstance(source, Node) or not source.meta["val"].is_floating_point():
            break
        node = source
    return node


def _number(e: Emitter, node: Any) -> float | None:
    """Returns a number or a constant of one element."""
    if isinstance(node, (int, float)):
        return float(node)
    known = e.known_tensor(node)
    return known.item() if known is not None and known.numel() == 1 else None


def _is_low(e: Emitter, node: Any) -> bool:
    value = _number(e, node)
    return value is not None and value < -1e4


def _scores(e: Emitter, node: Any) -> _Scores | None:
    """Follows scores back to the product of queries and keys."""
    node = _strip(node)
    if not isinstance(node, Node) or node in e.known:
        return None
    name, args = op_name(node), node.args
    if name in _PRODUCTS:
        return _product(args[0], args[1])
    if name in ("mul", "div"):
        found, factor = _scores(e, args[0]), _number(e, args[1])
        if found is None and name == "mul":
            found, factor = _scores(e, args[1]), _number(e, args[0])
        if found is None or not factor or found.added:
            return None
        found.scale *= factor if name == "mul" else 1 / factor
        return found
    if name == "add" and node.kwargs.get("alpha", 1) == 1:
        for scores, mask in (args[:2], args[1::-1]):
            found = _scores(e, scores)
            if found is not None and isinstance(mask, Node):
                found.added.append(mask)
                return found
    if name == "where" and _is_low(e, args[2]):
        found = _scores(e, args[1])
        if found is not None:
            found.shown.append((args[0], True))
        return found
    if name in ("masked_fill", "masked_fill_") and _is_low(e, args[2]):
        found = _scores(e, args[0])
        if found is not None:
            found.shown.append((args[1], False))
        return found
    return None


def _product(query: Any, transposed: Any) -> _Scores | None:
    query, transposed = _strip(query), _strip(transposed)
    if not isinstance(query, Node) or not isinstance(transposed, Node):
        return None
    shape, other = query.meta["val"].shape, transposed.meta["val"].shape
    if len(shape) not in (3, 4) or shape[:-2] != other[:-2]:
        return None
    return _Scores(query, transposed)


def _mask(e: Emitter, found: _Scores, queries: int, keys: int) -> Mask:
    mask = Mask()
    values: list[Value] = [e.value(node) for node in found.added]
    for node, is_shown in found.shown:
        value = e.value(node)
        if not is_shown:
            every = e.builder.splat(1, value.shape, "i1")
            value = e.builder.elementwise("arith.xori", value, every)
        values.append(value)
    for value in values:
        value = with_heads(e, value) if found.query.meta["val"].dim() == 3 else value
        mask = combine(e, mask, take_apart(e, value, queries, keys))
    return mask


def raise_attention(e: Emitter, node: Node) -> Value | None:
    weights, values, dropout = _strip(node.args[0]), node.args[1], 0.0
    if isinstance(weights, Node) and op_name(weights) == "dropout":
        dropout = float(weights.args[1]) if weights.args[2] else 0.0
        weights = _strip(weights.args[0])
    if not isinstance(weights, Node) or op_name(weights) not in _SOFTMAX:
        return None
    if weights.args[1] not in (-1, weights.meta["val"].dim() - 1):
        return None
    found = _scores(e, weights.args[0])
    if found is None:
        return None
    if dropout and any(is_trained(e, mask) for mask in found.added):
        return None
    query, key, value = e.value(found.query), e.value(found.key), e.value(values)
    if value.shape[:-2] != query.shape[:-2] or query.type != value.type:
        return None
    rank = len(key.shape)
    key = e.builder.transpose(key, [*range(rank - 2), rank - 1, rank - 2])
    mask = _mask(e, found, query.shape[-2], key.shape[-2])
    module = e.captured.module_of(node)
    e.builder.name = module or e.builder.name
    return attend(e, query, key, value, Weighting(mask, found.scale, dropout))
