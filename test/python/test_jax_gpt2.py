"""Ten steps of the benchmark's GPT-2, small, with layers unrolled and in lax.scan."""

import argparse
import pathlib
import sys
import unittest
import warnings

try:
    import jax
    import optax  # noqa: F401
except ImportError as problem:
    raise unittest.SkipTest(f"needs jax and optax: {problem}") from None

import heddle.jax

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "jax"))

import gpt2  # noqa: E402

SMALL = dict(layers=3, width=32, heads=4, vocabulary=67, batch=4, length=12)


class Gpt2Test(unittest.TestCase):
    def check(self, scan: bool, checkpoint: bool, attention: str) -> None:
        form = dict(scan=scan, checkpoint=checkpoint, attention=attention)
        step, args = gpt2.make(argparse.Namespace(**SMALL, **form))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scores that a scan stores
            program = heddle.jax.compile(step, *args, donate_argnums=(0, 1))
        with program:
            steps = {
                "heddle": gpt2.training(program, args),
                "jax": gpt2.training(jax.jit(step), args),
            }
            measured = gpt2.measure(steps, 9)
        got, wanted = measured["heddle"]["losses"], measured["jax"]["losses"]
        self.assertEqual(len(got), 10)
        for ours, theirs in zip(got, wanted, strict=True):
            self.assertAlmostEqual(ours, theirs, delta=1e-5 * theirs)

    def test_unrolled(self) -> None:
        self.check(False, False, "heddle")
        self.check(False, False, "softmax")

    def test_memory(self) -> None:
        """Layers in a scan need less memory than unrolled ones, because values that the
        backward loop computes again are not merged with the forward loop's."""
        sizes = SMALL | dict(layers=6, width=64, length=32)
        for attention in ("heddle", "softmax"):
            arenas = []
            for scan in (False, True):
                form = dict(scan=scan, checkpoint=False, attention=attention)
                step, args = gpt2.make(argparse.Namespace(**sizes, **form))
                with heddle.jax.compile(step, *args, donate_argnums=(0, 1)) as program:
                    arenas.append(gpt2.planned_memory(program.artifact, "main"))
            self.assertLess(arenas[1], arenas[0], attention)

    def test_scan(self) -> None:
        self.check(True, False, "heddle")
        self.check(True, False, "softmax")

    def test_scan_with_checkpoint(self) -> None:
        self.check(True, True, "heddle")
        self.check(True, True, "softmax")


if __name__ == "__main__":
    unittest.main()
