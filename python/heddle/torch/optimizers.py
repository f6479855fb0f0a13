"""PyTorch's optimizers as Heddle's."""

import dataclasses
from typing import Any

import torch

from heddle.torch.errors import TorchError

_KNOWN = "torch.optim.AdamW, Adam and SGD (without dampening and nesterov)"


@dataclasses.dataclass(frozen=True)
class Slot:
    """A state of the optimizer: PyTorch's key and Heddle's prefix."""

    key: str
    prefix: str


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    slots: tuple[Slot, ...]


_MOMENTS = (Slot("exp_avg", "adamw.m."), Slot("exp_avg_sq", "adamw.v."))
# Options that Heddle lacks, with the values at which they have no effect.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "amsgrad": (False,),
    "maximize": (False,),
    "nesterov": (False,),
    "dampening": (0, 0.0),
    "decoupled_weight_decay": (True, False),
}
_SHARED = ("betas", "eps", "momentum")


def kind_of(optimizer: torch.optim.Optimizer) -> Kind:
    """Returns Heddle's optimizer; raises TorchError if it has none."""
    exact = type(optimizer)
    if exact not in (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD):
        raise TorchError(f"Heddle has {_KNOWN}, got {exact.__name__}")
    groups = optimizer.param_groups
    for group in groups:
        for key, neutral in _NEUTRAL.items():
            if key in group and group[key] not in neutral:
                raise TorchError(
                    f"Heddle has {_KNOWN}, got {exact.__name__} with {key}={group[key]}"
                )
        for key in _SHARED:
            if key in group and group[key] != groups[0][key]:
                raise TorchError(
                    f"expected one {key} for all groups of the optimizer, got "
                    f"{groups[0][key]} and {group[key]}"
                )
    return _kind(exact, groups[0])


def _kind(exact: type, group: dict[str, Any]) -> Kind:
    if exact is torch.optim.SGD:
        slots = (Slot("momentum_buffer", "sgd.momentum."),) if group["momentum"] else ()
        return Kind("sgd", slots)
    decoupled = group.get("decoupled_weight_decay", exact is torch.optim.AdamW)
    return Kind("adamw" if decoupled else "adam", _MOMENTS)


def compiler_flags(optimizer: torch.optim.Optimizer) -> list[str]:
    kind, group = kind_of(optimizer), optimizer.param_groups[0]
    flags = ["--optimizer", kind.name]
    if kind.name == "sgd":
        return [*flags, "--momentum", repr(float(group["momentum"]))]
    betas = ",".join(repr(float(beta)) for beta in group["betas"])
    return [*flags, "--betas", betas, "--epsilon", repr(float(group["eps"]))]


def rate_name(group: int) -> str:
    """Returns the variable that holds the learning rate of a group."""
    return f"learning_rate.{group}"


def groups_of(
    optimizer: torch.optim.Optimizer, names: dict[int, str]
) -> dict[str, tuple[int, float]]:
    """Returns the group and decay of each parameter. `names` are by the identity
    of the tensors."""
    found: dict[str, tuple[int, float]] = {}
    for index, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise TorchError(
                    f"the optimizer has a parameter of shape {tuple(parameter.shape)} "
                    "that is not of the model"
                )
            found[names[id(parameter)]] = (index, float(group["weight_decay"]))
    return found
