"""ResNet-18 on images of 32x32 trains on four devices with PyTorch's losses.

Training amplifies rounding: batch norms of few elements and ReLUs turn a difference of
1e-7 into one of 1e-5 after three steps and of 1e-4 after six. PyTorch in float32
differs from PyTorch in float64 by as much, and so do two runs with sums in different
orders. So float64 is the reference here. After the first three steps, the bound of the
losses is the error of PyTorch's own rounding.
"""

import copy
import unittest

import heddle.torch
import parity
import resnet
import torch
from torch import nn

STEPS = 6
EXACT_STEPS = 3


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    options = {"momentum": 0.9, "weight_decay": 5e-4}
    return torch.optim.SGD(model.parameters(), lr=1e-3, **options)


class Twin:
    """PyTorch's training of a copy."""

    def __init__(self, model: nn.Module, **form: object) -> None:
        self.model = copy.deepcopy(model).to(**form)
        self.optimizer, self.form = _sgd(self.model), form

    def step(self, x: torch.Tensor, y: torch.Tensor) -> float:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x.to(**self.form)), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def _worst(got: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """Returns the largest difference among the running statistics."""
    return max(
        parity.distance(got[name].numpy(), value.numpy())
        for name, value in expected.items()
        if "running" in name
    )


class ResNet(unittest.TestCase):
    def test_training(self) -> None:
        torch.manual_seed(0)
        model = resnet.resnet18()
        batches = [
            (torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,)))
            for _ in range(STEPS)
        ]
        exact = Twin(model, dtype=torch.float64)
        twins = [Twin(model), Twin(model, memory_format=torch.channels_last)]
        with heddle.torch.Trainer(
            model,
            batches[0],
            _sgd(model),
            nn.CrossEntropyLoss(),
            {"mesh": {"dp": 4}},
        ) as trainer:
            rounding = 1e-5
            for step, batch in enumerate(batches, 1):
                expected = exact.step(*batch)
                own = [abs(t.step(*batch) - expected) / expected for t in twins]
                gap = abs(trainer.step(batch).loss - expected) / expected
                print(f"step {step}: Heddle {gap:.1e}, PyTorch {max(own):.1e}")
                if step <= EXACT_STEPS:
                    self.assertLess(gap, 1e-5)
                rounding = max(rounding, *own)
                self.assertLess(gap, 4 * rounding, f"step {step}")
                if step == EXACT_STEPS:
                    moved = _worst(trainer.state_dict(), exact.model.state_dict())
                    self.assertLess(moved, 1e-5)
            state = trainer.state_dict()
            moved = _worst(state, exact.model.state_dict())
            own = [
                _worst(t.model.state_dict(), exact.model.state_dict()) for t in twins
            ]
            print(f"running statistics: Heddle {moved:.1e}, PyTorch {max(own):.1e}")
            self.assertLess(moved, 4 * max(own))
            self.assertEqual(state["1.num_batches_tracked"], STEPS)
            # In eval() mode the statistics are read, not made.
            model.load_state_dict(state)
            logits = trainer.evaluate(batches[0])["logits"]
            with torch.no_grad():
                expected_logits = model.eval()(batches[0][0])
            self.assertLess(parity.distance(logits, expected_logits.numpy()), 1e-5)


if __name__ == "__main__":
    unittest.main()
