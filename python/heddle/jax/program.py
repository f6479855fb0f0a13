"""A compiled JAX function: its calls, and the arrays that stay on the devices."""

import json
import os
import pathlib
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

import heddle
from heddle.compiler import Compilation
from heddle.errors import RunError

from .leaf import Leaf
from .lowering import Exported, export


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """A result of a compiled function. It becomes a NumPy or JAX array on
    request: np.asarray(x), jnp.asarray(x), float(x).

    A donated argument's new value stays on the devices until then. It can be
    read until it is donated to the next call.
    """

    def __init__(
        self, leaf: Leaf, program: "Program", value: np.ndarray | None
    ) -> None:
        self._leaf, self._program, self._value = leaf, program, value

    @property
    def shape(self) -> tuple[int, ...]:
        return self._leaf.shape

    @property
    def dtype(self) -> np.dtype:
        return self._leaf.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def block_until_ready(self) -> "Array":
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = self._value
        if value is None:
            value = self._program._read(self)
        elif copy:
            value = value.copy()
        return value if dtype is None else value.astype(dtype)

    def __jax_array__(self) -> jax.Array:
        value = jax.numpy.asarray(np.asarray(self))
        if self._leaf.key is None:
            return value
        return jax.random.wrap_key_data(value, impl=self._leaf.key)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **options: Any
    ) -> Any:
        inputs = tuple(np.asarray(x) if isinstance(x, Array) else x for x in inputs)
        return getattr(ufunc, method)(*inputs, **options)

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index]

    def __len__(self) -> int:
        return self.shape[0]

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __int__(self) -> int:
        return int(np.asarray(self))

    def __bool__(self) -> bool:
        return bool(np.asarray(self))

    def item(self) -> Any:
        return np.asarray(self).item()

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.ndim == 0 else np.asarray(self), spec)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"heddle.jax.Array({self._leaf.name}: {self.dtype}[{shape}])"


class Program:
    """A function that runs on Heddle's devices. It is called like the JAX
    function that it was made from."""

    def __init__(
        self,
        exported: Exported,
        artifact: pathlib.Path,
        static_argnums: tuple[int, ...],
        cores_per_device: int,
        folder: tempfile.TemporaryDirectory | None = None,
    ) -> None:
        self.exported, self.artifact = exported, artifact
        self._static, self._folder = static_argnums, folder
        self._session = heddle.Session(artifact, cores_per_device=cores_per_device)
        # The array that holds a variable's value now.
        self._current: dict[str, Array] = {}

    def close(self) -> None:
        self._session.close()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        static = {number % len(args) for number in self._static} if args else set()
        dynamic = tuple(x for number, x in enumerate(args) if number not in static)
        values, tree = jax.tree.flatten((dynamic, kwargs))
        if tree != self.exported.in_tree:
            raise RunError(
                f"expected arguments of the structure {self.exported.in_tree}, "
                f"got {tree}"
            )
        inputs, writes = {}, {}
        for leaf, value in zip(self.exported.arguments, values, strict=True):
            if leaf.variable is None:
                inputs[leaf.name] = to_memory(leaf, value)
            elif (
                not isinstance(value, Array)
                or self._current.get(leaf.variable) is not value
            ):
                writes[leaf.variable] = to_memory(leaf, value)
        for name, value in writes.items():
            self._current.pop(name, None)
            self._session.write(name, value)
        self._current.clear()
        outputs = self._session.run("main", inputs)
        results = []
        for leaf in self.exported.results:
            if leaf.variable is None:
                results.append(Array(leaf, self, from_memory(leaf, outputs[leaf.name])))
            else:
                self._current[leaf.variable] = Array(leaf, self, None)
                results.append(self._current[leaf.variable])
        return jax.tree.unflatten(self.exported.out_tree, results)

    def _read(self, array: Array) -> np.ndarray:
        leaf = array._leaf
        if self._current.get(leaf.variable) is not array:
            raise RunError(
                f"the array {leaf.name} was donated to a later call: read it before, "
                "or use that call's result"
            )
        return from_memory(leaf, self._session.read(leaf.variable))


def to_memory(leaf: Leaf, value: Any) -> np.ndarray:
    """Returns a value as memory for the runtime, which has no unsigned types."""
    if leaf.key is not None and not isinstance(value, Array):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    if array.shape != leaf.shape:
        raise RunError(
            f"argument {leaf.name}: expected the shape {leaf.shape}, got {array.shape}"
        )
    if array.dtype != leaf.dtype:
        if (
            not np.can_cast(array.dtype, leaf.dtype, "same_kind")
            and array.dtype.kind != "i"
        ):
            raise RunError(
                f"argument {leaf.name}: expected {leaf.dtype}, got {array.dtype}"
            )
        array = array.astype(leaf.dtype)
    return array.view(f"i{leaf.dtype.itemsize}") if leaf.dtype.kind == "u" else array


def from_memory(leaf: Leaf, array: np.ndarray) -> np.ndarray:
    return array.view(leaf.dtype) if array.dtype != leaf.dtype else array


def compile(  # noqa: A001 (named as jax.jit's method)
    function: Any,
    *args: Any,
    mesh: Any = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    donate_argnums: int | Sequence[int] = (),
    static_argnums: int | Sequence[int] = (),
    plan: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    artifact: str | os.PathLike[str] | None = None,
    cores_per_device: int = 0,
    flags: Sequence[str] = (),
    **kwargs: Any,
) -> Program:
    """Compiles a function of arrays for the devices of a mesh.

    `args` are example arguments, or jax.ShapeDtypeStructs. `mesh` is a mapping
    of axes to sizes, a jax.sharding.Mesh or an AbstractMesh; JAX itself needs
    only one device. Shardings are as in jax.jit, or PartitionSpecs. Donated
    arguments stay on the devices: pass the results of a call to the next one.
    `plan` is a plan's file or its content. `artifact` keeps the artifact there.
    """
    folder = None
    if artifact is None:
        folder = tempfile.TemporaryDirectory(prefix="heddle-jax-")
        artifact = pathlib.Path(folder.name) / "program.heddle"
    with tempfile.TemporaryDirectory() as scratch:
        if isinstance(plan, Mapping):
            path = pathlib.Path(scratch) / "plan.json"
            path.write_text(json.dumps({"version": 1, **plan}))
            plan = path
        # The compiler's process starts while JAX traces the function.
        with Compilation(artifact, plan=plan, flags=flags) as compilation:
            exported = export(
                function,
                *args,
                mesh=mesh,
                in_shardings=in_shardings,
                out_shardings=out_shardings,
                donate_argnums=donate_argnums,
                static_argnums=static_argnums,
                **kwargs,
            )
            for remark in exported.remarks:
                warnings.warn(remark, stacklevel=2)
            compilation.finish(exported.text)
    static = (
        (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    )
    return Program(exported, pathlib.Path(artifact), static, cores_per_device, folder)
