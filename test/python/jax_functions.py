"""Small functions that use one family of JAX's primitives each."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax_programs import floats, integers

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
NHWC = ("NHWC", "HWIO", "NHWC")


def case(*args: Any) -> Callable[..., Any]:
    """Adds a function with its arguments to FUNCTIONS."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[function.__name__] = (function, args)
        return function

    return add


def with_gradient(function: Callable[..., Any], *args: Any) -> Any:
    """Returns the sum of the squares of the function's results, with gradients."""

    def loss(*args: Any) -> Any:
        return jnp.sum(function(*args) ** 2)

    return jax.value_and_grad(loss, argnums=tuple(range(len(args))))(*args)


def convolution(**options: Any) -> Callable[..., Any]:
    options = {"window_strides": (1, 1), "padding": "SAME"} | options

    def compute(x: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(x, kernel, **options)

    return compute


@case(floats(0, 2, 8, 8, 4), floats(1, 3, 3, 1, 8))
def depthwise(x, k):
    return with_gradient(
        convolution(dimension_numbers=NHWC, feature_group_count=4), x, k
    )


@case(floats(0, 2, 8, 8, 4), floats(1, 3, 3, 2, 6))
def grouped(x, k):
    options = dict(dimension_numbers=NHWC, feature_group_count=2, window_strides=(2, 2))
    return with_gradient(convolution(**options), x, k)


@case(floats(0, 2, 4, 4, 4), floats(1, 3, 3, 4, 6))
def transposed(x, k):
    def compute(x, k):
        return lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=NHWC)

    return with_gradient(compute, x, k)


@case(floats(0, 2, 4, 9), floats(1, 5, 4, 3))
def dilated(x, k):
    options = dict(window_strides=(2,), padding="VALID", rhs_dilation=(2,))
    numbers = ("NCH", "OIH", "NCH")
    return with_gradient(convolution(dimension_numbers=numbers, **options), x, k)


@case(floats(0, 4, 6))
def special(x):
    y = jnp.abs(x) + 1
    gammas = lax.lgamma(y), lax.digamma(y)
    errors = lax.erf(y), lax.erf_inv(y / 9), lax.erfc(x)
    rest = jnp.tan(x), jnp.arcsinh(x), jnp.sinh(x), jnp.expm1(x), jnp.cbrt(x)
    return gammas, errors, rest, jnp.atan2(x, x + 1)


@case(floats(0, 4, 6))
def cumulative(x):
    sums = jnp.cumprod(x, 1), lax.cummax(x, 0), lax.cumlogsumexp(x, 1)
    gradient = jax.grad(lambda x: jnp.sum(jnp.cumsum(x, 0) ** 2 + jnp.cumprod(x, 1)))
    return sums, jnp.argmax(x, 0), jnp.argmin(x, 1), gradient(x)


@case(integers(0, 100, 9))
def integer_bits(x):
    counts = lax.population_count(x), lax.clz(x)
    shifts = x ^ 3, ~x, x << 2, jnp.right_shift(x, 1)
    return counts, shifts, lax.rem(x, 7), jnp.sign(x), x // 7, x % 5


@case(floats(0, 4, 6))
def rounding(x):
    kinds = jnp.round(x), jnp.floor(x), jnp.rint(x)
    return kinds, lax.reduce_precision(x, 8, 7), jnp.nextafter(x, x + 1)


@case(floats(0, 4, 6), floats(1, 6, 5))
def bfloat16_products(x, y):
    x, y = x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)
    return jnp.dot(x, y, preferred_element_type=jnp.float32)


@case(floats(0, 5))
def hessian(x):
    return jax.hessian(lambda x: jnp.sum(jnp.sin(x) * x**3))(x)


@case(floats(0, 5, 3))
def maps(x):
    return lax.map(lambda row: jnp.sort(row) * 2, x), jax.vmap(jnp.sum)(x)


@case(floats(0, 4, 4))
def matrices(x):
    parts = jnp.diag(x), jnp.trace(x), jnp.triu(x), jnp.eye(4)
    return parts, jnp.kron(x, x[:2, :2]), jnp.outer(x[0], x[1]), jnp.linalg.norm(x)


