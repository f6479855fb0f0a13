"""Values and gradients of programs on Heddle's devices, compared with JAX."""

import unittest

try:
    import jax
    import optax  # noqa: F401
except ImportError as problem:
    raise unittest.SkipTest(f"needs jax and optax: {problem}") from None

import heddle.jax
import jax.numpy as jnp
import jax_models
import jax_programs as programs
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P


def check(
    test: unittest.TestCase, got: object, wanted: object, tolerance: float = 1e-5
) -> None:
    """Compares each array, relative to its largest element."""
    paths = jax.tree_util.tree_flatten_with_path(wanted)[0]
    for (path, expected), value in zip(paths, jax.tree.leaves(got), strict=True):
        value, expected = np.asarray(value), np.asarray(expected)
        name = jax.tree_util.keystr(path)
        test.assertEqual(
            (value.shape, value.dtype), (expected.shape, expected.dtype), name
        )
        differs = value != expected  # infinities may be equal
        value, expected = value.astype(np.float64), expected.astype(np.float64)
        scale = max(
            float(np.max(np.abs(expected), initial=0, where=np.isfinite(expected))),
            1e-3,
        )
        error = (
            float(np.max(np.abs(value - expected), initial=0, where=differs)) / scale
        )
        test.assertLess(error, tolerance, name)


CASES = programs.PROGRAMS | jax_models.MODELS


class ProgramTest(unittest.TestCase):
    """Every program on one device, and on dp 2 x tp 2 with annotated arguments."""

    def run_on_one(self, name: str) -> None:
        case = CASES[name]()
        with heddle.jax.compile(case.function, *case.args) as program:
            check(self, program(*case.args), jax.jit(case.function)(*case.args))

    def run_on_four(self, name: str) -> None:
        case = CASES[name]()
        options = dict(mesh=programs.MESH, in_shardings=case.specs)
        with heddle.jax.compile(case.function, *case.args, **options) as program:
            self.assertEqual(program.exported.mesh, programs.MESH)
            check(self, program(*case.args), jax.jit(case.function)(*case.args))


def add_tests() -> None:
    for name in CASES:
        for where in ("one", "four"):

            def test(self: ProgramTest, name: str = name, where: str = where) -> None:
                getattr(self, f"run_on_{where}")(name)

            setattr(ProgramTest, f"test_{name}_on_{where}", test)


add_tests()


class ConstraintTest(unittest.TestCase):
    """Shardings that stand in the program."""

    def test_constraints(self) -> None:
        mesh = AbstractMesh((2, 2), ("dp", "tp"))
        free = P.UNCONSTRAINED

        def pin(x: jax.Array, *spec: object) -> jax.Array:
            return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

        def loss(w: jax.Array, x: jax.Array) -> jax.Array:
            h = jnp.tanh(pin(x, "dp", None) @ w)
            return jnp.sum((pin(h, free, "tp") @ w.T) ** 2)

        def plain(w: jax.Array, x: jax.Array) -> jax.Array:
            return jnp.sum((jnp.tanh(x @ w) @ w.T) ** 2)

        args = programs.floats(0, 10, 14), programs.floats(1, 6, 10)
        exported = heddle.jax.export(jax.value_and_grad(loss), *args)
        self.assertIn(
            'heddle.pin = #heddle.sharding<@mesh, [{"dp"}, {}]>', exported.text
        )
        self.assertIn('heddle.factors = #heddle.factors<["1" = {"tp"}]>', exported.text)
        with heddle.jax.compile(jax.value_and_grad(loss), *args) as program:
            check(self, program(*args), jax.value_and_grad(plain)(*args))


class StateTest(unittest.TestCase):
    """Donated arguments stay on the devices."""

    def test_training(self) -> None:
        for make in (programs.adamw, programs.adafactor, programs.sgd):
            case = make()
            params, state, *batch = case.args
            expected = (params, state)
            options = dict(
                mesh=programs.MESH, in_shardings=case.specs, donate_argnums=(0, 1)
            )
            with heddle.jax.compile(case.function, *case.args, **options) as program:
                names = {leaf.variable for leaf in program.exported.arguments}
                self.assertIn("params.w1", names)
                for _ in range(4):
                    params, state, value = program(params, state, *batch)
                    *expected, wanted = jax.jit(case.function)(*expected, *batch)
                    self.assertAlmostEqual(float(value), float(wanted), delta=1e-5)
                check(self, (params, state), tuple(expected), 2e-5)

    def test_deleted(self) -> None:
        def step(x: jax.Array) -> jax.Array:
            return x + 1

        with heddle.jax.compile(step, np.float32(1), donate_argnums=0) as program:
            first = program(np.float32(1))
            self.assertEqual(float(first), 2)
            second = program(first)
            self.assertEqual(float(second), 3)
            with self.assertRaisesRegex(heddle.RunError, "was donated to a later call"):
                float(first)
            # An array that the program did not return replaces the variable's value.
            self.assertEqual(float(program(np.float32(7))), 8)


if __name__ == "__main__":
    unittest.main()
