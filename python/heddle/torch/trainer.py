"""Trains a module step by step on the devices of a plan."""

import dataclasses
import json
import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from heddle.compiler import AUTO, auto_flags, compile, plan_flags
from heddle.errors import CompileError, RunError
from heddle.manifest import Table
from heddle.session import Session
from heddle.torch import optimizers
from heddle.torch.capture import Captured, State
from heddle.torch.emit import Groups, Module, require
from heddle.torch.errors import TorchError
from heddle.torch.exporter import Batch, Traced, emit_example, example_of

# A plan is one of:
# - the path of a plan's file;
# - a mesh and flags of `heddle compile`: {"mesh": {"dp": 2, "tp": 2}, "zero": 3};
# - "auto": the planner chooses a plan for the cores of this machine;
# - {"plan": "auto", "cluster": ...}: the planner chooses one for the cluster;
# - None: one device.
Plan = str | os.PathLike[str] | Mapping[str, Any] | None


@dataclasses.dataclass(frozen=True)
class Metrics:
    loss: float
    gradient_norm: float
    learning_rate: float


def flags_of(plan: Plan) -> list[str]:
    if not isinstance(plan, Mapping):
        return plan_flags(plan)
    if plan.get("plan") == AUTO:
        rest = {key: value for key, value in plan.items() if key != "plan"}
        return auto_flags(rest.pop("cluster", None)) + flags_of(rest)
    if "version" in plan:
        raise CompileError(
            "plan: a dict has the mesh and flags of `heddle compile`, and this one is "
            "what a plan's file holds: write it to a JSON file and pass the file's path"
        )
    flags = plan_flags(plan.get("mesh"))
    for key, value in plan.items():
        if key != "mesh":
            flags += [f"--{key.replace('_', '-')}", str(value)]
    return flags


def micro_batches_of(plan: Plan) -> int:
    """Returns the number of micro-batches of a step for which a plan's file was made,
    or 1 if the file does not state it. The compiler reports a file that is no plan."""
    if not isinstance(plan, (str, os.PathLike)) or plan == AUTO:
        return 1
    try:
        prediction = json.loads(pathlib.Path(plan).read_text())["prediction"]
        return max(1, int(prediction["micro_batches"]))
    except (OSError, ValueError, LookupError, TypeError):
        return 1


