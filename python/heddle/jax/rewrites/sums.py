"""Sums over all dimensions become sums over rows, then the sum of these.

Sums over rows are fused into the kernel that computes their operand, and threads share
the rows. So a global norm reads each gradient once, and no squares are stored. On a
mesh, JAX writes reductions over no dimension, for the gradient of a scalar that is
broadcast. They are removed, because jaxlib's passes do not take them.
"""

from jaxlib.mlir import ir

from ..ir import create, element_type, replace, shape_of, tensor_type, walk

# Smaller sums are left as they are.
_LARGE = 1 << 14


def split_sums(module: ir.Module) -> None:
    for op in [op for op in walk(module) if op.name == "stablehlo.reduce"]:
        if not len(ir.DenseI64ArrayAttr(op.attributes["dimensions"])):
            replace(op, list(op.operands)[: len(op.results)])
        elif is_large_sum(op):
            split_sum(op)


def is_large_sum(op: ir.Operation) -> bool:
    if len(op.operands) != 2 or len(shape_of(op.results[0])):
        return False
    shape = shape_of(op.operands[0])
    size = 1
    for extent in shape:
        size *= extent
    body = [inner.operation.name for inner in op.regions[0].blocks[0].operations]
    is_sum = body == ["stablehlo.add", "stablehlo.return"]
    is_float = str(element_type(op.operands[0])) == "f32"
    return is_sum and is_float and size >= _LARGE and shape[-1] < size


def split_sum(op: ir.Operation) -> None:
    value, init = op.operands
    shape = shape_of(value)

    def reduce(value: ir.Value, dims: list[int], shape: tuple[int, ...]) -> ir.Value:
        clone = op.clone()
        made = create(
            op.name,
            [tensor_type(shape, element_type(value))],
            [value, init],
            {"dimensions": ir.DenseI64ArrayAttr.get(dims)},
            regions=1,
            at=op,
        )
        clone.regions[0].blocks[0].append_to(made.regions[0])
        clone.erase()
        return made.results[0]

    rank = len(shape)
    rows = reduce(value, [rank - 1], shape[:-1])
    replace(op, [reduce(rows, list(range(rank - 1)), ())])
