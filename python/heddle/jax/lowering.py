"""From a JAX function to the text of a Heddle module."""

import contextlib
import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo

from heddle._lines import is_raised_by, last_call
from heddle.errors import CompileError

from . import finish, raising, shardings
from .ir import Refusal, Splicer, source, walk
from .leaf import Leaf, leaves
from .rewrites import (
    casts,
    control,
    embedding,
    loops,
    recompute,
    scatter,
    softmax,
    sort,
    stacks,
    sums,
    transposes,
    windows,
)
from .rewrites.inline import inline_calls


@dataclasses.dataclass(frozen=True)
class Exported:
    """A program as text, and how its arrays lie in JAX's pytrees."""

    text: str
    arguments: list[Leaf]
    results: list[Leaf]
    in_tree: Any
    out_tree: Any
    mesh: dict[str, int]
    remarks: list[str]


@dataclasses.dataclass(frozen=True)
class Settings:
    """The mesh, and the arguments of jax.jit."""

    mesh: Any = None
    in_shardings: Any = None
    out_shardings: Any = None
    donate_argnums: int | Sequence[int] = ()
    static_argnums: int | Sequence[int] = ()

    @property
    def static(self) -> tuple[int, ...]:
        numbers = self.static_argnums
        return (numbers,) if isinstance(numbers, int) else tuple(numbers)


def export(
    function: Callable[..., Any],
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    mesh: Any = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    donate_argnums: int | Sequence[int] = (),
    static_argnums: int | Sequence[int] = (),
    **kwargs: Any,
) -> Exported:
    """Translates a function of arrays to a Heddle module.

    `args` are example arguments, or jax.ShapeDtypeStructs. `path`: the file to
    write. The other options are those of `heddle.jax.compile`. Raises
    CompileError, which names all unsupported constructs with their lines in the
    Python source.
    """
    settings = Settings(
        mesh, in_shardings, out_shardings, donate_argnums, static_argnums
    )
    try:
        lowered = lower(function, args, kwargs, settings)
        exported = translate(function, lowered, settings)
    except Refusal as refusal:
        raise CompileError("\n".join(refusal.lines)) from None
    if path is not None:
        pathlib.Path(path).write_text(exported.text)
    return exported


# The location of an op gets one frame of Python. Errors keep all frames.
_TRACEBACKS = {
    "jax_include_full_tracebacks_in_locations": False,
    "jax_traceback_filtering": "off",
}


def lower(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    settings: Settings,
) -> Any:
    """Lowers to StableHLO for the mesh. JAX need not have devices for it."""
    mesh = abstract_mesh(settings.mesh)
    static = {number % len(args) for number in settings.static} if args else set()
    args = tuple(x if i in static else struct_of(x) for i, x in enumerate(args))
    kwargs = {name: struct_of(value) for name, value in kwargs.items()}
    jitted = jax.jit(
        function,
        keep_unused=True,
        donate_argnums=settings.donate_argnums,
        static_argnums=settings.static_argnums,
    )
    hide_frames()
    old = {name: getattr(jax.config, name) for name in _TRACEBACKS}
    try:
        for name, value in _TRACEBACKS.items():
            jax.config.update(name, value)
        with raising.in_place_of_jax(), loops.keeping_little(), use_mesh(mesh):
            traced = jitted.trace(*args, **kwargs)
            return traced.lower(lowering_platforms=("cpu",))
    except Exception as problem:
        if not is_raised_by(problem, jax):
            raise
        call = last_call(problem, jax)
        place = f"{call[0]}:{call[1]}: " if call else ""
        text = str(problem).strip().split("\n\n")[0]
        raise CompileError(f"{place}JAX cannot trace this: {text}") from None
    finally:
        for name, value in old.items():
            jax.config.update(name, value)


