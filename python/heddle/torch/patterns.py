"""Raises arithmetic to the op that it computes: norms, activations, rotary position
embedding. A pattern is tried when its last op is emitted. The ops that only this op
used are then dropped as unused."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from heddle.torch.eager_attention import raise_attention
from heddle.torch.emit import Emitter
from heddle.torch.op_table import op_name
from heddle.torch.ops.activation import gelu
from heddle.torch.ops.norm import rms
from heddle.torch.text import Value

# A pattern is "$x" (a value), "?eps" (a number), a number, or an op with
# patterns of its operands.
Pattern = Any
_CASTS = {"to", "_to_copy", "type_as", "clone", "contiguous"}
_COMMUTATIVE = {"add", "mul"}


def _strip(node: Any) -> Any:
    """Skips casts that change nothing."""
    while isinstance(node, Node) and op_name(node) in _CASTS:
        source = node.args[0]
        if not isinstance(source, Node):
            break
        if source.meta["val"].dtype != node.meta["val"].dtype:
            break
        node = source
    return node


def match(node: Any, pattern: Pattern, bound: dict[str, Any]) -> bool:
    node = _strip(node)
    if isinstance(pattern, str):
        if pattern.startswith("?") == isinstance(node, Node):
            return False
        return bound.setdefault(pattern, node) == node
    if isinstance(pattern, (int, float)):
        is_number = isinstance(node, (int, float)) and not isinstance(node, bool)
        return is_number and math.isclose(node, pattern, rel_tol=1e-6)
    if not isinstance(node, Node) or op_name(node) != pattern[0]:
        return False
    operands = list(pattern[1:])
    orders = [operands]
    if pattern[0] in _COMMUTATIVE:
        orders.append(operands[::-1])
    return any(_match_all(node, order, bound) for order in orders)


def _match_all(node: Node, patterns: Sequence[Pattern], bound: dict[str, Any]) -> bool:
    if len(node.args) < len(patterns) or node.kwargs.get("alpha", 1) != 1:
        return False
    trial = dict(bound)
    pairs = zip(node.args, patterns, strict=False)
    if not all(match(argument, pattern, trial) for argument, pattern in pairs):
        return False
    bound.update(trial)
    return True


_SQUARES = ("mean", ("pow", "$x", 2))
_RMS = ("mul", "$w", ("mul", "$x", ("rsqrt", ("add", _SQUARES, "?eps"))))
_CUBE = ("mul", ("pow", "$x", 3), 0.044715)
_INNER = ("mul", ("add", "$x", _CUBE), math.sqrt(2 / math.pi))
_GELU = ("mul", ("mul", "$x", 0.5), ("add", ("tanh", _INNER), 1))


def _over_last(node: Node) -> bool:
    """Tells whether the mean of a norm is over the last dimension alone."""
    for user in node.all_input_nodes:
        if op_name(user) == "mean":
            dims = user.args[1] if len(user.args) > 1 else None
            rank = len(user.args[0].meta["val"].shape)
            return isinstance(dims, (list, tuple)) and [d % rank for d in dims] == [
                rank - 1
            ]
        if user.op == "call_function" and op_name(user) in (
            "mul", "rsqrt", "add", *_CASTS,
        ):  # fmt: skip
            if _over_last(user):
                return True
    return False


def _raise_rms(e: Emitter, node: Node) -> Value | None:
    bound: dict[str, Any] = {}
    if not match(node, _RMS, bound) or not _over_last(node):
        return None
    x, weight = e.value(bound["$x"]), e.value(bound["$w"])
    if not isinstance(weight, Value) or weight.shape != x.shape[-1:]:
        return None
    e.builder.name = e.captured.module_of(node) or e.builder.name
    return rms(e, x, weight, float(bound["?eps"]))


def _raise_gelu(e: Emitter, node: Node) -> Value | None:
    bound: dict[str, Any] = {}
    if not match(node, _GELU, bound):
        return None
    e.builder.name = e.captured.module_of(node) or e.builder.name
    return gelu(e, e.value(bound["$x"]), "tanh")


def _slice_of(node: Any, x: Node, start: int, end: int) -> bool:
    node = _strip(node)
    if not isinstance(node, Node) or op_name(node) != "slice":
        return False
    size = x.meta["val"].shape[-1]
    source, dim, first, last = (*node.args, 0, 0, size)[:4]
    rank = len(x.meta["val"].shape)
    is_last = dim % rank == rank - 1
    return (
        _strip(source) is x and is_last and (first or 0) == start
        and min(last if last is not None else size, size) == end
    )  # fmt: skip


def _is_turned(node: Any, x: Node) -> bool:
    """Tells whether a node is [-x2, x1] for x = [x1, x2]."""
    node = _strip(node)
    if not isinstance(node, Node) or op_name(node) != "cat":
        return False
    parts, size = node.args[0], x.meta["val"].shape[-1]
    if not isinstance(parts, (list, tuple)) or len(parts) != 2:
        return False
    first = _strip(parts[0])
    if not isinstance(first, Node) or op_name(first) != "neg":
        return False
    return _slice_of(first.args[0], x, size // 2, size) and _slice_of(
        parts[1], x, 0, size // 2
    )


def _half(e: Emitter, node: Any, positions: int, size: int) -> torch.Tensor | None:
    """Returns the table [positions, size / 2] of a constant. The constant must have
    equal halves and be the same for all samples and heads."""
    known = e.known_tensor(node)
    if known is None or known.dtype != torch.float32:
        return None
    if known.numel() != positions * size or known.shape[-1] != size:
        return None
    table = known.reshape(positions, size)
    first, second = table.chunk(2, -1)
    return first.contiguous() if torch.equal(first, second) else None


def _raise_rotary(e: Emitter, node: Node) -> Value | None:
    bound: dict[str, Any] = {}
    for first, second in (("$x", "$cos"), ("$cos", "$x")):
        pattern = ("add", ("mul", first, second), ("mul", "$turned", "$sin"))
        for other in (pattern, (*pattern[:2], ("mul", "$sin", "$turned"))):
            trial: dict[str, Any] = {}
            if match(node, other, trial) and _is_turned(trial["$turned"], trial["$x"]):
                bound = trial
    if not bound:
        return None
    x = e.value(bound["$x"])
    if len(x.shape) != 4 or x.type != "f32":
        return None
    _, _, positions, size = x.shape
    tables = [_half(e, bound[key], positions, size) for key in ("$cos", "$sin")]
    if tables[0] is None or tables[1] is None:
        return None
    cos, sin = (e.builder.constant(t.numpy(), "f32") for t in tables if t is not None)
    x = e.builder.transpose(x, [0, 2, 1, 3])
    y = e.builder.op(
        f"heddle.rotary {e.builder.quoted} {x.name}, {cos.name}, {sin.name} : "
        f"{x.tensor}, {cos.tensor}, {sin.tensor} -> {x.tensor}",
        [x, cos, sin],
        x.shape,
        x.type,
    )
    return e.builder.transpose(y, [0, 2, 1, 3])


_RAISES: dict[str, list[Callable[[Emitter, Node], Value | None]]] = {
    "mul": [_raise_rms, _raise_gelu],
    "add": [_raise_rotary],
    "matmul": [raise_attention],
    "bmm": [raise_attention],
}


def raise_op(e: Emitter, node: Node) -> Value | None:
    """Returns the value of a node as one op of Heddle. None if the node is the last op
    of no pattern."""
    for attempt in _RAISES.get(op_name(node), ()):
        value = attempt(e, node)
        if value is not None:
            return value
    return None