@case(floats(0, 4, 6))
def statistics(x):
    parts = jnp.median(x, axis=1), jnp.percentile(x, 30.0, axis=0), jnp.var(x)
    moved = jnp.tile(x, (2, 1)), jnp.repeat(x, 3, axis=1), jnp.flip(x, 0)
    return parts, moved, jax.scipy.special.logsumexp(x, 1)


@case(jax.random.key(1))
def distributions(key):
    plain = jax.random.gumbel(key, (3,)), jax.random.laplace(key, (2,))
    chosen = jax.random.choice(key, 10, (3,), replace=False)
    drawn = jax.random.categorical(key, jnp.zeros((4, 5)))
    return plain, chosen, drawn, jax.random.truncated_normal(key, -1, 1, (4,))


@case(floats(0, 6, 4), integers(1, 6, 3))
def gathers(x, i):
    taken = jnp.take(x, i, axis=0, mode="clip"), x.at[i].get(mode="fill", fill_value=0)
    return x[i, 1:3], x[:, None, :][i, 0], taken, x[i[:, None], jnp.arange(2)]


@case(floats(0, 6, 4), integers(1, 3, 2, 2))
def gather_gradients(x, i):
    def loss(x):
        columns = jnp.take(x, i, axis=1)
        return jnp.sum(x[i, 1:3] ** 2) + jnp.sum(x[i, i] ** 3) + jnp.sum(columns**2)

    return jax.grad(loss)(x)


@case(floats(0, 3, 4), jnp.int32(2))
def dynamic_slices(x, i):
    slices = lax.dynamic_slice(x, (i, 1), (1, 2)), lax.dynamic_index_in_dim(x, i, 0)
    return slices, lax.dynamic_update_index_in_dim(x, x[0], i, 0)


@case(floats(0, 8))
def nested_loops(x):
    def halve(c):
        return c * 0.5

    def grow(c):
        return lax.while_loop(lambda c: c[0] < 0.2, lambda c: c + 0.3, c)

    def outer(c, _):
        c = lax.fori_loop(0, 3, lambda i, c: c * 1.1 + i, c)
        return lax.cond(c[0] > 1, halve, grow, c), c.sum()

    return lax.scan(outer, x, None, length=4)


@case(floats(0, 8))
def unrolled_scan(x):
    pairs = lax.scan(lambda c, y: (c + y, c * y), 0.0, x, unroll=2)
    return pairs, lax.associative_scan(jnp.add, x)


@case(floats(0, 4, 9, 5), floats(1, 4, 9, 5))
def associative_scans(a, x):
    """Slices without elements, and their gradients."""

    def combine(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    def recurrence(a, x):
        return lax.associative_scan(combine, (jax.nn.sigmoid(a), x), axis=1)[1]

    scans = with_gradient(lambda x: lax.cumlogsumexp(x, axis=1), x)
    return with_gradient(recurrence, a, x), scans


@case(floats(0, 2, 6, 6, 3))
def resize(x):
    large = jax.image.resize(x, (2, 12, 12, 3), "bilinear")
    return large, jax.image.resize(x, (2, 3, 3, 3), "nearest")


@case(floats(0, 2, 3), floats(1, 3, 3))
def remat(x, w):
    policy = jax.checkpoint_policies.dots_saveable
    layer = jax.checkpoint(lambda x: jnp.tanh(jnp.tanh(x @ w) @ w), policy=policy)
    return jax.grad(lambda x: jnp.sum(layer(x)))(x)


@case(floats(0, 5))
def tables(x):
    knots = jnp.arange(5.0)
    found = jnp.searchsorted(knots, x), jnp.digitize(x, jnp.array([0.0, 1.0]))
    counts = jnp.histogram(x, bins=4)[0]
    return (
        jnp.polyval(x, 2.0),
        jnp.convolve(x, x),
        jnp.interp(0.5, knots, x),
        found,
        counts,
    )
