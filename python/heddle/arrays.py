"""NumPy arrays as the runtime's tensors.

NumPy has no bfloat16. Arrays of ml_dtypes.bfloat16, or of uint16 with its bits,
are taken as they are; other floats are rounded. Results of type bf16 come as
ml_dtypes.bfloat16 if that package is installed, otherwise as float32.
"""

import numpy as np
import numpy.typing as npt

from heddle.errors import RunError

try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = None

Array = npt.NDArray[np.generic]

_TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": np.uint16,
    "i1": np.bool_,
    "i8": np.int8,
    "i32": np.int32,
    "i64": np.int64,
}


def memory_type(name: str) -> np.dtype:
    """Returns the NumPy type with the memory of the runtime's type `name`."""
    return np.dtype(_TYPES[name])


def _round_to_bf16(array: Array) -> Array:
    words = np.asarray(array, np.float32, order="C").view(np.uint32)
    rounded = words + (((words >> 16) & 1) + np.uint32(0x7FFF))
    quiet = (words >> 16) | 0x40  # a NaN's payload must not round to infinity
    return np.where(np.isnan(array), quiet, rounded >> 16).astype(np.uint16)


def _is_bf16(array: Array) -> bool:
    return array.dtype == np.uint16 or array.dtype.name == "bfloat16"


def _check_integers(array: Array, target: np.dtype, what: str) -> None:
    limits = np.iinfo(target)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        raise RunError(
            f"{what}: expected integers that {target} holds, got "
            f"{array.min()} to {array.max()}"
        )


def to_memory(value: npt.ArrayLike, type_name: str, what: str) -> Array:
    """Returns `value` as contiguous memory of the runtime's type. Returns the array
    itself if it already is. `what` names it in errors."""
    array = np.asarray(value)
    target = memory_type(type_name)
    if type_name == "bf16":
        if _is_bf16(array):
            return np.asarray(array, order="C").view(np.uint16)
        if array.dtype.kind != "f":
            raise RunError(f"{what}: expected floats, got {array.dtype}")
        return _round_to_bf16(array)
    if array.dtype == target:
        return np.asarray(array, order="C")
    if target.kind == "i" and array.dtype.kind in "iu":
        _check_integers(array, target, what)
    elif not np.can_cast(array.dtype, target, "same_kind"):
        raise RunError(f"{what}: expected {target}, got {array.dtype}")
    return np.asarray(array, target, order="C")


def from_memory(array: Array, type_name: str) -> Array:
    """Returns memory of the runtime's type as an array to compute with."""
    if type_name != "bf16":
        return array
    if bfloat16 is not None:
        return array.view(bfloat16)
    return (array.astype(np.uint32) << 16).view(np.float32)
