"""Heddle from Python: compiles programs and runs them on the devices of a plan.

    import numpy as np
    import heddle

    artifact = heddle.compile("model.mlir", "model.heddle", mesh={"dp": 2})
    with heddle.Session(artifact) as session:
        results = session.run("step", {"tokens": tokens, "targets": targets})
        print(results["loss"])

`heddle.torch` trains PyTorch modules, `heddle.jax` compiles JAX functions. Both
are imported by name, because they need PyTorch or JAX.
"""

from heddle.compiler import compile, import_model
from heddle.errors import CompileError, HeddleError, RunError
from heddle.manifest import Manifest, Port, Table, Variable, read_manifest
from heddle.session import Session

__all__ = [
    "CompileError",
    "HeddleError",
    "Manifest",
    "Port",
    "RunError",
    "Session",
    "Table",
    "Variable",
    "compile",
    "import_model",
    "read_manifest",
]
