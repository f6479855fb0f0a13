"""Functions that become ops: heddle.jax.attention, and marks of rewrites.

A marked function is an ordinary JAX function that computes the same as its op, so it
runs under plain JAX, too. Its calls are recognized by the function's name.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxlib.mlir import ir, passmanager

from . import fused_attention
from .ir import MARKER, create, replace, shape_of, walk
from .rewrites import softmax


@functools.cache
def find_dialects() -> None:
    """Lets jaxlib's bindings find a module for each dialect."""
    with contextlib.suppress(ImportError, AttributeError):
        from jaxlib.mlir._mlir_libs import _mlir

        _mlir.globals.append_dialect_search_prefix("heddle.jax.dialects")


def load_dialects() -> None:
    """Loads the dialects of the ops that will be created. jaxlib's passes bring these
    dialects, but the bindings cannot load them by name."""
    find_dialects()
    passmanager.PassManager.parse("builtin.module(stablehlo-legalize-to-linalg)").run(
        ir.Module.parse("module {}").operation
    )


def raise_calls(module: ir.Module) -> None:
    for op in walk(module):
        if op.name != "func.call":
            continue
        if not len(op.results):  # what JAX's linearization leaves of a call
            op.erase()
            continue
        name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        if not name.startswith(MARKER):
            continue
        for prefix, convert in _CONVERSIONS.items():
            if name.startswith(prefix):
                convert(op)


def convert_embedding_grad(op: ir.Operation) -> None:
    """heddle_embedding_grad(ids, updates, table) -> table + sums by id."""
    ids, updates, table = op.operands
    segments = ir.Attribute.parse("array<i32: 1, 1, 1, 0>")
    made = create(
        "heddle.embedding_grad",
        [op.results[0].type],
        [ids, updates, table],
        {"operandSegmentSizes": segments},
        at=op,
    )
    replace(op, list(made.results))


def convert_attention(op: ir.Operation) -> None:
    """Makes heddle.attention or heddle.attention_grad of a call, unless vmap has
    changed the shapes: then the function's body is computed."""
    name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
    found = fused_attention.NAME.match(name)
    # Linearization in a loop may leave a part of the function under its name.
    if (len(op.operands), len(op.results)) not in ((3, 2), (6, 3)):
        return
    query, key = op.operands[0], op.operands[1]
    if (
        not found
        or "x".join(map(str, shape_of(query))) != found[4]
        or len(shape_of(key)) != 4
    ):
        return
    scale = float(np.int64(np.uint64(int(found[3], 16))).view(np.float64))
    attributes = {"scale": ir.FloatAttr.get(ir.F64Type.get(), scale)}
    if found[2] == "causal":
        attributes["causal"] = ir.UnitAttr.get()
    # Operands, then step, mask and offsets, which are absent.
    sizes = ", ".join(["1"] * len(op.operands) + ["0", "0", "0"])
    attributes["operandSegmentSizes"] = ir.Attribute.parse(f"array<i32: {sizes}>")
    kind = "heddle.attention_grad" if found[1] else "heddle.attention"
    types = [result.type for result in op.results]
    replace(op, list(create(kind, types, list(op.operands), attributes, at=op).results))


_CONVERSIONS = {
    "heddle_attention": convert_attention,
    "heddle_embedding_grad": convert_embedding_grad,
}


@contextlib.contextmanager
def in_place_of_jax() -> Iterator[None]:
    """While this context is active, jax.nn.softmax and jax.nn.dot_product_attention are
    traced as marked functions where these compute the same: softmax over the last
    dimension, and attention without bias, mask, lengths or window."""
    try:
        from jax._src.nn import functions

        attention = functions._dot_product_attention_xla
        plain, with_derivative = functions._softmax_deprecated, functions._softmax
    except (ImportError, AttributeError):  # another version of JAX
        yield
        return

    def new_attention(
        query: Any, key: Any, value: Any, bias: Any, mask: Any, *rest: Any, **more: Any
    ) -> Any:
        others = {k: v for k, v in more.items() if k not in ("is_causal", "scale")}
        absent = [bias, mask, *rest, *others.values()]
        if key.shape != value.shape or any(
            x is not None and x is not False for x in absent
        ):
            return attention(query, key, value, bias, mask, *rest, **more)
        scale = float(more["scale"])
        causal = bool(more["is_causal"])
        return fused_attention.attention(query, key, value, causal=causal, scale=scale)

    def new_softmax(original: Any) -> Any:
        def compute(x: Any, axis: Any = -1, where: Any = None, *rest: Any) -> Any:
            is_last = isinstance(axis, int) and axis in (-1, x.ndim - 1)
            if not is_last or where is not None or rest or x.dtype != "float32":
                return original(x, axis, where, *rest)
            return softmax.softmax(x)

        return compute

    functions._dot_product_attention_xla = new_attention
    functions._softmax_deprecated = new_softmax(plain)
    functions._softmax = new_softmax(with_derivative)
    try:
        yield
    finally:
        functions._dot_product_attention_xla = attention
        functions._softmax_deprecated, functions._softmax = plain, with_derivative