def to_numpy(value: Any) -> np.ndarray:
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    value = value.detach().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def _part(value: Any, parts: int) -> Any:
    """Returns the rows of the first of `parts` micro-batches of a tensor."""
    if parts == 1 or not isinstance(value, torch.Tensor) or not value.dim():
        return value
    if value.shape[0] % parts:
        raise TorchError(
            f"expected a batch of a multiple of {parts} micro-batches, got "
            f"{value.shape[0]} rows"
        )
    return value[: value.shape[0] // parts]


def micro_batch(batch: Batch, parts: int) -> Batch:
    if isinstance(batch, Mapping):
        return {key: _part(value, parts) for key, value in batch.items()}
    if isinstance(batch, torch.Tensor):
        return _part(batch, parts)
    return tuple(_part(value, parts) for value in batch)


class Trainer:
    """A model with its optimizer, compiled for a plan.

    `example_inputs` is a batch: its values do not matter, its shapes do. `loss`
    is a module of (outputs, labels); without one the model returns its loss, as
    Hugging Face's do if they get labels. Learning rates are read from the
    optimizer before each step, so PyTorch's schedulers work. The optimizer's own
    `step` is not used. `clip` limits the norm of the gradients. `micro_batches` is
    the number of micro-batches of a step, by default that of the plan. The model is
    exported for the rows of one micro-batch.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        example_inputs: Batch,
        optimizer: torch.optim.Optimizer,
        loss: torch.nn.Module | None = None,
        plan: Plan = None,
        *,
        micro_batches: int | None = None,
        clip: float = 0.0,
        bf16: bool = False,
        gradients: bool = False,
        cores_per_device: int = 0,
    ) -> None:
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.steps = 0
        self._kind = optimizers.kind_of(optimizer)
        self._folder = tempfile.TemporaryDirectory(prefix="heddle-")
        self._cores = cores_per_device
        if micro_batches is None:
            micro_batches = micro_batches_of(plan)
        self._parts = micro_batches
        self._rates: dict[str, float] = {}
        self._batch = example_inputs
        self._example = micro_batch(example_inputs, micro_batches)
        self._flags = flags_of(plan) + ["--bf16"] * bf16
        self._mutates = False
        flags = [
            *self._flags,
            *optimizers.compiler_flags(optimizer),
            *["--clip", repr(float(clip))],
            *["--micro-batches", str(micro_batches)],
            *["--gradients"] * gradients,
        ]
        module = self._export()
        self._states = {state.name: state for state in module.states}
        self.session = self._load(module, "train", flags)
        self._untrained: dict[str, torch.Tensor] = {}
        self._evaluation: Session | None = None
        self.load_state_dict(model.state_dict())
        self._write_loss_states()
        if optimizer.state:
            self.load_optimizer_state_dict(optimizer.state_dict())

    def _export(self) -> Module:
        example = example_of(self.model, self._example, self.loss)
        self._names = example.names
        traced = Traced(self.model, self._batch, self.loss)
        if self._parts > 1 and traced.rows:
            return require(traced.emit(traced.rows // self._parts, self._choose))
        return require(emit_example(example, self._choose))

    def _choose(self, captured: Captured) -> Groups:
        """Freezes parameters that the optimizer lacks; returns its groups."""
        self._mutates = self._mutates or bool(captured.mutations)
        names = {
            id(parameter): state.name for parameter, state in self._parameters(captured)
        }
        groups = optimizers.groups_of(self.optimizer, names)
        renewed: dict[str, State] = {}
        for key, state in captured.states.items():
            trained = state.is_trained and state.name in groups
            captured.states[key] = renewed.setdefault(
                state.name, dataclasses.replace(state, is_trained=trained)
            )
        if not any(state.is_trained for state in renewed.values()):
            raise TorchError(
                "expected the optimizer to have a parameter that requires a gradient "
                "and that the loss depends on, got none"
            )
        rates = {
            optimizers.rate_name(i): float(group["lr"])
            for i, group in enumerate(self.optimizer.param_groups)
        }
        return Groups(
            rates,
            {
                name: (optimizers.rate_name(index), decay)
                for name, (index, decay) in groups.items()
            },
        )

    def _parameters(self, captured: Captured) -> list[tuple[torch.nn.Parameter, State]]:
        by_name = dict(self.model.named_parameters(remove_duplicate=False))
        states = {state.name: state for state in captured.states.values()}
        identities = {
            id(by_name[name]): s for name, s in states.items() if name in by_name
        }
        found = []
        for name, parameter in by_name.items():
            # A parameter that the loss does not use is not in the graph's states.
            unused = State(name, parameter, False)
            found.append((parameter, identities.get(id(parameter), unused)))
        return found

    def _load(self, module: Module, name: str, flags: list[str]) -> Session:
        folder = pathlib.Path(self._folder.name)
        source = folder / f"{name}.mlir"
        source.write_text(module.text)
        artifact = compile(source, folder / f"{name}.heddle", flags=flags)
        return Session(artifact, cores_per_device=self._cores)

    # Steps.

    def _inputs(self, batch: Batch, table: Table) -> dict[str, np.ndarray]:
        if isinstance(batch, Mapping):
            named = {key: value for key, value in batch.items() if value is not None}
        else:
            values = (batch,) if isinstance(batch, torch.Tensor) else tuple(batch)
            if self.loss is not None:
                values = (values[-1], *values[:-1])
            if len(values) != len(self._names):
                raise RunError(
                    f"expected a batch of {len(self._names)} tensors, got {len(values)}"
                )
            named = dict(zip(self._names, values, strict=True))
        wanted = {port.name for port in table.inputs}
        return {
            key: to_numpy(value)
            for key, value in named.items()
            if key in wanted or isinstance(value, torch.Tensor)
        }

    def _table(self, session: Session, role: str) -> Table:
        table = session.manifest.table_of(role)
        if table is None:
            raise RunError(f"the artifact has no table of the role {role}")
        return table

    def _set_rates(self) -> None:
        for i, group in enumerate(self.optimizer.param_groups):
            name, rate = optimizers.rate_name(i), float(group["lr"])
            if self._rates.get(name) != rate:
                self.session.write(name, np.float64(rate))
                self._rates[name] = rate

    def step(self, batch: Batch) -> Metrics:
        """Trains on one batch: all micro-batches of a step."""
        self._set_rates()
        table = self._table(self.session, "step")
        results = self.session.run(table.name, self._inputs(batch, table))
        self.steps += 1
        by_role = {port.role: results[port.name] for port in table.outputs}
        return Metrics(
            float(by_role["loss"]),
            float(by_role["gradient_norm"]),
            float(by_role["learning_rate"]),
        )

    def evaluate(self, batch: Batch) -> dict[str, np.ndarray]:
        """Returns the mean loss of one micro-batch and the model's outputs, as in
        eval() mode."""
        session = self._evaluator()
        table = self._table(session, "evaluate")
        inputs = self._inputs(batch, table)
        for port in table.inputs:
            rows = inputs[port.name].shape[:1] if port.name in inputs else ()
            if rows and port.shape and rows != port.shape[:1]:
                raise RunError(
                    f"evaluate: expected one micro-batch, which has {port.shape[0]} rows "
                    f"of '{port.name}', got {rows[0]}; a step has {self._parts} "
                    "micro-batches (micro_batches=)"
                )
        results = session.run(table.name, inputs)
        by_role = {port.role: results[port.name] for port in table.outputs}
        count = max(float(by_role["label_count"]), 1.0)
        outputs = {p.name: results[p.name] for p in table.outputs if p.role == "output"}
        return {"loss": np.float32(by_role["loss_sum"] / count), **outputs}

    def gradients(self, batch: Batch) -> dict[str, np.ndarray]:
        """Returns the loss, the outputs and the gradient of each parameter
        ("grad.NAME"), without dropout. Needs `gradients=True`."""
        table = self._table(self.session, "gradients")
        results = self.session.run(table.name, self._inputs(batch, table))
        named = {}
        for port in table.outputs:
            value = results[port.name]
            if port.role == "gradient":
                value = value.reshape(tuple(self._states[port.parameter].tensor.shape))
            named[port.name] = value
        return named

    def _evaluator(self) -> Session:
        """Returns a session that runs the model in eval() mode. If the model changes
        buffers, its program differs from that of train() mode and has a session of
        its own."""
        if not self._mutates:
            return self.session
        if self._evaluation is None:
            was_training = self.model.training
            self.model.eval()
            try:
                module = self._export()
            finally:
                self.model.train(was_training)
            self._evaluation = self._load(module, "evaluate", self._flags)
        for name in self._evaluation.manifest.variables:
            if name in self._states:
                self._evaluation.write(name, self.session.read(name))
        return self._evaluation

    # State.

    def _tied(self) -> dict[str, str]:
        """Returns the variable that holds each entry of the state_dict."""
        owner: dict[int, str] = {}
        entries = self.model.state_dict(keep_vars=True)
        for name, tensor in entries.items():
            if name in self._states:
                owner[id(tensor)] = name
        return {
            name: owner[id(tensor)]
            for name, tensor in entries.items()
            if id(tensor) in owner
        }

    def _read(self, name: str, state: State) -> torch.Tensor:
        array = self.session.read(name).reshape(tuple(state.tensor.shape))
        return torch.from_numpy(np.array(array)).to(state.tensor.dtype)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Returns the model's state under its own names."""
        tied = self._tied()
        read = {
            name: self._read(name, self._states[name]) for name in set(tied.values())
        }
        result: dict[str, torch.Tensor] = {}
        for name in self.model.state_dict():
            if name in tied:
                result[name] = read[tied[name]]
            elif name.endswith("num_batches_tracked") and self._mutates:
                result[name] = self._untrained[name] + self.steps * self._parts
            else:
                result[name] = self._untrained[name]
        return result

    def load_state_dict(self, values: Mapping[str, torch.Tensor]) -> None:
        """Sets the parameters and buffers. Those that the program does not use
        are kept for `state_dict`."""
        tied = self._tied()
        self._untrained = {
            name: tensor.detach().clone()
            for name, tensor in values.items()
            if name not in tied
        }
        for name, owner in tied.items():
            value = values.get(name)
            if value is None:
                raise TorchError(f"expected a tensor {name} in the state, got none")
            if value.is_meta:
                continue
            self.session.write(owner, to_numpy(value))

    def _write_loss_states(self) -> None:
        """Sets the states of the loss, such as weights of classes."""
        for name, value in (self.loss.state_dict() if self.loss else {}).items():
            if f"loss.{name}" in self._states:
                self.session.write(f"loss.{name}", to_numpy(value))

    def _numbers(self) -> dict[int, str]:
        """Returns the variable of each parameter of the optimizer, by the number that
        the parameter has in the optimizer's state_dict."""
        tied = self._tied()
        by_identity = {
            id(tensor): tied.get(name, name)
            for name, tensor in self.model.state_dict(keep_vars=True).items()
        }
        parameters = [
            parameter
            for group in self.optimizer.param_groups
            for parameter in group["params"]
        ]
        return {i: by_identity[id(parameter)] for i, parameter in enumerate(parameters)}

    def optimizer_state_dict(self) -> dict[str, Any]:
        """Returns the state in the form of the optimizer's state_dict."""
        step = float(self.session.read("steps"))
        state: dict[int, dict[str, Any]] = {}
        for number, name in self._numbers().items():
            entries = {
                slot.key: self._read(slot.prefix + name, self._states[name])
                for slot in self._kind.slots
                if slot.prefix + name in self.session.manifest.variables
            }
            if entries and self._kind.name != "sgd":
                entries["step"] = torch.tensor(step)
            if entries:
                state[number] = entries
        groups = self.optimizer.state_dict()["param_groups"]
        return {"state": state, "param_groups": groups}

    def load_optimizer_state_dict(self, values: Mapping[str, Any]) -> None:
        names, step = self._numbers(), 0.0
        for number, entries in values["state"].items():
            step = max(step, float(entries.get("step", 0)))
            for slot in self._kind.slots:
                variable = slot.prefix + names[int(number)]
                found = variable in self.session.manifest.variables
                if found and entries.get(slot.key) is not None:
                    self.session.write(
                        variable,
                        to_numpy(entries[slot.key]).reshape(
                            self.session.variable(variable).shape
                        ),
                    )
        self.session.write("steps", np.int64(step))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the model under its own names (model.safetensors), and the state
        from which `load` continues training (state.safetensors)."""
        path = pathlib.Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        tensors = {
            name: tensor.contiguous().clone()
            for name, tensor in self.state_dict().items()
        }
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
        self.session.save(path / "state.safetensors")

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Continues from what `save` wrote."""
        self.session.load(pathlib.Path(folder) / "state.safetensors")
        self.steps = int(self.session.read("steps"))
        self._rates = {}

    def close(self) -> None:
        for session in (self.session, self._evaluation):
            if session is not None:
                session.close()
        self._folder.cleanup()

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()
