"""Compares a model imported from PyTorch with the import of its config.

    python bench/torch/imports.py [gpt2] [llama] [--steps 5]

Both are compiled with the same flags, for one device, and run step by step in turn
in one process. Prints the memory that the compiler plans and the best time of a step.
Needs PyTorch, transformers and the heddle package (see python/RATIONALE.md).
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

# GPT-2 124M, and a Llama of about as many parameters. No dropout.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "llama": (
        "LlamaForCausalLM",
        dict(
            hidden_size=768, intermediate_size=2048, num_hidden_layers=12,
            num_attention_heads=12, num_key_value_heads=4, vocab_size=32000,
            max_position_embeddings=1024, tie_word_embeddings=True,
        ),
    ),
}  # fmt: skip


def artifacts(
    name: str, folder: pathlib.Path, options: argparse.Namespace
) -> dict[str, pathlib.Path]:
    """Compiles the config and the module."""
    import heddle.torch
    import transformers
    from heddle.compiler import compile
    from heddle.torch.hugging_face import empty_parameters, example, place_parameters

    kind, sizes = MODELS[name]
    model_class = getattr(transformers, kind)
    config = model_class.config_class(**sizes, use_cache=False)
    config.architectures = [kind]
    config.save_pretrained(folder)
    with empty_parameters():
        model = model_class(config)
    batch = example(place_parameters(model).train(), options.batch, options.seq)
    source = folder / "torch.mlir"
    source.write_text(heddle.torch.export(model, batch).text)
    shape = ["--batch", str(options.batch), "--seq", str(options.seq)]
    return {
        "config": compile(folder, folder / "config.heddle", flags=shape),
        "torch": compile(source, folder / "torch.heddle", flags=[]),
    }


def arena(artifact: pathlib.Path) -> int:
    programs = json.loads((artifact / "manifest.json").read_text())["programs"]
    return next(int(p["arena_bytes"]) for p in programs if p["name"] == "step")


def step_times(
    paths: dict[str, pathlib.Path], options: argparse.Namespace
) -> dict[str, float]:
    """Returns the best seconds of a step of each artifact."""
    from heddle.session import Session

    sessions = {name: Session(path) for name, path in paths.items()}
    random, times = np.random.default_rng(0), dict.fromkeys(sessions, float("inf"))
    for step in range(options.steps + 1):
        for name, session in sessions.items():
            inputs = [
                random.integers(0, 1000, port.shape, np.int32)
                for port in session.table("step").inputs
            ]
            begin = time.perf_counter()
            session.run("step", inputs)
            seconds = time.perf_counter() - begin
            if step:  # the first one touches new memory
                times[name] = min(times[name], seconds)
    for session in sessions.values():
        session.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help="(default: all)")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    print(f"{'model':8}{'':8}{'arena MiB':>12}{'step s':>10}")
    for name in options.models or MODELS:
        if name not in MODELS:
            parser.error(f"no model {name}; there are {', '.join(MODELS)}")
        with tempfile.TemporaryDirectory() as folder:
            paths = artifacts(name, pathlib.Path(folder), options)
            sizes = {kind: arena(path) / 2**20 for kind, path in paths.items()}
            times = step_times(paths, options)
        for kind in paths:
            print(f"{name:8}{kind:8}{sizes[kind]:12.1f}{times[kind]:10.3f}")
        ratios = sizes["torch"] / sizes["config"], times["torch"] / times["config"]
        print(f"{name:8}{'ratio':8}{ratios[0]:12.3f}{ratios[1]:10.3f}", flush=True)


if __name__ == "__main__":
    main()
