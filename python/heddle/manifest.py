"""What an artifact holds: its variables and the tables that can be run."""

import dataclasses
import json
import math
import os
import pathlib
from typing import Any

from heddle.errors import RunError

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The checkpoint's tensor of which a variable is a reshape."""

    name: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Variable:
    """A tensor that lives from step to step. Its shape is that of the whole tensor,
    even if a plan cuts it into slices."""

    name: str
    type: str
    shape: tuple[int, ...]
    role: str
    checkpoint: Checkpoint | None


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output of a table: `count` tensors of one shape, one after
    another (one for each micro-batch, or one)."""

    name: str
    type: str
    shape: tuple[int, ...]
    role: str | None
    parameter: str | None
    count: int

    @property
    def elements(self) -> int:
        return self.count * math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Table:
    """One entry point of an artifact."""

    name: str
    role: str | None
    micro_batches: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclasses.dataclass(frozen=True)
class Manifest:
    variables: dict[str, Variable]
    tables: dict[str, Table]
    mesh: dict[str, int]
    seed: int
    model: Json

    def table_of(self, role: str) -> Table | None:
        """Returns the table of a role ("step", "evaluate" or "gradients")."""
        return next((t for t in self.tables.values() if t.role == role), None)

    def variables_of(self, role: str) -> list[Variable]:
        return [v for v in self.variables.values() if v.role == role]


def _port(entry: Json, count: int) -> Port:
    return Port(
        name=entry["name"],
        type=entry["type"],
        shape=tuple(entry["shape"]),
        role=entry.get("role"),
        parameter=entry.get("parameter"),
        count=count,
    )


def _table(entry: Json) -> Table:
    parts = entry.get("micro_batches", 1)
    return Table(
        name=entry["name"],
        role=entry.get("role"),
        micro_batches=parts,
        inputs=tuple(_port(port, parts) for port in entry["inputs"]),
        outputs=tuple(
            _port(port, parts if port.get("of") == "micro_batch" else 1)
            for port in entry["outputs"]
        ),
    )


def _variable(entry: Json) -> Variable:
    shape = list(entry["shape"])
    name = entry["name"]
    if cut := entry.get("slice"):
        name = cut["of"]
        shape[cut["dim"]] = cut["size"]
    checkpoint = entry.get("checkpoint")
    return Variable(
        name=name,
        type=entry["type"],
        shape=tuple(shape),
        role=entry["role"],
        checkpoint=checkpoint
        and Checkpoint(checkpoint["name"], tuple(checkpoint["shape"])),
    )


def read_manifest(artifact: str | os.PathLike[str]) -> Manifest:
    """Reads `manifest.json` of an artifact's folder."""
    path = pathlib.Path(artifact) / "manifest.json"
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise RunError(f"{path}: expected an artifact's manifest: {problem}") from None
    variables = [_variable(entry) for entry in data["variables"]]
    tables = [_table(entry) for entry in data["tables"]]
    return Manifest(
        variables={variable.name: variable for variable in variables},
        tables={table.name: table for table in tables},
        mesh={axis["name"]: axis["size"] for axis in data["mesh"]},
        seed=data.get("seed", 0),
        model=data.get("model", {}),
    )
