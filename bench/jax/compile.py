"""Compile time of the test programs: Heddle against XLA's CPU backend.

usage: PYTHONPATH=python:test/python python3 bench/jax/compile.py [PROGRAM...]

Prints for each program the seconds until it can be called, best of --repeats: those
of XLA and those of Heddle, and of the latter the parts of Python's rewrites and of
`heddle compile`. Both include JAX's trace. One process compiles all programs, so that
JAX's imports and the first use of its compiler are not counted.
"""

import argparse
import pathlib
import tempfile
import time

import heddle.jax
import jax
import jax_programs


def heddle_times(case: jax_programs.Case) -> tuple[float, float]:
    """Returns the seconds of the rewrites and of the compiler."""
    begin = time.perf_counter()
    exported = heddle.jax.export(case.function, *case.args)
    exported_at = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        heddle.compile(exported.text, pathlib.Path(folder) / "p.heddle")
    return exported_at - begin, time.perf_counter() - exported_at


def xla_time(case: jax_programs.Case) -> float:
    jax.clear_caches()
    begin = time.perf_counter()
    jax.jit(case.function).lower(*case.args).compile()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    names = options.programs or list(jax_programs.PROGRAMS)
    jax.jit(lambda x: x + 1).lower(1.0).compile()
    heddle_times(jax_programs.PROGRAMS["mlp"]())
    print(f"{'program':24}{'rewrites':>10}{'compiler':>10}{'Heddle':>10}{'XLA':>10}")
    for name in names:
        pairs, xla = [], []
        for _ in range(options.repeats):
            jax.clear_caches()
            pairs.append(heddle_times(jax_programs.PROGRAMS[name]()))
            xla.append(xla_time(jax_programs.PROGRAMS[name]()))
        own = min(pairs, key=sum)
        row = (*own, sum(own), min(xla))
        print(f"{name:24}" + "".join(f"{x:10.2f}" for x in row), flush=True)


if __name__ == "__main__":
    main()
