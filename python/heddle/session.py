"""Loads an artifact and runs its tables."""

import ctypes
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from heddle import _library, arrays
from heddle.arrays import Array
from heddle.errors import RunError
from heddle.manifest import Manifest, Port, Table, Variable, read_manifest

Inputs = Mapping[str, npt.ArrayLike] | Sequence[npt.ArrayLike]
# Sums within a step; a checkpoint leaves them out.
_SUMS = ("gradient", "loss")


class Session:
    """The devices of an artifact, as threads, with their variables.

    A session is used by one thread at a time. `close`, or the end of a `with`
    block, frees its memory.
    """

    def __init__(
        self, artifact: str | os.PathLike[str], *, cores_per_device: int = 0
    ) -> None:
        self._handle: int | None = None
        self.manifest: Manifest = read_manifest(artifact)
        error = ctypes.create_string_buffer(_library.ERROR_SIZE)
        self._handle = _library.function("load")(
            os.fsencode(artifact), cores_per_device, error, len(error)
        )
        if not self._handle:
            raise RunError(error.value.decode(errors="replace"))

    def close(self) -> None:
        if self._handle:
            _library.function("destroy")(self._handle)
        self._handle = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    @property
    def num_devices(self) -> int:
        return int(_library.function("num_devices")(self._open()))

    def _open(self) -> int:
        if not self._handle:
            raise RunError("expected an open session, got one that was closed")
        return self._handle

    # Runs.

    def table(self, name: str) -> Table:
        try:
            return self.manifest.tables[name]
        except KeyError:
            names = ", ".join(self.manifest.tables)
            raise RunError(
                f"the artifact has no program {name}, expected one of {names}"
            ) from None

    def run(
        self,
        table: str,
        inputs: Inputs = (),
        *,
        outputs: Sequence[str] | None = None,
        into: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]:
        """Runs a table on all devices and returns its outputs by name.

        `inputs` are by name, or in the table's order. The tensors of several
        micro-batches lie one after another. `outputs` names those that are
        wanted (default: all). `into` holds memory for outputs, which is used
        instead of a new array.
        """
        entry = self.table(table)
        values = self._input_arrays(entry, inputs)
        results = [
            self._result_array(port, outputs, into or {}) for port in entry.outputs
        ]
        _library.check(
            "run",
            self._open(),
            table.encode(),
            _buffers(values),
            len(values),
            _buffers(results),
            len(results),
        )
        return {
            port.name: arrays.from_memory(result, port.type)
            for port, result in zip(entry.outputs, results, strict=True)
            if result is not None
        }

    def _input_arrays(self, table: Table, inputs: Inputs) -> list[Array]:
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(table.inputs):
                raise RunError(
                    f"{table.name}: expected {len(table.inputs)} inputs, got "
                    f"{len(inputs)}"
                )
            return [
                self._input_array(table, port, value)
                for port, value in zip(table.inputs, inputs, strict=True)
            ]
        names = [port.name for port in table.inputs]
        if set(names) != set(inputs):
            raise RunError(
                f"{table.name}: expected the inputs {', '.join(names)}, got "
                f"{', '.join(inputs)}"
            )
        return [
            self._input_array(table, port, inputs[port.name]) for port in table.inputs
        ]

    @staticmethod
    def _input_array(table: Table, port: Port, value: npt.ArrayLike) -> Array:
        what = f"{table.name}: input {port.name}"
        array = arrays.to_memory(value, port.type, what)
        if array.shape not in _shapes(port):
            expected = " or ".join(map(str, _shapes(port)))
            raise RunError(f"{what}: expected the shape {expected}, got {array.shape}")
        return array

    @staticmethod
    def _result_array(
        port: Port, wanted: Sequence[str] | None, into: Mapping[str, Array]
    ) -> Array | None:
        if wanted is not None and port.name not in wanted:
            return None
        shape = _shapes(port)[-1]
        memory = arrays.memory_type(port.type)
        if port.name not in into:
            return np.empty(shape, memory)
        array = into[port.name]
        fits = array.shape == shape and array.dtype.itemsize == memory.itemsize
        if not fits or not array.flags.c_contiguous or not array.flags.writeable:
            raise RunError(
                f"output {port.name}: expected writable contiguous memory of "
                f"{shape} {port.type}, got {array.shape} {array.dtype}"
            )
        return array.view(memory)

    # Variables.

    def variable(self, name: str) -> Variable:
        try:
            return self.manifest.variables[name]
        except KeyError:
            raise RunError(f"the model has no variable {name}") from None

    def read(self, name: str) -> Array:
        """Returns the value of a variable."""
        variable = self.variable(name)
        array = np.empty(variable.shape, arrays.memory_type(variable.type))
        _library.check(
            "read_variable",
            self._open(),
            name.encode(),
            array.ctypes.data,
            array.nbytes,
        )
        return arrays.from_memory(array, variable.type)

    def write(self, name: str, value: npt.ArrayLike) -> None:
        """Sets a variable. The value has the variable's shape, or that of its
        tensor in the model's checkpoint."""
        variable = self.variable(name)
        array = arrays.to_memory(value, variable.type, f"variable {name}")
        known = variable.checkpoint
        if array.shape not in (variable.shape, known.shape if known else None):
            raise RunError(
                f"variable {name}: expected the shape "
                f"{known.shape if known else variable.shape}, got {array.shape}"
            )
        _library.check(
            "write_variable",
            self._open(),
            name.encode(),
            array.ctypes.data,
            array.nbytes,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all variables under their own names to one safetensors file."""
        save_file({v.name: self.read(v.name) for v in self._kept()}, pathlib.Path(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Reads the variables that `save` wrote. If one is missing or has another
        shape, changes none."""
        values = load_file(pathlib.Path(path))
        for variable in self._kept():
            if variable.name not in values:
                raise RunError(f"{path}: expected a tensor {variable.name}, got none")
            if values[variable.name].shape != variable.shape:
                raise RunError(
                    f"{path}: {variable.name}: expected the shape {variable.shape}, "
                    f"got {values[variable.name].shape}"
                )
        for variable in self._kept():
            self.write(variable.name, values[variable.name])

    def _kept(self) -> list[Variable]:
        return [v for v in self.manifest.variables.values() if v.role not in _SUMS]


def _shapes(port: Port) -> list[tuple[int, ...]]:
    """Returns the shapes that the port's memory may have. Results have the last one."""
    if port.count == 1:
        return [port.shape]
    shapes = [(port.count, *port.shape)]
    if port.shape:
        shapes.append((port.count * port.shape[0], *port.shape[1:]))
    return shapes


def _buffers(values: Sequence[Array | None]) -> ctypes.Array[_library.Argument]:
    buffers = (_library.Argument * max(len(values), 1))()
    for buffer, array in zip(buffers, values, strict=False):
        if array is not None:
            buffer.data, buffer.size = array.ctypes.data, array.nbytes
    return buffers
