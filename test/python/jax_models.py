"""Further programs to test heddle.jax with: the building blocks of models."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P
from jax_programs import Case, floats, integers, value_and_grad, weights


def mean_square(x: Any, y: Any) -> Any:
    return jnp.mean((x - y).astype(jnp.float32) ** 2)


class Dense:
    """A module as in Flax: parameters by name, made by init."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size

    def init(self, random: np.random.Generator, width: int) -> dict[str, jax.Array]:
        kernel = random.standard_normal((width, self.size)) / np.sqrt(width)
        bias = jnp.zeros(self.size, jnp.float32)
        return {"kernel": jnp.asarray(kernel, jnp.float32), "bias": bias}

    def __call__(self, params: Any, x: Any) -> Any:
        with jax.named_scope(self.name):
            return x @ params[self.name]["kernel"] + params[self.name]["bias"]


def modules() -> Case:
    layers = [Dense("first", 12), Dense("second", 12), Dense("last", 3)]

    def loss(p: Any, x: Any, labels: Any) -> Any:
        h = x
        for layer in layers[:-1]:
            h = jax.nn.elu(layer(p, h)) + jax.nn.softplus(h[:, :1])
        logits = jax.nn.log_softmax(layers[-1](p, h))
        chosen = jnp.sum(jax.nn.one_hot(labels, 3) * logits, axis=-1)
        return -jnp.mean(chosen)

    random = np.random.default_rng(0)
    params = {
        m.name: m.init(random, n) for m, n in zip(layers, (8, 12, 12), strict=True)
    }
    wide = {"kernel": P(None, "tp"), "bias": P("tp")}
    specs = {"first": wide, "second": wide, "last": {"kernel": P("tp"), "bias": P()}}
    args = (params, floats(1, 6, 8), integers(2, 3, 6))
    return Case(value_and_grad(loss), args, (specs, P("dp"), P("dp")))


