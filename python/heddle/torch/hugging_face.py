"""Models of transformers, built from their config without weights."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import torch

from heddle.torch.errors import TorchError

# The class for each kind of model, where the config does not name one.
_CLASSES = ("AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSpeechSeq2Seq")


@contextlib.contextmanager
def empty_parameters() -> Iterator[None]:
    """While this context is active, new modules get parameters on the meta device.
    Their buffers are real, because the program holds their values. Such a module can be
    exported after `place_parameters`."""
    register = torch.nn.Module.register_parameter

    def register_empty(
        module: torch.nn.Module, name: str, parameter: torch.nn.Parameter | None
    ) -> None:
        if parameter is not None and not parameter.is_meta:
            empty = torch.empty_like(parameter, device="meta")
            parameter = torch.nn.Parameter(empty, parameter.requires_grad)
        register(module, name, parameter)

    torch.nn.Module.register_parameter = register_empty  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register  # type: ignore[method-assign]


def place_parameters(model: torch.nn.Module) -> torch.nn.Module:
    """Replaces parameters on the meta device by ones on the CPU, because torch.export
    wants all on one device. All elements of such a parameter share one number in
    memory."""
    placed: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, old in module.named_parameters(recurse=False):
            if old.is_meta:
                zero = torch.zeros((), dtype=old.dtype).expand(old.shape)
                new = torch.nn.Parameter(zero, old.requires_grad)
                setattr(module, name, placed.setdefault(id(old), new))
    return model


def _compute_all_experts(
    experts: Any, x: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Computes all experts for all tokens, so that no size depends on the routing."""

    def product(x: torch.Tensor, name: str) -> torch.Tensor:
        table = getattr(experts, name)
        form = "eio" if experts.is_transposed else "eoi"
        y = torch.einsum(f"{'ti' if x.dim() == 2 else 'tei'},{form}->teo", x, table)
        return y + getattr(experts, f"{name}_bias") if experts.has_bias else y

    if experts.has_gate:
        y = experts._apply_gate(product(x, "gate_up_proj"))
    else:
        y = experts.act_fn(product(x, "up_proj"))
    y = product(y, "down_proj")
    if experts.has_post_expert_norm:
        y = experts.post_expert_norm(y)
    gates = weights.new_zeros(x.shape[0], y.shape[1])
    gates = gates.scatter_add(1, chosen, weights)
    return torch.einsum("teo,te->to", y, gates.to(y.dtype)).to(x.dtype)


@contextlib.contextmanager
def dense_experts() -> Iterator[None]:
    """Replaces the experts in transformers' mixtures, which group tokens into tensors
    whose sizes depend on values."""
    module = sys.modules.get("transformers.integrations.moe")
    if module is None:
        yield
        return
    kind = module.ExpertsInterface
    original = kind.get_interface
    kind.get_interface = lambda *unused: _compute_all_experts
    try:
        yield
    finally:
        kind.get_interface = original


def build(path: pathlib.Path) -> torch.nn.Module:
    """Returns the model of a config in train() mode, without memory for its
    parameters."""
    import transformers

    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        raise TorchError(f"{path}: expected a folder with a config.json, or the file")
    config = transformers.AutoConfig.from_pretrained(str(path.parent))
    if hasattr(config, "use_cache"):
        config.use_cache = False
    names = list(config.architectures or [])
    for name in names:
        if hasattr(transformers, name):
            with empty_parameters():
                model = getattr(transformers, name)(config)
            return place_parameters(model).train()
    for name in _CLASSES:
        try:
            with empty_parameters():
                model = getattr(transformers, name).from_config(config)
        except ValueError:
            continue
        return place_parameters(model).train()
    raise TorchError(f"{path}: transformers has no model with a loss for it")


def example(
    model: torch.nn.Module, batch: int, sequence: int | None, mask: bool = False
) -> dict[str, Any]:
    """Returns a batch with labels for a model of transformers."""
    config: Any = model.config
    name = getattr(model, "main_input_name", "input_ids")
    if name == "pixel_values":
        size = config.image_size
        sizes = (size, size) if isinstance(size, int) else tuple(size)
        pixels = torch.zeros(batch, config.num_channels, *sizes)
        return {"pixel_values": pixels, "labels": _ids(batch)}
    length = sequence or _positions(config)
    if name == "input_features":
        frames = 2 * config.max_source_positions
        sound = torch.zeros(batch, config.num_mel_bins, frames)
        return {"input_features": sound, "labels": _ids(batch, length)}
    inputs = {"input_ids": _ids(batch, length), "labels": _ids(batch, length)}
    if mask:
        inputs["attention_mask"] = torch.ones(batch, length, dtype=torch.int64)
    return inputs


def _ids(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


def _positions(config: Any) -> int:
    for key in ("max_target_positions", "max_position_embeddings", "n_positions"):
        if getattr(config, key, None):
            return int(getattr(config, key))
    raise TorchError("expected --seq, because the config names no number of positions")