def given_mesh(
    settings: Settings, arguments: list[tuple[Leaf, bool]], results: list[Leaf]
) -> dict[str, int] | None:
    """Returns the axes of the mesh argument, else those of a NamedSharding."""
    specs = [leaf.spec for leaf, _ in arguments] + [leaf.spec for leaf in results]
    meshes = [spec.mesh for spec in specs if hasattr(spec, "mesh")]
    if settings.mesh is None and not meshes and any(s is not None for s in specs):
        raise Refusal("expected a mesh for shardings: give a mesh, or NamedShardings")
    mesh = settings.mesh if settings.mesh is not None else meshes[0] if meshes else None
    return shardings.axes_of_mesh(mesh)


@functools.cache
def hide_frames() -> None:
    """Makes JAX report the program's line, not this package's, where the package calls
    JAX."""
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src import source_info_util

        source_info_util.register_exclusion(str(pathlib.Path(__file__).parent))


def abstract_mesh(mesh: Any) -> jax.sharding.AbstractMesh | None:
    axes = shardings.axes_of_mesh(mesh)
    if not axes:
        return None
    if not isinstance(mesh, dict):
        return getattr(mesh, "abstract_mesh", mesh)
    return jax.sharding.AbstractMesh(tuple(axes.values()), tuple(axes))


def use_mesh(mesh: Any) -> contextlib.AbstractContextManager[Any]:
    if mesh is None:
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(mesh)


def struct_of(tree: Any) -> Any:
    """Returns the pytree with shapes and types in place of arrays. JAX would compare
    the devices of arrays with those of the mesh."""

    def convert(value: Any) -> Any:
        if not isinstance(value, (jax.Array, np.ndarray)):
            return value
        weak = getattr(value, "weak_type", False)
        return jax.ShapeDtypeStruct(value.shape, value.dtype, weak_type=weak)

    return jax.tree.map(convert, tree)


def add_specs(
    lowered: Any,
    settings: Settings,
    arguments: list[tuple[Leaf, bool]],
    results: list[Leaf],
) -> tuple[list[tuple[Leaf, bool]], list[Leaf]]:
    """Adds the shardings of the settings to the leaves. JAX does not see them:
    it refuses sizes that axes do not divide."""
    args_tree, _ = lowered.in_tree.children()
    specs = [None] * len(arguments)
    if settings.in_shardings is not None:
        found = shardings.broadcast(settings.in_shardings, args_tree)
        specs[: len(found)] = found
    out_specs = [None] * len(results)
    if settings.out_shardings is not None:
        out_specs = shardings.broadcast(settings.out_shardings, lowered.out_tree)
    arguments = [
        (dataclasses.replace(leaf, spec=spec), is_donated)
        for (leaf, is_donated), spec in zip(arguments, specs, strict=True)
    ]
    results = [
        dataclasses.replace(leaf, spec=spec)
        for leaf, spec in zip(results, out_specs, strict=True)
    ]
    return arguments, results


def translate(
    function: Callable[..., Any], lowered: Any, settings: Settings
) -> Exported:
    stablehlo.register_stablehlo_passes()
    original = lowered.compiler_ir("stablehlo")
    arguments, results = leaves(function, lowered, settings.static)
    arguments, results = add_specs(lowered, settings, arguments, results)
    remarks: list[str] = []
    with original.context as context, ir.Location.unknown():
        raising.load_dialects()
        context.allow_unregistered_dialects = True
        # JAX keeps the original for further lowerings of the function.
        module = original.operation.clone().opview
        simplify(module, remarks)
        legalize(module)
        mesh = shardings.mesh_of(module, given_mesh(settings, arguments, results))
        arguments, results = finish.finish(module, arguments, results, mesh)
        text = finish.print_module(module, mesh)
    trees = lowered.in_tree, lowered.out_tree
    return Exported(text, arguments, results, *trees, mesh, remarks)


def run(module: ir.Module, pipeline: str) -> None:
    try:
        passmanager.PassManager.parse(f"builtin.module({pipeline})").run(
            module.operation
        )
    except ir.MLIRError as problem:
        lines = [describe(d) for d in problem.error_diagnostics]
        raise Refusal(*(lines or [str(problem)])) from None


def describe(diagnostic: Any) -> str:
    place = re.search(r'"([^"]+)":(\d+)', str(diagnostic.location))
    where = f"{place[1]}:{place[2]}: " if place else ""
    return where + diagnostic.message


