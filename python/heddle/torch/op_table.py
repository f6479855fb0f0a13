"""The table of ATen ops, in which the modules of heddle.torch.ops register theirs."""

import operator
from collections.abc import Callable
from typing import Any

from torch.fx import Node

Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}


def op(*names: str) -> Callable[[Handler], Handler]:
    """Registers the function of ATen ops. It gets the emitter and the op's arguments,
    with values in place of nodes. It returns one value or several."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


def op_name(node: Node) -> str:
    return getattr(node.target, "_opname", getattr(node.target, "__name__", "?"))


def is_listed(node: Node) -> bool:
    return node.target is operator.getitem or op_name(node) in HANDLERS
