"""Shardings of Shardy (sdy) become heddle.sharding, heddle.pin and heddle.mesh."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import jax
from jaxlib.mlir import ir

from .ir import Refusal, create, shape_of, source

MESH = "mesh"
Axes = dict[str, int]


@dataclasses.dataclass(frozen=True)
class Sharding:
    """The axes of each dimension, and whether the dimension may be split further
    (in sdy: "?", in JAX: PartitionSpec.UNCONSTRAINED)."""

    dims: tuple[tuple[tuple[str, ...], bool], ...]

    @staticmethod
    def of_text(text: str) -> "Sharding":
        """Reads an sdy sharding."""
        body = text[text.index("[") : text.rindex("]") + 1]
        if ":(" in body:
            raise ValueError("parts of axes")
        return Sharding(
            tuple(
                (tuple(re.findall(r'"([^"]*)"', dim)), "?" in dim)
                for dim in re.findall(r"\{([^}]*)\}", body)
            )
        )

    @staticmethod
    def of_spec(spec: Any, rank: int) -> "Sharding":
        """Reads a PartitionSpec or NamedSharding of a tensor."""
        spec = getattr(spec, "spec", spec)
        dims: list[tuple[tuple[str, ...], bool]] = []
        for entry in (*spec, *[None] * (rank - len(spec))):
            if entry is jax.sharding.PartitionSpec.UNCONSTRAINED:
                dims.append(((), True))
            elif entry is None:
                dims.append(((), False))
            else:
                axes = (entry,) if isinstance(entry, str) else tuple(entry)
                dims.append((axes, False))
        return Sharding(tuple(dims))

    @property
    def is_open(self) -> bool:
        """Whether nothing is said: no axis, and each dimension may be split."""
        return all(not axes and is_open for axes, is_open in self.dims)

    @property
    def is_partly_open(self) -> bool:
        return any(is_open for _, is_open in self.dims)

    def attribute(self) -> ir.Attribute:
        dims = ", ".join(
            "{" + ", ".join(f'"{a}"' for a in axes) + "}" for axes, _ in self.dims
        )
        return ir.Attribute.parse(f"#heddle.sharding<@{MESH}, [{dims}]>")

    def factors(self) -> ir.Attribute:
        """Returns the axes of the closed dimensions of an elementwise op."""
        parts = [
            f'"{number}" = {{{", ".join(chr(34) + a + chr(34) for a in axes)}}}'
            for number, (axes, is_open) in enumerate(self.dims)
            if axes or not is_open
        ]
        return ir.Attribute.parse(f"#heddle.factors<[{', '.join(parts)}]>")


def parse(text: str, where: str) -> Sharding:
    try:
        return Sharding.of_text(text)
    except ValueError as problem:
        raise Refusal(
            f"{where}: {problem} in a sharding are not supported: {text}"
        ) from None


def broadcast(specs: Any, tree: Any) -> list[Any]:
    """Returns the spec of each leaf of a tree, of which `specs` is a prefix."""

    def is_spec(value: Any) -> bool:
        return value is None or isinstance(
            value, (jax.sharding.PartitionSpec, jax.sharding.Sharding)
        )

    numbers = jax.tree.unflatten(tree, range(tree.num_leaves))
    if isinstance(specs, list):
        specs = tuple(specs)
    try:
        full = jax.tree.map(
            lambda spec, part: jax.tree.map(lambda _: _Box(spec), part),
            specs,
            numbers,
            is_leaf=is_spec,
        )
    except ValueError as problem:
        raise Refusal(f"shardings do not fit the arrays: {problem}") from None
    return [box.spec for box in jax.tree.leaves(full)]


@dataclasses.dataclass(frozen=True)
class _Box:
    """Keeps None, which is no leaf of a pytree."""

    spec: Any


def mesh_of(module: ir.Module, given: Axes | None) -> Axes:
    """Returns the axes of the program's mesh and erases its declarations.

    `given` is the mesh argument of heddle.jax.compile: a mapping of axes to
    sizes, or None. Empty: one device.
    """
    meshes = []
    for op in list(module.body.operations):
        if op.operation.name == "sdy.mesh":
            text = str(op.attributes["mesh"])
            axes = {
                name: int(size) for name, size in re.findall(r'"([^"]*)"=(\d+)', text)
            }
            if axes and axes not in meshes:
                meshes.append(axes)
            op.operation.erase()
    if len(meshes) > 1:
        raise Refusal(f"expected one mesh, got {' and '.join(map(str, meshes))}")
    found = meshes[0] if meshes else None
    if given is not None and found is not None and given != found:
        raise Refusal(f"expected the mesh {given}, got shardings over {found}")
    return found or given or {}


def axes_of_mesh(mesh: Any) -> Axes | None:
    """Returns the axes of a mapping, jax.sharding.Mesh or AbstractMesh."""
    if mesh is None:
        return None
    if isinstance(mesh, Mapping):
        return {str(name): int(size) for name, size in mesh.items()}
    return {str(name): int(size) for name, size in mesh.shape.items()}


def convert_constraint(op: ir.Operation) -> None:
    """Pins the producer of a value, after legalization."""
    value = op.operands[0]
    sharding = parse(str(op.attributes["sharding"]), source(op))
    if sharding.is_open or not sharding.dims:
        op.results[0].replace_all_uses_with(value)
        op.erase()
        return
    owner = value.owner
    is_argument = isinstance(owner, ir.Block)
    is_shared = len(list(value.uses)) > 1
    has_pin = not is_argument and "heddle.pin" in owner.operation.attributes
    if (
        is_argument
        or is_shared
        or has_pin
        or sharding.is_partly_open
        or len(owner.operation.results) > 1
    ):
        owner = copy(value, op)
        value = owner.results[0]
    producer = owner.operation
    if sharding.is_partly_open:
        producer.attributes["heddle.factors"] = sharding.factors()
    else:
        producer.attributes["heddle.pin"] = sharding.attribute()
    op.results[0].replace_all_uses_with(value)
    op.erase()


def copy(value: ir.Value, at: ir.Operation) -> ir.Operation:
    """Makes an op that copies the value, to which attributes can be given."""
    shape = shape_of(value)
    kind = ir.RankedTensorType(value.type).element_type
    empty = create("tensor.empty", [value.type], [], at=at, loc=at.location)
    letters = ", ".join(f"d{i}" for i in range(len(shape)))
    identity = f"affine_map<({letters}) -> ({letters})>"
    iterators = ", ".join(["#linalg.iterator_type<parallel>"] * len(shape))
    made = create(
        "linalg.generic",
        [value.type],
        [value, empty.results[0]],
        {
            "indexing_maps": ir.Attribute.parse(f"[{identity}, {identity}]"),
            "iterator_types": ir.Attribute.parse(f"[{iterators}]"),
            "operandSegmentSizes": ir.Attribute.parse("array<i32: 1, 1>"),
        },
        regions=1,
        at=at,
        loc=at.location,
    )
    block = made.regions[0].blocks.append(kind, kind, arg_locs=[at.location] * 2)
    create(
        "linalg.yield",
        [],
        [block.arguments[0]],
        at=ir.InsertionPoint(block),
        loc=at.location,
    )
    return made
