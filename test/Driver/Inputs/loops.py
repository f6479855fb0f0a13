"""loops.py FOLDER: a recurrent model, in a loop and unrolled (loop.mlir, unrolled.mlir),
and a batch for both. loops.py compare A B: the losses of two runs are equal."""

import json
import pathlib
import random
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[1] / "numerics"))
sys.dont_write_bytecode = True

import tensors  # noqa: E402

STEPS = 3
MODULE = """
module {
  heddle.variable @w : tensor<6x6xf32> parameter init(normal<0.4>)
  heddle.variable @u : tensor<3x6xf32> parameter init(normal<0.4>)
  func.func @forward(
      %%x: tensor<4x6xf32> {heddle.name = "x", heddle.role = #heddle.port_role<features>},
      %%y: tensor<4x6xf32> {heddle.name = "y", heddle.role = #heddle.port_role<labels>})
      -> (tensor<f32> {heddle.name = "loss_sum", heddle.role = #heddle.port_role<loss_sum>},
          tensor<f32> {heddle.name = "count", heddle.role = #heddle.port_role<label_count>}) {
    %%w = heddle.load @w : tensor<6x6xf32>
    %%u = heddle.load @u : tensor<3x6xf32>
    %%count = arith.constant dense<24.0> : tensor<f32>
%s
    %%d = arith.subf %%h, %%y : tensor<4x6xf32>
    %%e = arith.mulf %%d, %%d : tensor<4x6xf32>
    %%loss = heddle.reduce sum %%e over [0, 1] : tensor<4x6xf32> -> tensor<f32>
    return %%loss, %%count : tensor<f32>, tensor<f32>
  }
}
"""
STEP = """
  %%p{n} = heddle.contract "cell" [bf, fh -> bh] {h}, %%w : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
  %%r{n} = tensor.extract_slice %%u[{i}, 0] [1, 6] [1, 1] : tensor<3x6xf32> to tensor<6xf32>
  %%b{n} = heddle.broadcast %%r{n} along [1] : tensor<6xf32> -> tensor<4x6xf32>
  %%s{n} = arith.addf %%p{n}, %%b{n} : tensor<4x6xf32>
  {out} = math.tanh %%s{n} : tensor<4x6xf32>
""".replace("%%", "%")
LOOP = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %h = scf.for %i = %c0 to %c3 step %c1 iter_args(%g = %x) -> tensor<4x6xf32> {
""" + STEP.format(n="", h="%g", i="%i", out="%t") + """
    scf.yield %t : tensor<4x6xf32>
  }
"""


def losses(path):
    lines = pathlib.Path(path).read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines if '"loss"' in line]


def compare(a, b):
    a, b = losses(a), losses(b)
    assert len(a) == len(b) and len(a) > 4, (a, b)
    assert a[-1] < 0.9 * a[0], a
    for x, y in zip(a, b):
        assert abs(x - y) <= 1e-6 * abs(y), (a, b)


def main():
    if sys.argv[1] == "compare":
        return compare(*sys.argv[2:])
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True)
    unrolled = "".join(
        STEP.format(n=i, i=i, h=f"%h{i - 1}" if i else "%x",
                    out="%h" if i == STEPS - 1 else f"%h{i}")
        for i in range(STEPS))
    (folder / "loop.mlir").write_text(MODULE % LOOP)
    (folder / "unrolled.mlir").write_text(MODULE % unrolled)
    draw = random.Random(0)
    values = [[draw.uniform(-1, 1) for _ in range(24)] for _ in "xy"]
    tensors.write(folder / "batch.safetensors", {
        name: tensors.Tensor("F32", (4, 6), part)
        for name, part in zip("xy", values)})


main()
