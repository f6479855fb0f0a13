"""Activations that are one op of Heddle."""

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op
from heddle.torch.ops.elementwise import logistic
from heddle.torch.ops.shape import axis, take
from heddle.torch.text import Value


@op("gelu")
def gelu(e: Emitter, x: Value, approximate: str = "none") -> Value:
    return e.builder.op(
        f"heddle.gelu {e.builder.quoted} {x.name} approximate({approximate}) : "
        f"{x.tensor}",
        [x],
        x.shape,
        x.type,
    )


@op("silu")
def silu(e: Emitter, x: Value) -> Value:
    return e.builder.op(
        f"heddle.silu {e.builder.quoted} {x.name} : {x.tensor}", [x], x.shape, x.type
    )


@op("glu")
def glu(e: Emitter, x: Value, dim: int = -1) -> Value:
    dim = axis(dim, len(x.shape))
    half = x.shape[dim] // 2
    gate = logistic(e, take(e, x, dim, half, half))
    return e.builder.binary("mul", take(e, x, dim, 0, half), gate)
