"""Errors of the front end."""

import dataclasses

from heddle.errors import HeddleError


class TorchError(HeddleError):
    """A PyTorch program that Heddle cannot take."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """A use of an op that Heddle does not have."""

    op: str
    module: str
    line: str
    reason: str

    def __str__(self) -> str:
        place = ", ".join(filter(None, [self.module, self.line]))
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.op} ({place}){reason}" if place else f"{self.op}{reason}"


class UnsupportedError(TorchError):
    """Ops that Heddle does not have, all of them at once."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        lines = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(f"Heddle has no form of {len(problems)} ops:{lines}")


class NoFormError(Exception):
    """Raised by the function of an op for arguments that it does not take."""
