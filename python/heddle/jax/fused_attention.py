"""Attention that never holds the scores, forward or backward.

`attention` is an ordinary JAX function with a derivative of its own. Its two
parts are calls of functions whose names say what they compute. heddle.jax makes
heddle.attention and heddle.attention_grad of the calls; plain JAX runs the
functions' bodies.
"""

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from .rewrites.loops import KEPT

Array = jax.Array
NAME = re.compile(r"heddle_attention_(grad_)?(causal|full)_([0-9a-f]{16})_([0-9x]+)")


def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Array:
    """softmax(scale * query key^T + mask) value.

    Shapes are those of jax.nn.dot_product_attention: [batch, length, heads,
    features]. Keys and values may have fewer heads than queries; a group of
    query heads then shares one. `scale` is 1/sqrt(features) unless given.
    """
    batch, length, heads, features = query.shape
    groups = key.shape[2]
    if key.shape != value.shape:
        raise ValueError(
            f"expected values of the keys' shape {key.shape}, got {value.shape}"
        )
    if heads % groups or key.shape[0] != batch or key.shape[3] != features:
        raise ValueError(
            f"expected keys for queries of the shape {query.shape}, got {key.shape}"
        )
    scale = 1 / math.sqrt(features) if scale is None else float(scale)
    if groups != heads:
        query = query.reshape(batch, length, groups, heads // groups, features)
    return _attention(causal, scale, query, key, value).reshape(
        batch, length, heads, features
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attention(
    causal: bool, scale: float, query: Array, key: Array, value: Array
) -> Array:
    return _marked(False, causal, scale, query.shape)(query, key, value)[0]


def _forward(causal: bool, scale: float, query: Array, key: Array, value: Array) -> Any:
    output, lse = _marked(False, causal, scale, query.shape)(query, key, value)
    output, lse = checkpoint_name(output, KEPT), checkpoint_name(lse, KEPT)
    return output, (query, key, value, output, lse)


def _backward(
    causal: bool, scale: float, saved: tuple[Array, ...], gradient: Array
) -> Any:
    return _marked(True, causal, scale, saved[0].shape)(*saved, gradient)


_attention.defvjp(_forward, _backward)


@functools.cache
def _marked(
    is_gradient: bool, causal: bool, scale: float, shape: tuple[int, ...]
) -> Callable[..., Any]:
    """Returns the function for one setting. Its name holds the shape of queries,
    because vmap changes the shape and keeps the name."""
    body = _gradient_body if is_gradient else _forward_body
    function = functools.partial(body, causal, scale)
    bits = int(np.float64(scale).view(np.int64)) & (2**64 - 1)
    mask = "causal" if causal else "full"
    size = "x".join(map(str, shape))
    kind = "grad_" if is_gradient else ""
    name = f"heddle_attention_{kind}{mask}_{bits:016x}_{size}"
    function.__name__ = name  # type: ignore[attr-defined]
    return jax.jit(function)


def _scores(
    causal: bool, scale: float, query: Array, key: Array
) -> tuple[Array, Array]:
    """Returns queries with a dimension of members, and f32 scores [b, n, r, s, t]."""
    if query.ndim == 4:
        query = query[:, :, :, None]
    scores = jnp.einsum(
        "bsnrd,btnd->bnrst", query, key, preferred_element_type=jnp.float32
    )
    scores = scores * jnp.float32(scale)
    if causal:
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        scores = jnp.where(seen, scores, -jnp.inf)
    return query, scores


def _forward_body(
    causal: bool, scale: float, query: Array, key: Array, value: Array
) -> tuple[Array, Array]:
    _, scores = _scores(causal, scale, query, key)
    lse = jax.nn.logsumexp(scores, axis=-1)
    probabilities = jnp.exp(scores - lse[..., None]).astype(value.dtype)
    output = jnp.einsum("bnrst,btnd->bsnrd", probabilities, value)
    lse = jnp.moveaxis(lse, 3, 1)
    return output.reshape(query.shape), lse.reshape(query.shape[:-1])


def _gradient_body(
    causal: bool,
    scale: float,
    query: Array,
    key: Array,
    value: Array,
    output: Array,
    lse: Array,
    gradient: Array,
) -> tuple[Array, ...]:
    shape = query.shape
    query, scores = _scores(causal, scale, query, key)
    output, gradient = output.reshape(query.shape), gradient.reshape(query.shape)
    lse = jnp.moveaxis(lse.reshape(query.shape[:-1]), 1, 3)
    probabilities = jnp.exp(scores - lse[..., None])
    delta = jnp.einsum(
        "bsnrd,bsnrd->bnrs", output, gradient, preferred_element_type=jnp.float32
    )
    inner = jnp.einsum(
        "bsnrd,btnd->bnrst", gradient, value, preferred_element_type=jnp.float32
    )
    score_gradient = probabilities * (inner - delta[..., None]) * jnp.float32(scale)
    score_gradient = score_gradient.astype(query.dtype)
    query_gradient = jnp.einsum("bnrst,btnd->bsnrd", score_gradient, key)
    key_gradient = jnp.einsum("bnrst,bsnrd->btnd", score_gradient, query)
    value_gradient = jnp.einsum(
        "bnrst,bsnrd->btnd", probabilities.astype(value.dtype), gradient
    )
    return query_gradient.reshape(shape), key_gradient, value_gradient
