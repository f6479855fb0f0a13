"""Finds Heddle's programs and its runtime library.

They are looked for in this order, in `bin` and `lib` of each folder:
- the environment variable HEDDLE_HOME (an installation, or a build folder);
- the package's own folder, and `build` of the source tree that holds it;
- the installation whose `bin` is on PATH.
"""

import os
import pathlib
import shutil
from collections.abc import Iterator

from heddle.errors import NotFoundError

LIBRARY = "libheddle_rt.so"
_PACKAGE = pathlib.Path(__file__).resolve().parent


def _homes() -> Iterator[pathlib.Path]:
    if home := os.environ.get("HEDDLE_HOME"):
        yield pathlib.Path(home)
        return
    yield _PACKAGE
    yield _PACKAGE.parent.parent / "build"
    if program := shutil.which("heddle"):
        yield pathlib.Path(program).resolve().parent.parent


def _find(relative: list[str], what: str) -> pathlib.Path:
    homes = list(_homes())
    for home in homes:
        for name in relative:
            path = home / name
            if path.is_file():
                return path
    places = ", ".join(str(home) for home in homes)
    raise NotFoundError(
        f"found no {what} in {places}; set HEDDLE_HOME to Heddle's installation "
        "or build folder"
    )


def library() -> pathlib.Path:
    """Returns the path of the runtime library."""
    return _find([f"lib/{LIBRARY}", f"lib64/{LIBRARY}"], LIBRARY)


def program(name: str) -> pathlib.Path:
    """Returns the path of one of Heddle's programs, such as "heddle"."""
    return _find([f"bin/{name}"], f"program '{name}'")
