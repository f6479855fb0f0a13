"""Functions that are composed of others: hyperbolic and inverse trigonometric
functions, and replacements of numbers that are not finite."""

import math

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op
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


# Chebyshev's approximation of log(erfc(x) / t) + x^2 for x >= 0, t = 1 / (1 + x / 2),
# by powers of t: 1.2e-7 of erfc(x) everywhere (Press et al., Numerical Recipes, 6.2).
_ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
    0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip


@op("erfc")
def erfc(e: Emitter, x: Value) -> Value:
    binary = e.builder.binary
    zero, one, two = (_splat(e, n, x) for n in (0.0, 1.0, 2.0))
    is_negative = e.builder.compare("lt", x, zero)
    size = e.builder.select(is_negative, binary("sub", zero, x), x)
    t = binary("div", two, binary("add", two, size))
    exponent = _splat(e, 0.0, x)
    for c in reversed(_ERFC):
        exponent = binary("add", binary("mul", exponent, t), _splat(e, c, x))
    exponent = binary("sub", exponent, binary("mul", x, x))
    y = binary("mul", t, e.builder.elementwise("math.exp", exponent))
    return e.builder.select(is_negative, binary("sub", two, y), y)


# Lanczos' approximation of the gamma function, for g = 7.
_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894, -176.61502916214059906584551354,
    12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip


def _lanczos(e: Emitter, x: Value) -> tuple[Value, Value, Value]:
    """Returns the sum of c / (x + i), the sum of c / (x + i)^2, and x + 13/2."""
    total, slope = _splat(e, 0.99999999999980993227684700473478, x), _splat(e, 0.0, x)
    for i, c in enumerate(_LANCZOS):
        place = e.builder.binary("add", x, _splat(e, float(i), x))
        term = e.builder.binary("div", _splat(e, c, x), place)
        total = e.builder.binary("add", total, term)
        slope = e.builder.binary("add", slope, e.builder.binary("div", term, place))
    return total, slope, e.builder.binary("add", x, _splat(e, 6.5, x))


@op("lgamma")
def lgamma(e: Emitter, x: Value) -> Value:
    """log(sqrt(2 pi)) + (x - 1/2) log(t) - t + log(sum) with t = x + 13/2. Numbers
    below 1/2 are reflected: log(pi / |sin(pi x)|) - lgamma(1 - x). The sine is computed
    of x - floor(x), so it is exactly 0 at integers, where lgamma is infinite."""
    half = _splat(e, 0.5, x)
    size = e.builder.elementwise("math.absf", x)
    is_infinite = e.builder.compare("eq", size, _splat(e, math.inf, x))
    x = e.builder.select(is_infinite, _splat(e, 1.0, x), x)
    is_low = e.builder.compare("lt", x, half)
    mirrored = e.builder.binary("sub", _splat(e, 1.0, x), x)
    z = e.builder.select(is_low, mirrored, x)
    total, _, t = _lanczos(e, z)
    power = e.builder.binary("sub", z, half)
    y = e.builder.binary("mul", power, e.builder.elementwise("math.log", t))
    y = e.builder.binary("sub", y, t)
    y = e.builder.binary("add", y, e.builder.elementwise("math.log", total))
    y = e.builder.binary("add", y, _splat(e, math.log(2 * math.pi) / 2, x))
    # The other branch stays finite, and so does its gradient.
    low = e.builder.select(is_low, x, half)
    whole = e.builder.elementwise("math.floor", e.builder.without_gradient(low))
    low = e.builder.binary("sub", low, whole)
    sine = e.builder.elementwise(
        "math.sin", e.builder.binary("mul", low, _splat(e, math.pi, x))
    )
    sine = e.builder.elementwise("math.log", e.builder.elementwise("math.absf", sine))
    turned = e.builder.binary("sub", _splat(e, math.log(math.pi), x), sine)
    y = e.builder.select(is_low, e.builder.binary("sub", turned, y), y)
    return e.builder.select(is_infinite, size, y)


@op("digamma")
def digamma(e: Emitter, x: Value) -> Value:
    """log(t) + (x - 1/2) / t - 1 - sum' / sum, the derivative of lgamma. Numbers
    below 1/2 are reflected: digamma(1 - x) - pi / tan(pi x)."""
    half, one = _splat(e, 0.5, x), _splat(e, 1.0, x)
    is_low = e.builder.compare("lt", x, half)
    z = e.builder.select(is_low, e.builder.binary("sub", one, x), x)
    total, slope, t = _lanczos(e, z)
    ratio = e.builder.binary("div", e.builder.binary("sub", z, half), t)
    y = e.builder.binary("add", e.builder.elementwise("math.log", t), ratio)
    y = e.builder.binary("sub", y, one)
    y = e.builder.binary("sub", y, e.builder.binary("div", slope, total))
    low = e.builder.select(is_low, x, half)
    angle = e.builder.binary("mul", low, _splat(e, math.pi, x))
    turn = e.builder.binary("div", _splat(e, math.pi, x), tan(e, angle))
    return e.builder.select(is_low, e.builder.binary("sub", y, turn), y)


@op("copysign")
def copysign(e: Emitter, a: Value, b: Value) -> Value:
    a, b = operands(e, a, b)
    size = e.builder.elementwise("math.absf", a)
    # The sign of a zero is that of 1 / b.
    zero, one = _splat(e, 0.0, b), _splat(e, 1.0, b)
    inverse = e.builder.binary("div", one, b)
    is_zero = e.builder.compare("eq", b, zero)
    signed = e.builder.select(is_zero, inverse, b)
    is_negative = e.builder.compare("lt", signed, zero)
    return e.builder.select(
        is_negative, e.builder.elementwise("arith.negf", size), size
    )


@op("isnan")
def isnan(e: Emitter, x: Value) -> Value:
    return e.builder.compare("ne", x, x)


@op("isinf")
def isinf(e: Emitter, x: Value) -> Value:
    size = e.builder.elementwise("math.absf", x)
    return e.builder.compare("eq", size, _splat(e, math.inf, x))
