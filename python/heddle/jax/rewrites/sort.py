"""Sorts by comparisons: dense, of static shapes, and stable.

A short row is sorted by ranks: each element is compared with all others, and goes to
the place that is the number of elements before it. This takes n^2 comparisons, and two
sums for any length. A long row goes through a network. It takes n log^2 n comparisons
in log^2 n / 2 steps, each of which takes time to compile and passes over memory.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir import ir

from ..ir import (
    Refusal,
    Splicer,
    create,
    dtype_of,
    element_type,
    replace,
    shape_of,
    source,
    tensor_type,
    walk,
)


# Rows of at most this number of elements are sorted by ranks.
_SHORT = 256


def convert_sort(op: ir.Operation, splicer: Splicer) -> None:
    for value in op.operands:
        if dtype_of(value) is None:
            raise Refusal(f"{source(op)}: sort of {value.type} is not supported")
    axis = ir.IntegerAttr(op.attributes["dimension"]).value
    block = op.regions[0].blocks[0]
    text = op.get_asm(enable_debug_info=False)
    key = ("sort", axis, text[text.index("{") :])

    def function(*operands: jax.Array) -> tuple[jax.Array, ...]:
        size = operands[0].shape[axis]
        if size <= 1:
            return tuple(operands)
        return (by_ranks if size <= _SHORT else network)(axis, operands)

    results = splicer.call(key, function, op, op.operands)
    # The calls that compare stand in the new functions, once for each key.
    for inner in walk(splicer.module):
        if inner.name == "func.call" and ir.FlatSymbolRefAttr(
            inner.attributes["callee"]
        ).value.startswith("heddle_less"):
            inline_comparator(block, inner)
    replace(op, results)


def inline_comparator(block: ir.Block, call: ir.Operation) -> None:
    """Computes a comparator of numbers on whole tensors, in place of a call."""
    shape = shape_of(call.operands[0])
    mapping = {}
    for argument, value in zip(block.arguments, call.operands, strict=True):
        mapping[argument] = value
    for op in block.operations:
        op = op.operation
        if op.name == "stablehlo.return":
            replace(call, [mapping[op.operands[0]]])
            return
        if op.regions and len(op.regions):
            raise Refusal(f"{source(op)}: a comparator of this form is not supported")
        types = [tensor_type(shape, element_type(r)) for r in op.results]
        attributes = {named: op.attributes[named] for named in op.attributes}
        if op.name == "stablehlo.constant":
            splat = ir.DenseElementsAttr(attributes["value"]).get_splat_value()
            attributes["value"] = ir.DenseElementsAttr.get_splat(types[0], splat)
        operands = []
        for value in op.operands:
            if value not in mapping:
                # A number from outside of the comparator.
                raise Refusal(
                    f"{source(op)}: a comparator that reads other values is not "
                    "supported"
                )
            operands.append(mapping[value])
        made = create(op.name, types, operands, attributes, at=call)
        for old, new in zip(op.results, made.results, strict=True):
            mapping[old] = new


def heddle_less(*pairs: jax.Array) -> jax.Array:
    """Marks the place of the comparator: (a0, b0, a1, b1, ...) -> a before b."""
    return pairs[0] < pairs[1]


def by_ranks(axis: int, operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Sorts along `axis`. Ties are broken by position."""
    rank = operands[0].ndim
    order = [d for d in range(rank) if d != axis] + [axis]
    rows = [lax.transpose(x, order) if axis != rank - 1 else x for x in operands]
    shape = (*rows[0].shape, rows[0].shape[-1])
    lead = list(range(rank - 1))

    def along(x: jax.Array, dim: int) -> jax.Array:
        return lax.broadcast_in_dim(x, shape, [*lead, dim])

    # [..., i, j]: whether element j stands before element i.
    one = [along(x, rank - 1) for x in rows]
    other = [along(x, rank) for x in rows]
    less = jax.jit(heddle_less)
    is_less = less(*[v for pair in zip(other, one, strict=True) for v in pair])
    is_greater = less(*[v for pair in zip(one, other, strict=True) for v in pair])
    position, last = (
        lax.broadcasted_iota(jnp.int32, shape, dim) for dim in (rank - 1, rank)
    )
    is_first = lax.bitwise_and(lax.bitwise_not(is_greater), lax.lt(last, position))
    before = lax.bitwise_or(is_less, is_first)
    ranks = sum_last(lax.convert_element_type(before, jnp.int32))
    # [..., k, i]: whether element i goes to place k.
    goes = lax.eq(along(ranks, rank), position)
    back = sorted(range(rank), key=order.__getitem__)
    results = []
    for x, row in zip(rows, other, strict=True):
        bits = bits_of(row)
        bits = sum_last(lax.select(goes, bits, lax.full_like(bits, 0)))
        found = from_bits(bits, x.dtype)
        results.append(lax.transpose(found, back) if axis != rank - 1 else found)
    return tuple(results)


