"""Finds the line of a program at which another package raised an exception."""

import pathlib
import traceback
from collections.abc import Iterable
from types import ModuleType

# Python's own library.
_LIBRARY = pathlib.Path(traceback.__file__).parent
_OWN = pathlib.Path(__file__).parent


def _files(problem: BaseException) -> list[tuple[pathlib.Path, int]]:
    """Returns the file and the line of each call, the innermost last."""
    return [
        (pathlib.Path(frame.f_code.co_filename), line)
        for frame, line in traceback.walk_tb(problem.__traceback__)
    ]


def _folders(packages: Iterable[ModuleType]) -> list[pathlib.Path]:
    return [pathlib.Path(str(package.__file__)).parent for package in packages]


def last_call(
    problem: BaseException, *packages: ModuleType
) -> tuple[pathlib.Path, int] | None:
    """Returns file and line of the last call whose code belongs neither to the
    packages, nor to Python's library, nor to this package."""
    inner = [_OWN, *_folders(packages)]
    calls = [
        (file, line)
        for file, line in _files(problem)
        if file.is_file()
        and file.parent != _LIBRARY
        and not any(map(file.is_relative_to, inner))
    ]
    return calls[-1] if calls else None


def is_raised_by(problem: BaseException, *packages: ModuleType) -> bool:
    """Tells whether the innermost call is one of the packages' own."""
    file, _ = _files(problem)[-1]
    return any(map(file.is_relative_to, _folders(packages)))
