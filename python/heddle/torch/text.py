"""Builds the text of a function @forward in Heddle's level of MLIR.

Values have static shapes. Each op knows the results that it defines and the
values that it reads, so unused ops are left out of the text.
"""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from heddle.torch.errors import NoFormError

Shape = tuple[int, ...]


@dataclasses.dataclass(eq=False)
class Value:
    """The result of an op, or an argument. `source` describes its op for peepholes: the
    kind, the operand and the parameters."""

    name: str
    shape: Shape
    type: str
    source: tuple[Any, ...] = ()

    @property
    def tensor(self) -> str:
        return tensor_type(self.shape, self.type)

    @property
    def is_float(self) -> bool:
        return self.type in ("f32", "f64", "f16", "bf16")


@dataclasses.dataclass
class _Op:
    text: str
    results: list[str]
    operands: list[str]
    location: str
    has_effect: bool


def tensor_type(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def symbol(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$.]*", name)
    return "@" + (name if plain else quote(name))


def number(value: float | int | bool, element: str) -> str:
    """Returns the text of a number of that type."""
    if element == "i1":
        return "true" if value else "false"
    if element.startswith("i"):
        return str(int(value))
    if math.isfinite(value):
        text = repr(float(value))
        return text if "." in text else text.replace("e", ".0e")
    bits = {
        "f64": (np.float64, np.uint64, 16),
        "f32": (np.float32, np.uint32, 8),
        "f16": (np.float16, np.uint16, 4),
    }
    if element == "bf16":
        return {True: "0x7F80", False: "0xFF80"}[value > 0]
    kind, word, digits = bits[element]
    return f"0x{int(np.array(value, kind).view(word)):0{digits}X}"


def is_splat(array: np.ndarray) -> bool:
    if not array.size:
        return False
    # Repeated memory is not read element by element.
    steps = zip(array.strides, array.shape, strict=True)
    if all(step == 0 or size == 1 for step, size in steps):
        return True
    return bool((array == array.flat[0]).all())


def dense(array: np.ndarray, element: str) -> str:
    """Returns the text of a constant: a splat, or all bytes."""
    if is_splat(array):
        return f"dense<{number(array.flat[0].item(), element)}>"
    flat = array.reshape(-1)
    if element == "i1":
        data = np.packbits(flat.astype(np.uint8), bitorder="little").tobytes()
    else:
        data = np.ascontiguousarray(flat).tobytes()
    return f'dense<"0x{data.hex().upper()}">'


def reshape_groups(old: Shape, new: Shape) -> list[tuple[list[int], list[int]]]:
    """Pairs runs of dimensions with equal numbers of elements, such as [0] and [0, 1]
    for (6, 4) and (2, 3, 4)."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        left, right = [i], [j]
        a, b = old[i], new[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a, i = a * old[i], i + 1
                left.append(i - 1)
            else:
                b, j = b * new[j], j + 1
                right.append(j - 1)
        groups.append((left, right))
    groups[-1][0].extend(range(i, len(old)))
    groups[-1][1].extend(range(j, len(new)))
    return groups


class Builder:
    """Appends ops. `name` is the name of the operator, `location` its place in
    the source, for the ops that follow."""

    def __init__(self) -> None:
        self.name = ""
        self.location = ""
        self._ops: list[_Op] = []
        self._count = 0
        self._constants: dict[str, Value] = {}

    # Ops.

    def fresh(self, shape: Shape, element: str) -> Value:
        self._count += 1
        return Value(f"%{self._count}", tuple(shape), element)

    def append(
        self,
        text: str,
        operands: Sequence[Value],
        results: Sequence[Value] = (),
        has_effect: bool = False,
    ) -> None:
        names = [result.name for result in results]
        if names:
            text = f"{', '.join(names)} = {text}"
        reads = [operand.name for operand in operands]
        self._ops.append(_Op(text, names, reads, self._place(), has_effect))

    def op(
        self,
        text: str,
        operands: Sequence[Value],
        shape: Shape,
        element: str,
        source: tuple[Any, ...] = (),
    ) -> Value:
        result = self.fresh(shape, element)
        result.source = source
        self.append(text, operands, [result])
        return result

    def _place(self) -> str:
        place = f"({self.location})" if self.location else ""
        return f" loc({quote(self.name)}{place})" if self.name else ""

    @property
    def quoted(self) -> str:
        return quote(self.name)

    @property
    def attribute(self) -> str:
        return f" {{heddle.name = {self.quoted}}}" if self.name else ""

    # Constants.

    def constant(self, array: np.ndarray, element: str) -> Value:
        shape = tuple(array.shape)
        text = f"arith.constant {dense(array, element)} : {tensor_type(shape, element)}"
        if text not in self._constants:
            value = self.op(text, [], shape, element, ("constant", array))
            self._constants[text] = value
        return self._constants[text]

    def splat(self, value: float, shape: Shape, element: str) -> Value:
        kind = {"i1": np.bool_, "i32": np.int32, "i64": np.int64, "i8": np.int8}
        return self.constant(
            np.broadcast_to(np.array(value, kind.get(element, np.float64)), shape),
            element,
        )

    # Elementwise.

    def elementwise(self, kind: str, *operands: Value, element: str = "") -> Value:
        first = operands[0]
        names = ", ".join(operand.name for operand in operands)
        return self.op(
            f"{kind} {names}{self.attribute} : {first.tensor}",
            operands,
            first.shape,
            element or first.type,
            (kind, *operands),
        )

    def binary(self, kind: str, a: Value, b: Value) -> Value:
        """Builds addition, subtraction, multiplication or division."""
        suffix = "f" if a.is_float else "si" if kind == "div" else "i"
        return self.elementwise(f"arith.{kind}{suffix}", a, b)

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        ordered = predicate if predicate in ("eq", "ne") else f"s{predicate}"
        kind = (
            f"arith.cmpf {'u' if predicate == 'ne' else 'o'}{predicate},"
            if a.is_float
            else f"arith.cmpi {ordered},"
        )
        return self.elementwise(kind, a, b, element="i1")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.op(
            f"arith.select {condition.name}, {a.name}, {b.name}{self.attribute} : "
            f"{condition.tensor}, {a.tensor}",
            [condition, a, b],
            a.shape,
            a.type,
            ("arith.select", condition, a, b),
        )

    def convert(self, x: Value, element: str) -> Value:
        if x.type == element:
            return x
        if x.source and x.source[0] == "constant":
            array = x.source[1]
            kinds = {"f32": np.float32, "f64": np.float64, "i32": np.int32}
            if element in kinds:
                return self.constant(array.astype(kinds[element]), element)
        if element == "i1":
            return self.compare("ne", x, self.splat(0, x.shape, x.type))
        return self.op(
            f"{self._cast(x.type, element)} {x.name}{self.attribute} : {x.tensor} to "
            f"{tensor_type(x.shape, element)}",
            [x],
            x.shape,
            element,
            ("convert", x),
        )

    def without_gradient(self, x: Value) -> Value:
        """Builds x as a constant of autodiff: it passes through an integer, where
        autodiff stops."""
        bits = {"f64": "i64", "f32": "i32", "f16": "i16", "bf16": "i16"}[x.type]
        for element in (bits, x.type):
            kind = tensor_type(x.shape, element)
            text = f"arith.bitcast {x.name}{self.attribute} : {x.tensor} to {kind}"
            x = self.op(text, [x], x.shape, element)
        return x

    @staticmethod
    def _cast(old: str, new: str) -> str:
        widths = {"i1": 1, "i8": 8, "i32": 32, "i64": 64, "f16": 16, "bf16": 16}
        widths |= {"f32": 32, "f64": 64}
        if old.startswith("i") and new.startswith("i"):
            unsigned = "u" if old == "i1" else "s"
            return (
                f"arith.ext{unsigned}i"
                if widths[new] > widths[old]
                else ("arith.trunci")
            )
        if old.startswith("i"):
            return f"arith.{'u' if old == 'i1' else 's'}itofp"
        if new.startswith("i"):
            return "arith.fptosi"
        return "arith.extf" if widths[new] > widths[old] else "arith.truncf"

    # Shapes.

    def reshape(self, x: Value, shape: Shape) -> Value:
        shape = tuple(shape)
        while x.source and x.source[0] == "reshape":
            x = x.source[1]
        if x.shape == shape:
            return x
        if x.source and x.source[0] == "constant":
            return self.constant(x.source[1].reshape(shape), x.type)
        if not x.shape or not shape:
            return self._collapse_or_expand(x, shape, [])
        groups = reshape_groups(x.shape, shape)
        middle = tuple(math.prod(x.shape[i] for i in left) for left, _ in groups)
        y = x
        if any(len(left) > 1 for left, _ in groups):
            y = self._collapse_or_expand(y, middle, [left for left, _ in groups])
        if any(len(right) > 1 for _, right in groups):
            y = self._collapse_or_expand(y, shape, [right for _, right in groups])
        return dataclasses.replace(y, source=("reshape", x))

    def _collapse_or_expand(
        self, x: Value, shape: Shape, groups: list[list[int]]
    ) -> Value:
        into = f": {x.tensor} into {tensor_type(shape, x.type)}"
        if len(shape) < len(x.shape):
            text = f"tensor.collapse_shape {x.name} {groups}{self.attribute} {into}"
        else:
            text = (
                f"tensor.expand_shape {x.name} {groups} output_shape {list(shape)}"
                f"{self.attribute} {into}"
            )
        return self.op(text, [x], shape, x.type, ("reshape", x))

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        if x.source and x.source[0] == "transpose":
            _, x, inner = x.source
            order = [inner[i] for i in order]
        if list(order) == sorted(order):
            return x
        shape = tuple(x.shape[i] for i in order)
        if x.source and x.source[0] == "constant":
            return self.constant(x.source[1].transpose(order), x.type)
        # A move of dimensions of size 1 moves no element.
        if [i for i in order if x.shape[i] != 1] == [
            i for i in range(len(order)) if x.shape[i] != 1
        ]:
            return self.reshape(x, shape)
        kind = tensor_type(shape, x.type)
        empty = self.op(f"tensor.empty() : {kind}", [], shape, x.type)
        return self.op(
            f"linalg.transpose ins({x.name} : {x.tensor}) outs({empty.name} : {kind}) "
            f"permutation = {list(order)}{self.attribute}",
            [x, empty],
            shape,
            x.type,
            ("transpose", x, list(order)),
        )

    def broadcast(self, x: Value, shape: Shape) -> Value:
        """Repeats x as PyTorch broadcasts it."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if x.source and x.source[0] == "constant" and is_splat(x.source[1]):
            return self.constant(np.broadcast_to(x.source[1].flat[0], shape), x.type)
        first = len(shape) - len(x.shape)
        kept = [i for i, size in enumerate(x.shape) if size == shape[first + i] != 1]
        small = self.reshape(x, tuple(x.shape[i] for i in kept))
        return self.broadcast_along(small, shape, [first + i for i in kept])

    def broadcast_along(self, x: Value, shape: Shape, along: Sequence[int]) -> Value:
        kind = tensor_type(shape, x.type)
        return self.op(
            f"heddle.broadcast {self.quoted} {x.name} along {list(along)} : "
            f"{x.tensor} -> {kind}",
            [x],
            shape,
            x.type,
            ("broadcast", x, list(along)),
        )

    def slice(
        self, x: Value, offsets: Sequence[int], sizes: Shape, strides: Sequence[int]
    ) -> Value:
        sizes = tuple(sizes)
        if sizes == x.shape:
            return x
        return self.op(
            f"tensor.extract_slice {x.name}{list(offsets)} {list(sizes)} "
            f"{list(strides)}{self.attribute} : {x.tensor} to "
            f"{tensor_type(sizes, x.type)}",
            [x],
            sizes,
            x.type,
            ("slice", x, list(offsets), list(strides)),
        )

    def insert(
        self, x: Value, into: Value, offsets: Sequence[int], strides: Sequence[int]
    ) -> Value:
        return self.op(
            f"tensor.insert_slice {x.name} into {into.name}{list(offsets)} "
            f"{list(x.shape)} {list(strides)}{self.attribute} : {x.tensor} into "
            f"{into.tensor}",
            [x, into],
            into.shape,
            into.type,
        )

    def concat(self, parts: Sequence[Value], dim: int) -> Value:
        # Leaves out empty parts.
        parts = [part for part in parts if math.prod(part.shape)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[dim] = sum(part.shape[dim] for part in parts)
        kind = tensor_type(shape, parts[0].type)
        return self.op(
            f"tensor.concat dim({dim}) {', '.join(part.name for part in parts)}"
            f"{self.attribute} : ({', '.join(part.tensor for part in parts)}) -> "
            f"{kind}",
            parts,
            tuple(shape),
            parts[0].type,
            ("concat", *parts),
        )

    def pad(
        self, x: Value, low: Sequence[int], high: Sequence[int], value: float
    ) -> Value:
        if not any(low) and not any(high):
            return x
        shape = tuple(
            a + size + b for a, size, b in zip(low, x.shape, high, strict=True)
        )
        scalar = self.op(
            f"arith.constant {number(value, x.type)} : {x.type}", [], (), x.type
        )
        indices = ", ".join(f"%i{dim}: index" for dim in range(len(shape)))
        return self.op(
            f"tensor.pad {x.name} low{list(low)} high{list(high)} {{ ^bb0({indices}): "
            f"tensor.yield {scalar.name} : {x.type} }}{self.attribute} : {x.tensor} to "
            f"{tensor_type(shape, x.type)}",
            [x, scalar],
            shape,
            x.type,
        )

    # Products and reductions.

    def contract(self, letters: str, a: Value, b: Value) -> Value:
        if a.type != b.type:
            raise NoFormError(f"expected operands of one type, got {a.type}, {b.type}")
        operands, result = letters.split(" -> ")
        left, right = operands.split(", ")
        sizes = dict(zip(left, a.shape, strict=True))
        sizes |= dict(zip(right, b.shape, strict=True))
        shape = tuple(sizes[letter] for letter in result)
        return self.op(
            f"heddle.contract {self.quoted} [{letters}] {a.name}, {b.name} : "
            f"({a.tensor}, {b.tensor}) -> {tensor_type(shape, a.type)}",
            [a, b],
            shape,
            a.type,
            ("contract", letters, a, b),
        )

    def reduce(self, kind: str, x: Value, dims: Sequence[int]) -> Value:
        dims = sorted(dims)
        if not dims:
            return x
        shape = tuple(size for i, size in enumerate(x.shape) if i not in dims)
        return self.op(
            f"heddle.reduce {self.quoted} {kind} {x.name} over {dims} : {x.tensor} -> "
            f"{tensor_type(shape, x.type)}",
            [x],
            shape,
            x.type,
        )

    # Text.

    def body(self, results: Sequence[Value]) -> list[str]:
        """Returns the lines of the ops that have an effect or lead to results."""
        needed = {result.name for result in results}
        kept: list[_Op] = []
        for op in reversed(self._ops):
            if op.has_effect or needed.intersection(op.results):
                needed.update(op.operands)
                kept.append(op)
        return [f"    {op.text}{op.location}" for op in reversed(kept)]
