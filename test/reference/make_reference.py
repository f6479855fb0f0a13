"""Makes reference values with PyTorch and transformers, on the CPU, in f32.

    make_reference.py OUT                      the golden files of this folder
    make_reference.py OUT --random N --seed K  N models of random configuration

Each model becomes a folder:
    config.json, model.safetensors (or shards)   as save_pretrained writes them
    batch.safetensors      tokens, targets: i64, batch x sequence; the loss
                           ignores targets of -100
    training.json          the optimizer of the ten steps
    expected.safetensors   loss    mean cross-entropy over the other targets;
                                   target i belongs to token i (no shift)
                           logits  batch x sequence x vocabulary
                           grad.<name of the parameter>  of loss
                           losses  of ten AdamW steps on this batch, each before
                                   its update

Dropout is off. Weights are drawn from wide distributions, so that every parameter
affects the loss.
"""

import argparse
import json
import math
import random
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

IGNORED = -100
STEPS = 10
# The largest allowed differences between results in f32 and in f64. Beyond them
# a model is too sensitive for a reference, because a comparison could not tell
# other rounding from an error.
SENSITIVITY = {"losses": 2e-6, "gradients": 2e-5}

CONSTANT = {
    "learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
    "weight_decay": 0.01, "clip": 1.0, "schedule": "constant", "warmup": 0,
    "min_learning_rate": 0.0, "steps": STEPS,
}
COSINE = CONSTANT | {
    "learning_rate": 2e-3, "beta2": 0.95, "weight_decay": 0.1,
    "schedule": "cosine", "warmup": 3, "min_learning_rate": 2e-4,
}

NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}

# name: family, config, variations of the files, batch x sequence, training
GOLDEN = {
    "gpt2": ("gpt2", dict(
        vocab_size=61, n_positions=20, n_embd=24, n_layer=2, n_head=3,
        activation_function="gelu_new", **NO_DROPOUT),
        {}, (4, 12), CONSTANT),
    "gpt2-untied": ("gpt2", dict(
        vocab_size=53, n_positions=8, n_embd=12, n_layer=2, n_head=6,
        n_inner=20, activation_function="gelu", tie_word_embeddings=False,
        scale_attn_by_inverse_layer_idx=True, layer_norm_epsilon=1e-4,
        **NO_DROPOUT),
        {"base": False}, (2, 8), COSINE),
    "llama": ("llama", dict(
        vocab_size=61, hidden_size=24, intermediate_size=40,
        num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        max_position_embeddings=64),
        {"shard": "20KB"}, (4, 12), COSINE),
    "llama3": ("llama", dict(
        vocab_size=50, hidden_size=16, intermediate_size=20,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1,
        head_dim=6, attention_bias=True, mlp_bias=True,
        tie_word_embeddings=True, max_position_embeddings=512,
        rms_norm_eps=1e-5, rope_parameters=dict(
            rope_type="llama3", rope_theta=500.0, factor=8.0,
            low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=64)),
        {"old_keys": True, "dtype": torch.bfloat16, "base": True},
        (2, 16), CONSTANT),
}


def random_model(rng):
    """Returns a model like an entry of GOLDEN, with a random choice of everything
    that the importer supports."""
    family = rng.choice(["gpt2", "llama"])
    groups, members = rng.choice([1, 2, 3]), rng.choice([1, 2, 3])
    heads = groups * members
    sequence = rng.randint(3, 24)
    epsilon = rng.choice([1e-5, 1e-6, 1e-3])
    tied = rng.random() < 0.5
    vocabulary = rng.randint(17, 90)
    layers = rng.randint(1, 3)
    if family == "gpt2":
        config = dict(
            vocab_size=vocabulary, n_positions=sequence + rng.choice([0, 5]),
            n_embd=heads * rng.choice([2, 3, 4, 8]), n_layer=layers,
            n_head=heads, n_inner=rng.choice([None, 10, 33]),
            activation_function=rng.choice(
                ["gelu_new", "gelu", "gelu_pytorch_tanh", "relu", "silu"]),
            layer_norm_epsilon=epsilon, tie_word_embeddings=tied,
            scale_attn_weights=rng.random() < 0.8,
            scale_attn_by_inverse_layer_idx=rng.random() < 0.3, **NO_DROPOUT)
    else:
        rope = {"rope_type": rng.choice(["default", "linear", "llama3"]),
                "rope_theta": rng.choice([100.0, 500.0, 10000.0])}
        if rope["rope_type"] != "default":
            rope["factor"] = rng.choice([2.0, 8.0])
        if rope["rope_type"] == "llama3":
            rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": rng.choice([16, 64])}
        config = dict(
            vocab_size=vocabulary, hidden_size=heads * rng.choice([2, 4, 6]),
            intermediate_size=rng.randint(5, 50), num_hidden_layers=layers,
            num_attention_heads=heads, num_key_value_heads=groups,
            head_dim=rng.choice([2, 4, 6, 8]),
            hidden_act=rng.choice(["silu", "silu", "gelu"]),
            attention_bias=rng.random() < 0.3, mlp_bias=rng.random() < 0.3,
            tie_word_embeddings=tied, rms_norm_eps=epsilon,
            max_position_embeddings=512, rope_parameters=rope)
    odd = {"shard": rng.choice([None, "10KB"]),
           "old_keys": rng.random() < 0.5,
           "base": tied and rng.random() < 0.3,
           "dtype": rng.choice([torch.float32, torch.bfloat16, torch.float16])}
    training = rng.choice([CONSTANT, COSINE])
    return family, config, odd, (rng.randint(1, 4), sequence), training


