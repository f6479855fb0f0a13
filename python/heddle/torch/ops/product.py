"""Linear layers and other products."""

import math
from collections.abc import Sequence

import numpy as np

from heddle.torch.emit import Emitter
from heddle.torch.op_table import op
from heddle.torch.ops.elementwise import operands
from heddle.torch.text import Value

# The letters of leading dimensions: b is the batch and s the sequence.
LEADING = "bsxyzuw"


def leading(rank: int) -> str:
    return LEADING[:rank]


# Linear layers.


def source_rows(e: Emitter, x: Value) -> Value:
    """Returns the rows x [rows, features] with the dimensions that were merged into
    rows. So batch and sequence keep dimensions of their own."""
    source = x
    while source.source and source.source[0] == "reshape":
        source = source.source[1]
    if len(x.shape) != 2 or len(source.shape) < 3:
        return x
    for rank in range(2, len(source.shape)):
        if math.prod(source.shape[:rank]) == x.shape[0]:
            rows = e.builder.reshape(source, (*source.shape[:rank], x.shape[1]))
            if x.name in e.features:
                e.features[rows.name] = e.features[x.name]
            return rows
    return x


def _inner_letters(e: Emitter, x: Value, out: int) -> tuple[str, str]:
    """Returns the letters of a layer's input and output features. f is the inner
    dimension of a block, which tensor parallelism splits."""
    if e.features.get(x.name) == "f":
        return "f", "h"
    return "h", "v" if out in e.vocabularies else "f"


def add_bias(e: Emitter, y: Value, bias: Value | None, along: Sequence[int]) -> Value:
    if bias is None:
        return y
    wide = e.builder.broadcast_along(bias, y.shape, along)
    return e.builder.binary("add", y, wide)


def layer(
    e: Emitter, x: Value, weight: Value, bias: Value | None, is_transposed: bool
) -> Value:
    """Builds x W^T + bias for a weight [out, in], or x W + bias."""
    rows = source_rows(e, x)
    dims = leading(len(rows.shape) - 1)
    out = weight.shape[0 if is_transposed else 1]
    h, f = _inner_letters(e, rows, out)
    if stack := e.stacked_weight(weight):
        y = _stacked_layer(e, rows, stack, bias, dims, is_transposed)
        e.features[y.name] = "f"
    else:
        letters = f"{f}{h}" if is_transposed else f"{h}{f}"
        y = e.builder.contract(f"{dims}{h}, {letters} -> {dims}{f}", rows, weight)
        y = add_bias(e, y, bias, [len(dims)])
        e.features[y.name] = "h" if f == "h" else "f"
    result = e.builder.reshape(y, (*x.shape[:-1], out))
    e.features[result.name] = e.features[y.name]
    return result


def _stacked_layer(
    e: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None,
    dims: str,
    is_transposed: bool,
) -> Value:
    """Builds several products of one input, such as query, key and value, with
    the part as the first dimension of the result."""
    letters = "cfh" if is_transposed else "hcf"
    y = e.builder.contract(f"{dims}h, {letters} -> c{dims}f", x, weight)
    if bias is not None:
        parts = e.stacked_weight(bias)
        y = add_bias(e, y, parts, [0, len(dims) + 1])
    rank = len(y.shape)
    order = [*range(1, rank - 1), 0, rank - 1]
    merged = e.builder.reshape(
        e.builder.transpose(y, order), (*y.shape[1:-1], y.shape[0] * y.shape[-1])
    )
    # The split that follows takes the parts themselves.
    merged = Value(merged.name, merged.shape, merged.type)
    e.stacks[merged.name] = y
    return merged


@op("linear")
def linear(e: Emitter, x: Value, weight: Value, bias: Value | None = None) -> Value:
    return layer(e, x, weight, bias, is_transposed=True)


@op("addmm")
def addmm(
    e: Emitter, bias: Value, x: Value, weight: Value, beta: float = 1, alpha: float = 1
) -> Value:
    if beta != 1 or alpha != 1 or len(bias.shape) != 1:
        raise e.refuse("expected a bias of one dimension, beta 1 and alpha 1")
    return product(e, x, weight, bias)


def _load_of(weight: Value) -> tuple[Value, bool] | None:
    """Returns the loaded parameter behind a weight, and whether the weight is
    its transpose."""
    if weight.source and weight.source[0] == "load":
        return weight, False
    if weight.source and weight.source[0] == "transpose":
        inner = weight.source[1]
        if inner.source and inner.source[0] == "load" and len(inner.shape) == 2:
            return inner, True
    return None


