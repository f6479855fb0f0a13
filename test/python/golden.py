"""Writes the texts that tests without PyTorch read: golden.py FOLDER."""

import pathlib
import sys
from typing import Any

import families
import heddle.torch
import torch
from heddle.torch.hugging_face import empty_parameters, place_parameters
from torch import nn


class Convolutions(nn.Module):
    """Batch norm with running statistics, pooling, and a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.out = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.conv(x)))
        y = nn.functional.max_pool2d(y, 2).mean((2, 3))
        return self.out(torch.tanh(self.frozen(y)))


def texts() -> dict[str, str]:
    """Returns the text of each model. Parameters have no values, so the text
    depends on no random numbers."""
    cases: dict[str, tuple[nn.Module, Any, Any]] = {}
    with empty_parameters():
        for name, sizes in (
            ("gpt2", {"n_layer": 1}),
            ("llama", {"num_hidden_layers": 1}),
            ("vit", {"num_hidden_layers": 1}),
        ):
            cases[name] = (*families.make(name, **sizes), None)
        batch = (torch.randn(4, 3, 4, 4), torch.zeros(4, dtype=torch.int64))
        cases["convolutions"] = (Convolutions(), batch, nn.CrossEntropyLoss())
    return {
        name: heddle.torch.export(place_parameters(model), batch, loss).text
        for name, (model, batch, loss) in cases.items()
    }


def main() -> None:
    for name, text in texts().items():
        pathlib.Path(sys.argv[1], f"{name}.mlir").write_text(text)


if __name__ == "__main__":
    main()
