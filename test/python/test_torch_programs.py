"""Gradients and ten steps of the programs, on one device and on four, and errors for
programs that Heddle cannot compute correctly."""

import threading
import unittest
from typing import Any

import heddle.torch
import parity
import torch
from torch import nn
from torch_programs import PROGRAMS, Of

PLANS = {"one": None, "four": {"mesh": {"dp": 2, "tp": 2}, "zero": 3}}
# Each device has a part of each sequence.
PARTS = {"mesh": {"cp": 2}}


class Programs(unittest.TestCase):
    def test_trained_bias_stores_no_scores(self) -> None:
        for name, mask in (
            ("trained_bias", "mask"),
            ("trained_bias_by_hand", "mask"),
            ("trained_bias_in_window", "causal window.* mask"),
        ):
            torch.manual_seed(0)
            module = heddle.torch.export(*PROGRAMS[name]())
            self.assertRegex(module.text, f"heddle.attention .*{mask}", name)


def _add_tests() -> None:
    for name, make in PROGRAMS.items():
        plans = PLANS | ({"parts": PARTS} if "trained_bias" in name else {})
        for where, plan in plans.items():

            def test(self: Programs, make: Any = make, plan: Any = plan) -> None:
                torch.manual_seed(0)
                print(self.id(), parity.check(*make(), plan=plan))

            setattr(Programs, f"test_{name}_on_{where}", test)


_add_tests()


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        return x.sign()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class First(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, parts: list[torch.Tensor]) -> torch.Tensor:
        return parts[0].sign()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> None:
        return None


class Errors(unittest.TestCase):
    def _expect(self, text: str, function: Any, layer: nn.Module) -> None:
        batch = (torch.randn(4, 6), torch.randn(4, 3))
        model = Of(function, layer=layer)
        optimizer = torch.optim.AdamW(model.parameters())
        with self.assertRaisesRegex(heddle.torch.TorchError, text):
            heddle.torch.Trainer(model, batch, optimizer, nn.MSELoss())

    def test_own_gradient(self) -> None:
        text = "test_torch_programs.py:[0-9]+: Sign .* a backward of its own"
        self._expect(text, lambda m, x: Sign.apply(m.layer(x)), nn.Linear(6, 3))

    def test_own_gradient_of_nested_tensors(self) -> None:
        text = "First .* a backward of its own"
        self._expect(text, lambda m, x: First.apply([m.layer(x)]), nn.Linear(6, 3))

    def test_other_threads_keep_own_gradients(self) -> None:
        """A thread that trains while another one exports."""
        gradients: list[torch.Tensor] = []

        def train() -> None:
            x = torch.ones(3, requires_grad=True)
            Sign.apply(x).sum().backward()
            gradients.append(x.grad)

        def function(m: Any, x: torch.Tensor) -> torch.Tensor:
            thread = threading.Thread(target=train)
            thread.start()
            thread.join()
            return m.layer(x)

        batch = (torch.randn(4, 6), torch.randn(4, 3))
        model = Of(function, layer=nn.Linear(6, 3))
        heddle.torch.export(model, batch, nn.MSELoss())
        self.assertTrue(gradients)
        for gradient in gradients:
            self.assertTrue(torch.equal(gradient, torch.ones(3)))

    def test_hooks_of_gradients(self) -> None:
        def hooked(m: Any, x: torch.Tensor) -> torch.Tensor:
            y = m.layer(x)
            y.register_hook(lambda gradient: gradient * 2)
            return y

        text = "test_torch_programs.py:[0-9]+: a hook of a gradient changes"
        self._expect(text, hooked, nn.Linear(6, 3))
        layer = nn.Linear(6, 3)
        hook = layer.weight.register_hook(lambda gradient: gradient * 2)
        self._expect(
            "parameter model.layer.weight changes", lambda m, x: m.layer(x), layer
        )
        hook.remove()
        layer.register_full_backward_hook(lambda *unused: None)
        self._expect(
            "hook of the module model.layer changes", lambda m, x: m.layer(x), layer
        )

    def test_types(self) -> None:
        """PyTorch refuses operands of two types when the product runs, not while it is
        traced."""
        text = "expected operands of one type, got f64, f32"
        self._expect(text, lambda m, x: m.layer(x.double()).float(), nn.Linear(6, 3))

    def test_branch_on_values(self) -> None:
        def function(m: Any, x: torch.Tensor) -> torch.Tensor:
            return m.layer(x) if x.sum() > 0 else x[:, :3]

        text = "test_torch_programs.py:[0-9]+: torch.export .* depends on values"
        self._expect(text, function, nn.Linear(6, 3))

    def test_double(self) -> None:
        def function(m: Any, x: torch.Tensor) -> torch.Tensor:
            return m.layer(x.double()).float()

        text = "expected the parameter layer.weight of float32, got float64"
        self._expect(text, function, nn.Linear(6, 3).double())


if __name__ == "__main__":
    unittest.main()