def product(e: Emitter, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """Builds x [..., in] times a matrix [in, out]."""
    if found := _load_of(weight):
        return layer(e, x, found[0], bias, is_transposed=found[1])
    dims = leading(len(x.shape) - 1)
    y = e.builder.contract(f"{dims}i, io -> {dims}o", x, weight)
    return add_bias(e, y, bias, [len(dims)])


@op("mm")
def mm(e: Emitter, a: Value, b: Value) -> Value:
    return product(e, a, b)


@op("matmul", "bmm", "dot", "mv")
def matmul(e: Emitter, a: Value, b: Value) -> Value:
    a, b = (e.builder.convert(value, e.element) for value in (a, b))
    if len(b.shape) == 2 and len(a.shape) > 1:
        return product(e, a, b)
    vector_a, vector_b = len(a.shape) == 1, len(b.shape) == 1
    if vector_a:
        a = e.builder.reshape(a, (1, *a.shape))
    if vector_b:
        b = e.builder.reshape(b, (*b.shape, 1))
    batch = tuple(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    a = e.builder.broadcast(a, (*batch, *a.shape[-2:]))
    b = e.builder.broadcast(b, (*batch, *b.shape[-2:]))
    # The last batch dimension of scores is that of heads.
    dims = {0: "", 1: "b"}.get(len(batch), "b" + "xyzuw"[: len(batch) - 2] + "n")
    y = e.builder.contract(f"{dims}pi, {dims}io -> {dims}po", a, b)
    return e.builder.reshape(y, e.shape)


@op("baddbmm")
def baddbmm(
    e: Emitter, x: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1
) -> Value:
    y = e.builder.contract("bpi, bio -> bpo", a, b)
    if alpha != 1:
        y = e.builder.binary("mul", y, e.builder.splat(alpha, y.shape, y.type))
    if beta == 0:
        return y
    (x,) = operands(e, x)
    if beta != 1:
        x = e.builder.binary("mul", x, e.builder.splat(beta, x.shape, x.type))
    return e.builder.binary("add", y, x)


@op("outer")
def outer(e: Emitter, a: Value, b: Value) -> Value:
    wide = [e.builder.reshape(a, (*a.shape, 1)), e.builder.reshape(b, (1, *b.shape))]
    return e.builder.binary("mul", *operands(e, *wide))


@op("einsum")
def einsum(
    e: Emitter, text: str, values: Sequence[Value], path: object = None
) -> Value:
    """Multiplies the operands from left to right."""
    letters, result = _letters(e, text, values)
    values = _of_one_size(e, values, letters)
    # First sums over dimensions that only one operand has and the result lacks.
    terms = [
        _summed(
            e, value, own, set("".join(letters[:i] + letters[i + 1 :])) | set(result)
        )
        for i, (value, own) in enumerate(zip(values, letters, strict=True))
    ]
    x, left = terms[0]
    for i, (y, right) in enumerate(terms[1:], 2):
        needed = set(result).union(*(own for _, own in terms[i:]))
        kept = [a for a in dict.fromkeys(left + right) if a in needed]
        into = "".join(kept) if i < len(terms) else result
        x, left = e.builder.contract(f"{left}, {right} -> {into}", x, y), into
    return e.builder.transpose(x, [left.index(letter) for letter in result])


def _of_one_size(
    e: Emitter, values: Sequence[Value], letters: Sequence[str]
) -> list[Value]:
    """Repeats the operands that have a letter with size 1, as PyTorch does."""
    sizes: dict[str, int] = {}
    for value, own in zip(values, letters, strict=True):
        for letter, size in zip(own, value.shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, size))
    return [
        e.builder.broadcast(value, tuple(sizes[letter] for letter in own))
        for value, own in zip(values, letters, strict=True)
    ]


def _letters(e: Emitter, text: str, values: Sequence[Value]) -> tuple[list[str], str]:
    """Returns the letters of each operand and of the result. The dimensions of an
    ellipsis get letters of their own."""
    inputs, arrow, result = text.replace(" ", "").partition("->")
    letters = inputs.split(",")
    if not arrow:
        all_ = inputs.replace(",", "").replace("...", "")
        result = "..." * ("..." in inputs)
        result += "".join(sorted(a for a in set(all_) if all_.count(a) == 1))
    free = [a for a in "abcdefghijklmnopqrstuvwxyz" if a not in text]
    ranks = [len(v.shape) for v in values]
    extra = [
        rank - len(own.replace("...", ""))
        for rank, own in zip(ranks, letters, strict=True)
        if "..." in own
    ]
    if len(set(extra)) > 1 or max(extra, default=0) > len(free):
        raise e.refuse("expected all ellipses to stand for as many dimensions")
    spelled = "".join(free[: max(extra, default=0)])
    letters = [own.replace("...", spelled) for own in letters]
    if any(len(set(own)) != len(own) for own in letters) or text != text.lower():
        raise e.refuse("expected each operand to have each letter once, in lower case")
    return letters, result.replace("...", spelled)


def _summed(e: Emitter, x: Value, own: str, needed: set[str]) -> tuple[Value, str]:
    alone = [i for i, letter in enumerate(own) if letter not in needed]
    return (
        e.builder.reduce("sum", x, alone),
        "".join(letter for letter in own if letter in needed),
    )


@op("bilinear")
def bilinear(
    e: Emitter, a: Value, b: Value, weight: Value, bias: Value | None = None
) -> Value:
    dims = leading(len(a.shape) - 1)
    inner = e.builder.contract(f"{dims}h, fhk -> {dims}fk", a, weight)
    y = e.builder.contract(f"{dims}fk, {dims}k -> {dims}f", inner, b)
    return add_bias(e, y, bias, [len(dims)])
