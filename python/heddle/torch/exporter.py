"""Exports modules as the text of an .mlir file."""

import dataclasses
import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree

from heddle.torch import patterns, symbolic  # noqa: F401  (registers all ops)
from heddle.torch.capture import Captured, capture, from_program
from heddle.torch.emit import Groups, Module, emit, require
from heddle.torch.errors import Problem, TorchError
from heddle.torch.op_table import is_listed

# The arguments of a module, by name or in order. If the loss is a module apart, the
# batch holds labels too: under the name "labels", or as the last argument in order.
Batch = Mapping[str, Any] | Sequence[Any] | torch.Tensor
LABELS = "labels"


def _call(
    model: torch.nn.Module, args: Sequence[Any], names: Sequence[str] | None
) -> Any:
    if names is None:
        return model(*args)
    return model(**dict(zip(names, args, strict=True)))


def _with_parameters(
    forward: Callable[..., Any], names: Sequence[str]
) -> Callable[..., Any]:
    """Returns a function whose signature has a parameter for each name.
    torch.export names the graph's inputs after them."""

    for name in names:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise TorchError(
                f"expected names of the model's arguments as keys of the batch, got "
                f"'{name}': rename it, or give the batch as a tuple in order"
            )

    def call(*args: Any) -> Any:
        return forward(*args)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in names]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


class WithLoss(torch.nn.Module):
    """Computes a loss from the outputs of a model.

    `names` are the names of the model's arguments, or None for a model that is
    called in order. `forward` takes the arguments in order in both cases, because
    torch.export gives a symbolic number of rows to parameters, not to what
    `**kwargs` collects.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: torch.nn.Module,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.loss, self.names = model, loss, names
        if names is not None:
            self.forward = _with_parameters(self.forward, [LABELS, *names])  # type: ignore[method-assign]

    def forward(self, labels: torch.Tensor, *args: Any) -> Any:
        outputs = _call(self.model, args, self.names)
        answer = getattr(outputs, "logits", outputs)
        return {"loss": self.loss(answer, labels), "logits": answer}


class WithOwnLoss(torch.nn.Module):
    """A model that returns its loss, alone or with other outputs. `names` has the
    meaning that it has for WithLoss."""

    def __init__(
        self, model: torch.nn.Module, names: Sequence[str] | None = None
    ) -> None:
        super().__init__()
        self.model, self.names = model, names
        if names is not None:
            self.forward = _with_parameters(self.forward, names)  # type: ignore[method-assign]

    def forward(self, *args: Any) -> Any:
        outputs = _call(self.model, args, self.names)
        if isinstance(outputs, torch.Tensor):
            return {"loss": outputs}
        if isinstance(outputs, Mapping):
            kept = {"loss": outputs.get("loss"), "logits": outputs.get("logits")}
        elif isinstance(outputs, (tuple, list)):
            kept = {"loss": outputs[0]}
        else:
            kept = {name: getattr(outputs, name, None) for name in ("loss", "logits")}
        return {
            name: value
            for name, value in kept.items()
            if isinstance(value, torch.Tensor)
        }


@dataclasses.dataclass
class Example:
    """Arguments to trace a module with, in order, and the names that they have in the
    module's text."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    names: list[str]


def example_of(
    model: torch.nn.Module, batch: Batch, loss: torch.nn.Module | None
) -> Example:
    """Returns the module that computes the loss, and its arguments."""
    batch = _copied(batch)
    if loss is None:
        if isinstance(batch, Mapping):
            names = list(batch)
            return Example(WithOwnLoss(model, names), tuple(batch.values()), names)
        return Example(WithOwnLoss(model), batch, _numbered(len(batch)))
    if isinstance(batch, Mapping):
        rest = dict(batch)
        if LABELS not in rest:
            raise TorchError(f"expected '{LABELS}' in the batch, got {', '.join(rest)}")
        labels = rest.pop(LABELS)
        names = list(rest)
        module = WithLoss(model, loss, names)
        return Example(module, (labels, *rest.values()), [LABELS, *names])
    if len(batch) < 2:
        raise TorchError("expected a batch of inputs and labels, got one tensor")
    *inputs, labels = batch
    names = [LABELS, *_numbered(len(inputs))]
    return Example(WithLoss(model, loss), (labels, *inputs), names)


def _numbered(count: int) -> list[str]:
    return [f"input{i}" for i in range(count)]


def _copied(batch: Batch) -> dict[str, Any] | tuple[Any, ...]:
    """Copies tensors, because torch.export does not take two that share memory.
    Leaves out arguments that are None."""

    def copy(value: Any) -> Any:
        return value.detach().clone() if isinstance(value, torch.Tensor) else value

    if isinstance(batch, Mapping):
        return {key: copy(value) for key, value in batch.items() if value is not None}
    values = (batch,) if isinstance(batch, torch.Tensor) else batch
    return tuple(copy(value) for value in values)


