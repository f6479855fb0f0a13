"""The functions of heddle_rt/c_api.h."""

import ctypes
import functools

from heddle import _find
from heddle.errors import RunError

ERROR_SIZE = 16384


class Argument(ctypes.Structure):
    """heddle_rt_argument and heddle_rt_result, which have the same layout."""

    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


_Error = [ctypes.c_char_p, ctypes.c_size_t]
_Tensor = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
_Run = [
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.POINTER(Argument),
    ctypes.c_size_t,
    ctypes.POINTER(Argument),
    ctypes.c_size_t,
]
# Function: result, arguments.
_PROTOTYPES: dict[str, tuple[type | None, list[type]]] = {
    "load": (ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int, *_Error]),
    "destroy": (None, [ctypes.c_void_p]),
    "num_devices": (ctypes.c_int, [ctypes.c_void_p]),
    "run": (ctypes.c_int, [*_Run, *_Error]),
    "read_variable": (ctypes.c_int, [*_Tensor, *_Error]),
    "write_variable": (ctypes.c_int, [*_Tensor, *_Error]),
}


@functools.cache
def _load() -> ctypes.CDLL:
    path = _find.library()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as problem:
        raise RunError(f"cannot load {path}: {problem}") from problem
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, f"heddle_rt_session_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def function(name: str) -> "ctypes._NamedFuncPointer":
    """Returns heddle_rt_session_NAME."""
    return getattr(_load(), f"heddle_rt_session_{name}")


def check(name: str, *arguments: object) -> None:
    """Calls heddle_rt_session_NAME; raises RunError with its message."""
    error = ctypes.create_string_buffer(ERROR_SIZE)
    if function(name)(*arguments, error, ERROR_SIZE) != 0:
        raise RunError(error.value.decode(errors="replace"))
