"""Modules as people write them: other attention, images, recurrent cells, experts,
statistics. Each entry of PROGRAMS makes a module, a batch and a loss."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

Case = tuple[nn.Module, tuple[torch.Tensor, ...], nn.Module]
PROGRAMS: dict[str, Callable[[], Case]] = {}
MSE = nn.MSELoss()
rand = torch.randn


def program(make: Callable[[], Case]) -> Callable[[], Case]:
    PROGRAMS[make.__name__] = make
    return make


class Of(nn.Module):
    """Modules, and a function that computes with them."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(self, *args)


# Attention.


def _heads(x: torch.Tensor) -> Any:
    """Returns queries, keys and values of four heads."""
    b, s, _ = x.shape
    return x.view(b, s, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)


def _merged(m: Any, y: torch.Tensor) -> torch.Tensor:
    return m.out(y.transpose(1, 2).flatten(2))


def _attention_parts() -> dict[str, nn.Module]:
    return {"qkv": nn.Linear(16, 48), "out": nn.Linear(16, 8)}


SEQUENCES = (4, 6, 16)


@program
def alibi() -> Case:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1])
        apart = places[None, :] - places[:, None]
        bias = 2.0 ** (-2 * torch.arange(1, 5))[:, None, None] * apart
        bias = bias.masked_fill(apart > 0, float("-inf"))
        return _merged(m, F.scaled_dot_product_attention(*_heads(m.qkv(x)), bias))

    return Of(function, **_attention_parts()), (rand(SEQUENCES), rand(4, 6, 8)), MSE


def _relative(apart: torch.Tensor, bias: nn.Embedding) -> torch.Tensor:
    return bias(apart.clamp(-3, 3) + 3).permute(2, 0, 1)


@program
def trained_bias() -> Case:
    """As T5: a table of biases for distances, with causal and padding masks."""

    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1])
        apart = places[None, :] - places[:, None]
        bias = _relative(apart, m.bias)[None]
        bias = bias.masked_fill(apart > 0, torch.finfo(torch.float32).min)
        q, k, v = _heads(m.qkv(x))
        return _merged(m, F.scaled_dot_product_attention(q, k, v, bias))

    parts = _attention_parts() | {"bias": nn.Embedding(7, 4)}
    return Of(function, **parts), (rand(SEQUENCES), rand(4, 6, 8)), MSE


@program
def trained_bias_by_hand() -> Case:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1])
        q, k, v = _heads(m.qkv(x))
        bias = _relative(places[None, :] - places[:, None], m.bias)
        return _merged(m, (q @ k.mT / 2 + bias).softmax(-1) @ v)

    parts = _attention_parts() | {"bias": nn.Embedding(7, 4)}
    return Of(function, **parts), (rand(SEQUENCES), rand(4, 6, 8)), MSE


@program
def groups_by_einsum() -> Case:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q = m.q(x).view(b, s, 2, 2, 4)
        k, v = m.kv(x).view(b, s, 2, 2, 4).unbind(2)
        scores = torch.einsum("bsgrd,btgd->bgrst", q, k) / 2
        scores = scores + torch.full((s, s), float("-inf")).triu(1)
        y = torch.einsum("bgrst,btgd->bsgrd", scores.softmax(-1), v)
        return m.out(y.flatten(2))

    parts = {"q": nn.Linear(16, 16), "kv": nn.Linear(16, 16), "out": nn.Linear(16, 8)}
    return Of(function, **parts), (rand(SEQUENCES), rand(4, 6, 8)), MSE


@program
def cross_attention_with_lengths() -> Case:
    def function(m: Any, x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> Any:
        hidden = torch.arange(y.shape[1]) >= n[:, None]
        z, _ = m.attention(x, y, y, key_padding_mask=hidden, need_weights=False)
        return m.out(z)

    attention = nn.MultiheadAttention(16, 4, kdim=12, vdim=12, batch_first=True)
    model = Of(function, attention=attention, out=nn.Linear(16, 8))
    batch = (rand(SEQUENCES), rand(4, 7, 12), torch.tensor([7, 3, 5, 2]))
    return model, (*batch, rand(4, 6, 8)), MSE


@program
def linear_attention() -> Case:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (2, 4)) for t in m.qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        sums = torch.einsum("bsnd,bsne->bsnde", k, v).cumsum(1)
        total = torch.einsum("bsnd,bsnd->bsn", q, k.cumsum(1))
        return (torch.einsum("bsnd,bsnde->bsne", q, sums) / total[..., None]).flatten(2)

    return Of(function, qkv=nn.Linear(8, 24)), (rand(4, 6, 8), rand(4, 6, 8)), MSE