def rotary() -> Case:
    """Attention with rotary embeddings, grouped keys and RMS norms."""
    heads, groups, size, width = 4, 2, 8, 16

    def rotate(x: Any) -> Any:
        angles = jnp.arange(x.shape[1])[:, None] / 10 ** jnp.linspace(0, 1, size // 2)
        sin, cos = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def norm(x: Any, scale: Any) -> Any:
        mean = jnp.mean(x * x, axis=-1, keepdims=True)
        return x * lax.rsqrt(mean + 1e-6) * scale

    def loss(p: Any, x: Any, y: Any) -> Any:
        batch, length, _ = x.shape
        h = norm(x, p["norm"])
        q = (h @ p["q"]).reshape(batch, length, heads, size)
        k = (h @ p["k"]).reshape(batch, length, groups, size)
        v = (h @ p["v"]).reshape(batch, length, groups, size)
        k, v = (jnp.repeat(t, heads // groups, axis=2) for t in (rotate(k), v))
        scores = jnp.einsum("bshd,bthd->bhst", rotate(q), k) * size**-0.5
        seen = jnp.arange(length)[:, None] >= jnp.arange(length)
        weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
        h = jnp.einsum("bhst,bthd->bshd", weights, v).reshape(batch, length, -1)
        h = x + h @ p["out"]
        gate = jax.nn.silu(norm(h, p["norm"]) @ p["gate"]) * (h @ p["up"])
        return mean_square(h + gate @ p["down"], y)

    params = weights(
        3,
        q=(width, heads * size),
        k=(width, groups * size),
        v=(width, groups * size),
        out=(heads * size, width),
        gate=(width, 24),
        up=(width, 24),
        down=(24, width),
    )
    params["norm"] = jnp.ones(width)
    specs = {k: P(None, "tp") for k in ("q", "k", "v", "gate", "up")}
    specs |= {"out": P("tp"), "down": P("tp"), "norm": P()}
    args = (params, floats(4, 4, 7, width), floats(5, 4, 7, width))
    return Case(value_and_grad(loss), args, (specs, P("dp"), P("dp")))


def group_norm() -> Case:
    """Strided and dilated convolutions, group norm, average pooling."""

    def norm(x: Any, scale: Any) -> Any:
        shape = x.shape
        x = x.reshape(*shape[:3], 4, -1)
        mean = x.mean((1, 2, 4), keepdims=True)
        var = x.var((1, 2, 4), keepdims=True)
        return ((x - mean) / jnp.sqrt(var + 1e-5)).reshape(shape) * scale

    def loss(p: Any, x: Any, y: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        h = lax.conv_general_dilated(
            x, p["k1"], (2, 2), ((1, 1), (1, 1)), dimension_numbers=numbers
        )
        h = jax.nn.leaky_relu(norm(h, p["scale"]))
        h = lax.conv_general_dilated(
            h, p["k2"], (1, 1), "SAME", rhs_dilation=(2, 2), dimension_numbers=numbers
        )
        h = lax.reduce_window(h, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        return mean_square(h.mean((1, 2)) @ p["w"], y)

    params = weights(6, k1=(3, 3, 3, 8), k2=(3, 3, 8, 6), w=(6, 5))
    params["scale"] = jnp.ones(8)
    specs = {"k1": P(), "k2": P(None, None, None, "tp"), "w": P("tp"), "scale": P()}
    args = (params, floats(7, 4, 8, 8, 3), floats(8, 4, 5))
    return Case(value_and_grad(loss), args, (specs, P("dp"), P("dp")))


def mapped_attention() -> Case:
    """Attention of one head and one sequence, under vmap twice."""

    def one(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.T / jnp.sqrt(jnp.float32(q.shape[-1]))
        return jax.nn.softmax(scores, axis=-1) @ v

    def loss(p: Any, x: Any, y: Any) -> Any:
        q, k, v = (jnp.einsum("bsf,fhd->bhsd", x, p[name]) for name in "qkv")
        h = jax.vmap(jax.vmap(one))(q, k, v)
        return mean_square(jnp.einsum("bhsd,hdf->bsf", h, p["o"]), y)

    params = weights(9, q=(12, 2, 6), k=(12, 2, 6), v=(12, 2, 6), o=(2, 6, 12))
    specs = {k: P(None, "tp") for k in "qkv"} | {"o": P("tp")}
    args = (params, floats(10, 4, 5, 12), floats(11, 4, 5, 12))
    return Case(value_and_grad(loss), args, (specs, P("dp"), P("dp")))


def dispatched() -> Case:
    """A mixture whose tokens are gathered by expert, with room for a few."""
    experts, width, room = 4, 8, 3

    def loss(p: Any, x: Any, y: Any) -> Any:
        gates = jax.nn.softmax(x @ p["router"], axis=-1)
        weight, chosen = lax.top_k(gates, 2)
        mask = jax.nn.one_hot(chosen, experts, dtype=jnp.int32)  # [token, 2, expert]
        flat = mask.reshape(-1, experts)
        place = (jnp.cumsum(flat, axis=0) - 1).reshape(mask.shape)
        place = jnp.where(mask > 0, place, room)
        slots = jax.nn.one_hot(place, room)  # [token, 2, expert, room]
        inputs = jnp.einsum("tkec,th->ech", slots, x)
        h = jnp.tanh(jnp.einsum("ech,ehf->ecf", inputs, p["up"]))
        out = jnp.einsum("ecf,efh->ech", h, p["down"])
        return mean_square(jnp.einsum("tkec,tk,ech->th", slots, weight, out), y)

    params = weights(
        12, router=(width, experts), up=(experts, width, 10), down=(experts, 10, width)
    )
    specs = {"router": P(), "up": P("tp"), "down": P("tp")}
    args = (params, floats(13, 6, width), floats(14, 6, width))
    return Case(value_and_grad(loss), args, (specs, P("dp"), P("dp")))


def gated_recurrence() -> Case:
    """Two GRUs, forwards and backwards, over sequences of several lengths."""
    width = 6

    def loss(p: Any, x: Any, lengths: Any, y: Any) -> Any:
        def run(w: Any, reverse: bool) -> Any:
            def cell(h: Any, step: Any) -> Any:
                number, part = step
                z, r = jnp.split(
                    jax.nn.sigmoid(jnp.concatenate([part, h], -1) @ w["zr"]), 2, -1
                )
                new = jnp.tanh(jnp.concatenate([part, r * h], -1) @ w["h"])
                new = (1 - z) * h + z * new
                return jnp.where((number < lengths)[:, None], new, h), None

            steps = (jnp.arange(x.shape[1]), x.swapaxes(0, 1))
            h, _ = lax.scan(cell, jnp.zeros((len(x), width)), steps, reverse=reverse)
            return h

        h = jnp.concatenate([run(p["forth"], False), run(p["back"], True)], -1)
        return mean_square(h @ p["out"], y)

    params: dict[str, Any] = {
        name: weights(seed, zr=(5 + width, 2 * width), h=(5 + width, width))
        for name, seed in (("forth", 15), ("back", 16))
    }
    params["out"] = weights(17, w=(2 * width, 4))["w"]
    specs = jax.tree.map(lambda _: P(), params) | {"out": P("tp")}
    args = (params, floats(18, 4, 6, 5), jnp.array([6, 3, 1, 5]), floats(19, 4, 4))
    return Case(value_and_grad(loss), args, (specs, P("dp"), P("dp"), P("dp")))


def regularized() -> Case:
    """Dropout in a scan of layers, with keys that the scan carries."""
    width = 8

    def loss(p: Any, x: Any, y: Any, seed: Any) -> Any:
        def layer(carried: Any, w: Any) -> Any:
            h, key = carried
            key, mine = jax.random.split(key)
            keep = jax.random.bernoulli(mine, 0.9, h.shape)
            return (jnp.where(keep, jnp.tanh(h @ w) / 0.9, 0), key), None

        (h, _), _ = lax.scan(layer, (x, jax.random.key(seed)), p["w"])
        return mean_square(h, y)

    params = {"w": weights(20, w=(3, width, width))["w"] / 2}
    args = (params, floats(21, 4, width), floats(22, 4, width), jnp.int32(7))
    specs = ({"w": P(None, None, "tp")}, P("dp"), P("dp"), P())
    return Case(value_and_grad(loss), args, specs)


def graph() -> Case:
    """Messages along edges: gathers, segment sums, a softmax over neighbours."""
    nodes, width = 7, 6

    def loss(p: Any, x: Any, senders: Any, receivers: Any, y: Any) -> Any:
        h = x @ p["w"]
        scores = jax.nn.leaky_relu(h[senders] @ p["a"] + h[receivers] @ p["b"])
        top = jax.ops.segment_max(scores, receivers, nodes)
        weight = jnp.exp(scores - lax.stop_gradient(top)[receivers])
        total = jax.ops.segment_sum(weight, receivers, nodes)
        weight = weight / total[receivers]
        out = jax.ops.segment_sum(weight[:, None] * h[senders], receivers, nodes)
        return mean_square(out, y)

    params = weights(23, w=(5, width), a=(width,), b=(width,))
    receivers = jnp.concatenate([jnp.arange(nodes), integers(24, nodes, 9)])
    specs = {"w": P(None, "tp"), "a": P(), "b": P()}
    args = (
        params,
        floats(25, nodes, 5),
        integers(26, nodes, 16),
        receivers.astype(jnp.int32),
        floats(27, nodes, width),
    )
    return Case(value_and_grad(loss), args, (specs, P(), P("dp"), P("dp"), P()))


def accumulated() -> Case:
    """A tied language model whose gradients are summed over micro-batches."""
    vocabulary, width = 23, 8

    def loss(p: Any, tokens: Any) -> Any:
        h = p["table"][tokens[:, :-1]] * jnp.sqrt(1.0 * width)
        h = h + jax.nn.gelu(h @ p["up"], approximate=False) @ p["down"]
        logits = h @ p["table"].T
        chosen = jnp.take_along_axis(
            jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1
        )
        return -jnp.mean(chosen)

    def step(p: Any, batches: Any) -> Any:
        def add(total: Any, tokens: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(p, tokens)
            return jax.tree.map(jnp.add, total, gradients), value

        zeros = jax.tree.map(jnp.zeros_like, p)
        total, values = lax.scan(add, zeros, batches)
        return jax.tree.map(lambda a, g: a - 0.1 * g / len(batches), p, total), values

    params = weights(28, table=(vocabulary, width), up=(width, 16), down=(16, width))
    specs = {"table": P("tp"), "up": P(None, "tp"), "down": P("tp")}
    args = (params, integers(29, vocabulary, 3, 4, 6))
    return Case(step, args, (specs, P(None, "dp")))


def hessian() -> Case:
    """Forward over reverse, and a gradient of a norm of gradients."""

    def loss(w: Any, x: Any, y: Any) -> Any:
        return mean_square(jax.nn.softmax(x @ w, axis=-1), y)

    def step(w: Any, x: Any, y: Any) -> Any:
        tangent = jnp.cos(jnp.arange(w.size)).reshape(w.shape)
        product = jax.jvp(lambda w: jax.grad(loss)(w, x, y), (w,), (tangent,))
        penalty = jax.grad(lambda w: jnp.sum(jax.grad(loss)(w, x, y) ** 2))(w)
        return product, penalty

    args = (floats(30, 6, 4), floats(31, 8, 6), floats(32, 8, 4))
    return Case(step, args, (P(None, "tp"), P("dp"), P("dp")))


def returns() -> Case:
    """Advantages and returns backwards in time, with a tuple of several types, and
    a recurrence by an associative scan."""

    def loss(p: Any, seen: Any, rewards: Any, done: Any) -> Any:
        values = jnp.tanh(seen @ p["first"]) @ p["last"]  # [time, batch]

        def back(carried: Any, step: Any) -> Any:
            advantage, total, count, alive = carried
            reward, ends, value, after = step
            delta = reward + 0.9 * after * (1 - ends) - value
            advantage = delta + 0.72 * (1 - ends) * advantage
            total = reward + 0.9 * (1 - ends) * total
            carried = (advantage, total, count + 1, alive & (ends < 0.5))
            return carried, (advantage, total, count)

        after = jnp.concatenate([values[1:], jnp.zeros_like(values[:1])])
        zeros = jnp.zeros(values.shape[1])
        (_, last, count, alive), (advantages, totals, counts) = lax.scan(
            back,
            (zeros, zeros, jnp.int32(0), zeros == 0),
            (rewards, done, values, after),
            reverse=True,
            unroll=2,
        )
        decay = jnp.broadcast_to(jax.nn.sigmoid(p["decay"]), values.shape)
        _, traces = lax.associative_scan(
            lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (decay, values)
        )
        policy = jnp.mean(lax.stop_gradient(advantages) * values)
        rest = jnp.sum(jnp.where(alive, last, 0.0)) / count + jnp.mean(counts)
        return policy + mean_square(values, totals) + jnp.mean(traces**2) + rest

    params = weights(33, first=(5, 8), last=(8,)) | {"decay": jnp.float32(0.3)}
    specs = {"first": P(None, "tp"), "last": P("tp"), "decay": P()}
    done = (floats(36, 7, 4) > 1).astype(jnp.float32)
    args = (params, floats(34, 7, 4, 5), floats(35, 7, 4), done)
    time = P(None, "dp")
    return Case(value_and_grad(loss), args, (specs, time, time, time))


MODELS = {
    "modules": modules,
    "rotary": rotary,
    "group_norm": group_norm,
    "mapped_attention": mapped_attention,
    "dispatched": dispatched,
    "gated_recurrence": gated_recurrence,
    "regularized": regularized,
    "graph": graph,
    "accumulated": accumulated,
    "hessian": hessian,
    "returns": returns,
}