def _captured(example: Example, shapes: Any = None) -> Captured:
    captured = capture(
        example.module,
        dict(zip(example.names, example.args, strict=True)),
        is_listed,
        prefix="model.",
        shapes=shapes,
    )
    _strip_prefix(captured)
    return captured


def _strip_prefix(captured: Captured) -> None:
    """Gives states the names that they have in the model itself."""

    def own(name: str) -> str:
        return name.removeprefix("model.")

    renamed: dict[int, Any] = {}
    for key, state in captured.states.items():
        new = renamed.setdefault(
            id(state), dataclasses.replace(state, name=own(state.name))
        )
        captured.states[key] = new
    captured.mutations = {own(name): node for name, node in captured.mutations.items()}


class Traced:
    """A model with its loss, for any number of rows.

    PyTorch exports the model once for the rows of the example. For other numbers of
    rows, it exports the model once for a symbolic number. Some models do not allow
    that, such as one whose branches depend on the number of rows. These are exported
    again for each number, up to the rows of the example.
    """

    def __init__(
        self, model: torch.nn.Module, batch: Batch, loss: torch.nn.Module | None = None
    ) -> None:
        self.example = example_of(model, batch, loss)
        self.rows = symbolic.rows_of(self.example.args)
        self._exact: Captured | None = None
        self._symbolic: Captured | None = None

    def bind(self, rows: int | None = None) -> Module:
        """Returns the module for a number of rows: by default, the example's."""
        return require(self.emit(rows))

    def emit(
        self,
        rows: int | None = None,
        choose: Callable[[Captured], Groups | None] | None = None,
    ) -> Module:
        captured = self._of(self.rows if rows is None else rows)
        # `choose` changes the dict of states, so it gets a copy.
        return _emit(dataclasses.replace(captured, states=dict(captured.states)), choose)

    def _of(self, rows: int) -> Captured:
        if rows == self.rows:
            self._exact = self._exact or _captured(self.example)
            return self._exact
        if not 0 < rows:
            raise TorchError(f"expected a number of rows, got {rows}")
        if not self.rows:
            raise TorchError(
                "expected tensors with the same first dimension, the rows of the "
                "batch, got others: the model cannot be traced for other rows"
            )
        if rows > 1:
            try:
                if self._symbolic is None:
                    example = self.example
                    shapes = symbolic.dynamic_shapes(example.module, example.args)
                    self._symbolic = _captured(example, shapes)
                return symbolic.bind(self._symbolic, rows)
            except TorchError:
                if rows > self.rows:
                    raise
        if rows > self.rows:
            raise TorchError(f"expected at most {self.rows} rows, got {rows}")
        return _captured(_first_rows(self.example, rows))


def _first_rows(example: Example, rows: int) -> Example:
    def cut(leaf: Any) -> Any:
        return leaf[:rows].clone() if isinstance(leaf, torch.Tensor) else leaf

    return dataclasses.replace(example, args=_pytree.tree_map(cut, example.args))


def emit_example(
    example: Example, choose: Callable[[Captured], Groups | None] | None = None
) -> Module:
    """Emits a module with its loss. `choose` sees the states first, and returns
    the optimizer's groups."""
    return _emit(_captured(example), choose)


def _emit(
    captured: Captured, choose: Callable[[Captured], Groups | None] | None
) -> Module:
    names = [name for name, _ in captured.outputs]
    if "loss" not in names:
        got = ", ".join(names) or "nothing"
        raise TorchError(
            f"expected the model to return its loss, got {got}; pass labels, or a "
            "module as the loss"
        )
    labels = LABELS if LABELS in captured.inputs.values() else None
    return emit(captured, "loss", labels, choose(captured) if choose else None)


def export(
    model: torch.nn.Module,
    batch: Batch,
    loss: torch.nn.Module | None = None,
) -> Module:
    """Returns the module of a model with its loss, as text.

    `batch` is an example of one micro-batch: the model's arguments by name, or
    in order. `loss` is a module of (outputs, labels). With it, the batch also holds
    the labels: under the name "labels", or as the last tensor in order. Raises
    UnsupportedError with all ops that Heddle does not have.
    """
    return require(emit_example(example_of(model, batch, loss)))


def export_program(program: torch.export.ExportedProgram) -> Module:
    """Returns the module of a program that torch.export.save has written. The loss is
    the result named loss, or else the first result."""
    captured = from_program(program, None, is_listed)
    names = [name for name, _ in captured.outputs]
    if not names:
        raise TorchError("expected the program to return its loss, got nothing")
    labels = LABELS if LABELS in captured.inputs.values() else None
    return require(emit(captured, "loss" if "loss" in names else names[0], labels))


def report(
    model: torch.nn.Module, batch: Batch, loss: torch.nn.Module | None = None
) -> list[Problem]:
    """Returns the uses of ops that Heddle does not have, without compiling."""
    return emit_example(example_of(model, batch, loss)).problems