@program
def trained_bias_in_window() -> Case:
    """Causal, and no further back than three places."""

    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1])
        apart = places[None, :] - places[:, None]
        q, k, v = _heads(m.qkv(x))
        scores = q @ k.mT / 2 + _relative(apart, m.bias)
        hidden = (apart > 0) | (apart < -2)
        scores = scores + torch.zeros(6, 6).masked_fill(hidden, float("-inf"))
        return _merged(m, scores.softmax(-1) @ v)

    parts = _attention_parts() | {"bias": nn.Embedding(7, 4)}
    return Of(function, **parts), (rand(SEQUENCES), rand(4, 6, 8)), MSE


# Images.


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8)
        self.down, self.time = nn.Conv2d(8, 16, 3, 2, 1), nn.Linear(6, 16)
        self.up = nn.ConvTranspose2d(16, 8, 4, 2, 1)
        self.last = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        a = F.silu(self.norm(self.first(x)))
        b = F.silu(self.down(a) + self.time(t)[:, :, None, None])
        c = F.interpolate(b, scale_factor=2)[:, :8] + self.up(b)
        return self.last(torch.cat([a, c], 1))


@program
def unet() -> Case:
    return UNet(), (rand(4, 3, 8, 8), rand(4, 6), rand(4, 3, 8, 8)), MSE


@program
def volumes() -> Case:
    layers = nn.Conv3d(2, 4, 3, padding=1), nn.ReLU(), nn.AvgPool3d(2), nn.Flatten()
    batch = rand(4, 2, 4, 4, 4), rand(4, 3)
    return nn.Sequential(*layers, nn.Linear(32, 3)), batch, MSE


@program
def patches() -> Case:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = m.layer(F.unfold(x, 3, padding=1).mT).mT
        y = F.fold(y, (8, 8), 4, padding=1, stride=2)
        return F.interpolate(y, (9, 7), mode="bicubic", align_corners=False)

    model = Of(function, layer=nn.Linear(18, 32))
    return model, (rand(4, 2, 4, 4), rand(4, 2, 9, 7)), MSE


# Sequences without attention.


@program
def lstm() -> Case:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.out(m.cell(x)[0])

    cell = nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True)
    return (
        Of(function, cell=cell, out=nn.Linear(16, 3)),
        (rand(4, 5, 6), rand(4, 5, 3)),
        MSE,
    )


@program
def bags() -> Case:
    def function(m: Any, ids: torch.Tensor) -> torch.Tensor:
        starts = torch.tensor([0, 3, 5, 9])
        return m.out(m.even(ids.view(4, 3)) + m.uneven(ids, starts))

    parts = {
        "even": nn.EmbeddingBag(20, 8),
        "uneven": nn.EmbeddingBag(20, 8, mode="sum"),
    }
    model = Of(function, **parts, out=nn.Linear(8, 3))
    return model, (torch.randint(0, 20, (12,)), rand(4, 3)), MSE


# Choices.


@program
def experts() -> Case:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        scores = m.router(x).softmax(-1)
        best, chosen = scores.topk(2, -1)
        best = best / best.sum(-1, keepdim=True)
        weights = torch.zeros_like(scores).scatter(-1, chosen, best)
        return torch.einsum("bse,bsi,eio->bso", weights, x, m.experts)

    model = Of(function, router=nn.Linear(6, 4), experts=nn.Parameter(rand(4, 6, 3)))
    return model, (rand(4, 5, 6), rand(4, 5, 3)), MSE


@program
def orders() -> Case:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = m.layer(x)
        order = y.argsort(-1, descending=True)
        y = y.sort(-1).values + y.gather(-1, order) * 0.5
        return y.sum(1) + m.layer(x).median(1).values + m.layer(x).kthvalue(2, 1).values

    return Of(function, layer=nn.Linear(6, 6)), (rand(4, 5, 6), rand(4, 6)), MSE