def simplify(module: ir.Module, remarks: list[str]) -> None:
    """Leaves only what jaxlib's passes can legalize, and scf."""
    recompute.drop_roundings(module)
    raising.raise_calls(module)
    inline_calls(module, keep=(softmax.FORWARD, softmax.BACKWARD))
    softmax.raise_attention(module, remarks)
    inline_calls(module)
    run(module, "func.func(chlo-legalize-to-stablehlo)")
    refuse_early(module)
    splicer = Splicer(module)
    convert = {
        "stablehlo.scatter": lambda op: scatter.convert_scatter(op, splicer),
        "stablehlo.sort": lambda op: sort.convert_sort(op, splicer),
        "stablehlo.select_and_scatter": lambda op: windows.convert_select_and_scatter(
            op, splicer
        ),
    }
    refusals = []
    for op in [op for op in walk(module) if op.name in convert]:
        try:
            convert[op.name](op)
        except Refusal as refusal:
            refusals += refusal.lines
    if refusals:
        raise Refusal(*refusals)
    raising.raise_calls(module)
    inline_calls(module)
    embedding.accumulate(module)
    transposes.swap_products(module)
    sums.split_sums(module)
    run(module, "func.func(cse)")
    recompute.recompute(module)
    stacks.reshape_rows(module)
    for op in [op for op in walk(module) if casts.is_float_to_int(op)]:
        casts.saturate(op)
    for op in [op for op in walk(module) if windows.is_empty(op)]:
        windows.convert_empty(op)
    for op in [op for op in walk(module) if windows.pads_nothing(op)]:
        windows.convert_empty_pad(op)
    for op in [op for op in walk(module) if op.name == "stablehlo.concatenate"]:
        windows.convert_concatenate(op)
    structure = {
        "stablehlo.while": control.convert_while,
        "stablehlo.case": control.convert_case,
        "stablehlo.optimization_barrier": control.convert_barrier,
    }
    # Inner constructs first.
    for op in [op for op in reversed(walk(module)) if op.name in structure]:
        structure[op.name](op)


# Ops that no rewrite and no pass takes, each with the text of its error.
_REFUSED = {
    "sdy.manual_computation": "shard_map is not supported: write the global "
    "computation, which Heddle splits",
    "stablehlo.custom_call": "a call of '{call_target_name}' is not supported",
    "stablehlo.rng_bit_generator": "this random generator is not supported: "
    "use JAX's default, threefry",
    "stablehlo.fft": "the Fourier transform is not supported",
    "stablehlo.infeed": "infeed is not supported",
    "stablehlo.outfeed": "outfeed is not supported",
}
_COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "collective_permute",
    "partition_id",
)


def refuse_early(module: ir.Module) -> None:
    lines = []
    for op in walk(module):
        if op.name in _REFUSED:
            attributes = {
                name: str(op.attributes[name]).strip('"') for name in op.attributes
            }
            lines.append(f"{source(op)}: {_REFUSED[op.name].format_map(attributes)}")
        elif op.name.removeprefix("stablehlo.") in _COLLECTIVES:
            lines.append(
                f"{source(op)}: collectives are not supported: Heddle inserts them"
            )
        elif op.name != "stablehlo.constant" and any(
            "complex<" in str(result.type) for result in op.results
        ):  # a constant has the line of the whole function
            lines.append(f"{source(op)}: complex numbers are not supported")
        elif any("!quant" in str(r.type) or "xf8" in str(r.type) for r in op.results):
            lines.append(f"{source(op)}: {op.results[0].type} is not supported")
    if lines:
        raise Refusal(*lines)


def legalize(module: ir.Module) -> None:
    run(module, "stablehlo-legalize-to-linalg,canonicalize,cse")
    left = []
    for op in walk(module):
        dialect = op.name.split(".")[0]
        if op.name == "sdy.sharding_constraint":
            shardings.convert_constraint(op)
        elif dialect in ("stablehlo", "chlo", "mhlo") or (
            dialect == "sdy" and op.name != "sdy.mesh"
        ):
            left.append(f"{source(op)}: {op.name} is not supported")
    if left:
        raise Refusal(*left)
