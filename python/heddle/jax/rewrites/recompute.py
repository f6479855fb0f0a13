"""The backward pass computes cheap values again instead of keeping them.

JAX stores every factor that a derivative needs: six tensors for gelu, four for a norm.
Many of these follow from another stored tensor by a few multiplications and additions
and a tanh, which cost little in the kernel that reads the result. The backward pass
computes such a value again from

- values that are stored anyway,
- arguments, constants, and tensors that are much smaller than the value.

    forward   u = x w                  forward   u = x w
              t = tanh(u)      becomes           t = tanh(u)
    backward  d = g * (1 - t)          backward  d = g * (1 - tanh(barrier(u)))

The barrier keeps the two computations from being merged. Operands of products and of
other ops that are not fused are never computed again.
"""

import math

from jaxlib.mlir import ir

from ..ir import create, element_type, replace, shape_of, users, walk
from .products import owner

_CHEAP = {
    f"stablehlo.{name}"
    for name in (
        *("add", "subtract", "multiply", "divide", "negate", "abs", "convert"),
        *("maximum", "minimum", "select", "compare", "and", "or", "not"),
        *("tanh", "logistic"),
        "broadcast_in_dim",
    )
}
# Ops whose kernels also compute their operands.
_MERGING = _CHEAP | {
    f"stablehlo.{name}"
    for name in ("reduce", "exponential", "rsqrt", "sqrt", "log")
}
# Values with fewer elements are not computed again.
_LARGE = 1 << 12
# The largest number of ops for one value.
_MOST_OPS = 12
# A tensor this many times smaller counts as small.
_SMALL = 16
# Bits of exponents and mantissas.
_PRECISIONS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


def drop_roundings(module: ir.Module) -> None:
    """Removes roundings of values to the precision that they already have. JAX puts one
    behind each value that a checkpoint keeps."""
    for op in walk(module):
        if op.name != "stablehlo.reduce_precision":
            continue
        bits = tuple(
            ir.IntegerAttr(op.attributes[f"{part}_bits"]).value
            for part in ("exponent", "mantissa")
        )
        if bits == _PRECISIONS.get(str(element_type(op.operands[0]))):
            replace(op, [op.operands[0]])


def recompute(module: ir.Module) -> None:
    for op in module.body.operations:
        if op.operation.name == "func.func":
            Recomputation(op.operation.regions[0].blocks[0]).apply()


def is_backward(op: ir.Operation) -> bool:
    return "transpose(" in str(op.location)


def size_of(value: ir.Value) -> int:
    return math.prod(shape_of(value))


class Recomputation:
    """The values of one block that the backward pass reads from the forward."""

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self.place = {op.operation: i for i, op in enumerate(block.operations)}
        self.backward = {op for op in self.place if is_backward(op)}
        # The backward ops that read each value, in order.
        self.readers: dict[ir.Value, list[ir.Operation]] = {}
        # Stored values that are not computed again.
        self.kept: set[ir.Value] = set()
        self.again: list[ir.Value] = []
        self.copies: dict[ir.Value, ir.Value] = {}
        self.choose()

    def choose(self) -> None:
        stored = []
        for op in self.place:
            if op in self.backward:
                continue
            for value in op.results:
                if not isinstance(value.type, ir.RankedTensorType):
                    continue
                found = [u for u in users(value) if u in self.backward]
                nested = [u for u in users(value) if u not in self.place]
                if not found or size_of(value) < _LARGE:
                    continue
                self.readers[value] = sorted(found, key=self.place.__getitem__)
                stored.append(value)
                self.kept.add(value)
                if nested or any(u.name not in _MERGING for u in found):
                    stored.pop()
        for value in reversed(stored):
            self.kept.discard(value)
            if self.count_ops(value, size_of(value)) <= _MOST_OPS:
                self.again.append(value)
            else:
                self.kept.add(value)

    def is_at_hand(self, value: ir.Value, size: int) -> bool:
        """Whether the value is available, or small beside one of `size` elements."""
        maker = owner(value)
        if maker is None or maker.name == "stablehlo.constant" or value in self.kept:
            return True
        return size_of(value) * _SMALL <= size

    def count_ops(self, value: ir.Value, size: int, limit: int = _MOST_OPS) -> int:
        """Returns how many ops compute a value again. The result exceeds the limit if
        the value depends on one that is not at hand."""
        maker = owner(value)
        if maker.name not in _CHEAP or maker not in self.place or limit == 0:
            return _MOST_OPS + 1
        count = 1
        for operand in maker.operands:
            if count <= limit and not self.is_at_hand(operand, size):
                count += self.count_ops(operand, size, limit - count)
        return count

    def apply(self) -> None:
        self.again.sort(key=lambda value: self.place[self.readers[value][0]])
        for value in self.again:
            self.substitute(
                value, self.copy(value, size_of(value), self.readers[value][0])
            )

    def substitute(self, value: ir.Value, copy: ir.Value) -> None:
        for reader in self.readers[value]:
            for i, operand in enumerate(reader.operands):
                if operand == value:
                    reader.operands[i] = copy

    def copy(self, value: ir.Value, size: int, at: ir.Operation) -> ir.Value:
        """Returns the value for the backward pass, computed before `at`."""
        if value not in self.copies:
            maker = owner(value)
            if not self.is_at_hand(value, size):
                operands = [self.copy(v, size, at) for v in maker.operands]
                made = create(
                    maker.name,
                    [value.type],
                    operands,
                    {name: maker.attributes[name] for name in maker.attributes},
                    at=at,
                    loc=maker.location,
                )
            elif value in self.kept:
                return self.barrier(value, at)
            else:
                return value
            self.copies[value] = made.results[0]
        return self.copies[value]

    def barrier(self, value: ir.Value, at: ir.Operation) -> ir.Value:
        """Returns a stored value for the backward pass, before its first use."""
        first = self.readers[value][0]
        if self.place[first] < self.place[at]:
            at = first
        made = create("stablehlo.optimization_barrier", [value.type], [value], at=at)
        self.substitute(value, made.results[0])
        self.copies[value] = made.results[0]
        return made.results[0]