@program
def rows_set() -> Case:
    def function(m: Any, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        y = m.layer(x)
        z = torch.zeros(5, 3).index_put((ids,), y, accumulate=True)
        y[y > 1] = 0.5
        return z[ids] + y

    model = Of(function, layer=nn.Linear(6, 3))
    return model, (rand(4, 6), torch.tensor([3, 0, 3, 1]), rand(4, 3)), MSE


@program
def equal_rows_set() -> Case:
    """Rows with equal ids: the last one stays. PyTorch's gradient of such rows is
    wrong, so the test takes rows that need no gradient."""

    def function(m: Any, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        y = m.layer(x)
        ones = torch.zeros(5, 3).index_put((ids,), torch.ones(()))
        rows = torch.zeros(5, 3).index_put((ids,), x[:, :3])
        columns = torch.zeros(4, 5).scatter(1, ids.expand(4, 4), x[:, :4])
        return y * (ones + rows)[ids] + y.index_put((ids,), x[:, 3:]) + columns[:, :3]

    model = Of(function, layer=nn.Linear(6, 3))
    return model, (rand(4, 6), torch.tensor([3, 0, 3, 1]), rand(4, 3)), MSE


@program
def rows_from_the_end() -> Case:
    def function(m: Any, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        y, from_end = m.layer(x), ids - 5
        z = torch.zeros(5, 3).index_put((from_end,), y, accumulate=True)
        z = z + torch.zeros(5, 3).index_put((ids - 5,), torch.ones(()))
        return (
            z[from_end] * z[from_end, (ids - 3).clamp(max=2)][:, None] + y[[-1, 0]][0]
        )

    model = Of(function, layer=nn.Linear(6, 3))
    return model, (rand(4, 6), torch.tensor([3, 0, 3, 1]), rand(4, 3)), MSE


@program
def large_integers() -> Case:
    """Numbers above 2^24, of which f32 would make some equal."""

    def function(m: Any, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        values, order = (n + 2**24).sort(-1)
        ids = n.argsort(-1)[:, 0]
        rows = (n + 2**24)[ids]
        sums = torch.zeros(4, 3, dtype=n.dtype).index_put((ids,), rows, accumulate=True)
        y = (values - 2**24) + order * (rows - 2**24) + sums.remainder(7)
        return m.layer(x) + y.float()

    model = Of(function, layer=nn.Linear(6, 3))
    numbers = torch.tensor([[1, 3, 2], [2, 0, 1], [3, 2, 1], [5, 6, 1]])
    return model, (rand(4, 6), numbers, rand(4, 3)), MSE


@program
def masked_sum() -> Case:
    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = m.layer(x)
        return y.index_put((x[:, :3] > 0,), torch.tensor(0.5), accumulate=True)

    return Of(function, layer=nn.Linear(6, 3)), (rand(4, 6), rand(4, 3)), MSE


@program
def repeated_by_einsum() -> Case:
    """Dimensions of size 1, in an ellipsis and with a letter."""

    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.einsum("...i,...io->...o", m.layer(x)[:, None], m.weight)
        return y[:, 0] + torch.einsum("bi,bi->b", m.layer(x), m.column)[:, None]

    parts = {"weight": nn.Parameter(rand(1, 1, 3, 2)), "layer": nn.Linear(6, 3)}
    model = Of(function, **parts, column=nn.Parameter(rand(4, 1)))
    return model, (rand(4, 6), rand(4, 2)), MSE


# Parameters and state.


@program
def contrastive() -> Case:
    """As CLIP, with a temperature of no dimensions."""

    class Loss(nn.Module):
        def forward(self, x: torch.Tensor, unused: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(x, torch.arange(x.shape[0]))

    def function(m: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = F.normalize(m.a(a), dim=-1), F.normalize(m.b(b), dim=-1)
        return m.scale.exp() * a @ b.t()

    parts = {"a": nn.Linear(6, 3), "b": nn.Linear(5, 3)}
    model = Of(function, **parts, scale=nn.Parameter(torch.tensor(1.0)))
    return model, (rand(4, 6), rand(4, 5), torch.zeros(4)), Loss()


@program
def running_mean() -> Case:
    """A buffer that is updated under no_grad, and a target that is computed
    there."""

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.out = nn.Linear(6, 4), nn.Linear(4, 3)
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.layer(x)
            with torch.no_grad():
                self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
                size = y.norm(dim=-1, keepdim=True)
            return self.out((y - self.mean) / size)

    return Module(), (rand(4, 6), rand(4, 3)), MSE


@program
def checkpointed() -> Case:
    """A part that is computed again for its gradient."""

    def function(m: Any, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(m.second, m.first(x).tanh(), use_reentrant=True)

    parts = {"first": nn.Linear(6, 8), "second": nn.Linear(8, 3)}
    return Of(function, **parts), (rand(4, 6), rand(4, 3)), MSE


@program
def parametrized() -> Case:
    parts = torch.nn.utils.parametrizations
    first = parts.weight_norm(nn.Linear(6, 8))
    second = parts.spectral_norm(nn.Linear(8, 3))
    return nn.Sequential(first, nn.Tanh(), second), (rand(4, 6), rand(4, 3)), MSE


# Losses.


@program
def segments() -> Case:
    """Labels of pixels, some ignored, with smoothing."""
    loss = nn.CrossEntropyLoss(ignore_index=2, label_smoothing=0.1)
    labels = torch.randint(0, 5, (4, 6, 6))
    return nn.Conv2d(3, 5, 3, padding=1), (rand(4, 3, 6, 6), labels), loss


@program
def distilled() -> Case:
    class Loss(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            soft = F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean")
            hard = F.nll_loss(
                x.log_softmax(-1), y.argmax(-1), torch.tensor([1, 2, 0.5])
            )
            return soft + hard + 0.1 * x.logsumexp(-1).square().mean()

    return nn.Linear(6, 3), (rand(4, 6), rand(4, 3)), Loss()