def make_model(family, config, odd):
    classes = {"gpt2": (GPT2Config, GPT2LMHeadModel),
               "llama": (LlamaConfig, LlamaForCausalLM)}
    make_config, make = classes[family]
    model = make(make_config(**config, attn_implementation="eager"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            normal = torch.randn_like(parameter)
            if parameter.dim() > 1:
                value = 0.2 * normal
            elif name.endswith("bias"):
                value = 0.1 * normal
            else:  # the scale of a normalization
                value = 1 + 0.1 * normal
            # Rounds to the file's type, so that the file holds the exact values.
            parameter.copy_(value.to(odd.get("dtype", torch.float32)))
    return model


def make_batch(vocabulary, batch, sequence, generator):
    shape = (batch, sequence)
    tokens = torch.randint(vocabulary, shape, generator=generator)
    targets = torch.randint(vocabulary, shape, generator=generator)
    ignored = torch.rand(shape, generator=generator) < 0.2
    ignored[0, 0] = False  # at least one target counts
    return tokens, targets.masked_fill(ignored, IGNORED)


def loss_of(model, tokens, targets):
    logits = model(input_ids=tokens, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
    return loss, logits


def learning_rate(training, step):
    """Returns the learning rate of the update after `step` updates: a linear
    warm-up to the full rate, and then a constant rate or half a cosine down to
    the minimum."""
    full, least = training["learning_rate"], training["min_learning_rate"]
    warmup = training["warmup"]
    if step < warmup:
        return full * (step + 1) / warmup
    if training["schedule"] == "constant":
        return full
    progress = (step - warmup) / max(1, training["steps"] - warmup)
    return least + 0.5 * (1 + math.cos(math.pi * progress)) * (full - least)


def train(model, tokens, targets, training):
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": training["weight_decay"]},
         {"params": others, "weight_decay": 0.0}],
        betas=(training["beta1"], training["beta2"]), eps=training["epsilon"])
    losses = []
    for step in range(training["steps"]):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(training, step)
        optimizer.zero_grad()
        loss, _ = loss_of(model, tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), training["clip"])
        optimizer.step()
        losses.append(loss.item())
    return losses


def write_model(folder, model, odd):
    """Saves the model by save_pretrained, in a form of files that older or newer
    versions of transformers write."""
    saved = model.base_model if odd.get("base") else model
    kind = odd.get("dtype", torch.float32)
    state = {k: v.to(kind) for k, v in saved.state_dict().items()
             if not (k == "lm_head.weight" and model.config.tie_word_embeddings)}
    options = {"max_shard_size": odd["shard"]} if odd.get("shard") else {}
    saved.save_pretrained(folder, state_dict=state, **options)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["architectures"] = [type(model).__name__]
    if odd.get("old_keys"):  # transformers before 5
        config["torch_dtype"] = config.pop("dtype", "float32")
        rope = config.pop("rope_parameters", None)
        if rope is not None:
            config["rope_theta"] = rope.pop("rope_theta")
            scaled = rope["rope_type"] != "default"
            config["rope_scaling"] = rope if scaled else None
    path.write_text(json.dumps(config, indent=2) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)


def gradients(model, tokens, targets):
    model.zero_grad()
    loss, logits = loss_of(model, tokens, targets)
    loss.backward()
    return loss.detach(), logits.detach(), {
        name: p.grad.clone() for name, p in model.named_parameters()}


def make(folder, family, config, odd, shape, training, seed):
    """Returns whether the model is insensitive enough, and what was found."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = make_model(family, config, odd)
    tokens, targets = make_batch(config["vocab_size"], *shape, generator)
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder, model, odd)

    loss, logits, grads = gradients(model, tokens, targets)
    read = type(model).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager")
    if not torch.equal(loss_of(read, tokens, targets)[1], logits):
        sys.exit(f"{folder}: what was written does not read back as it was")

    state = {k: v.clone() for k, v in model.state_dict().items()}
    losses = train(model, tokens, targets, training)
    model.load_state_dict(state)
    model.double()
    exact_grads = gradients(model, tokens, targets)[2]
    exact_losses = train(model, tokens, targets, training)

    expected = {"loss": loss, "logits": logits, "losses": torch.tensor(losses)}
    expected |= {"grad." + name: grad for name, grad in grads.items()}
    save_file({"tokens": tokens, "targets": targets},
              folder / "batch.safetensors")
    save_file({k: v.contiguous() for k, v in expected.items()},
              folder / "expected.safetensors")
    (folder / "training.json").write_text(json.dumps(training, indent=2) + "\n")

    found = {
        "losses": max(abs(a - b) / b for a, b in zip(losses, exact_losses)),
        "gradients": max(((grads[n] - g).norm() / g.norm()).item()
                         for n, g in exact_grads.items()),
    }
    return all(found[k] <= SENSITIVITY[k] for k in found), ", ".join(
        f"{key} of f32 and f64 differ by {value:.1e}"
        for key, value in found.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--random", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    if options.random is None:
        for seed, (name, model) in enumerate(GOLDEN.items()):
            good, found = make(options.out / name, *model, seed=seed)
            print(f"{name}: {found}")
            if not good:
                sys.exit(f"{name} is too sensitive for a reference")
        return
    for i in range(options.random):
        # A model that is too sensitive is replaced by another.
        for attempt in range(20):
            seed = options.seed * 1_000_003 + i * 101 + attempt
            model = random_model(random.Random(seed))
            folder = options.out / f"random-{options.seed}-{i}"
            for old in folder.glob("*"):
                old.unlink()
            good, found = make(folder, *model, seed=seed)
            if good:
                break
            print(f"{folder}: replaced, as {found}")
        else:
            sys.exit("no model of 20 was insensitive enough")
        family, config, odd, shape, _ = model
        print(f"{folder}: {family} {config} {odd} batch {shape}", flush=True)


if __name__ == "__main__":
    main()
