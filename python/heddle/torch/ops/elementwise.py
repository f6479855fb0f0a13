"""Arithmetic, comparisons and casts."""

import math
from typing import Any

from heddle.torch.emit import Emitter, element_type
from heddle.torch.op_table import op
from heddle.torch.text import Value

Number = float | int | bool
Operand = Value | Number
_RANKS = {"i1": 0, "i8": 1, "i32": 2, "i64": 3, "f16": 4, "bf16": 4, "f32": 5, "f64": 6}


def promote(*operands: Operand) -> str:
    """Returns the type in which PyTorch computes with the operands."""
    types = [x.type for x in operands if isinstance(x, Value)]
    sized = [x.type for x in operands if isinstance(x, Value) and x.shape]
    widest = max(sized or types, key=_RANKS.__getitem__)
    floats = [t for t in types if _RANKS[t] >= 4]
    if _RANKS[widest] < 4 and floats:
        widest = max(floats, key=_RANKS.__getitem__)
    if _RANKS[widest] < 4 and any(isinstance(x, float) for x in operands):
        return "f32"
    if widest == "i1" and any(type(x) is int for x in operands):
        return "i32"
    return widest


def as_value(e: Emitter, x: Operand, shape: tuple[int, ...], element: str) -> Value:
    """Returns an operand with the shape and type of a computation."""
    if not isinstance(x, Value):
        return e.builder.splat(x, shape, element)
    if math.prod(x.shape) == 1 or _RANKS.get(x.type, 9) >= _RANKS.get(element, 0):
        return e.builder.broadcast(e.builder.convert(x, element), shape)
    return e.builder.convert(e.builder.broadcast(x, shape), element)


def operands(e: Emitter, *values: Operand, element: str = "") -> list[Value]:
    element = element or e.element
    return [as_value(e, value, e.shape, element) for value in values]


def scaled(e: Emitter, x: Operand, alpha: Number) -> Operand:
    if alpha == 1:
        return x
    if not isinstance(x, Value):
        return x * alpha
    (x,) = [as_value(e, x, x.shape, e.element)]
    return e.builder.binary("mul", x, e.builder.splat(alpha, x.shape, x.type))


@op("add", "add_")
def add(e: Emitter, a: Operand, b: Operand, alpha: Number = 1) -> Value:
    return e.builder.binary("add", *operands(e, a, scaled(e, b, alpha)))


@op("sub")
def sub(e: Emitter, a: Operand, b: Operand, alpha: Number = 1) -> Value:
    return e.builder.binary("sub", *operands(e, a, scaled(e, b, alpha)))


@op("rsub")
def rsub(e: Emitter, a: Operand, b: Operand, alpha: Number = 1) -> Value:
    return e.builder.binary("sub", *operands(e, b, scaled(e, a, alpha)))


@op("mul")
def mul(e: Emitter, a: Operand, b: Operand) -> Value:
    if e.element == "i1":
        return e.builder.elementwise("arith.andi", *operands(e, a, b))
    return e.builder.binary("mul", *operands(e, a, b))


@op("div", "true_divide")
def div(e: Emitter, a: Operand, b: Operand, rounding_mode: str | None = None) -> Value:
    if rounding_mode is None:
        return e.builder.binary("div", *operands(e, a, b))
    left, right = operands(e, a, b)
    if not left.is_float:
        kind = "floordivsi" if rounding_mode == "floor" else "divsi"
        return e.builder.elementwise(f"arith.{kind}", left, right)
    quotient = e.builder.binary("div", left, right)
    kind = "floor" if rounding_mode == "floor" else "trunc"
    return _rounded(e, f"math.{kind}", quotient)


def _rounded(e: Emitter, kind: str, x: Value) -> Value:
    """Rounds to a whole number. The gradient is zero."""
    return e.builder.elementwise(kind, e.builder.without_gradient(x))


_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "fix": "trunc"}
_ROUNDINGS |= {"round": "roundeven"}


@op(*_ROUNDINGS)
def rounded(e: Emitter, x: Value, **unused: object) -> Value:
    if not x.is_float:
        return x
    return _rounded(e, f"math.{_ROUNDINGS[e.node.target._opname]}", x)


@op("floor_divide")
def floor_divide(e: Emitter, a: Operand, b: Operand) -> Value:
    return div(e, a, b, rounding_mode="floor")


@op("remainder", "fmod")
def remainder(e: Emitter, a: Operand, b: Operand) -> Value:
    left, right = operands(e, a, b)
    mode = "floor" if e.node.target._opname == "remainder" else "trunc"
    whole = div(e, left, right, rounding_mode=mode)
    return e.builder.binary("sub", left, e.builder.binary("mul", whole, right))


