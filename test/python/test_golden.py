"""The stored texts that tests without PyTorch read equal the texts of today."""

import pathlib
import unittest

import golden

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "Import" / "Torch" / "Inputs"


class Golden(unittest.TestCase):
    def test_texts(self) -> None:
        self.maxDiff = None
        for name, text in golden.texts().items():
            with self.subTest(name):
                self.assertEqual((FOLDER / f"{name}.mlir").read_text(), text)


if __name__ == "__main__":
    unittest.main()
