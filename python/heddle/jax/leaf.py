"""The arrays of a function's arguments and results."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One array of the arguments or results."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype  # as JAX sees it; for a random key, that of its data
    key: str | None = None  # the implementation of a random key
    variable: str | None = None  # donated: the variable that holds it
    spec: Any = None  # a PartitionSpec or NamedSharding


def leaves(
    function: Callable[..., Any], lowered: Any, static: tuple[int, ...]
) -> tuple[list[tuple[Leaf, bool]], list[Leaf]]:
    """Returns the arguments, each with whether it is donated, and the results."""
    names = parameter_names(function, static)
    arguments = []
    for path, info in jax.tree_util.tree_flatten_with_path(lowered.args_info)[0]:
        arguments.append((leaf(argument_name(path, names), info), bool(info.donated)))
    results = []
    for path, info in jax.tree_util.tree_flatten_with_path(lowered.out_info)[0]:
        results.append(leaf(key_text(path) or "result", info))
    return arguments, results


def parameter_names(function: Callable[..., Any], static: tuple[int, ...]) -> list[str]:
    """Returns the names of positional parameters that are arrays."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [p.name for p in parameters if p.kind in kinds]
    skipped = {n % len(positional) for n in static} if positional else set()
    return [name for number, name in enumerate(positional) if number not in skipped]


def argument_name(path: Any, names: list[str]) -> str:
    """Returns "params.h_3.w" of the path of a leaf in (args, kwargs)."""
    which, rest = path[0].idx, list(path[1:])
    if which == 0:
        number = rest[0].idx
        first = names[number] if number < len(names) else f"argument{number}"
        rest = rest[1:]
    else:
        first, rest = str(rest[0].key), rest[1:]
    return ".".join([first, *([key_text(rest)] if rest else [])])


def key_text(path: Any) -> str:
    return jax.tree_util.keystr(tuple(path), simple=True, separator=".").replace(
        "/", "."
    )


def leaf(name: str, info: Any) -> Leaf:
    shape, dtype, key = info.shape, info.dtype, None
    if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        found = []

        def data_of(value: jax.Array) -> jax.Array:
            found.append(str(jax.random.key_impl(value)))
            return jax.random.key_data(value)

        data = jax.eval_shape(data_of, jax.ShapeDtypeStruct(shape, dtype))
        key = found[0]
        shape, dtype = data.shape, data.dtype
    return Leaf(name, tuple(shape), np.dtype(dtype), key)
