"""Models of transformers beyond the nine architectures: other attention, mixtures,
state spaces, images with text, sound."""

import os
import unittest
from collections.abc import Callable
from typing import Any

import parity
import torch
import transformers as tf

Case = tuple[torch.nn.Module, dict[str, Any]]
CASES: dict[str, Callable[[], Case]] = {}
PLANS = {"one": None, "four": {"mesh": {"dp": 2, "tp": 2}, "zero": 3}}
SIZES = dict(
    vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
    num_attention_heads=4,
)  # fmt: skip
GROUPS = SIZES | {"num_key_value_heads": 2, "head_dim": 6, "use_cache": False}
NO_DROPOUT = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def _text(model: torch.nn.Module, answer: int = 8) -> Case:
    ids = torch.randint(3, 53, (4, 8))
    return model, {"input_ids": ids, "labels": ids[:, :answer].clone()}


def _images(model: torch.nn.Module, size: int) -> Case:
    images = torch.randn(4, 3, size, size)
    return model, {"pixel_values": images, "labels": torch.randint(0, 5, (4,))}


@case
def t5() -> Case:
    """Trained biases of scores, and cross attention."""
    config = tf.T5Config(
        vocab_size=61, d_model=24, d_kv=6, d_ff=40, num_layers=2, num_heads=4,
        dropout_rate=0, use_cache=False, decoder_start_token_id=0,
    )  # fmt: skip
    return _text(tf.T5ForConditionalGeneration(config), 6)


@case
def mistral() -> Case:
    """A window that is shorter than the sequence."""
    return _text(tf.MistralForCausalLM(tf.MistralConfig(**GROUPS, sliding_window=3)))


@case
def mixtral() -> Case:
    """Experts, which PyTorch groups by sizes that depend on values."""
    config = tf.MixtralConfig(**GROUPS, num_local_experts=4, num_experts_per_tok=2)
    return _text(tf.MixtralForCausalLM(config))


@case
def gemma2() -> Case:
    config = tf.Gemma2Config(**GROUPS, sliding_window=3, attention_dropout=0.0)
    return _text(tf.Gemma2ForCausalLM(config))


@case
def bloom() -> Case:
    """Biases for distances, and a gelu with a backward of its own."""
    config = tf.BloomConfig(
        vocab_size=61, hidden_size=24, n_layer=2, n_head=4, use_cache=False,
        hidden_dropout=0, attention_dropout=0,
    )  # fmt: skip
    return _text(tf.BloomForCausalLM(config))


@case
def deberta() -> Case:
    """Attention to relative positions, gathered."""
    config = tf.DebertaV2Config(
        **SIZES, **NO_DROPOUT, max_position_embeddings=16, relative_attention=True,
        pos_att_type=["p2c", "c2p"], position_buckets=4, type_vocab_size=0,
    )  # fmt: skip
    return _text(tf.DebertaV2ForMaskedLM(config))


@case
def mamba() -> Case:
    config = tf.MambaConfig(
        vocab_size=61, hidden_size=16, state_size=4, num_hidden_layers=1,
        use_cache=False,
    )  # fmt: skip
    return _text(tf.MambaForCausalLM(config))


@case
def clip() -> Case:
    sizes = dict(
        hidden_size=24, intermediate_size=40, num_hidden_layers=1,
        num_attention_heads=4,
    )  # fmt: skip
    text = sizes | dict(vocab_size=61, max_position_embeddings=16, eos_token_id=2)
    images = sizes | dict(image_size=8, patch_size=4)
    config = tf.CLIPConfig(text_config=text, vision_config=images, projection_dim=12)
    batch = {
        "input_ids": torch.randint(3, 53, (4, 8)),
        "pixel_values": torch.randn(4, 3, 8, 8),
        "return_loss": True,
    }
    return tf.CLIPModel(config), batch


@case
def convnext() -> Case:
    config = tf.ConvNextConfig(
        num_channels=3, patch_size=2, hidden_sizes=[8, 12, 16, 20],
        depths=[1, 1, 2, 1], image_size=16, num_labels=5,
    )  # fmt: skip
    return _images(tf.ConvNextForImageClassification(config), 16)


@case
def swin() -> Case:
    config = tf.SwinConfig(
        image_size=16, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 2],
        window_size=2, num_labels=5, drop_path_rate=0.0,
    )  # fmt: skip
    return _images(tf.SwinForImageClassification(config), 16)


class OtherModels(unittest.TestCase):
    def test_models(self) -> None:
        """On one device and, if HEDDLE_LONG_TESTS is set, also on four."""
        long = "HEDDLE_LONG_TESTS" in os.environ
        for where in PLANS if long else ("one",):
            for name, make in CASES.items():
                with self.subTest(name, plan=where):
                    torch.manual_seed(0)
                    model, batch = make()
                    done = parity.check(model.train(), batch, plan=PLANS[where])
                    print(name, where, done)


if __name__ == "__main__":
    unittest.main()
