"""The base of the package: compile, load, run, read and write."""

import json
import pathlib
import tempfile
import unittest

import heddle
import numpy as np
from heddle.compiler import Compilation

PROGRAM = """
module {
  func.func @main(%x: tensor<4x3xf32> {heddle.name = "x"},
                  %y: tensor<4x3xf32> {heddle.name = "y"})
      -> (tensor<4x3xf32> {heddle.name = "sum"}) {
    %0 = arith.addf %x, %y : tensor<4x3xf32>
    return %0 : tensor<4x3xf32>
  }
}
"""
GPT = {
    "model_type": "gpt2", "vocab_size": 17, "n_positions": 8, "n_embd": 8,
    "n_layer": 1, "n_head": 2, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0,
}  # fmt: skip


class Package(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_function(self) -> None:
        artifact = heddle.compile(PROGRAM, self.folder / "sum.heddle")
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        with heddle.Session(artifact) as session:
            results = session.run("main", {"x": x, "y": x})
            np.testing.assert_array_equal(results["sum"], 2 * x)
            memory = np.empty((4, 3), np.float32)
            session.run("main", [x, -x], into={"sum": memory})
            np.testing.assert_array_equal(memory, 0 * x)
            with self.assertRaisesRegex(heddle.RunError, "expected the shape"):
                session.run("main", [x, x[:2]])
            with self.assertRaisesRegex(heddle.RunError, "expected the inputs x, y"):
                session.run("main", {"x": x})
            with self.assertRaisesRegex(heddle.RunError, "expected float32, got"):
                session.run("main", [x, x.astype(np.complex64)])
            with self.assertRaisesRegex(heddle.RunError, "expected one of main"):
                session.run("step", [x, x])
        with self.assertRaisesRegex(heddle.RunError, "was closed"):
            session.run("main", [x, x])

    def test_early_start(self) -> None:
        """The compiler runs while the block does, and is stopped if the block fails."""
        output = self.folder / "sum.heddle"
        with self.assertRaises(KeyError), Compilation(output):
            raise KeyError
        self.assertEqual(list(self.folder.iterdir()), [])
        with Compilation(output) as compilation:
            artifact = compilation.finish(PROGRAM)
        with heddle.Session(artifact) as session:
            x = np.ones((4, 3), np.float32)
            np.testing.assert_array_equal(session.run("main", [x, x])["sum"], 2 * x)
        wrong = PROGRAM.replace("addf", "plus")
        with self.assertRaisesRegex(heddle.CompileError, "arith.plus"):
            heddle.compile(wrong, output)
        # The compiler ends before it reads the module.
        with self.assertRaisesRegex(heddle.CompileError, "none.json.*o such file"):
            heddle.compile(PROGRAM, output, plan=self.folder / "none.json")

    def test_training(self) -> None:
        config = self.folder / "config.json"
        config.write_text(json.dumps(GPT))
        flags = ["--batch", "2", "--seq", "8"]
        module = heddle.import_model(config, self.folder / "gpt.mlir", flags)
        artifact = heddle.compile(module, self.folder / "gpt.heddle", mesh={"dp": 2})
        ids = np.arange(16, dtype=np.int64).reshape(2, 8)
        batch = {"tokens": ids, "targets": np.roll(ids, -1, axis=1)}
        with heddle.Session(artifact, cores_per_device=1) as session:
            self.assertEqual(session.num_devices, 2)
            first = session.run("step", batch, outputs=["loss"])["loss"]
            session.save(self.folder / "state.safetensors")
            second = session.run("step", batch)["loss"]
            self.assertLess(second, first)
            session.load(self.folder / "state.safetensors")
            self.assertEqual(session.run("step", batch)["loss"], second)
            weight = session.read("wte.weight")
            session.write("wte.weight", 0 * weight)
            self.assertFalse(session.read("wte.weight").any())
            with self.assertRaisesRegex(heddle.RunError, "integers that int32 holds"):
                session.run("step", {**batch, "tokens": ids + (1 << 40)})

    def test_errors(self) -> None:
        with self.assertRaisesRegex(heddle.CompileError, "no such file"):
            heddle.compile("nothing.mlir", self.folder / "x.heddle")
        with self.assertRaisesRegex(heddle.RunError, "expected an artifact"):
            heddle.Session(self.folder)


if __name__ == "__main__":
    unittest.main()
