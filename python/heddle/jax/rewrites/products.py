"""Products and masks of attention, with the meaning of each dimension."""

import dataclasses
import re
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from ..ir import create, element_type, origin, shape_of, tensor_type


class NoMatch(Exception):
    """The program is no attention; the text says why."""


def owner(value: ir.Value) -> ir.Operation | None:
    op = value.owner
    return None if isinstance(op, ir.Block) else op.operation


@dataclasses.dataclass
class View:
    """A value, with the meaning of each of its dimensions as a letter."""

    value: ir.Value
    letters: str

    def base(self) -> "View":
        """Looks through transposes."""
        value, letters = self.value, self.letters
        while (op := owner(value)) and op.name == "stablehlo.transpose":
            order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
            back = [""] * len(order)
            for place, source_dim in enumerate(order):
                back[source_dim] = letters[place]
            value, letters = op.operands[0], "".join(back)
        return View(value, letters)

    def same(self, other: "View") -> bool:
        a, b = self.base(), other.base()
        return a.value == b.value and a.letters == b.letters

    def arranged(self, letters: str, at: ir.Operation) -> ir.Value:
        """Returns the value with its dimensions in another order. A letter that
        it lacks becomes a dimension of size 1."""
        view = self.base()
        present = [c for c in letters if c in view.letters]
        order = [view.letters.index(c) for c in present]
        shape = shape_of(view.value)
        kind = element_type(view.value)
        value = view.value
        if order != sorted(order):
            made = create(
                "stablehlo.transpose",
                [tensor_type([shape[d] for d in order], kind)],
                [value],
                {"permutation": ir.DenseI64ArrayAttr.get(order)},
                at=at,
            )
            value = made.results[0]
        if len(present) != len(letters):
            sizes = dict(zip(view.letters, shape, strict=True))
            full = tensor_type([sizes.get(c, 1) for c in letters], kind)
            value = create("stablehlo.reshape", [full], [value], at=at).results[0]
        return value


@dataclasses.dataclass
class Product:
    """A dot_general, and the letters of its operands and result."""

    op: ir.Operation
    lhs: View
    rhs: View
    result: View

    def operand_with(self, letter: str) -> View:
        return self.lhs if letter in self.lhs.letters else self.rhs

    def other_than(self, known: View) -> View:
        return self.rhs if self.lhs is known else self.lhs


def dimensions(op: ir.Operation) -> tuple[list[int], ...]:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return (
        list(numbers.lhs_batching_dimensions),
        list(numbers.rhs_batching_dimensions),
        list(numbers.lhs_contracting_dimensions),
        list(numbers.rhs_contracting_dimensions),
    )


def product_of_result(op: ir.Operation, letters: str, contracted: str) -> Product:
    """Names the operands' dimensions by those of the result."""
    lhs_batch, rhs_batch, lhs_sum, rhs_sum = dimensions(op)
    if len(lhs_sum) != 1:
        raise NoMatch("a product sums over several dimensions")
    names: list[dict[int, str]] = [{lhs_sum[0]: contracted}, {rhs_sum[0]: contracted}]
    place = 0
    for a, b in zip(lhs_batch, rhs_batch, strict=True):
        names[0][a] = names[1][b] = letters[place]
        place += 1
    for side in (0, 1):
        for d in range(len(shape_of(op.operands[side]))):
            if d not in names[side]:
                names[side][d] = letters[place]
                place += 1
    lhs, rhs = (
        View(op.operands[s], "".join(names[s][d] for d in range(len(names[s]))))
        for s in (0, 1)
    )
    return Product(op, lhs, rhs, View(op.results[0], letters))


