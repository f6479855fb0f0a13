"""Makes inputs of the driver's tests.

    make.py gpt2 FOLDER [KEY=VALUE ...]    a tiny model's config.json
    make.py llama FOLDER [KEY=VALUE ...]
    make.py text FILE TOKENS VOCABULARY    bytes below the vocabulary
    make.py batch FILE ROWS SEQUENCE VOCABULARY

A VALUE is JSON; `KEY=` removes the key.
"""

import json
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent / "numerics"))
sys.dont_write_bytecode = True

import tensors  # noqa: E402

GPT2 = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 40, "n_positions": 16, "n_embd": 16, "n_layer": 2,
    "n_head": 2, "n_inner": None, "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.1, "embd_pdrop": 0.1,
    "attn_pdrop": 0.1, "initializer_range": 0.02, "tie_word_embeddings": True}
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"],
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": False,
    "initializer_range": 0.02}


def numbers(count, limit):
    state, values = 1, []
    for _ in range(count):
        state = (1103515245 * state + 12345) % 2**31
        values.append((state >> 8) % limit)
    return values


command, target, *rest = sys.argv[1:]
target = pathlib.Path(target)
if command in ("gpt2", "llama"):
    config = dict(GPT2 if command == "gpt2" else LLAMA)
    for change in rest:
        key, value = change.split("=", 1)
        if value:
            config[key] = json.loads(value)
        else:
            del config[key]
    target.mkdir(parents=True, exist_ok=True)
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")
elif command == "text":
    target.write_bytes(bytes(numbers(int(rest[0]), int(rest[1]))))
elif command == "batch":
    rows, sequence, vocabulary = map(int, rest)
    tensors.write(target, {"tokens": tensors.Tensor(
        "I32", (rows, sequence), numbers(rows * sequence, vocabulary))})
else:
    sys.exit(__doc__)
