"""Functions that are made of others: hyperbolic ones, inverses of trigonometric
ones, and what is left of numbers that are not finite."""

import math

from heddle.torch.emit import Emitter, op
from heddle.torch.ops.elementwise import operands
from heddle.torch.text import Value


def _splat(e: Emitter, number: float, like: Value) -> Value:
    return e.builder.splat(number, like.shape, like.type)


def _exponentials(e: Emitter, x: Value) -> tuple[Value, Value]:
    up = e.builder.elementwise("math.exp", x)
    down = e.builder.elementwise("math.exp", e.builder.elementwise("arith.negf", x))
    return up, down


@op("sinh", "cosh")
def sinh(e: Emitter, x: Value) -> Value:
    up, down = _exponentials(e, x)
    kind = "sub" if e.node.target._opname == "sinh" else "add"
    both = e.builder.binary(kind, up, down)
    return e.builder.binary("mul", both, _splat(e, 0.5, x))


@op("tan")
def tan(e: Emitter, x: Value) -> Value:
    parts = [e.builder.elementwise(f"math.{name}", x) for name in ("sin", "cos")]
    return e.builder.binary("div", *parts)


def _shifted_square(e: Emitter, x: Value, shift: float) -> Value:
    """Returns sqrt(x^2 + shift)."""
    square = e.builder.binary("mul", x, x)
    wide = e.builder.binary("add", square, _splat(e, shift, x))
    return e.builder.elementwise("math.sqrt", wide)


@op("asin", "acos")
def asin(e: Emitter, x: Value) -> Value:
    """atan(x / sqrt((1 - x) (1 + x)))."""
    one = _splat(e, 1.0, x)
    inner = e.builder.binary(
        "mul", e.builder.binary("sub", one, x), e.builder.binary("add", one, x)
    )
    slope = e.builder.binary("div", x, e.builder.elementwise("math.sqrt", inner))
    y = e.builder.elementwise("math.atan", slope)
    if e.node.target._opname == "asin":
        return y
    return e.builder.binary("sub", _splat(e, math.pi / 2, x), y)


@op("asinh")
def asinh(e: Emitter, x: Value) -> Value:
    """sign(x) log(|x| + sqrt(x^2 + 1))."""
    size = e.builder.elementwise("math.absf", x)
    total = e.builder.binary("add", size, _shifted_square(e, x, 1.0))
    y = e.builder.elementwise("math.log", total)
    is_low = e.builder.compare("lt", x, _splat(e, 0.0, x))
    return e.builder.select(is_low, e.builder.elementwise("arith.negf", y), y)


@op("acosh")
def acosh(e: Emitter, x: Value) -> Value:
    total = e.builder.binary("add", x, _shifted_square(e, x, -1.0))
    return e.builder.elementwise("math.log", total)


@op("atanh")
def atanh(e: Emitter, x: Value) -> Value:
    one = _splat(e, 1.0, x)
    ratio = e.builder.binary(
        "div", e.builder.binary("add", one, x), e.builder.binary("sub", one, x)
    )
    y = e.builder.elementwise("math.log", ratio)
    return e.builder.binary("mul", y, _splat(e, 0.5, x))


@op("atan2")
def atan2(e: Emitter, y: Value, x: Value) -> Value:
    """The angle of (x, y), for x other than 0."""
    y, x = operands(e, y, x)
    angle = e.builder.elementwise("math.atan", e.builder.binary("div", y, x))
    zero = _splat(e, 0.0, x)
    turn = e.builder.select(
        e.builder.compare("lt", y, zero), _splat(e, -math.pi, x), _splat(e, math.pi, x)
    )
    is_left = e.builder.compare("lt", x, zero)
    return e.builder.select(is_left, e.builder.binary("add", angle, turn), angle)


@op("hypot")
def hypot(e: Emitter, a: Value, b: Value) -> Value:
    a, b = operands(e, a, b)
    squares = [e.builder.binary("mul", x, x) for x in (a, b)]
    return e.builder.elementwise("math.sqrt", e.builder.binary("add", *squares))


@op("fmin", "fmax")
def fmin(e: Emitter, a: Value, b: Value) -> Value:
    a, b = operands(e, a, b)
    predicate = "lt" if e.node.target._opname == "fmin" else "gt"
    first = e.builder.compare(predicate, a, b)
    return e.builder.select(first, a, b)


@op("isnan")
def isnan(e: Emitter, x: Value) -> Value:
    return e.builder.compare("ne", x, x)


@op("isinf")
def isinf(e: Emitter, x: Value) -> Value:
    size = e.builder.elementwise("math.absf", x)
    return e.builder.compare("eq", size, _splat(e, math.inf, x))
