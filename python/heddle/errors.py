"""The exceptions that the package raises."""


class HeddleError(Exception):
    """Base of all errors of this package."""


class NotFoundError(HeddleError):
    """Heddle's programs or its runtime library are not installed."""


class CompileError(HeddleError):
    """The compiler refused a program. The text is the compiler's message."""


class RunError(HeddleError):
    """The runtime refused an artifact, an argument or a run. The text is the
    runtime's message."""
