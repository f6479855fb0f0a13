"""Exports modules as the text of an .mlir file."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree

from heddle.torch import patterns, symbolic  # noqa: F401  (registers all ops)
from heddle.torch.capture import Captured, capture, from_program
from heddle.torch.emit import Groups, Module, emit, is_listed, require
from heddle.torch.errors import Problem, TorchError

# What a module is called with: its arguments by name, or in order. With a loss
# of its own the last argument holds the labels.
Batch = Mapping[str, Any] | Sequence[Any] | torch.Tensor
LABELS = "labels"


class WithLoss(torch.nn.Module):
    """Computes a loss from the outputs of a model."""

    def __init__(self, model: torch.nn.Module, loss: torch.nn.Module) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, labels: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        outputs = self.model(*args, **kwargs)
        answer = getattr(outputs, "logits", outputs)
        return {"loss": self.loss(answer, labels), "logits": answer}


class WithOwnLoss(torch.nn.Module):
    """A model that returns its loss, alone or with other outputs."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        outputs = self.model(*args, **kwargs)
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
    """Arguments to trace a module with."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def example_of(
    model: torch.nn.Module, batch: Batch, loss: torch.nn.Module | None
) -> Example:
    """Returns the module that computes the loss, and its arguments."""
    batch = _copied(batch)
    if loss is None:
        module: torch.nn.Module = WithOwnLoss(model)
        if isinstance(batch, Mapping):
            return Example(module, (), batch)
        return Example(module, tuple(batch), {})
    module = WithLoss(model, loss)
    if isinstance(batch, Mapping):
        rest = dict(batch)
        if LABELS not in rest:
            raise TorchError(f"expected '{LABELS}' in the batch, got {', '.join(rest)}")
        labels = rest.pop(LABELS)
        return Example(module, (labels,), rest)
    if len(batch) < 2:
        raise TorchError("expected a batch of inputs and labels, got one tensor")
    *inputs, labels = batch
    return Example(module, (labels, *inputs), {})


def _copied(batch: Batch) -> dict[str, Any] | tuple[Any, ...]:
    """Copies tensors, because torch.export does not take two that share memory.
    Leaves out arguments that are None."""

    def copy(value: Any) -> Any:
        return value.detach().clone() if isinstance(value, torch.Tensor) else value

    if isinstance(batch, Mapping):
        return {key: copy(value) for key, value in batch.items() if value is not None}
    values = (batch,) if isinstance(batch, torch.Tensor) else batch
    return tuple(copy(value) for value in values)


def argument_names(example: Example) -> list[str]:
    """Returns the names of the arguments of @forward."""
    names = [f"input{i}" for i in range(len(example.args))]
    if isinstance(example.module, WithLoss):
        names = [LABELS, *(f"input{i}" for i in range(len(example.args) - 1))]
    return names + list(example.kwargs)


def _captured(example: Example, shapes: Any = None) -> Captured:
    captured = capture(
        example.module,
        example.args,
        example.kwargs,
        is_listed,
        prefix="model.",
        shapes=shapes,
    )
    names = argument_names(example)
    keys = list(captured.inputs)
    if len(keys) == len(names):
        captured.inputs = dict(zip(keys, names, strict=True))
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

    PyTorch exports it once for the rows of the example, and once for a symbolic
    number if others are asked for. Where the model does not allow that, as one
    whose branches depend on the number, it is exported for each.
    """

    def __init__(
        self, model: torch.nn.Module, batch: Batch, loss: torch.nn.Module | None = None
    ) -> None:
        self.example = example_of(model, batch, loss)
        self.rows = symbolic.rows_of(self.example.args, self.example.kwargs)
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
        # `choose` changes the states.
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
                    shapes = symbolic.dynamic_shapes(example.args, example.kwargs)
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

    args, kwargs = _pytree.tree_map(cut, (example.args, example.kwargs))
    return Example(example.module, args, kwargs)


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
    in order. With `loss`, a module of (outputs, labels), the last one holds the
    labels, or the one named "labels". Raises UnsupportedError with all ops that
    Heddle does not have.
    """
    return require(emit_example(example_of(model, batch, loss)))


def export_program(program: torch.export.ExportedProgram) -> Module:
    """Returns the module of a program that torch.export.save has written. Its
    first result, or the one named loss, is the loss."""
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
