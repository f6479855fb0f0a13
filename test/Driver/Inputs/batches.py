"""batches.py FOLDER COUNT [LABEL]: files of four images of 3 x 4 x 4 with labels of
five classes, or all with one label."""

import pathlib
import random
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[1] / "numerics"))
sys.dont_write_bytecode = True

import tensors  # noqa: E402

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True)
draw = random.Random(0)
for i in range(int(sys.argv[2])):
    images = [draw.gauss(0, 1) for _ in range(4 * 3 * 4 * 4)]
    labels = [draw.randrange(5) for _ in range(4)]
    labels = [int(label) for label in sys.argv[3:]] * 4 or labels
    tensors.write(folder / f"batch-{i:03}.safetensors", {
        "input0": tensors.Tensor("F32", (4, 3, 4, 4), images),
        "labels": tensors.Tensor("I64", (4,), labels)})
