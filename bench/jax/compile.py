"""Compile time of the test programs: Heddle against XLA's CPU backend.

usage: PYTHONPATH=python:test/python python3 bench/jax/compile.py [PROGRAM...]

Prints for each program the seconds until it can be called, best of --repeats, with
Heddle and with XLA. Both contain JAX's trace. The first column is the part of Heddle's
seconds that Python takes, beside which the compiler's process starts. Before the first
program, both compilers compile a small one, so that imports and their first use are
not counted.
"""

import argparse
import time

import heddle.jax
import jax
import jax_programs


def rewrite_time(case: jax_programs.Case) -> float:
    jax.clear_caches()
    begin = time.perf_counter()
    heddle.jax.export(case.function, *case.args)
    return time.perf_counter() - begin


def heddle_time(case: jax_programs.Case) -> float:
    jax.clear_caches()
    begin = time.perf_counter()
    program = heddle.jax.compile(case.function, *case.args)
    end = time.perf_counter()
    program.close()
    return end - begin


def xla_time(case: jax_programs.Case) -> float:
    jax.clear_caches()
    begin = time.perf_counter()
    jax.jit(case.function).lower(*case.args).compile()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    names = options.programs or list(jax_programs.PROGRAMS)
    jax.jit(lambda x: x + 1).lower(1.0).compile()
    heddle_time(jax_programs.PROGRAMS["mlp"]())
    print(f"{'program':24}{'rewrites':>10}{'Heddle':>10}{'XLA':>10}{'ratio':>10}")
    for name in names:
        measured: list[list[float]] = [[], [], []]
        for _ in range(options.repeats):
            for times, measure in zip(
                measured, (rewrite_time, heddle_time, xla_time), strict=True
            ):
                times.append(measure(jax_programs.PROGRAMS[name]()))
        rewrites, own, xla = map(min, measured)
        row = (rewrites, own, xla, own / xla)
        print(f"{name:24}" + "".join(f"{x:10.3f}" for x in row), flush=True)


if __name__ == "__main__":
    main()
