"""The nine architectures of the sixteen models, at reduced size."""

import random
from collections.abc import Callable
from typing import Any

import torch
import transformers as tf

Case = tuple[torch.nn.Module, dict[str, Any]]
ROWS, LENGTH, WORDS = 4, 8, 53


def _ids(*shape: int, low: int = 0) -> torch.Tensor:
    return torch.randint(low, WORDS, shape)


def _causal(model: torch.nn.Module) -> Case:
    ids = _ids(ROWS, LENGTH)
    return model, {"input_ids": ids, "labels": ids}


def _masked(model: torch.nn.Module) -> Case:
    ids = _ids(ROWS, LENGTH)
    labels = torch.where(torch.rand(ids.shape) < 0.5, ids, -100)
    labels[0, 0] = ids[0, 0]
    return model, {"input_ids": ids, "labels": labels}


def gpt2(**other: Any) -> Case:
    sizes = dict(vocab_size=61, n_positions=16, n_embd=24, n_layer=2, n_head=4)
    rates = dict(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False)
    return _causal(tf.GPT2LMHeadModel(tf.GPT2Config(**(sizes | rates | other))))


def llama(**other: Any) -> Case:
    sizes = dict(
        vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=64,
        use_cache=False,
    )  # fmt: skip
    return _causal(tf.LlamaForCausalLM(tf.LlamaConfig(**(sizes | other))))


def gpt_neo(**other: Any) -> Case:
    sizes = dict(
        vocab_size=61, hidden_size=24, num_layers=2, num_heads=4, window_size=4,
        attention_types=[[["global", "local"], 1]], max_position_embeddings=16,
        resid_dropout=0, embed_dropout=0, attention_dropout=0, use_cache=False,
    )  # fmt: skip
    return _causal(tf.GPTNeoForCausalLM(tf.GPTNeoConfig(**(sizes | other))))


def gptj(**other: Any) -> Case:
    sizes = dict(
        vocab_size=61, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=16,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False,
    )  # fmt: skip
    return _causal(tf.GPTJForCausalLM(tf.GPTJConfig(**(sizes | other))))


def opt(**other: Any) -> Case:
    sizes = dict(
        vocab_size=61, hidden_size=24, word_embed_proj_dim=24, ffn_dim=40,
        num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=16,
        dropout=0, attention_dropout=0, layerdrop=0, use_cache=False,
    )  # fmt: skip
    return _causal(tf.OPTForCausalLM(tf.OPTConfig(**(sizes | other))))


_ENCODER = dict(
    vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
    num_attention_heads=4, max_position_embeddings=16, hidden_dropout_prob=0,
    attention_probs_dropout_prob=0,
)  # fmt: skip


def bert(**other: Any) -> Case:
    return _masked(tf.BertForMaskedLM(tf.BertConfig(**(_ENCODER | other))))


def electra(**other: Any) -> Case:
    config = tf.ElectraConfig(**(_ENCODER | {"embedding_size": 16} | other))
    return _masked(tf.ElectraForMaskedLM(config))


