"""Conversions of floats to integers, which saturate in JAX.

If an integer cannot hold the number, the result of LLVM's instructions is undefined. So
such numbers are replaced before the conversion: too large ones by the largest integer,
too small ones by the smallest, and NaN by 0.
"""

from jax.numpy import finfo
from jaxlib.mlir import ir

from ..ir import create, dtype_of, element_type, replace, shape_of, tensor_type


def is_float_to_int(op: ir.Operation) -> bool:
    if op.name != "stablehlo.convert":
        return False
    old, new = dtype_of(op.operands[0]), dtype_of(op.results[0])
    is_float = str(element_type(op.operands[0])) in ("f16", "bf16", "f32", "f64")
    return old is not None and is_float and new is not None and new.kind in "iu"


def saturate(op: ir.Operation) -> None:
    value, kind = op.operands[0], op.results[0].type
    bits = 8 * dtype_of(op.results[0]).itemsize
    is_signed = dtype_of(op.results[0]).kind == "i"
    least = -(1 << (bits - 1)) if is_signed else 0
    bound = 1 << (bits - 1 if is_signed else bits)  # a power of two: exact

    def is_it(direction: str, other: ir.Value) -> ir.Value:
        made = create(
            "stablehlo.compare",
            [tensor_type(shape_of(value), ir.IntegerType.get_signless(1))],
            [value, other],
            {
                "comparison_direction": ir.Attribute.parse(
                    f"#stablehlo<comparison_direction {direction}>"
                )
            },
            at=op,
        )
        return made.results[0]

    def constant(splat: ir.Attribute, result: ir.Type) -> ir.Value:
        made = create("stablehlo.constant", [result], [], {"value": splat}, at=op)
        return made.results[0]

    def number(limit: float) -> ir.Value:
        attribute = ir.FloatAttr.get(element_type(value), float(limit))
        splat = ir.DenseElementsAttr.get_splat(value.type, attribute)
        return constant(splat, value.type)

    def integer(limit: int) -> ir.Value:
        return constant(ir.Attribute.parse(f"dense<{limit}> : {kind}"), kind)

    result = create("stablehlo.convert", [kind], [value], at=op).results[0]
    # A half float that is beyond its largest number is infinite.
    largest = float(finfo(dtype_of(value)).max)
    below = ("LE", least) if -largest <= least else ("LT", -largest)
    above = ("GE", bound) if bound <= largest else ("GT", largest)
    for direction, other, limit in (
        ("NE", value, 0),
        (below[0], number(below[1]), least),
        (above[0], number(above[1]), bound - 1),
    ):
        operands = [is_it(direction, other), integer(limit), result]
        result = create("stablehlo.select", [kind], operands, at=op).results[0]
    replace(op, [result])
