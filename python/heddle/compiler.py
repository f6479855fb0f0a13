"""Calls the program `heddle`."""

import os
import pathlib
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from heddle import _find
from heddle.errors import CompileError

Path = str | os.PathLike[str]
# A plan: a file, the sizes of a mesh's axes, or "auto".
Plan = Path | Mapping[str, int]
AUTO = "auto"


def run_program(*arguments: Path, program: str = "heddle") -> str:
    """Runs one of Heddle's programs. Returns its standard output; raises
    CompileError with its messages if it fails."""
    command = [str(_find.program(program)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    check_end(command, done.returncode, done.stdout, done.stderr)
    return done.stdout


def check_end(command: Sequence[str], code: int, out: str, messages: str) -> None:
    """Raises CompileError if a program's exit code is not 0."""
    if code != 0:
        message = messages.strip() or out.strip()
        raise CompileError(message or f"{command[0]} ended with status {code}")


def plan_flags(plan: Plan | None) -> list[str]:
    """Returns the flags of `heddle compile` for a plan."""
    if plan is None:
        return []
    if isinstance(plan, Mapping):
        axes = ",".join(f"{axis}={size}" for axis, size in plan.items())
        return ["--mesh", axes] if axes else []
    if plan == AUTO:
        return auto_flags()
    return ["--plan", os.fspath(plan)]


def auto_flags(cluster: Path | None = None) -> list[str]:
    """Returns the flags with which the planner chooses a plan for a cluster: a
    preset or a file. Without one, each core of this machine is a device."""
    if cluster is None:
        cluster = f"laptop-cpu:{os.cpu_count() or 1}"
    return ["--plan", AUTO, "--cluster", os.fspath(cluster)]


def import_model(path: Path, output: Path, flags: Sequence[str] = ()) -> pathlib.Path:
    """Writes the model of a config.json, or of its folder, as an .mlir file."""
    run_program("import", path, "-o", output, *flags)
    return pathlib.Path(output)


class Compilation:
    """A run of `heddle compile` that starts before its module is known.

    The compiler's process starts while the caller still makes the module:

        with Compilation(output, plan=plan) as compilation:
            compilation.finish(make_module())

    A run that is not finished within the block is ended.
    """

    def __init__(
        self,
        output: Path,
        *,
        mesh: Mapping[str, int] | None = None,
        plan: Path | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        if mesh is not None and plan is not None:
            raise CompileError("expected a mesh or a plan, got both")
        self.output = pathlib.Path(output)
        self._options = [*plan_flags(plan if mesh is None else mesh), *flags]
        self._process: subprocess.Popen[str] | None = None
        # The planner reads the module's file itself.
        if not {AUTO, f"--plan={AUTO}"} & set(self._options):
            self._command = [str(_find.program("heddle")), "compile", "-"]
            self._command += ["-o", os.fspath(output), *self._options]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=pipe, text=True
            )

    def __enter__(self) -> "Compilation":
        return self

    def __exit__(self, *unused: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def finish(self, module: str) -> pathlib.Path:
        """Compiles the text of a module; returns the artifact's path."""
        if self._process is not None:
            process = self._process
            out, messages = process.communicate(module)
            self._process = None
            check_end(self._command, process.returncode, out, messages)
            return self.output
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "module.mlir"
            path.write_text(module)
            run_program("compile", path, "-o", self.output, *self._options)
        return self.output


def compile(
    module: Path,
    output: Path,
    *,
    mesh: Mapping[str, int] | None = None,
    plan: Path | None = None,
    flags: Sequence[str] = (),
) -> pathlib.Path:
    """Compiles a module to the artifact `output` and returns its path.

    `module` is a file, or the text of a module (which contains a line break).
    `flags` are further flags of `heddle compile`.
    """
    if isinstance(module, str) and "\n" in module:
        with Compilation(output, mesh=mesh, plan=plan, flags=flags) as compilation:
            return compilation.finish(module)
    if mesh is not None and plan is not None:
        raise CompileError("expected a mesh or a plan, got both")
    options = [*plan_flags(plan if mesh is None else mesh), *flags]
    run_program("compile", module, "-o", output, *options)
    return pathlib.Path(output)