def sum_last(x: jax.Array) -> jax.Array:
    zero = lax.full((), 0, x.dtype)
    return lax.reduce(x, zero, lax.add, (x.ndim - 1,))


def bits_of(x: jax.Array) -> jax.Array:
    """Returns the values as integers of 32 or 64 bits, floats as their bits. Adding
    zeros changes no such integer, whereas it would change a float -0.0."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        wide = lax.convert_element_type(x, widened(x.dtype))
        return lax.bitcast_convert_type(wide, f"int{8 * wide.dtype.itemsize}")
    return lax.convert_element_type(x, widened(x.dtype))


def from_bits(bits: jax.Array, dtype: np.dtype) -> jax.Array:
    """The inverse of bits_of."""
    if jnp.issubdtype(dtype, jnp.floating):
        bits = lax.bitcast_convert_type(bits, widened(dtype))
    return lax.convert_element_type(bits, dtype)


def widened(dtype: np.dtype) -> np.dtype:
    if dtype.itemsize >= 4:
        return dtype
    is_float = jnp.issubdtype(dtype, jnp.floating)
    return jnp.dtype(jnp.float32 if is_float else jnp.int32)


def network(axis: int, operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Sorts along `axis` by Batcher's bitonic network.

    Ties are broken by position, and positions beyond the end come last.
    """
    size = operands[0].shape[axis]
    rows = [jnp.moveaxis(x, axis, -1) for x in operands]
    padded = 1 << (size - 1).bit_length()
    lead = rows[0].shape[:-1]
    rows = [jnp.pad(x, [(0, 0)] * len(lead) + [(0, padded - size)]) for x in rows]
    rows.append(lax.broadcasted_iota(jnp.int32, lead + (padded,), len(lead)))
    width = 2
    while width <= padded:
        rows = exchange(rows, width, True, size)
        step = width // 2
        while step >= 2:
            rows = exchange(rows, step, False, size)
            step //= 2
        width *= 2
    return tuple(jnp.moveaxis(x[..., :size], -1, axis) for x in rows[:-1])


def exchange(
    rows: list[jax.Array], width: int, is_mirrored: bool, size: int
) -> list[jax.Array]:
    """Orders pairs within groups of `width` elements: element i with i + width/2,
    or mirrored with width - 1 - i."""
    lead = rows[0].shape[:-1]
    length = rows[0].shape[-1]
    half = width // 2
    groups = [x.reshape(lead + (length // width, 2, half)) for x in rows]
    low = [x[..., 0, :] for x in groups]
    high = [x[..., 1, :] for x in groups]
    if is_mirrored and half > 1:
        high = [jnp.flip(x, -1) for x in high]
    less = jax.jit(heddle_less)
    pairs = [v for pair in zip(low[:-1], high[:-1], strict=True) for v in pair]
    turned = [v for pair in zip(high[:-1], low[:-1], strict=True) for v in pair]
    is_less, is_greater = less(*pairs), less(*turned)
    first, second = low[-1], high[-1]
    swap = is_greater | (~is_less & (second < first))
    # Positions beyond the end are greater than all others.
    end = jnp.int32(size)
    swap = jnp.where((first >= end) | (second >= end), second < first, swap)
    new_low = [jnp.where(swap, b, a) for a, b in zip(low, high, strict=True)]
    new_high = [jnp.where(swap, a, b) for a, b in zip(low, high, strict=True)]
    if is_mirrored and half > 1:
        new_high = [jnp.flip(x, -1) for x in new_high]
    return [
        jnp.stack([a, b], axis=-2).reshape(lead + (length,))
        for a, b in zip(new_low, new_high, strict=True)
    ]
