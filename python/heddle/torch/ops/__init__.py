"""The table of ATen ops: each module registers functions by their names."""

from heddle.torch.ops import (
    activation,
    attention,
    convolution,
    elementwise,
    functions,
    gather,
    loss,
    norm,
    pooling,
    product,
    reduction,
    resample,
    shape,
    softmax,
    sort,
)

__all__ = [
    "activation", "attention", "convolution", "elementwise", "functions", "gather",
    "loss", "norm", "pooling", "product", "reduction", "resample", "shape", "softmax",
    "sort",
]  # fmt: skip
