"""A training step of GPT-2 in JAX: Heddle against its own import and XLA.

usage: PYTHONPATH=python python3 bench/jax/gpt2.py [--layers 12] [--steps 3] ...

The JAX function is compiled by Heddle and by XLA's CPU backend: f32, a joint
projection of queries, keys and values, a tied table, integer labels, optax's AdamW
with clipping by the global norm. Heddle's own import is the config of the same model
(`heddle compile DIR`), without dropout. All run step by step in turn in one process.
Prints the seconds to compile, the memory that Heddle's compiler plans, the best time
of a step, the losses of the JAX function, and ratios. Heddle takes memory for the
program when it is loaded, XLA at the first step; neither counts as compiling.
"""

import argparse
import contextlib
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Collection
from typing import Any

import heddle
import heddle.jax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from heddle.jax.program import Program

KINDS = ["heddle", "import", "xla"]


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
    parser.add_argument(
        "--only", action="append", choices=KINDS, help="(default: all three)"
    )
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


def training(step: Callable[..., Any], args: Any) -> Callable[[], float]:
    """Returns a function that takes a step and returns its loss."""
    params, state, *batch = args

    def call() -> float:
        nonlocal params, state
        params, state, value = step(params, state, *batch)
        return float(value)

    return call


def measure(
    steps: dict[str, Callable[[], float]], count: int
) -> dict[str, dict[str, Any]]:
    """Takes a first step of each, which touches new memory, then `count` in turn."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    losses: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(count + 1):
        for name, step in steps.items():
            begin = time.perf_counter()
            losses[name].append(step())
            times[name].append(time.perf_counter() - begin)
    return {
        name: {"step": min(times[name][1:]), "losses": losses[name]} for name in steps
    }


def own_import(options: argparse.Namespace, folder: pathlib.Path) -> pathlib.Path:
    """Compiles the config of the model."""
    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_layer": options.layers,
        "n_embd": options.width,
        "n_head": options.heads,
        "n_positions": options.length,
        "vocab_size": options.vocabulary,
        **rates,
    }
    (folder / "config.json").write_text(json.dumps(config))
    shape = ["--batch", str(options.batch), "--seq", str(options.length)]
    return heddle.compile(folder, folder / "import.heddle", flags=shape)


def planned_memory(artifact: pathlib.Path, program: str) -> int:
    programs = json.loads((artifact / "manifest.json").read_text())["programs"]
    return next(int(p["arena_bytes"]) for p in programs if p["name"] == program)


def compare(
    options: argparse.Namespace, kinds: Collection[str], folder: pathlib.Path
) -> dict[str, Any]:
    step, args = make(options)
    results: dict[str, Any] = {kind: {} for kind in kinds}
    steps: dict[str, Callable[[], float]] = {}
    with contextlib.ExitStack() as stack:
        if "heddle" in kinds:
            artifact = folder / "step.heddle"
            begin = time.perf_counter()
            exported = heddle.jax.export(step, *args, donate_argnums=(0, 1))
            heddle.compile(exported.text, artifact)
            results["heddle"]["compile"] = time.perf_counter() - begin
            results["heddle"]["arena"] = planned_memory(artifact, "main")
            program = Program(exported, artifact, (), options.cores)
            steps["heddle"] = training(stack.enter_context(program), args)
        if "import" in kinds:
            begin = time.perf_counter()
            artifact = own_import(options, folder)
            results["import"]["compile"] = time.perf_counter() - begin
            results["import"]["arena"] = planned_memory(artifact, "step")
            session = heddle.Session(artifact, cores_per_device=options.cores)
            steps["import"] = _session_step(stack.enter_context(session), args)
        if "xla" in kinds:
            begin = time.perf_counter()
            jitted = jax.jit(step, donate_argnums=(0, 1)).lower(*args)
            executable = jitted.compile()
            results["xla"]["compile"] = time.perf_counter() - begin
            steps["xla"] = training(executable, jax.tree.map(jnp.asarray, args))
        for name, measured in measure(steps, options.steps).items():
            results[name] |= measured
    return results


def _session_step(session: heddle.Session, args: Any) -> Callable[[], float]:
    """Returns a function that takes a step of Heddle's own import."""
    *_, tokens, targets = args
    inputs = {"tokens": tokens, "targets": targets}
    ports = session.table("step").inputs
    batch = [inputs[port.name].reshape(port.shape) for port in ports]

    def call() -> float:
        outputs = session.run("step", batch)
        return float(outputs["loss"]) if "loss" in outputs else 0.0

    return call


def main() -> None:
    options = arguments()
    if options.output:
        step, args = make(options)
        heddle.jax.export(step, *args, path=options.output, donate_argnums=(0, 1))
        return
    kinds = options.only or KINDS
    with tempfile.TemporaryDirectory() as folder:
        results = compare(options, kinds, pathlib.Path(folder))
    ratios = {}
    if "heddle" in kinds:
        ours = results["heddle"]
        if "import" in kinds:
            other = results["import"]
            ratios["time to import"] = ours["step"] / other["step"]
            ratios["memory to import"] = ours["arena"] / other["arena"]
        if "xla" in kinds:
            other = results["xla"]
            ratios["XLA's time"] = other["step"] / ours["step"]
            ratios["XLA's compilation"] = other["compile"] / ours["compile"]
    print(
        json.dumps(
            {"cores": os.cpu_count(), **vars(options), **results, "ratios": ratios},
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
