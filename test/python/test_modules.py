"""Modules of one's own: attention of other forms, convolutions, shared and frozen
parameters, other losses and optimizers, and errors."""

import json
import pathlib
import tempfile
import unittest
from typing import Any

import heddle.torch
import parity
import torch
from heddle.torch import symbolic
from heddle.torch.capture import Captured
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A residual block of convolutions with batch norms."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.down = nn.Sequential(
            nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.down(x))


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        Block(8, 8, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, 10),
    )  # fmt: skip


class Shared(nn.Module):
    """One layer twice, a tied table, and a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(13, 8)
        self.layer = nn.Linear(8, 8)
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.head = nn.Linear(8, 13, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        x = torch.tanh(self.layer(x)) + torch.sigmoid(self.layer(x)) * x.detach()
        return self.head(F.gelu(self.frozen(x))).flatten(0, 1)


class Attention(nn.Module):
    """Attention that is written out, with a bias for distances."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.slope = nn.Parameter(torch.tensor([0.1, 0.2]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        far = torch.arange(s)[:, None] - torch.arange(s)
        scores = q @ k.transpose(-1, -2) / 8**0.5
        scores = scores - self.slope[:, None, None] * far.abs()
        scores = scores.masked_fill(far < 0, float("-inf"))
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, s, 16)).mean(1)