def whisper(**other: Any) -> Case:
    sizes = dict(
        vocab_size=61, num_mel_bins=6, encoder_layers=2, encoder_attention_heads=4,
        decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=40,
        encoder_ffn_dim=40, d_model=24, max_source_positions=8,
        max_target_positions=16, dropout=0, attention_dropout=0, activation_dropout=0,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        use_cache=False, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    model = tf.WhisperForConditionalGeneration(tf.WhisperConfig(**(sizes | other)))
    sound = torch.randn(ROWS, model.config.num_mel_bins, 16)
    return model, {"input_features": sound, "labels": _ids(ROWS, LENGTH, low=3)}


def vit(**other: Any) -> Case:
    sizes = dict(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=40, image_size=8, patch_size=4, num_channels=3,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0, num_labels=5,
    )  # fmt: skip
    model = tf.ViTForImageClassification(tf.ViTConfig(**(sizes | other)))
    pixels = torch.randn(ROWS, 3, 8, 8)
    return model, {"pixel_values": pixels, "labels": torch.randint(0, 3, (ROWS,))}


FAMILIES: dict[str, Callable[..., Case]] = {
    case.__name__: case
    for case in (gpt2, llama, gpt_neo, gptj, opt, bert, electra, whisper, vit)
}
TEXT = ("gpt2", "llama", "gpt_neo", "gptj", "opt", "bert", "electra")
MASKED = (*TEXT, "whisper")


def make(name: str, mask: bool = False, **other: Any) -> Case:
    """Returns a model in train() mode and a batch, perhaps with a mask of padding."""
    torch.manual_seed(1)
    model, batch = FAMILIES[name](**other)
    if mask and name in MASKED:
        seen = torch.ones(ROWS, LENGTH, dtype=torch.int64)
        seen[1, -3:] = 0
        seen[2, -1:] = 0
        batch["labels"] = torch.where(seen.bool(), batch["labels"], -100)
        if name == "whisper":
            batch["decoder_attention_mask"] = seen
            return model.train(), batch
        batch["attention_mask"] = seen
        padding = model.config.pad_token_id or 0
        batch["input_ids"] = torch.where(seen.bool(), batch["input_ids"], padding)
    return model.train(), batch


def random_sizes(name: str, seed: int) -> dict[str, Any]:
    """Returns sizes for a configuration of the family. The axes of a mesh need not
    divide them."""
    draw = random.Random(f"{name}{seed}").choice
    heads, size, layers = draw([2, 3, 4, 5]), draw([4, 6, 8]), draw([1, 2, 3])
    inner = draw([16, 28, 37, 48])
    width = heads * size
    if name == "gpt2":
        return dict(
            n_embd=width, n_head=heads, n_layer=layers, n_inner=inner,
            activation_function=draw(["gelu_new", "gelu", "relu", "silu"]),
            scale_attn_by_inverse_layer_idx=draw([False, True]),
            tie_word_embeddings=draw([False, True]), vocab_size=draw([53, 61, 64]),
        )  # fmt: skip
    if name == "gptj":
        return dict(
            n_embd=width, n_head=heads, n_layer=layers, n_inner=inner,
            rotary_dim=draw([2, 4]), vocab_size=draw([53, 61, 64]),
        )  # fmt: skip
    if name == "gpt_neo":
        kinds = [draw(["global", "local"]) for _ in range(layers)]
        return dict(
            hidden_size=width, num_heads=heads, num_layers=layers,
            attention_types=[[kinds, 1]], window_size=draw([2, 3, 5]),
            intermediate_size=inner, vocab_size=draw([53, 61, 64]),
        )  # fmt: skip
    if name == "whisper":
        return dict(
            d_model=width, encoder_attention_heads=heads,
            decoder_attention_heads=heads, encoder_layers=layers,
            decoder_layers=draw([1, 2]), encoder_ffn_dim=inner,
            decoder_ffn_dim=draw([16, 37]), num_mel_bins=draw([4, 5, 6]),
        )  # fmt: skip
    common = dict(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads
    )
    if name == "opt":
        before = draw([True, False])
        return common | dict(
            ffn_dim=inner, do_layer_norm_before=before,
            word_embed_proj_dim=draw([width, 10]) if before else width,
            vocab_size=draw([53, 61, 64]),
        )  # fmt: skip
    if name == "llama":
        shared = draw([n for n in range(1, heads + 1) if heads % n == 0])
        return common | dict(
            intermediate_size=inner, num_key_value_heads=shared,
            attention_bias=draw([False, True]), mlp_bias=draw([False, True]),
            tie_word_embeddings=draw([False, True]), vocab_size=draw([53, 61, 64]),
        )  # fmt: skip
    common["intermediate_size"] = inner
    if name == "vit":
        patch = draw([2, 4])
        return common | dict(
            patch_size=patch, qkv_bias=draw([False, True]), num_labels=draw([3, 5])
        )
    common["hidden_act"] = draw(["gelu", "relu"])
    if name == "electra":
        common["embedding_size"] = draw([10, 16, width])
    return common | dict(vocab_size=draw([61, 64]))
