"""Interpolation: a product with a constant matrix for each dimension."""

import functools
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from heddle.torch.emit import Emitter, to_array
from heddle.torch.op_table import op, op_name
from heddle.torch.text import Value


def along(
    e: Emitter, x: Value, dim: int, function: Callable[[torch.Tensor], torch.Tensor]
) -> Value:
    """Applies a linear function of rows [1, rows, size] along a dimension. The columns
    of its matrix are its values for the unit vectors."""
    size = x.shape[dim]
    matrix = function(torch.eye(size)[None])[0]
    if matrix.shape == (size, size) and torch.equal(matrix, torch.eye(size)):
        return x
    array, _ = to_array(matrix)
    letters = "bcxyz"[: len(x.shape)]
    result = letters.replace(letters[dim], "w")
    table = e.builder.convert(e.builder.constant(array, "f32"), x.type)
    return e.builder.contract(f"{letters}, {letters[dim]}w -> {result}", x, table)


_MODES = {
    "upsample_nearest1d": "nearest", "upsample_nearest2d": "nearest",
    "upsample_nearest3d": "nearest", "_upsample_nearest_exact1d": "nearest-exact",
    "_upsample_nearest_exact2d": "nearest-exact", "upsample_linear1d": "linear",
    "upsample_bilinear2d": "linear", "upsample_trilinear3d": "linear",
    "upsample_bicubic2d": "bicubic",
}  # fmt: skip


@op(*_MODES)
def upsample(e: Emitter, x: Value, *rest: object) -> Value:
    """The overload `vec` has a size, sometimes a flag for aligned corners, and factors.
    The other overload has no arguments that are None."""
    mode, first = _MODES[op_name(e.node)], 2
    factors = rest[-1] if e.node.target._overloadname == "vec" else None
    corners = None if "nearest" in mode else bool(rest[1])
    for dim in range(first, len(x.shape)):
        size: int | None = e.shape[dim]
        factor: float | None = None
        if isinstance(factors, Sequence):
            size, factor = None, float(factors[dim - first])
        resize = functools.partial(
            _resize, size=size, factor=factor, mode=mode, corners=corners
        )
        x = along(e, x, dim, resize)
    return x


def _resize(
    rows: torch.Tensor,
    size: int | None,
    factor: float | None,
    mode: str,
    corners: bool | None,
) -> torch.Tensor:
    """Interpolates rows [1, rows, size] along the last dimension."""
    if mode != "bicubic":
        return F.interpolate(rows, size, factor, mode, corners)
    # Only images have this mode, so the rows count as one image, whose height does not
    # change.
    sizes = None if size is None else (rows.shape[1], size)
    factors = None if factor is None else (1.0, factor)
    return F.interpolate(rows[None], sizes, factors, mode, corners)[0]
