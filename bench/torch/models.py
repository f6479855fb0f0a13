"""Imports the sixteen models at true size and compiles them for eight devices.

    python bench/torch/models.py [MODEL...] [--mesh dp=2,tp=4] [--seq 512]

All elements of a parameter share one number, so parameters take almost no memory. Prints
for each model the seconds of PyTorch's export, of the rest of the import, and of the
compilation. Prints the peak memory of the process that imports and of the one that
compiles. Needs PyTorch, transformers and the heddle package (see python/RATIONALE.md).
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

ROPE = {
    "rope_type": "llama3", "rope_theta": 500000.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
}  # fmt: skip


def _gpt2(width: int, layers: int, heads: int) -> tuple[str, dict[str, Any]]:
    return "GPT2LMHeadModel", dict(n_embd=width, n_layer=layers, n_head=heads)


def _opt(width: int, layers: int) -> tuple[str, dict[str, Any]]:
    sizes = dict(hidden_size=width, ffn_dim=4 * width, word_embed_proj_dim=width)
    heads = width // 128
    return "OPTForCausalLM", sizes | dict(
        num_hidden_layers=layers, num_attention_heads=heads
    )


def _llama(
    width: int, inner: int, layers: int, heads: int, groups: int, **other: Any
) -> tuple[str, dict[str, Any]]:
    sizes = dict(
        hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=groups, rms_norm_eps=1e-5,
    )  # fmt: skip
    return "LlamaForCausalLM", sizes | other


_LLAMA3: dict[str, Any] = dict(vocab_size=128256, max_position_embeddings=131072)

# The class and the sizes of each model's published configuration.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": _gpt2(768, 12, 12),
    "gpt2-medium": _gpt2(1024, 24, 16),
    "gpt2-large": _gpt2(1280, 36, 20),
    "gpt2-xl": _gpt2(1600, 48, 25),
    "gpt-neo-2.7B": (
        "GPTNeoForCausalLM",
        dict(
            hidden_size=2560, num_layers=32, num_heads=20, window_size=256,
            attention_types=[[["global", "local"], 16]],
        ),
    ),
    "gpt-j-6b": ("GPTJForCausalLM", {}),
    "bert-base-cased": ("BertForMaskedLM", dict(vocab_size=28996)),
    "opt-6.7b": _opt(4096, 32),
    "opt-13b": _opt(5120, 40),
    "Llama-2-13b": _llama(5120, 13824, 40, 40, 40, max_position_embeddings=4096),
    "Meta-Llama-3-8B": _llama(
        4096, 14336, 32, 32, 8, vocab_size=128256, max_position_embeddings=8192,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
    ),
    "Llama-3.2-1B": _llama(
        2048, 8192, 16, 32, 8, tie_word_embeddings=True, head_dim=64,
        rope_parameters=ROPE | {"factor": 32.0}, **_LLAMA3,
    ),
    "Llama-3.3-70B": _llama(
        8192, 28672, 80, 64, 8, rope_parameters=ROPE | {"factor": 8.0}, **_LLAMA3
    ),
    "whisper-small": (
        "WhisperForConditionalGeneration",
        dict(
            vocab_size=51865, d_model=768, encoder_layers=12, decoder_layers=12,
            encoder_attention_heads=12, decoder_attention_heads=12,
            encoder_ffn_dim=3072, decoder_ffn_dim=3072,
        ),
    ),
    "electra-base-generator": (
        "ElectraForMaskedLM",
        dict(
            embedding_size=768, hidden_size=256, intermediate_size=1024,
            num_attention_heads=4, num_hidden_layers=12,
        ),
    ),
    "vit-base-patch16-224": ("ViTForImageClassification", dict(num_labels=1000)),
}  # fmt: skip


def _build(name: str) -> Any:
    import transformers
    from heddle.torch.hugging_face import empty_parameters, place_parameters

    kind, sizes = MODELS[name]
    model_class = getattr(transformers, kind)
    config = model_class.config_class(**sizes)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    with empty_parameters():
        model = model_class(config)
    return place_parameters(model).train()


def _timed(owner: Any, name: str, spent: list[float]) -> None:
    """Adds the time of each call of a function to `spent`."""
    function: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            spent.append(time.perf_counter() - begin)

    setattr(owner, name, call)


def _import(name: str, options: argparse.Namespace, output: pathlib.Path) -> None:
    """Writes the module and prints the import's times and memory. Runs in a process of
    its own."""
    import heddle.torch
    import torch
    from heddle.torch.hugging_face import example

    begin = time.perf_counter()
    model = _build(name)
    built = time.perf_counter() - begin
    positions = getattr(model.config, "max_position_embeddings", options.seq)
    positions = getattr(model.config, "max_target_positions", positions)
    length = min(options.seq, positions)
    batch = example(model, options.batch, length, options.attention_mask)
    exports: list[float] = []
    _timed(torch.export, "export", exports)
    _timed(torch.export.ExportedProgram, "run_decompositions", exports)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    module = heddle.torch.export(model, batch)
    total = time.perf_counter() - begin
    output.write_text(module.text)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        json.dumps(
            {
                "build": built, "export": sum(exports), "import": total - sum(exports),
                "import_rss": peak * 1024, "base_rss": base * 1024,
                "text": len(module.text),
            }
        )
    )  # fmt: skip


_FIGURES = ("export s", "import s", "GiB", "compile s", "GiB", "text MB")


def _row(name: str, options: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "model.mlir"
        command = [sys.executable, __file__, name, "--import-to", str(source)]
        command += ["--batch", str(options.batch), "--seq", str(options.seq)]
        command += ["--attention-mask"] * options.attention_mask
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return f"{name:24} {done.stderr.strip().splitlines()[-1]}"
        found = json.loads(done.stdout.splitlines()[-1])
        from heddle import _find

        compiler = str(_find.program("heddle"))
        command = [compiler, "compile", str(source), "-o", f"{folder}/a.heddle"]
        begin = time.perf_counter()
        command += ["--mesh", options.mesh, *options.flags]
        log = pathlib.Path(folder) / "log"
        with log.open("w") as stream:
            child = subprocess.Popen(command, stdout=stream, stderr=stream)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begin
        if status:
            return f"{name:24} {log.read_text().strip().splitlines()[-1]}"
    figures = [
        found["export"], found["import"], found["import_rss"] / 2**30, seconds,
        usage.ru_maxrss / 2**20, found["text"] / 1e6,
    ]  # fmt: skip
    return f"{name:24}" + "".join(f"{figure:>11.2f}" for figure in figures)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help="(default: all)")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=512)
    parser.add_argument("--mesh", default="dp=2,tp=4")
    parser.add_argument("--attention-mask", action="store_true")
    parser.add_argument("--flag", dest="flags", action="append", default=[])
    parser.add_argument("--import-to", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.models:
        if name not in MODELS:
            parser.error(f"no model {name}; there are {', '.join(MODELS)}")
    return options


def main() -> None:
    options = _parse()
    if options.import_to:
        return _import(options.models[0], options, options.import_to)
    print(f"{'model':24}" + "".join(f"{name:>11}" for name in _FIGURES))
    for name in options.models or MODELS:
        print(_row(name, options), flush=True)


if __name__ == "__main__":
    main()
