"""Scatters: sums by heddle.embedding_grad, everything else by dense ops.

A scatter is first brought to one form: a table of rows [V, H], a row number for each
update (-1 for an update that JAX drops), and updates [N, H]. The indexed or batched
dimensions of the operand become V, the others H.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from ..ir import Refusal, Splicer, dtype_of, replace, shape_of, source

# A sum of at most this number of updates for each batch compares every row of the table
# with each update. More updates in f32 are summed by heddle.embedding_grad.
_FEW_UPDATES = 4

_COMBINERS = {
    "stablehlo.add": "add",
    "stablehlo.multiply": "mul",
    "stablehlo.minimum": "min",
    "stablehlo.maximum": "max",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
}


def combiner_of(op: ir.Operation) -> str | None:
    """Returns how a region combines the old element and the update, or None."""
    block = op.regions[0].blocks[0]
    ops = [inner.operation for inner in block.operations]
    result = ops[-1].operands[0]
    if len(ops) == 1:
        return "set" if result == block.arguments[1] else None
    if len(ops) == 2 and set(ops[0].operands) == set(block.arguments):
        return _COMBINERS.get(ops[0].name)
    return None


class Scatter:
    """The dimension numbers of a scatter, and its normal form."""

    def __init__(self, op: ir.Operation) -> None:
        numbers = stablehlo.ScatterDimensionNumbers(
            op.attributes["scatter_dimension_numbers"]
        )
        operand, indices, updates = op.operands
        self.operand = shape_of(operand)
        self.indices = shape_of(indices)
        self.updates = shape_of(updates)
        self.window = list(numbers.update_window_dims)
        self.inserted = list(numbers.inserted_window_dims)
        self.batching = list(numbers.input_batching_dims)
        self.index_batching = list(numbers.scatter_indices_batching_dims)
        self.scattered = list(numbers.scattered_dims_to_operand_dims)
        self.vector = numbers.index_vector_dim
        rank = len(self.operand)
        windowed = [
            d for d in range(rank) if d not in self.inserted and d not in self.batching
        ]
        # The dimension of the updates that runs over a dimension of the operand.
        self.window_of = dict(zip(windowed, self.window, strict=True))
        # A window that is smaller than the operand lies at an offset of 0
        # unless an index places it, so its dimension counts as indexed, too.
        partial = [
            d for d in windowed if self.updates[self.window_of[d]] != self.operand[d]
        ]
        self.rows = self.batching + sorted(
            {*self.scattered, *partial} - set(self.batching)
        )
        self.columns = [d for d in range(rank) if d not in self.rows]
        self.scatter_dims = [
            d for d in range(len(self.updates)) if d not in self.window
        ]
        # Which scatter dimensions are batches: they follow the dimensions of
        # the indices without the index vector.
        index_dims = [d for d in range(len(self.indices)) if d != self.vector]
        self.batch_of = {
            operand_dim: index_dims.index(index_dim)
            for operand_dim, index_dim in zip(
                self.batching, self.index_batching, strict=True
            )
        }

    @property
    def key(self) -> tuple[Any, ...]:
        """The properties that tell the scatter from others of the same types."""
        lists = (self.window, self.inserted, self.batching, self.index_batching)
        return (*map(tuple, lists), tuple(self.scattered), self.vector)

    @property
    def table_rows(self) -> int:
        return math.prod(self.operand[d] for d in self.rows)

    @property
    def table_columns(self) -> int:
        return math.prod(self.operand[d] for d in self.columns)

    @property
    def num_batches(self) -> int:
        return math.prod(self.operand[d] for d in self.batching)

    def to_table(self, operand: jax.Array) -> jax.Array:
        return lax.transpose(operand, self.rows + self.columns).reshape(
            self.table_rows, self.table_columns
        )

    def from_table(self, table: jax.Array) -> jax.Array:
        order = self.rows + self.columns
        table = table.reshape([self.operand[d] for d in order])
        return lax.transpose(table, [order.index(d) for d in range(len(order))])

    def rows_and_updates(
        self, indices: jax.Array, updates: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the row of each update [B, N], and the updates [B, N, H].

        B counts batches, N the updates of one batch. A row is numbered within its
        batch's part of the table. -1 means that the update is dropped.
        """
        if self.vector == len(self.indices):
            indices = lax.expand_dims(indices, [self.vector])
        order = [d for d in range(indices.ndim) if d != self.vector]
        indices = lax.transpose(indices, [*order, self.vector])
        indices = lax.convert_element_type(indices, jnp.int32)
        scatter_shape = indices.shape[:-1]
        rank = len(scatter_shape)
        # Windows on row dimensions become further scatter dimensions.
        row_dims = [d for d in self.rows if d not in self.batching]
        windows = [d for d in row_dims if d in self.window_of]
        extra = [self.updates[self.window_of[d]] for d in windows]
        number = lax.full(scatter_shape + (1,) * len(extra), 0, jnp.int32)
        inside = lax.full(number.shape, True)
        for d in row_dims:
            size = self.operand[d]
            place = lax.full(inside.shape, 0, jnp.int32)
            length = 1
            if d in self.scattered:
                column = lax.index_in_dim(indices, self.scattered.index(d), rank)
                place = lax.reshape(column, inside.shape)
            if d in self.window_of:
                length = self.updates[self.window_of[d]]
            for compare, bound in ((lax.ge, 0), (lax.le, size - length)):
                is_within = compare(place, lax.full_like(place, bound))
                inside = lax.bitwise_and(inside, is_within)
            if d in self.window_of:
                at = rank + windows.index(d)
                place = place + lax.broadcasted_iota(
                    jnp.int32,
                    (1,) * at + (length,) + (1,) * (rank + len(extra) - at - 1),
                    at,
                )
            number = lax.mul(number, lax.full_like(number, size)) + place
        inside = lax.broadcast_in_dim(inside, number.shape, range(number.ndim))
        number = lax.select(inside, number, lax.full_like(number, -1))
        # Updates in the order: batches, other scatter dims, windows, columns.
        batches = [self.batch_of[d] for d in self.batching]
        singles = [d for d in range(rank) if d not in batches]
        order = batches + singles
        number = lax.transpose(number, order + list(range(rank, number.ndim)))
        place_of = [self.scatter_dims[d] for d in order]
        place_of += [self.window_of[d] for d in windows] + [
            self.window_of[d] for d in self.columns
        ]
        updates = lax.transpose(updates, place_of)
        count = self.num_batches
        number = lax.reshape(number, (count, number.size // count))
        return number, lax.reshape(updates, (*number.shape, self.table_columns))


def heddle_embedding_grad(
    ids: jax.Array, updates: jax.Array, table: jax.Array
) -> jax.Array:
    """A marked function, whose calls become heddle.embedding_grad:
    table[ids] += updates."""
    return table + ids[0].astype(table.dtype) * updates[0, 0]


def convert_scatter(op: ir.Operation, splicer: Splicer) -> None:
    if len(op.operands) != 3:
        raise Refusal(
            f"{source(op)}: a scatter into several arrays at once is not supported"
        )
    kind = combiner_of(op)
    if kind is None:
        raise Refusal(
            f"{source(op)}: expected a scatter that adds, multiplies, sets, or takes "
            "the minimum or maximum"
        )
    if dtype_of(op.operands[0]) is None:
        raise Refusal(
            f"{source(op)}: scatter of {op.operands[0].type} is not supported"
        )
    form = Scatter(op)
    key = ("scatter", kind, form.key)
    replace(
        op,
        splicer.call(key, lambda *a: (scatter(form, kind, *a),), op, op.operands),
    )


def scatter(
    form: Scatter,
    kind: str,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
) -> jax.Array:

    rows, values = form.rows_and_updates(indices, updates)
    if rows.shape[1] == 1 and len(form.rows) == len(form.batching) + 1:
        return scatter_one(form, kind, operand, rows, values)
    table = form.to_table(operand)
    batches, count = rows.shape
    height, width = table.shape[0] // batches, table.shape[1]
    if kind == "add" and count > _FEW_UPDATES and table.dtype == jnp.float32:
        # Rows of the whole table.
        base = lax.broadcasted_iota(jnp.int32, (batches, 1), 0) * jnp.int32(height)
        ids = jnp.where(rows < 0, jnp.int32(-1), rows + base).reshape(-1)
        table = jax.jit(heddle_embedding_grad)(ids, values.reshape(-1, width), table)
        return form.from_table(table)
    if kind == "add" and width == 1 or count == 1 or kind != "set":
        # Compares each row with each update: [B, V, N] or [B, V, N, H].
        numbers = lax.broadcasted_iota(jnp.int32, (1, height, 1), 1)
        table = table.reshape(batches, height, width)
        for one in range(count) if count <= _FEW_UPDATES else ():
            hit = rows[:, None, one, None] == numbers
            table = combine(kind, hit, table, values[:, None, one, :])
        if count > _FEW_UPDATES:
            hit = (rows[:, None, :] == numbers)[..., None]
            neutral = neutral_of(kind, table.dtype)
            terms = jnp.where(hit, values[:, None, :, :], neutral)
            table = reduce(kind, table, terms)
        return form.from_table(table.reshape(batches * height, width))
    # Sets: the last update of each row wins.
    numbers = lax.broadcasted_iota(jnp.int32, (1, height, 1), 1)
    order = lax.broadcasted_iota(jnp.int32, (1, 1, count), 2)
    winner = jnp.max(
        jnp.where(rows[:, None, :] == numbers, order, jnp.int32(-1)), axis=2
    ).reshape(-1)
    base = (
        lax.broadcasted_iota(jnp.int32, (batches, height), 0) * jnp.int32(count)
    ).reshape(-1)
    chosen = jnp.take(
        values.reshape(-1, width), jnp.maximum(winner, 0) + base, axis=0, mode="clip"
    )
    return form.from_table(jnp.where((winner >= 0)[:, None], chosen, table))


def scatter_one(
    form: Scatter, kind: str, operand: jax.Array, rows: jax.Array, values: jax.Array
) -> jax.Array:
    """Scatters one update for each batch, into one dimension of the operand. The
    operand keeps its shape, so that the comparison is fused into its neighbours'
    kernel. The gradient of a cross-entropy is such a scatter."""
    (dim,) = (d for d in form.rows if d not in form.batching)
    sizes = [operand.shape[d] for d in form.batching]
    columns = [operand.shape[d] for d in form.columns]
    row = lax.reshape(rows, sizes)
    row = lax.broadcast_in_dim(row, operand.shape, form.batching)
    dims = form.batching + form.columns
    order = sorted(range(len(dims)), key=dims.__getitem__)
    update = lax.transpose(lax.reshape(values, sizes + columns), order)
    update = lax.broadcast_in_dim(update, operand.shape, sorted(dims))
    hit = lax.eq(row, lax.broadcasted_iota(jnp.int32, operand.shape, dim))
    return combine(kind, hit, operand, update)


_COMBINE = {
    "add": lax.add,
    "mul": lax.mul,
    "min": lax.min,
    "max": lax.max,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
}


def combine(kind: str, hit: jax.Array, old: jax.Array, update: jax.Array) -> jax.Array:
    hit, update = (
        lax.broadcast_in_dim(x, old.shape, range(old.ndim)) for x in (hit, update)
    )
    if kind == "add":
        return lax.add(old, lax.select(hit, update, lax.full_like(old, 0)))
    if kind == "set":
        return lax.select(hit, update, old)
    return lax.select(hit, _COMBINE[kind](old, update), old)


def neutral_of(kind: str, dtype: np.dtype) -> jax.Array:
    if kind in ("add", "or"):
        return jnp.zeros((), dtype)
    if kind == "mul":
        return jnp.ones((), dtype)
    if dtype == jnp.bool_:
        return jnp.array(kind in ("min", "and"))
    if kind == "and":
        return jnp.array(-1).astype(dtype)
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.array(jnp.inf if kind == "min" else -jnp.inf, dtype)
    info = jnp.iinfo(dtype)
    return jnp.array(info.max if kind == "min" else info.min, dtype)


def reduce(kind: str, table: jax.Array, terms: jax.Array) -> jax.Array:
    function = _COMBINE[kind]
    combined = lax.reduce(terms, neutral_of(kind, table.dtype), function, (2,))
    return function(table, combined)
