"""python -m heddle.torch MODEL -o model.mlir"""

import argparse
import pathlib
import sys

import torch

from heddle.errors import HeddleError
from heddle.torch import hugging_face
from heddle.torch.exporter import export, export_program, report


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m heddle.torch",
        description="Writes a PyTorch model with its loss as an .mlir file.",
    )
    parser.add_argument(
        "model",
        help="a folder or config.json of Hugging Face's, or a .pt2 file of "
        "torch.export.save whose result is the loss",
    )
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the file to write")
    parser.add_argument("--batch", type=int, default=1, help="samples (default: 1)")
    parser.add_argument("--seq", type=int, help="tokens of a sample (default: all)")
    parser.add_argument(
        "--attention-mask", action="store_true", help="with a mask of padding as input"
    )
    parser.add_argument(
        "--report", action="store_true", help="only list the ops that Heddle lacks"
    )
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    path = pathlib.Path(options.model)
    if path.suffix == ".pt2":
        module = export_program(torch.export.load(path))
    else:
        model = hugging_face.build(path)
        batch = hugging_face.example(
            model, options.batch, options.seq, options.attention_mask
        )
        if options.report:
            problems = report(model, batch)
            print("\n".join(map(str, problems)) or "Heddle has all ops of the model")
            return 1 if problems else 0
        module = export(model, batch)
    if options.output is None:
        sys.stdout.write(module.text)
    else:
        options.output.write_text(module.text)
    return 0


def main() -> int:
    try:
        return _run(_parse())
    except (HeddleError, OSError) as problem:
        print(f"heddle.torch: error: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
