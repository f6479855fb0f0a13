"""Small functions on one device, compared with JAX."""

import unittest

try:
    import jax
except ImportError as problem:
    raise unittest.SkipTest(f"needs jax: {problem}") from None

import heddle.jax
from jax_functions import FUNCTIONS
from test_jax_programs import check


class FunctionTest(unittest.TestCase):
    def test_functions(self) -> None:
        for name, (function, args) in FUNCTIONS.items():
            with self.subTest(name), heddle.jax.compile(function, *args) as program:
                check(self, program(*args), jax.jit(function)(*args))


if __name__ == "__main__":
    unittest.main()
