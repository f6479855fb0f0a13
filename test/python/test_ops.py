"""ATen ops against PyTorch: many in one module, so that few are compiled."""

import math
import unittest
from collections.abc import Callable

import heddle.torch
import parity
import torch
from torch import nn
from torch.nn import functional as F

Function = Callable[[torch.Tensor], torch.Tensor]


class Each(nn.Module):
    """The results of all functions of a parameter times the input, in one row."""

    def __init__(self, functions: list[Function], *shape: int) -> None:
        super().__init__()
        self.functions = functions
        self.w = nn.Parameter(torch.rand(shape) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [function(x * self.w) for function in self.functions]
        return torch.cat([part.flatten() for part in parts])


class Layers(nn.Module):
    """The results of all layers of one input, in one row."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([layer(x).flatten() for layer in self.layers])


def inside(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 0.9


FUNCTIONS: list[Function] = [
    torch.sinh, torch.cosh, torch.asinh, lambda x: torch.tan(inside(x)),
    lambda x: torch.asin(inside(x)), lambda x: torch.acos(inside(x)),
    lambda x: torch.atanh(inside(x)), lambda x: torch.acosh(x.abs() + 1.5),
    lambda x: torch.atan2(x, x.abs() + 0.1), lambda x: torch.hypot(x, x.roll(1, 1)),
    lambda x: torch.fmin(x, x.roll(1, 1)), lambda x: x.remainder(1.5),
    lambda x: x.fmod(1.5), lambda x: x.frac() + x * x.round(),
    lambda x: torch.nan_to_num(x), torch.erfc, lambda x: torch.log(torch.erfc(3 + x)), lambda x: torch.lgamma(x + 0.3),
    lambda x: torch.digamma(x.abs() + 0.2),
    lambda x: torch.digamma(x.abs() * 0.1 - 0.9),
    lambda x: torch.copysign(x, x.roll(1, 1)),
]  # fmt: skip

PLACES: list[Function] = [
    lambda x: x.max(1).values, lambda x: x.min(0).values,
    lambda x: x + F.one_hot(x.argmax(1), 6), lambda x: x.logsumexp((0, 1)),
    lambda x: x.norm(1, dim=1), lambda x: x.norm(float("inf"), dim=1),
    lambda x: x.norm(3, dim=1), lambda x: x.prod(1), lambda x: x.cumprod(1),
    lambda x: x.unfold(1, 3, 2), lambda x: x[:, :4].diagonal(1),
    lambda x: torch.zeros(4, 6).scatter_add(1, torch.tensor([[0, 1, 1]] * 4), x[:, :3]),
    lambda x: torch.zeros(3, 6).index_add(0, torch.tensor([0, 1, 0, 2]), x),
    lambda x: F.pad(x[None], (2, 1), mode="reflect"),
    lambda x: F.pad(x[None], (2, 1), mode="replicate"),
    lambda x: F.pad(x[None], (2, 1), mode="circular"), lambda x: F.glu(x, 1),
    lambda x: torch.cat([x[:, :6] * 2, x[:, 6:].sin()], 1),
    lambda x: x.cummax(1).values, lambda x: x.cummin(0).values,
    lambda x: torch.cdist(x, x[:3] * 2), lambda x: torch.cdist(x, x, p=1.0),
    lambda x: torch.cdist(x[None], x[1:], p=3.0), torch.pdist,
    lambda x: torch.bucketize(x.detach(), torch.tensor([-1.0, 0.0, 0.5])) * x,
    lambda x: torch.searchsorted(x.detach().sort(1).values, x.detach() + 0.1) * x,
    lambda x: F.grid_sample(
        x[None, None], inside(x).reshape(1, 3, 4, 2), align_corners=False
    ),
]  # fmt: skip
KINDS = ("sum", "mean", "amax", "amin")
EQUAL = torch.tensor([[0, 1, 1, 3, 3, 5]] * 4)


def reduced(x: torch.Tensor) -> torch.Tensor:
    results = [
        x.scatter_reduce(1, EQUAL, x * 2, kind, include_self=own)
        for kind in KINDS
        for own in (True, False)
    ]
    return torch.cat(results)


# Also for rows of zeros, for whose norms PyTorch gives no gradient.
NORMS: list[Function] = [
    lambda x: F.normalize(x, dim=-1), lambda x: x.norm(dim=1),
    lambda x: x.norm(3, dim=1), lambda x: x.std(1),
    lambda x: F.cosine_similarity(x, x.roll(1, 1), dim=1),
    lambda x: torch.cdist(x, x), reduced,
]  # fmt: skip


class Ops(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)

    def _check(self, model: nn.Module, x: torch.Tensor) -> None:
        target = torch.randn(model(x).shape)
        print(self.id(), parity.check(model, (x, target), nn.MSELoss(reduction="sum")))

    def test_functions(self) -> None:
        self._check(Each(FUNCTIONS, 4, 6), torch.randn(4, 6))

    def test_places(self) -> None:
        self._check(Each(PLACES, 4, 6), torch.randn(4, 6))

    def test_norms(self) -> None:
        x = torch.randn(4, 6)
        x[1] = 0
        self._check(Each(NORMS, 4, 6), x)

    def test_norms_of_nan(self) -> None:
        """NaNs are not taken for zeros."""

        class Norms(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scale = nn.Parameter(torch.ones(3))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return (x * self.scale).norm(dim=1) + (x * self.scale).std(1)

        model, x = Norms(), torch.randn(4, 3)
        x[2, 1] = math.nan
        batch = (x, torch.zeros(4))
        frozen = torch.optim.SGD(model.parameters(), lr=0.0)
        with heddle.torch.Trainer(model, batch, frozen, nn.MSELoss()) as trainer:
            got = trainer.evaluate(batch)["logits"]
        self.assertLess(parity.distance(got[[0, 1, 3]], model(x)[[0, 1, 3]].detach()), 1e-5)
        self.assertTrue(math.isnan(got[2]))

    def test_special_values(self) -> None:
        """Zeros with a sign, poles, infinity and NaN have PyTorch's results."""
        special = [-0.0, 0.0, -1.0, -2.0, -0.5, math.inf, -math.inf, 3.0]
        bounds = torch.tensor([-1.0, 0.0, 2.0])

        class Values(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scale = nn.Parameter(torch.ones(8))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                x = x * self.scale
                nan = torch.where(x == 3, math.nan, x)
                places = [torch.bucketize(nan, bounds, right=r) for r in (False, True)]
                values = [torch.copysign(2 + x.abs(), x), torch.lgamma(x), *places]
                return torch.stack([value.float() for value in values], 1)

        model, x = Values(), torch.tensor(special)
        batch = (x, torch.zeros(8, 4))
        frozen = torch.optim.SGD(model.parameters(), lr=0.0)
        with heddle.torch.Trainer(model, batch, frozen, nn.MSELoss()) as trainer:
            got = torch.as_tensor(trainer.evaluate(batch)["logits"])
        torch.testing.assert_close(got, model(x).detach(), equal_nan=True)

    def test_pdist_of_one_row(self) -> None:
        layers = nn.Sequential(nn.Linear(3, 3), Each([torch.pdist], 1, 3))
        loss = nn.MSELoss(reduction="sum")
        gaps = heddle.torch.report(layers, (torch.randn(1, 3), torch.zeros(0)), loss)
        self.assertIn("expected pdist of 2 rows or more", str(gaps))

    def test_transposed_convolutions(self) -> None:
        layers = (
            nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1),
            nn.ConvTranspose2d(4, 4, 2, stride=2, groups=2),
            nn.ConvTranspose2d(4, 2, 3, dilation=2, bias=False),
        )
        self._check(Layers(*layers), torch.randn(2, 4, 5, 5))

    def test_pooling(self) -> None:
        first = nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect")
        layers = Layers(
            nn.MaxPool2d(3, 2, ceil_mode=True), nn.AdaptiveAvgPool2d(3),
            nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.AdaptiveMaxPool2d(1),
            nn.AdaptiveMaxPool2d((3, 4)),
            nn.Upsample(scale_factor=2), nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Upsample(size=(7, 5), mode="bilinear", align_corners=True),
            nn.InstanceNorm2d(4, affine=True),
        )  # fmt: skip
        self._check(nn.Sequential(first, layers), torch.randn(2, 3, 8, 8))

    def test_losses(self) -> None:
        weight = torch.tensor([0.2, 1.0, 2.0])
        labels, x = torch.tensor([0, 2, 1, 1]), torch.randn(4, 6)
        pairs = [
            (nn.CrossEntropyLoss(weight=weight), labels),
            (nn.CrossEntropyLoss(weight=weight, label_smoothing=0.1), labels),
            (nn.BCEWithLogitsLoss(pos_weight=weight), torch.rand(4, 3)),
            (nn.KLDivLoss(reduction="batchmean"), torch.rand(4, 3)),
        ]
        for loss, target in pairs:
            with self.subTest(loss=loss):
                parity.check(nn.Linear(6, 3), (x, target), loss)


if __name__ == "__main__":
    unittest.main()
