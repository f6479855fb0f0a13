"""Trains a small GPT-2 on four devices beside PyTorch, and compares losses."""

import copy

import heddle.torch
import torch
import transformers

torch.manual_seed(0)
config = transformers.GPT2Config(
    vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=4, use_cache=False,
    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
)  # fmt: skip
model = transformers.GPT2LMHeadModel(config)
twin = copy.deepcopy(model)
text = torch.frombuffer(bytearray(open(__file__, "rb").read()), dtype=torch.uint8)
windows = text[: len(text) // 64 * 64].view(-1, 64).long()


def batch(step: int) -> dict[str, torch.Tensor]:
    ids = windows[torch.arange(8) * (step + 1) % len(windows)]
    return {"input_ids": ids, "labels": ids}


optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
other = torch.optim.AdamW(twin.parameters(), lr=1e-3)
plan = {"mesh": {"dp": 2, "tp": 2}, "zero": 3}
with heddle.torch.Trainer(model, batch(0), optimizer, plan=plan) as trainer:
    for step in range(20):
        ours = trainer.step(batch(step)).loss
        other.zero_grad()
        theirs = twin(**batch(step)).loss
        theirs.backward()
        other.step()
        print(f"step {step + 1}: Heddle {ours:.6f}, PyTorch {theirs.item():.6f}")
        assert abs(ours - theirs.item()) < 1e-4 * theirs.item()
    model.load_state_dict(trainer.state_dict())
