"""Exports a module once for any number of rows, and binds the number later."""

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node
from torch.utils import _pytree

from heddle.torch.capture import Captured
from heddle.torch.errors import TorchError

aten = torch.ops.aten
# Checks that are left out: those of types hold for any number of rows, and those of
# numbers need values that only a run knows.
_CHECKS = {
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
}


def rows_of(args: Sequence[Any]) -> int:
    """Returns the first dimension of all tensors; 0 if they differ."""
    leaves = _pytree.tree_leaves(tuple(args))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    sizes = {tensor.shape[0] if tensor.dim() else 0 for tensor in tensors}
    return sizes.pop() if len(sizes) == 1 else 0


def dynamic_shapes(module: torch.nn.Module, args: Sequence[Any]) -> Any:
    """Returns the shapes for torch.export whose first dimension is a symbol, for
    each parameter of the module's forward."""
    rows = torch.export.Dim("rows", min=2)

    def shape(leaf: Any) -> Any:
        return {0: rows} if isinstance(leaf, torch.Tensor) else None

    bound = inspect.signature(module.forward).bind(*args)
    return _pytree.tree_map(shape, tuple(bound.arguments.values()))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat))


def _same_value(node: Node, values: dict[Node, Any]) -> Node | None:
    """Returns the operand that a node's result equals, for a slice of all elements or a
    write to all of them. If PyTorch knows the size, it leaves out such nodes. They must
    go here too, because operators of one kind are numbered in their names."""
    operand = {aten.slice.Tensor: 0, aten.slice_scatter.default: 1}.get(node.target)
    if operand is None:
        return None
    same = node.args[operand]
    if not isinstance(same, Node) or values[node].shape != values[same].shape:
        return None
    return same


def _size(size: Any, rows: int) -> int:
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression.subs({symbol: rows for symbol in expression.free_symbols}))


def bind(captured: Captured, rows: int) -> Captured:
    """Returns the graph for a number of rows. Computes shapes again, and replaces
    symbolic sizes by numbers."""
    if rows < 2:
        raise TorchError(f"expected at least two rows to bind, got {rows}")
    graph = Graph()
    values: dict[Node, Any] = {}
    nodes: dict[Node, Any] = {}
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        for node in captured.nodes:
            if node.op == "placeholder":
                values[node] = _placeholder(captured, node, rows, mode)
            elif node.op != "call_function":
                raise TorchError(f"expected a function, got {node.op} {node.target}")
            elif getattr(node.target, "_opname", "") in _CHECKS:
                continue
            elif getattr(node.target, "_opname", "") == "_assert_scalar":
                _check(torch.fx.map_arg(node.args, values.__getitem__), rows)
                continue
            else:
                # PyTorch's own stub does not know that maps keep the structure.
                args: Any = torch.fx.map_arg(node.args, values.__getitem__)
                kwargs: Any = torch.fx.map_arg(node.kwargs, values.__getitem__)
                values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
            if node.op == "call_function" and _is_number(values[node]):
                nodes[node] = values[node]
                continue
            same = _same_value(node, values)
            if same is not None:
                nodes[node] = nodes[same]
                continue
            copy = graph.create_node(
                node.op,
                node.target,
                torch.fx.map_arg(node.args, nodes.__getitem__),
                torch.fx.map_arg(node.kwargs, nodes.__getitem__),
                node.name,
            )
            copy.meta = {**node.meta, "val": values[node]}
            nodes[node] = copy
    return dataclasses.replace(
        captured,
        nodes=list(graph.nodes),
        outputs=[(name, nodes.get(n, n)) for name, n in captured.outputs],
        mutations={name: nodes[n] for name, n in captured.mutations.items()},
        states=dict(captured.states),
    )


def _check(args: Any, rows: int) -> None:
    """Raises an error if a condition of the model on its sizes does not hold. A
    condition on values of tensors is not a number here, so it is not checked."""
    condition, message = args
    if isinstance(condition, (bool, int, float)) and not condition:
        raise TorchError(
            f"expected a number of rows that the model allows, got {rows}: {message}"
        )


def _placeholder(
    captured: Captured, node: Node, rows: int, mode: FakeTensorMode
) -> Any:
    if node.name in captured.constants:
        return mode.from_tensor(captured.constants[node.name])
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return value
    shape = [_size(size, rows) for size in value.shape]
    return torch.empty(shape, dtype=value.dtype, device=value.device)
