"""Products whose result is transposed become products with swapped operands.

JAX computes the gradient of a weight [in, out] as the transpose of a product
[out, in]. The swapped product makes [in, out] itself, so nothing is copied.
"""

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from ..ir import create, replace, shape_of, users, walk
from .products import dimensions, owner


def swap_products(module: ir.Module) -> None:
    for op in walk(module):
        if op.name == "stablehlo.transpose":
            swap_product(op)


def swap_product(transpose: ir.Operation) -> None:
    product = owner(transpose.operands[0])
    if product is None or product.name != "stablehlo.dot_general":
        return
    if len(users(product.results[0])) != 1:
        return
    lhs_batch, rhs_batch, lhs_sum, rhs_sum = dimensions(product)
    lhs, rhs = product.operands
    batch = len(lhs_batch)
    lhs_free = len(shape_of(lhs)) - batch - len(lhs_sum)
    rhs_free = len(shape_of(rhs)) - batch - len(rhs_sum)
    rank = batch + lhs_free + rhs_free
    # The swapped product has the dimensions of the right operand first.
    swapped = [
        *range(batch),
        *range(batch + lhs_free, rank),
        *range(batch, batch + lhs_free),
    ]
    if list(ir.DenseI64ArrayAttr(transpose.attributes["permutation"])) != swapped:
        return
    attributes = {name: product.attributes[name] for name in product.attributes}
    attributes["dot_dimension_numbers"] = stablehlo.DotDimensionNumbers.get(
        rhs_batch, lhs_batch, rhs_sum, lhs_sum
    )
    if "precision_config" in attributes:
        precision = list(ir.ArrayAttr(attributes["precision_config"]))
        attributes["precision_config"] = ir.ArrayAttr.get(precision[::-1])
    made = create(
        "stablehlo.dot_general",
        [transpose.results[0].type],
        [rhs, lhs],
        attributes,
        at=product,
    )
    replace(transpose, list(made.results))
    product.erase()
