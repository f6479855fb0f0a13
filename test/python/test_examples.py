"""Runs the examples."""

import pathlib
import subprocess
import sys
import unittest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


class Examples(unittest.TestCase):
    def test_torch_train(self) -> None:
        program = EXAMPLES / "torch-train" / "train.py"
        done = subprocess.run([sys.executable, program], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("PyTorch"), 20)


if __name__ == "__main__":
    unittest.main()
