"""The programs that heddle.jax is tested with.

Each entry of PROGRAMS makes a function and its arguments. DATA and MODEL say
how the arguments lie on a mesh of the axes "dp" and "tp".
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import PartitionSpec as P

MESH = {"dp": 2, "tp": 2}


@dataclasses.dataclass
class Case:
    """A function, its arguments, and the PartitionSpecs of the arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    specs: tuple[Any, ...]


def weights(seed: int, **shapes: tuple[int, ...]) -> dict[str, jax.Array]:
    random = np.random.default_rng(seed)
    return {
        name: jnp.asarray(
            random.standard_normal(shape) / np.sqrt(shape[0]), jnp.float32
        )
        for name, shape in shapes.items()
    }


def floats(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def integers(seed: int, limit: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).integers(0, limit, shape), jnp.int32)


def value_and_grad(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function with a name, for the locations."""

    def step(params: Any, *batch: Any) -> Any:
        return jax.value_and_grad(loss)(params, *batch)

    return step


# 1. A multilayer perceptron.


def mlp() -> Case:
    def loss(p: Any, x: Any, y: Any) -> Any:
        h = jax.nn.gelu(x @ p["w1"] + p["b1"])
        h = jax.nn.silu(h @ p["w2"])
        return jnp.mean((h @ p["w3"] - y) ** 2)

    params = weights(0, w1=(10, 14), b1=(14,), w2=(14, 12), w3=(12, 7))
    specs = {"w1": P(None, "tp"), "b1": P("tp"), "w2": P("tp", None), "w3": P()}
    return Case(
        value_and_grad(loss),
        (params, floats(1, 6, 10), floats(2, 6, 7)),
        (specs, P("dp"), P("dp")),
    )


# 2. A convolutional network with batch norm and pooling by maximum.


def cnn() -> Case:
    def norm(x: Any, scale: Any, shift: Any) -> Any:
        mean = x.mean((0, 1, 2))
        var = ((x - mean) ** 2).mean((0, 1, 2))
        return (x - mean) * lax.rsqrt(var + 1e-5) * scale + shift, mean, var

    def loss(p: Any, x: Any, labels: Any) -> Any:
        conv = dict(
            window_strides=(1, 1),
            padding="SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        h = lax.conv_general_dilated(x, p["k1"], **conv)
        h, mean, var = norm(h, p["scale"], p["shift"])
        h = lax.reduce_window(
            jax.nn.relu(h), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
        h = lax.conv_general_dilated(h, p["k2"], **(conv | dict(window_strides=(2, 2))))
        logits = h.mean((1, 2)) @ p["w"]
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean(), (mean, var)

    def step(p: Any, x: Any, labels: Any) -> Any:
        return jax.value_and_grad(loss, has_aux=True)(p, x, labels)

    params = weights(3, k1=(3, 3, 3, 6), k2=(3, 3, 6, 8), w=(8, 5))
    params |= {"scale": jnp.ones(6), "shift": jnp.zeros(6)}
    specs = {
        "k1": P(),
        "k2": P(None, None, None, "tp"),
        "w": P("tp"),
        "scale": P(),
        "shift": P(),
    }
    return Case(
        step,
        (params, floats(4, 4, 8, 8, 3), integers(5, 5, 4)),
        (specs, P("dp"), P("dp")),
    )


# Transformers.


def layer_norm(x: Any, scale: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    var = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * scale


def attention_by_hand(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqnd,bknd->bnqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    probabilities = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bnqk,bknd->bqnd", probabilities, v)


def attention_of_jax(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def block(p: Any, x: Any, heads: int, attention: Any) -> Any:
    batch, length, width = x.shape
    with jax.named_scope("attn"):
        qkv = layer_norm(x, p["n1"]) @ p["qkv"]
        q, k, v = (
            t.reshape(batch, length, heads, -1) for t in jnp.split(qkv, 3, axis=-1)
        )
        x = x + attention(q, k, v).reshape(batch, length, width) @ p["out"]
    with jax.named_scope("mlp"):
        return x + jax.nn.gelu(layer_norm(x, p["n2"]) @ p["up"]) @ p["down"]


def block_weights(seed: int, width: int) -> dict[str, jax.Array]:
    p = weights(
        seed,
        qkv=(width, 3 * width),
        out=(width, width),
        up=(width, 4 * width),
        down=(4 * width, width),
    )
    return p | {"n1": jnp.ones(width), "n2": jnp.ones(width)}


BLOCK_SPECS = {
    "qkv": P(None, "tp"),
    "out": P("tp"),
    "up": P(None, "tp"),
    "down": P("tp"),
    "n1": P(),
    "n2": P(),
}


def language_loss(table: Any, x: Any, targets: Any) -> Any:
    logits = x @ table.T
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()


def transformer(attention: Any) -> Case:
    vocabulary, width, heads, layers = 37, 16, 4, 2

    def loss(p: Any, tokens: Any, targets: Any) -> Any:
        x = p["table"][tokens] + p["places"][: tokens.shape[1]]
        for i in range(layers):
            with jax.named_scope(f"h_{i}"):
                x = block(p[f"h_{i}"], x, heads, attention)
        return language_loss(p["table"], x, targets)

    params = weights(6, table=(vocabulary, width), places=(9, width))
    params |= {f"h_{i}": block_weights(7 + i, width) for i in range(layers)}
    specs = {"table": P("tp"), "places": P()} | {
        f"h_{i}": BLOCK_SPECS for i in range(layers)
    }
    tokens = integers(8, vocabulary, 4, 9)
    return Case(
        value_and_grad(loss),
        (params, tokens, jnp.roll(tokens, -1, 1)),
        (specs, P("dp"), P("dp")),
    )


# 5. and 6. Layers in a scan.


def scanned(is_checkpointed: bool) -> Case:
    vocabulary, width, heads, layers = 29, 12, 3, 3

    def loss(p: Any, tokens: Any, targets: Any) -> Any:
        def layer(x: Any, weights_of_layer: Any) -> Any:
            return block(weights_of_layer, x, heads, attention_by_hand), None

        body = jax.checkpoint(layer) if is_checkpointed else layer
        x, _ = lax.scan(body, p["table"][tokens], p["layers"])
        return language_loss(p["table"], x, targets)

    each = [block_weights(20 + i, width) for i in range(layers)]
    params = {"table": weights(9, table=(vocabulary, width))["table"]}
    params["layers"] = jax.tree.map(lambda *x: jnp.stack(x), *each)
    specs = {
        "table": P(),
        "layers": jax.tree.map(
            lambda s: P(None, *s), BLOCK_SPECS, is_leaf=lambda s: isinstance(s, P)
        ),
    }
    tokens = integers(10, vocabulary, 4, 7)
    return Case(
        value_and_grad(loss),
        (params, tokens, jnp.roll(tokens, -1, 1)),
        (specs, P("dp"), P("dp")),
    )


# 7. A mixture of experts: the two best of five for each token.


def mixture() -> Case:
    experts, width = 5, 8

    def loss(p: Any, x: Any, y: Any) -> Any:
        scores = x @ p["router"]
        best, chosen = lax.top_k(scores, 2)
        gates = jax.nn.softmax(best, axis=-1)
        weight = (jax.nn.one_hot(chosen, experts) * gates[..., None]).sum(-2)
        h = jax.nn.relu(jnp.einsum("bh,ehf->bef", x, p["up"]))
        out = jnp.einsum("bef,efh,be->bh", h, p["down"], weight)
        return jnp.mean((out - y) ** 2)

    params = weights(
        11, router=(width, experts), up=(experts, width, 16), down=(experts, 16, width)
    )
    specs = {"router": P(), "up": P(None, None, "tp"), "down": P(None, "tp")}
    return Case(
        value_and_grad(loss),
        (params, floats(12, 6, width), floats(13, 6, width)),
        (specs, P("dp"), P("dp")),
    )


# 8. An LSTM by scan.


def lstm() -> Case:
    width = 6

    def loss(p: Any, x: Any, y: Any) -> Any:
        def cell(state: Any, part: Any) -> Any:
            h, c = state
            gates = part @ p["wx"] + h @ p["wh"] + p["b"]
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((x.shape[0], width))
        _, hidden = lax.scan(cell, (zeros, zeros), x.swapaxes(0, 1))
        return jnp.mean((hidden[-1] @ p["out"] - y) ** 2)

    params = weights(
        14, wx=(5, 4 * width), wh=(width, 4 * width), b=(4 * width,), out=(width, 3)
    )
    specs = {"wx": P(), "wh": P(), "b": P(), "out": P("tp")}
    return Case(
        value_and_grad(loss),
        (params, floats(15, 4, 7, 5), floats(16, 4, 3)),
        (specs, P("dp"), P("dp")),
    )


# 9. to 11. Optimizers.


def trained(optimizer: optax.GradientTransformation) -> Case:
    def loss(p: Any, x: Any, y: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] - y) ** 2)

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    params = weights(17, w1=(8, 12), b1=(12,), w2=(12, 6))
    state = optimizer.init(params)
    specs = {"w1": P(None, "tp"), "b1": P("tp"), "w2": P("tp")}
    nothing = jax.tree.map(lambda _: P(), state)
    return Case(
        step,
        (params, state, floats(18, 6, 8), floats(19, 6, 6)),
        (specs, nothing, P("dp"), P("dp")),
    )


def adamw() -> Case:
    return trained(
        optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(1e-2, weight_decay=0.1))
    )


def adafactor() -> Case:
    return trained(optax.adafactor(1e-2, min_dim_size_to_factor=4))


def sgd() -> Case:
    return trained(
        optax.sgd(optax.cosine_decay_schedule(0.1, 10), momentum=0.9, nesterov=True)
    )


# 12. A branch.


def branch() -> Case:
    def loss(p: Any, x: Any, y: Any, which: Any) -> Any:
        h = lax.cond(jnp.sum(x) > 0, lambda: jnp.tanh(x @ p["w1"]), lambda: x @ p["w2"])
        h = lax.switch(
            which, [lambda h: h * 2, lambda h: jnp.sin(h), lambda h: h * h], h
        )
        return jnp.mean((h - y) ** 2)

    params = weights(21, w1=(8, 6), w2=(8, 6))
    specs = {"w1": P(None, "tp"), "w2": P()}
    args = (params, floats(22, 4, 8), floats(23, 4, 6), jnp.int32(1))
    return Case(value_and_grad(loss), args, (specs, P("dp"), P("dp"), P()))


# 13. Dropout by threefry.


def dropout() -> Case:
    def loss(p: Any, x: Any, y: Any, key: Any) -> Any:
        h = jax.nn.relu(x @ p["w1"])
        keep = jax.random.bernoulli(jax.random.fold_in(key, 7), 0.8, h.shape)
        h = jnp.where(keep, h / 0.8, 0.0)
        noise = 0.01 * jax.random.normal(key, y.shape)
        return jnp.mean((h @ p["w2"] + noise - y) ** 2)

    params = weights(24, w1=(8, 12), w2=(12, 6))
    specs = {"w1": P(None, "tp"), "w2": P("tp")}
    args = (params, floats(25, 4, 8), floats(26, 4, 6), jax.random.key(5))
    return Case(value_and_grad(loss), args, (specs, P("dp"), P("dp"), P()))


PROGRAMS: dict[str, Callable[[], Case]] = {
    "mlp": mlp,
    "cnn": cnn,
    "transformer": lambda: transformer(attention_by_hand),
    "dot_product_attention": lambda: transformer(attention_of_jax),
    "scan": lambda: scanned(False),
    "scan_checkpoint": lambda: scanned(True),
    "mixture": mixture,
    "lstm": lstm,
    "adamw": adamw,
    "adafactor": adafactor,
    "sgd": sgd,
    "branch": branch,
    "dropout": dropout,
}
