"""ResNet-18 for images of 32x32, as it is written for CIFAR-10."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Two convolutions whose result is added to the input, or to a projection of the
    input where sizes change."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.down = nn.Identity()
        if stride != 1 or width != out:
            self.down = nn.Sequential(
                nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.down(x))


def resnet18(classes: int = 10, width: int = 64) -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
    ]  # fmt: skip
    before = width
    for stage in range(4):
        out = width << stage
        layers += [Block(before, out, 2 if stage else 1), Block(out, out, 1)]
        before = out
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes)]
    return nn.Sequential(*layers, *head)
