"""A training step of GPT-2 in JAX: Heddle against XLA's CPU backend.

usage: PYTHONPATH=python python3 bench/jax/gpt2.py [--layers 12] [--steps 3] ...

Both run the same function on the same machine, one after the other: f32, a
joint projection of queries, keys and values, a tied table, integer labels,
optax's AdamW with clipping by the global norm. Prints the seconds to compile,
the seconds of a step (the best of --steps), and the losses. Heddle takes memory
for the program when it is loaded, XLA at the first step; neither counts as
compiling.
"""

import argparse
import json
import os
import pathlib
import tempfile
import time

import heddle.jax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from heddle.jax.program import Program


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--scan", action="store_true", help="layers in lax.scan")
    parser.add_argument("--checkpoint", action="store_true", help="jax.checkpoint")
    parser.add_argument("--attention", choices=["heddle", "softmax"], default="heddle")
    parser.add_argument("--cores", type=int, default=0, help="of each device")
    parser.add_argument("--only", choices=["heddle", "xla"])
    parser.add_argument("--output", help="writes the module and stops")
    return parser.parse_args()


def norm(x, p):
    mean = x.mean(-1, keepdims=True)
    var = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * p["scale"] + p["shift"]


def softmax_attention(q, k, v):
    scores = jnp.einsum("bqnd,bknd->bnqk", q, k) / np.sqrt(q.shape[-1])
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    probabilities = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1)
    return jnp.einsum("bnqk,bknd->bqnd", probabilities, v)


def make(options: argparse.Namespace):
    """Returns the step and its arguments."""
    width, layers = options.width, options.layers
    random = np.random.default_rng(0)

    def normal(*shape):
        return random.standard_normal(shape, np.float32) * np.float32(0.02)

    def affine(*shape):
        return {"w": normal(*shape), "b": np.zeros(shape[-1], np.float32)}

    def scale():
        one = np.ones(width, np.float32)
        return {"scale": one, "shift": np.zeros(width, np.float32)}

    def layer():
        return {
            "ln_1": scale(),
            "qkv": affine(width, 3 * width),
            "out": affine(width, width),
            "ln_2": scale(),
            "up": affine(width, 4 * width),
            "down": affine(4 * width, width),
        }

    hidden = {f"h_{i}": layer() for i in range(layers)}
    if options.scan:
        hidden = jax.tree.map(lambda *x: np.stack(x), *hidden.values())
    params = {
        "wte": normal(options.vocabulary, width),
        "wpe": normal(options.length, width),
        "h": hidden,
        "ln_f": scale(),
    }
    if options.attention == "heddle":

        def attention(q, k, v):
            return heddle.jax.attention(q, k, v, causal=True)

    else:
        attention = softmax_attention

    def block(p, x):
        batch, length, _ = x.shape
        with jax.named_scope("attn"):
            qkv = norm(x, p["ln_1"]) @ p["qkv"]["w"] + p["qkv"]["b"]
            q, k, v = jnp.split(qkv.reshape(batch, length, 3 * options.heads, -1), 3, 2)
            attended = attention(q, k, v).reshape(x.shape)
            x = x + attended @ p["out"]["w"] + p["out"]["b"]
        with jax.named_scope("mlp"):
            h = norm(x, p["ln_2"]) @ p["up"]["w"] + p["up"]["b"]
            return x + jax.nn.gelu(h) @ p["down"]["w"] + p["down"]["b"]

    if options.checkpoint:
        block = jax.checkpoint(block)

    def loss(p, tokens, targets):
        x = p["wte"][tokens] + p["wpe"]
        if options.scan:
            x, _ = jax.lax.scan(lambda x, q: (block(q, x), None), x, p["h"])
        else:
            for i in range(layers):
                with jax.named_scope(f"h_{i}"):
                    x = block(p["h"][f"h_{i}"], x)
        logits = norm(x, p["ln_f"]) @ p["wte"].T
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
        return losses.mean()

    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(3e-4, weight_decay=0.1)
    )

    def step(params, state, tokens, targets):
        value, gradients = jax.value_and_grad(loss)(params, tokens, targets)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    shape = (options.batch, options.length + 1)
    tokens = random.integers(0, options.vocabulary, shape).astype(np.int32)
    state = jax.tree.map(np.asarray, optimizer.init(params))
    return step, (params, state, tokens[:, :-1].copy(), tokens[:, 1:].copy())


def measure(step, args, steps):
    params, state, *batch = args
    times, losses = [], []
    for _ in range(steps + 1):
        begin = time.perf_counter()
        params, state, value = step(params, state, *batch)
        losses.append(float(value))
        times.append(time.perf_counter() - begin)
    return {"step": min(times[1:]), "losses": losses}


def main() -> None:
    options = arguments()
    step, args = make(options)
    if options.output:
        heddle.jax.export(step, *args, path=options.output, donate_argnums=(0, 1))
        return
    results = {"cores": os.cpu_count(), **vars(options)}
    if options.only != "xla":
        with tempfile.TemporaryDirectory() as folder:
            artifact = pathlib.Path(folder) / "step.heddle"
            begin = time.perf_counter()
            exported = heddle.jax.export(step, *args, donate_argnums=(0, 1))
            heddle.compile(exported.text, artifact)
            compiled = time.perf_counter()
            with Program(exported, artifact, (), options.cores) as program:
                results["heddle"] = {
                    "compile": compiled - begin,
                    "load": time.perf_counter() - compiled,
                    **measure(program, args, options.steps),
                }
    if options.only != "heddle":
        begin = time.perf_counter()
        executable = jax.jit(step, donate_argnums=(0, 1)).lower(*args).compile()
        compiled = time.perf_counter() - begin
        args = jax.tree.map(jnp.asarray, args)
        results["xla"] = {
            "compile": compiled,
            **measure(executable, args, options.steps),
        }
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