def product_of_operand(
    op: ir.Operation, known: View, free: str, summed: str
) -> Product:
    """Names the dimensions of a product of which one operand is known. The other
    operand's own dimension is `free`; the product sums over `summed`."""
    lhs_batch, rhs_batch, lhs_sum, rhs_sum = dimensions(op)
    side = 0 if op.operands[0] == known.value else 1
    batch, sums = (lhs_batch, lhs_sum) if side == 0 else (rhs_batch, rhs_sum)
    if [known.letters[d] for d in sums] != [summed]:
        raise NoMatch("a product sums over another dimension")
    other_batch, other_sum = (rhs_batch, rhs_sum) if side == 0 else (lhs_batch, lhs_sum)
    names = {other_sum[0]: summed}
    for mine, its in zip(batch, other_batch, strict=True):
        names[its] = known.letters[mine]
    other_value = op.operands[1 - side]
    rank = len(shape_of(other_value))
    left = [d for d in range(rank) if d not in names]
    if len(left) != 1:
        raise NoMatch("a product has several free dimensions")
    names[left[0]] = free
    other = View(other_value, "".join(names[d] for d in range(rank)))
    own = [c for d, c in enumerate(known.letters) if d not in batch and d not in sums]
    parts = ["".join(own), free] if side == 0 else [free, "".join(own)]
    result = "".join(known.letters[d] for d in batch) + "".join(parts)
    lhs, rhs = (known, other) if side == 0 else (other, known)
    return Product(op, lhs, rhs, View(op.results[0], result))


def evaluate(value: ir.Value) -> np.ndarray:
    """Computes a value that depends on constants only."""
    value = origin(value)
    op = owner(value)
    if op is None:
        raise NoMatch("the mask depends on data")
    shape = shape_of(value)
    if op.name == "stablehlo.constant":
        attr = op.attributes["value"]
        if not isinstance(attr, ir.DenseElementsAttr):
            raise NoMatch("the mask is no plain constant")
        if attr.is_splat:
            return np.full(shape, np.array(attr.get_splat_value().value))
        return np.array(attr).reshape(shape)
    if op.name == "stablehlo.iota":
        dim = ir.IntegerAttr(op.attributes["iota_dimension"]).value
        steps = np.arange(shape[dim])
        view = [1] * len(shape)
        view[dim] = -1
        return np.broadcast_to(steps.reshape(view), shape)
    operands = [evaluate(v) for v in op.operands]
    if op.name == "stablehlo.broadcast_in_dim":
        dims = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
        view = [1] * len(shape)
        for size, dim in zip(operands[0].shape, dims, strict=True):
            view[dim] = size
        return np.broadcast_to(operands[0].reshape(view), shape)
    if op.name == "stablehlo.reshape":
        return operands[0].reshape(shape)
    if op.name == "stablehlo.convert":
        kind = str(element_type(value))
        return operands[0].astype(
            bool if kind == "i1" else float if "f" in kind else int
        )
    if op.name == "stablehlo.compare":
        text = str(op.attributes["comparison_direction"])
        name = re.search(r"(EQ|NE|GE|GT|LE|LT)>", text)
        compare = {
            "EQ": np.equal, "NE": np.not_equal, "GE": np.greater_equal,
            "GT": np.greater, "LE": np.less_equal, "LT": np.less,
        }  # fmt: skip
        return compare[name[1]](*operands) if name else operands[0]
    functions: dict[str, Any] = {
        "stablehlo.add": np.add,
        "stablehlo.subtract": np.subtract,
        "stablehlo.multiply": np.multiply,
        "stablehlo.divide": np.divide,
        "stablehlo.sqrt": np.sqrt,
        "stablehlo.rsqrt": lambda x: 1 / np.sqrt(x),
        "stablehlo.and": np.logical_and,
        "stablehlo.or": np.logical_or,
        "stablehlo.not": np.logical_not,
        "stablehlo.select": np.where,
    }
    is_logical = op.name.endswith((".and", ".or", ".not"))
    if op.name not in functions or (is_logical and operands[0].dtype != bool):
        raise NoMatch("the mask is computed in another way")
    return functions[op.name](*operands)
