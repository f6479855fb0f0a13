"""python -m heddle.torch."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import heddle
import torch

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 61,
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 1,
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip


class Mean(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).square().mean()


class Command(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "config.json").write_text(json.dumps(LLAMA))

    def _run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "heddle.torch", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True)

    def test_config(self) -> None:
        output = self.folder / "model.mlir"
        sizes = ["--batch", 2, "--seq", 8]
        done = self._run(self.folder, "-o", output, *sizes, "--attention-mask")
        self.assertEqual(done.returncode, 0, done.stderr)
        artifact = heddle.compile(output, self.folder / "a.heddle", mesh={"tp": 2})
        ports = heddle.read_manifest(artifact).tables["step"].inputs
        roles = {port.name: port.role for port in ports}
        self.assertEqual(roles.pop("labels"), "labels")
        self.assertEqual(set(roles), {"input_ids", "attention_mask"})
        done = self._run(self.folder, "--report", *sizes)
        self.assertEqual(done.stdout, "Heddle has all ops of the model\n")

    def test_program(self) -> None:
        program = torch.export.export(Mean(), (torch.randn(2, 4),))
        torch.export.save(program, self.folder / "mean.pt2")
        done = self._run(self.folder / "mean.pt2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("heddle.variable @layer.weight : tensor<3x4xf32>", done.stdout)

    def test_errors(self) -> None:
        done = self._run(self.folder / "none")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^heddle.torch: error: .*none: expected a folder")


if __name__ == "__main__":
    unittest.main()