@op("pow")
def power(e: Emitter, a: Operand, b: Operand) -> Value:
    if b in (1, 2, 3) and isinstance(a, Value):
        (x,) = operands(e, a)
        y = x
        for _ in range(int(b) - 1):
            y = e.builder.binary("mul", y, x)
        return y
    if b in (0.5, -0.5):
        (x,) = operands(e, a)
        return e.builder.elementwise("math.sqrt" if b > 0 else "math.rsqrt", x)
    left, right = operands(e, a, b)
    if not left.is_float:
        raise e.refuse("expected floats, or a power of at most 3")
    return e.builder.elementwise("math.powf", left, right)


@op("square")
def square(e: Emitter, x: Value) -> Value:
    return power(e, x, 2)


@op("maximum")
def maximum(e: Emitter, a: Operand, b: Operand) -> Value:
    left, right = operands(e, a, b)
    kind = "arith.maximumf" if left.is_float else "arith.maxsi"
    return e.builder.elementwise(kind, left, right)


@op("minimum")
def minimum(e: Emitter, a: Operand, b: Operand) -> Value:
    left, right = operands(e, a, b)
    kind = "arith.minimumf" if left.is_float else "arith.minsi"
    return e.builder.elementwise(kind, left, right)


@op("clamp", "clip", "clamp_min", "clamp_max", "hardtanh")
def clamp(e: Emitter, x: Value, *limits: Operand | None, **named: Any) -> Value:
    name = e.node.target._opname  # type: ignore[union-attr]
    low = named.get("min", named.get("min_val", limits[0] if limits else None))
    high = named.get("max", named.get("max_val", (*limits, None, None)[1]))
    if name == "clamp_max":
        low, high = None, named.get("max", limits[0] if limits else None)
    if name == "hardtanh" and low is None and high is None:
        low, high = -1.0, 1.0
    if low is not None:
        x = maximum(e, x, low)
    return x if high is None else minimum(e, x, high)


# Functions of one float tensor, by the op that computes them.
_MATH = {
    "exp": "math.exp",
    "exp2": "math.exp2",
    "expm1": "math.expm1",
    "log": "math.log",
    "log2": "math.log2",
    "log10": "math.log10",
    "log1p": "math.log1p",
    "sqrt": "math.sqrt",
    "rsqrt": "math.rsqrt",
    "tanh": "math.tanh",
    "sin": "math.sin",
    "cos": "math.cos",
    "atan": "math.atan",
    "erf": "math.erf",
}


def _register_math() -> None:
    for name, kind in _MATH.items():

        def function(e: Emitter, x: Value, _kind: str = kind) -> Value:
            return e.builder.elementwise(_kind, *operands(e, x))

        op(name)(function)


_register_math()


@op("abs")
def absolute(e: Emitter, x: Value) -> Value:
    (x,) = operands(e, x)
    return e.builder.elementwise("math.absf" if x.is_float else "math.absi", x)


@op("neg")
def neg(e: Emitter, x: Value) -> Value:
    (x,) = operands(e, x)
    if x.is_float:
        return e.builder.elementwise("arith.negf", x)
    return e.builder.binary("sub", e.builder.splat(0, x.shape, x.type), x)


@op("reciprocal")
def reciprocal(e: Emitter, x: Value) -> Value:
    return e.builder.binary("div", *operands(e, 1.0, x))


@op("sign", "sgn")
def sign(e: Emitter, x: Value) -> Value:
    zero = e.builder.splat(0, x.shape, x.type)
    above = e.builder.convert(e.builder.compare("gt", x, zero), x.type)
    below = e.builder.convert(e.builder.compare("lt", x, zero), x.type)
    return e.builder.binary("sub", above, below)


def logistic(e: Emitter, x: Value) -> Value:
    one = e.builder.splat(1.0, x.shape, x.type)
    decay = e.builder.elementwise("math.exp", e.builder.elementwise("arith.negf", x))
    return e.builder.binary("div", one, e.builder.binary("add", one, decay))


@op("sigmoid")
def sigmoid(e: Emitter, x: Value) -> Value:
    return logistic(e, *operands(e, x))


@op("relu", "relu_")
def relu(e: Emitter, x: Value) -> Value:
    # Strictly above zero, so that the gradient at zero is that of PyTorch.
    zero = e.builder.splat(0, x.shape, x.type)
    return e.builder.select(e.builder.compare("gt", x, zero), x, zero)


@op("relu6")
def relu6(e: Emitter, x: Value) -> Value:
    return minimum(e, relu(e, x), 6.0)


@op("leaky_relu")
def leaky_relu(e: Emitter, x: Value, slope: float = 0.01) -> Value:
    zero = e.builder.splat(0, x.shape, x.type)
    below = e.builder.binary("mul", x, e.builder.splat(slope, x.shape, x.type))
    return e.builder.select(e.builder.compare("gt", x, zero), x, below)