class Masked(nn.Module):
    """Attention with masks of several forms, written out or not."""

    KINDS = ("window", "band", "each", "added", "sizes", "eager", "heads")

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.size = kind, 6 if kind == "sizes" else 4
        self.qk, self.v = nn.Linear(16, 32), nn.Linear(16, 4 * self.size)
        self.out = nn.Linear(4 * self.size, 16)

    def _attend(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, x: torch.Tensor
    ) -> torch.Tensor:
        places = torch.arange(x.shape[1])
        apart = places[:, None] - places
        pairs = x[:, None, :, None, 0] * x[:, None, None, :, 1]
        if self.kind == "eager":
            low = torch.finfo(torch.float32).min
            scores = (q @ k.mT / 2).masked_fill(apart < 0, low)
            return (scores + torch.where(pairs < 1.5, 0.0, -1.0)).softmax(-1) @ v
        if self.kind == "heads":  # as one batch of all heads
            q, k, v = (y.reshape(-1, *y.shape[2:]) for y in (q, k, v))
            y = torch.bmm((torch.bmm(q, k.mT) * 0.5).softmax(-1), v)
            return y.view(x.shape[0], 4, *y.shape[1:])
        mask = {
            "window": (apart >= 0) & (apart < 2),
            "band": apart.abs() < 2,
            "each": (pairs < 1.5) | (apart == 0),
            "added": pairs,
            "sizes": None,
        }[self.kind]
        return F.scaled_dot_product_attention(q, k, v, mask)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k = self.qk(x).view(b, s, 2, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        v = self.v(x).view(b, s, 4, self.size).transpose(1, 2)
        y = self._attend(q, k, v, x).transpose(1, 2)
        return self.out(y.reshape(b, s, 4 * self.size)).mean(1)


class Gated(nn.Module):
    """A 1-D convolution in groups, a group norm, a glu and a max over time."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(6, 12, 3, padding="same", dilation=2, groups=3)
        self.norm = nn.GroupNorm(4, 12)
        self.plain = nn.LayerNorm(6, elementwise_affine=False)
        self.out = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.glu(self.norm(self.conv(x)), 1)
        return self.out(self.plain(y.amax(-1)))


class Kinds(nn.Module):
    """Many small ops."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.rand(4, 6) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cat([x * self.w, (x / self.w).flip(0)], 0)
        y = y + F.elu(y) + F.softplus(y) + F.leaky_relu(y) + F.silu(y) + F.mish(y)
        y = torch.where(y > 0, y.clamp(max=3), -y.abs().sqrt())
        a, b = y.split(4)
        y = torch.stack([a, b.roll(1, 1)], 1).cumsum(1).std(1)
        return y.unsqueeze(0).repeat(2, 1, 1).mean(0)


def images(count: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, 3, 8, 8), torch.randint(0, 10, (count,))


class Modules(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)

    def _check(
        self, model: nn.Module, batch: Any, loss: Any = None, **more: Any
    ) -> None:
        print(self.id(), parity.check(model, batch, loss, **more))

    def test_resnet(self) -> None:
        for plan in (None, {"mesh": {"dp": 4}}):
            with self.subTest(plan=plan):
                self._check(resnet(), images(), nn.CrossEntropyLoss(), plan=plan)

    def test_running_statistics(self) -> None:
        model, (x, y) = resnet(), images()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        with heddle.torch.Trainer(model, (x, y), optimizer, nn.CrossEntropyLoss()) as t:
            for _ in range(3):
                t.step((x, y))
                model(x)
            got = t.state_dict()
            for name, tensor in model.state_dict().items():
                gap = parity.distance(got[name].numpy(), tensor.numpy())
                self.assertLess(gap, 1e-4, name)
            model.eval()
            gap = parity.distance(t.evaluate((x, y))["logits"], model(x).detach())
            self.assertLess(gap, 1e-4)

    def test_shared_and_frozen(self) -> None:
        ids = torch.randint(0, 13, (4, 5))
        batch = (ids, ids.flatten())
        for plan in (None, {"mesh": {"dp": 2, "tp": 2}, "zero": 3}):
            with self.subTest(plan=plan):
                self._check(Shared(), batch, nn.CrossEntropyLoss(), plan=plan)

    def test_frozen_parameters_of_the_optimizer(self) -> None:
        """PyTorch's optimizers do not change frozen parameters."""
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        model[0].requires_grad_(False)
        batch = (torch.randn(4, 6), torch.randn(4, 3))

        def adamw(model: nn.Module) -> torch.optim.Optimizer:
            return torch.optim.AdamW(model.parameters(), lr=1e-2)

        self._check(model, batch, nn.MSELoss(), make_optimizer=adamw)
        model.requires_grad_(False)
        with self.assertRaisesRegex(
            heddle.torch.TorchError, "to have a parameter that requires a gradient"
        ):
            heddle.torch.Trainer(model, batch, adamw(model), nn.MSELoss())

    def test_attention(self) -> None:
        batch = (torch.randn(4, 5, 16), torch.randn(4, 16))
        for plan in (None, {"mesh": {"dp": 2, "tp": 2}}):
            with self.subTest(plan=plan):
                self._check(Attention(), batch, nn.MSELoss(), plan=plan)

    def test_masks(self) -> None:
        batch = (torch.randn(4, 6, 16), torch.randn(4, 16))
        for kind in Masked.KINDS:
            with self.subTest(kind=kind):
                module = heddle.torch.export(Masked(kind), batch, nn.MSELoss())
                self.assertIn("heddle.attention", module.text)
                self._check(Masked(kind), batch, nn.MSELoss())

    def test_automatic_plan(self) -> None:
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
        batch = (torch.randn(8, 6), torch.randn(8, 4))
        plan = {"plan": "auto", "cluster": "laptop-cpu:4"}
        self._check(model, batch, nn.MSELoss(), plan=plan)

    def test_convolutions(self) -> None:
        batch = (torch.randn(4, 6, 9), torch.randint(0, 3, (4,)))
        self._check(Gated(), batch, nn.CrossEntropyLoss(label_smoothing=0.1))

    def test_small_ops(self) -> None:
        batch = (torch.randn(4, 6), torch.randn(4, 6))
        self._check(Kinds(), batch, nn.SmoothL1Loss())

    def test_losses(self) -> None:
        x = torch.randn(4, 6)
        cases = [
            (nn.L1Loss(), torch.randn(4, 3)),
            (nn.BCEWithLogitsLoss(), torch.rand(4, 3)),
            (nn.HuberLoss(delta=0.5), torch.randn(4, 3)),
            (nn.CrossEntropyLoss(), torch.softmax(torch.randn(4, 3), -1)),
            (nn.CrossEntropyLoss(reduction="sum"), torch.randint(0, 3, (4,))),
        ]
        for loss, target in cases:
            with self.subTest(loss=loss):
                self._check(nn.Linear(6, 3), (x, target), loss)

    def test_optimizers(self) -> None:
        batch = (torch.randn(4, 6), torch.randn(4, 6))

        def groups(kind: Any, **options: Any) -> Any:
            def make(model: nn.Module) -> torch.optim.Optimizer:
                weights = [p for p in model.parameters() if p.dim() > 1]
                others = [p for p in model.parameters() if p.dim() < 2]
                first = {"params": weights, "weight_decay": 0.1}
                second = {"params": others, "lr": 3e-3, "weight_decay": 0.0}
                return kind([first, second], lr=1e-2, **options)

            return make

        for make in (
            groups(torch.optim.AdamW, betas=(0.8, 0.9), eps=1e-6),
            groups(torch.optim.Adam),
            groups(torch.optim.SGD, momentum=0.9),
            groups(torch.optim.SGD),
        ):
            model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
            self._check(model, batch, nn.MSELoss(), make_optimizer=make)

    def test_schedule_and_restart(self) -> None:
        batch = (torch.randn(4, 6), torch.randn(4, 2))
        model = nn.Linear(6, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        loss = nn.MSELoss()
        with heddle.torch.Trainer(model, batch, optimizer, loss) as trainer:
            for i in range(3):
                rate = trainer.step(batch).learning_rate
                self.assertAlmostEqual(rate, 1e-2 * 0.5**i, places=7)
                optimizer.step()  # PyTorch wants it before the schedule's step
                schedule.step()
            model.load_state_dict(trainer.state_dict())
            optimizer.load_state_dict(trainer.optimizer_state_dict())
            expected = trainer.step(batch).loss
        with heddle.torch.Trainer(model, batch, optimizer, loss) as again:
            self.assertEqual(again.step(batch).loss, expected)

    def test_dropout(self) -> None:
        model = nn.Sequential(nn.Linear(6, 64), nn.Dropout(0.5), nn.Linear(64, 2))
        batch = (torch.randn(4, 6), torch.randn(4, 2))
        frozen = torch.optim.SGD(model.parameters(), lr=0.0)
        with heddle.torch.Trainer(model, batch, frozen, nn.MSELoss()) as trainer:
            losses = {trainer.step(batch).loss for _ in range(3)}
            self.assertEqual(len(losses), 3)  # another mask in each step
            got = trainer.evaluate(batch)["logits"]
        expected = model.eval()(batch[0]).detach()
        self.assertLess(parity.distance(got, expected), 1e-5)

    def test_save_and_load(self) -> None:
        batch = (torch.randn(4, 6), torch.randn(4, 2))
        model, loss = nn.Linear(6, 2), nn.MSELoss()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        with (
            tempfile.TemporaryDirectory() as folder,
            heddle.torch.Trainer(model, batch, optimizer, loss) as trainer,
        ):
            trainer.step(batch)
            trainer.save(folder)
            expected = trainer.step(batch).loss
            trainer.load(folder)
            self.assertEqual(trainer.step(batch).loss, expected)

    def test_bf16(self) -> None:
        batch = (torch.randn(4, 16), torch.randint(0, 4, (4,)))
        model, loss = nn.Linear(16, 4), nn.CrossEntropyLoss()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        with heddle.torch.Trainer(model, batch, optimizer, loss, bf16=True) as trainer:
            expected = loss(model(batch[0]), batch[1]).item()
            self.assertAlmostEqual(trainer.step(batch).loss, expected, places=1)
            for _ in range(20):
                last = trainer.step(batch).loss
            self.assertLess(last, 0.9 * expected)

    def test_micro_batches(self) -> None:
        batch = (torch.randn(8, 6), torch.randn(8, 2))
        model = nn.Linear(6, 2)
        prediction = {"cluster": "laptop-cpu", "rows": 8, "micro_batches": 2}
        plan = {"version": 1, "mesh": {"dp": 2}, "operators": {"*": {"b": ["dp"]}}}
        plan["prediction"] = prediction
        losses = []
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "plan.json")
            file.write_text(json.dumps(plan))
            for where, parts in ((None, 1), (None, 4), (file, None), (file, 4)):
                optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
                with heddle.torch.Trainer(
                    model, batch, optimizer, nn.MSELoss(), where, micro_batches=parts
                ) as trainer:
                    table = trainer.session.manifest.table_of("step")
                    self.assertEqual(table.micro_batches, parts or 2)
                    losses.append([trainer.step(batch).loss for _ in range(3)])
        for others in losses[1:]:
            for a, b in zip(losses[0], others, strict=True):
                self.assertAlmostEqual(a, b, places=5)

    def test_files_that_are_no_plans(self) -> None:
        """The compiler reports such files. The function that reads the number of
        micro-batches from them does not."""
        batch = (torch.randn(4, 6), torch.randn(4, 2))
        model = nn.Linear(6, 2)
        optimizer = torch.optim.AdamW(model.parameters())
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "plan.json")
            for text in ("{", "[]", '{"version": 1, "prediction": null}'):
                file.write_text(text)
                with (
                    self.subTest(text),
                    self.assertRaisesRegex(heddle.CompileError, "plan.json.*expected"),
                ):
                    heddle.torch.Trainer(model, batch, optimizer, nn.MSELoss(), file)

    def test_errors_of_plans_and_rows(self) -> None:
        batch = (torch.randn(4, 6), torch.randn(4, 2))
        model = nn.Linear(6, 2)
        optimizer = torch.optim.AdamW(model.parameters())
        with self.assertRaisesRegex(heddle.CompileError, "what a plan's file holds"):
            plan = {"version": 1, "mesh": {"dp": 2}}
            heddle.torch.Trainer(model, batch, optimizer, nn.MSELoss(), plan)
        with heddle.torch.Trainer(
            model, batch, optimizer, nn.MSELoss(), micro_batches=2
        ) as trainer:
            with self.assertRaisesRegex(heddle.RunError, "has 2 rows .*got 4; .* 2 micro"):
                trainer.evaluate(batch)
            half = tuple(tensor[:2] for tensor in batch)
            self.assertEqual(trainer.evaluate(half)["logits"].shape, (2, 2))

    def test_rows_are_bound_later(self) -> None:
        """Inputs by name and in order, with a loss beside the model or in it."""

        class Pair(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.both = nn.Linear(4, 3), nn.Bilinear(4, 4, 3)

            def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                return self.first(x) + self.both(x, y)

        class Own(Pair):
            def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                return (super().forward(x, y) ** 2).mean()

        x, y, labels = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8, 3)
        named = {"x": x, "y": y}
        cases: list[tuple[nn.Module, Any, Any]] = [
            (Pair(), (x, y, labels), nn.MSELoss()),
            (Pair(), named | {"labels": labels}, nn.MSELoss()),
            (Own(), (x, y), None),
            (Own(), named, None),
            (resnet(), images(8), nn.CrossEntropyLoss()),
        ]

        def part(batch: Any, rows: int) -> Any:
            if isinstance(batch, dict):
                return {name: tensor[:rows] for name, tensor in batch.items()}
            return tuple(tensor[:rows] for tensor in batch)

        for model, batch, loss in cases:
            traced = heddle.torch.Traced(model, part(batch, 4), loss)
            for rows in (4, 2, 8):
                text = heddle.torch.export(model, part(batch, rows), loss).text
                with self.subTest(type(model), named=type(batch), rows=rows):
                    bound = traced.bind(rows).text
                    self.assertEqual(parity.renumbered(bound), parity.renumbered(text))

    def test_conditions_on_rows(self) -> None:
        """Conditions that PyTorch leaves in the graph hold for the bound rows."""

        class Even(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                torch._check(x.shape[0] % 2 == 0, lambda: "pairs of rows")
                return x.sum()

        shapes = {"x": {0: torch.export.Dim("rows", min=2)}}
        program = torch.export.export(
            Even(), (torch.ones(4, 3),), dynamic_shapes=shapes,
            prefer_deferred_runtime_asserts_over_guards=True,
        )  # fmt: skip
        nodes = [node for node in program.graph.nodes if node.op != "output"]
        captured = Captured(nodes, {}, {}, {}, [("loss", nodes[-1])], {})
        self.assertIn("_assert_scalar", " ".join(str(node.target) for node in nodes))
        bound = symbolic.bind(captured, 6).nodes[0].meta["val"]
        self.assertEqual(bound.shape, (6, 3))
        with self.assertRaisesRegex(
            heddle.torch.TorchError, "number of rows that the model allows, got 5: "
        ):
            symbolic.bind(captured, 5)

    def test_errors(self) -> None:
        class Sums(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.w = nn.Parameter(torch.ones(4))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = torch.linalg.inv(x * self.w)
                return y.logcumsumexp(0).sum()

        x = torch.eye(4)
        problems = heddle.torch.report(Sums(), (x,))
        ops = " ".join(problem.op for problem in problems)
        self.assertRegex(ops, "linalg_inv.* aten.logcumsumexp")
        self.assertIn("test_modules.py:", str(problems[0]))
        adamw = torch.optim.AdamW
        with self.assertRaisesRegex(heddle.torch.UnsupportedError, "no form of .* ops"):
            heddle.torch.export(Sums(), (x,))
        model, loss = nn.Linear(4, 2), nn.MSELoss()
        batch = (torch.randn(2, 4), torch.randn(2, 2))
        with self.assertRaisesRegex(heddle.torch.TorchError, "got Adagrad"):
            heddle.torch.Trainer(
                model, batch, torch.optim.Adagrad(model.parameters()), loss
            )
        with self.assertRaisesRegex(heddle.torch.TorchError, "amsgrad=True"):
            heddle.torch.Trainer(
                model, batch, adamw(model.parameters(), amsgrad=True), loss
            )
        with self.assertRaisesRegex(
            heddle.torch.TorchError, "expected the loss to be one number"
        ):
            heddle.torch.export(model, {"input": batch[0]}, None)

        class Counts(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x[x > 0].sum()

        with self.assertRaises(heddle.torch.TorchError):
            heddle.torch.export(Counts(), (x,))
        with heddle.torch.Trainer(model, batch, adamw(model.parameters()), loss) as t:
            with self.assertRaisesRegex(heddle.HeddleError, "expected the shape"):
                t.step((torch.randn(3, 4), torch.randn(3, 2)))


if __name__ == "__main__":
    unittest.main()
