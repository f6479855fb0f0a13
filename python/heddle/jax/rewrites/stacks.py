"""Rows of stacks are reshaped instead of broadcast.

`lax.scan` adds a dimension to each value before it puts the value into a stack. A
broadcast that adds the dimension would copy the value. A reshape is a view.
"""

from jaxlib.mlir import ir

from ..ir import create, replace, shape_of, users, walk


def reshape_rows(module: ir.Module) -> None:
    for op in walk(module):
        if op.name == "stablehlo.broadcast_in_dim" and is_row(op):
            types = [op.results[0].type]
            made = create("stablehlo.reshape", types, [op.operands[0]], at=op)
            replace(op, list(made.results))


def is_row(op: ir.Operation) -> bool:
    """Whether the broadcast only adds dimensions of one element to a value that
    goes into a stack."""
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    dims = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
    added = [size for i, size in enumerate(after) if i not in dims]
    return (
        dims == sorted(dims)
        and all(size == 1 for size in added)
        and [after[i] for i in dims] == list(before)
        and all(
            user.name == "stablehlo.dynamic_update_slice"
            and user.operands[0] != op.results[0]
            for user in users(op.results[0])
        )
    )