@op("elu")
def elu(
    e: Emitter, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> Value:
    zero = e.builder.splat(0, x.shape, x.type)
    # The exponent stays finite where the other branch is taken.
    below = e.builder.elementwise("arith.minimumf", x, zero)
    below = e.builder.elementwise("math.expm1", _times(e, below, input_scale))
    y = e.builder.select(e.builder.compare("gt", x, zero), x, _times(e, below, alpha))
    return _times(e, y, scale)


def _times(e: Emitter, x: Value, factor: float) -> Value:
    if factor == 1:
        return x
    return e.builder.binary("mul", x, e.builder.splat(factor, x.shape, x.type))


@op("softplus")
def softplus(e: Emitter, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """log(1 + exp(b x)) / b, as max(b x, 0) + log1p(exp(-|b x|))."""
    x = _times(e, x, beta)
    zero = e.builder.splat(0, x.shape, x.type)
    small = e.builder.elementwise(
        "math.exp",
        e.builder.elementwise("arith.negf", e.builder.elementwise("math.absf", x)),
    )
    y = e.builder.binary(
        "add",
        e.builder.elementwise("arith.maximumf", x, zero),
        e.builder.elementwise("math.log1p", small),
    )
    return _times(e, y, 1 / beta)


@op("hardsigmoid")
def hardsigmoid(e: Emitter, x: Value) -> Value:
    shifted = e.builder.binary("add", x, e.builder.splat(3.0, x.shape, x.type))
    return _times(e, minimum(e, maximum(e, shifted, 0.0), 6.0), 1 / 6)


@op("hardswish")
def hardswish(e: Emitter, x: Value) -> Value:
    return e.builder.binary("mul", x, hardsigmoid(e, x))


@op("mish")
def mish(e: Emitter, x: Value) -> Value:
    return e.builder.binary(
        "mul", x, e.builder.elementwise("math.tanh", softplus(e, x))
    )


def _compare(e: Emitter, predicate: str, a: Operand, b: Operand) -> Value:
    element = promote(a, b)
    if element == "i1":
        element = "i32"
    return e.builder.compare(predicate, *operands(e, a, b, element=element))


def _register_comparisons() -> None:
    for predicate in ("eq", "ne", "lt", "le", "gt", "ge"):

        def function(e: Emitter, a: Operand, b: Operand, _p: str = predicate) -> Value:
            return _compare(e, _p, a, b)

        op(predicate)(function)


_register_comparisons()


def _register_logic() -> None:
    for names, kind in (
        (("logical_and", "bitwise_and", "__and__"), "arith.andi"),
        (("logical_or", "bitwise_or", "__or__"), "arith.ori"),
        (("logical_xor", "bitwise_xor", "__xor__"), "arith.xori"),
    ):

        def function(e: Emitter, a: Operand, b: Operand, _k: str = kind) -> Value:
            return e.builder.elementwise(_k, *operands(e, a, b))

        op(*names)(function)


_register_logic()


@op("logical_not", "bitwise_not")
def logical_not(e: Emitter, x: Value) -> Value:
    (x,) = operands(e, x, element="i1" if e.element == "i1" else e.element)
    if x.type != "i1":
        raise e.refuse("expected truth values")
    return e.builder.elementwise("arith.xori", x, e.builder.splat(1, x.shape, "i1"))


@op("where")
def where(e: Emitter, condition: Value, a: Operand, b: Operand) -> Value:
    (test,) = operands(e, condition, element="i1")
    return e.builder.select(test, *operands(e, a, b))


@op("masked_fill", "masked_fill_")
def masked_fill(e: Emitter, x: Value, mask: Value, value: Operand) -> Value:
    return where(e, mask, value, x)


@op("_local_scalar_dense")
def item(e: Emitter, x: Value) -> Value:
    raise e.refuse("expected no number that depends on data; keep it a tensor")


@op("copy", "copy_")
def copy(e: Emitter, old: Value, new: Value, non_blocking: bool = False) -> Value:
    return operands(e, new)[0]


# Ops that keep their operand, but for its type.
@op(
    "_to_copy", "to", "type_as", "float", "clone", "contiguous", "alias", "detach",
    "detach_", "lift_fresh_copy", "lift", "_assert_tensor_metadata", "prims_convert",
    "convert_element_type",
)  # fmt: skip
def cast(e: Emitter, x: Value, *unused: object, **named: object) -> Value | None:
    if e.node.meta.get("val") is None:
        return None
    if x.is_float and "detach" in e.node.target._opname:  # type: ignore[union-attr]
        return e.builder.without_gradient(x)
    return e.builder.convert(x, element_type(e.meta.dtype))
