"""Compares a model's training under Heddle with PyTorch's."""

import copy
import math
import re
from collections.abc import Mapping
from typing import Any

import heddle.torch
import numpy as np
import torch

GRADIENT_BOUND = 1e-4
LOSS_BOUND = 1e-5
STEPS = 10
# One device, and plans that divide sizes and plans that do not.
PLANS: dict[str, Any] = {
    "one": None,
    "tp4": {"mesh": {"tp": 4}},
    "dp2-tp2-zero3": {"mesh": {"dp": 2, "tp": 2}, "zero": 3},
    "tp3": {"mesh": {"tp": 3}},
}


def renumbered(text: str) -> str:
    """Numbers values in the order of their definitions. Ops that are left out of a
    text leave gaps in the numbers."""
    numbers: dict[str, str] = {}

    def number(name: re.Match[str]) -> str:
        return numbers.setdefault(name[0], f"%{len(numbers)}")

    return re.sub(r"%\d+\b", number, text)


def distance(a: np.ndarray, b: np.ndarray, floor: float = 0.0) -> float:
    """Returns the 2-norm of the difference, relative to that of b, or to `floor`
    if that is larger."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    size = max(float(np.linalg.norm(b)), floor)
    gap = float(np.linalg.norm(a - b))
    return gap / size if size > 0 else gap


def _loss(
    model: torch.nn.Module, batch: Any, loss: torch.nn.Module | None
) -> torch.Tensor:
    if loss is not None:
        *inputs, labels = batch
        return loss(model(*inputs), labels)
    result = model(**batch) if isinstance(batch, Mapping) else model(*batch)
    return result if isinstance(result, torch.Tensor) else result.loss


def _adamw(model: torch.nn.Module) -> torch.optim.Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1)


def check(
    model: torch.nn.Module,
    batch: Any,
    loss: torch.nn.Module | None = None,
    plan: Any = None,
    make_optimizer: Any = _adamw,
    gradients: bool = True,
) -> str:
    """Raises AssertionError unless loss, gradients and ten steps agree. Returns
    the largest differences."""
    torch.manual_seed(0)
    twin = copy.deepcopy(model)
    with heddle.torch.Trainer(
        model, batch, make_optimizer(model), loss, plan, gradients=gradients
    ) as trainer:
        worst = _check_gradients(trainer, twin, batch, loss) if gradients else 0.0
        drift = _check_steps(trainer, twin, batch, loss, make_optimizer(twin))
        _check_state(trainer, twin, batch, loss)
    return f"gradients {worst:.1e}, losses {drift:.1e}"


def _check_gradients(
    trainer: heddle.torch.Trainer, twin: torch.nn.Module, batch: Any, loss: Any
) -> float:
    buffers = {name: b.clone() for name, b in twin.named_buffers()}
    expected = _loss(twin, batch, loss)
    expected.backward()
    got = trainer.gradients(batch)
    gap = distance(got["loss"], expected.item())
    assert gap < GRADIENT_BOUND, f"loss differs by {gap}"
    worst = 0.0
    expected_gradients = {
        name: parameter.grad.numpy()
        for name, parameter in twin.named_parameters()
        if parameter.grad is not None
    }
    # Some gradients differ from zero only by rounding, such as those of biases before a
    # norm.
    floor = 1e-3 * max(map(np.linalg.norm, expected_gradients.values()))
    for name, gradient in expected_gradients.items():
        gap = distance(got[f"grad.{name}"], gradient, float(floor))
        assert gap < GRADIENT_BOUND, f"the gradient of {name} differs by {gap}"
        worst = max(worst, gap)
    twin.zero_grad()
    for name, buffer in twin.named_buffers():
        buffer.copy_(buffers[name])
    return worst


def _check_steps(
    trainer: heddle.torch.Trainer,
    twin: torch.nn.Module,
    batch: Any,
    loss: Any,
    optimizer: torch.optim.Optimizer,
) -> float:
    worst = 0.0
    for step in range(STEPS):
        optimizer.zero_grad()
        expected = _loss(twin, batch, loss)
        expected.backward()
        optimizer.step()
        got = trainer.step(batch).loss
        gap = abs(got - expected.item()) / abs(expected.item())
        assert math.isfinite(got) and gap < LOSS_BOUND, (
            f"step {step}: expected the loss {expected.item()}, got {got}"
        )
        worst = max(worst, gap)
    return worst


def _check_state(
    trainer: heddle.torch.Trainer, twin: torch.nn.Module, batch: Any, loss: Any
) -> None:
    """Compares the loss of the next step with PyTorch's for the trained state."""
    twin.load_state_dict(trainer.state_dict())
    with torch.no_grad():
        expected = _loss(twin, batch, loss).item()
    got = trainer.step(batch).loss
    gap = abs(got - expected) / abs(expected)
    assert gap < LOSS_BOUND, f"expected the loss {expected} of the state, got {got}"
