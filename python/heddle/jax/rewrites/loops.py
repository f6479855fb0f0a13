"""Loops keep little for their backward pass.

JAX's derivative of lax.scan stacks every value that the backward loop reads, one
for each iteration: six tensors of a gelu, four of a norm, the scores of attention.
While a program is traced, the body of a scan that is differentiated is put under
jax.checkpoint, whose policy keeps only values with the name KEPT. The results of ops
that are not cheap, such as products, get this name. So the backward loop computes
cheap values again from the results of products. Two products do not get the name:
those before and after a softmax, in attention that the program writes out. They run
again in the body of the backward loop. So this body holds all of attention, forward
and backward, and `softmax.raise_attention` finds it there.

    forward   h = x w; y = gelu(h)               keeps x, h
    backward  y = gelu(h); w' += x^T h', ...

If the body of a scan already calls jax.checkpoint, that call decides what is kept. In
both cases the values of the backward loop pass a barrier (prevent_cse). Without it,
when both loops are written out, a computation of the backward loop would be merged with
the equal one of the forward loop, and its result would be kept after all.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
from jax.extend import core
from jax.extend.core import primitives

from ..ir import MARKER

KEPT = f"{MARKER}kept"
_SOFTMAX = f"{MARKER}softmax"
_POLICY = jax.checkpoint_policies.save_only_these_names(KEPT)
# Primitives that are computed again. A call of a function is computed again if all ops
# of the function are.
_CHEAP = set(
    "abs add add_any and argmax argmin bitcast_convert_type broadcast_in_dim ceil "
    "clamp concatenate convert_element_type copy cos custom_jvp_call custom_vjp_call "
    "div dynamic_slice eq erf exp exp2 expand_dims expm1 floor ge gt integer_pow iota "
    "jit le log log1p logistic lt max min mul name ne neg not or pad pow "
    "reduce_max reduce_min reduce_precision reduce_sum reshape rev round rsqrt "
    "select_n sharding_constraint shift_left shift_right_arithmetic "
    "shift_right_logical sign sin slice split sqrt square squeeze stop_gradient sub "
    "tanh transpose xor".split()
)
# Random bits are not kept. The result of their comparison, such as a mask of dropout,
# is kept: it takes one byte an element, and the bits take four.
_RANDOM = {"random_bits", "threefry2x32"}
# Ops whose bodies are treated as the code around them.
_BODIES = {
    primitives.jit_p: "jaxpr",
    primitives.scan_p: "jaxpr",
    primitives.cond_p: "branches",
}


def _inner(eqn: Any) -> Iterator[Any]:
    """Yields the op, and then all ops in its bodies."""
    yield eqn
    for jaxpr in core.jaxprs_in_params(eqn.params):
        for other in jaxpr.eqns:
            yield from _inner(other)


def _is_cheap(eqn: Any) -> bool:
    return all(e.primitive.name in _CHEAP for e in _inner(eqn))


def _is_random(eqn: Any) -> bool:
    return any(e.primitive.name in _RANDOM for e in _inner(eqn))


def _is_product(eqn: Any) -> bool:
    return any(e.primitive.name == "dot_general" for e in _inner(eqn))


def _is_softmax(eqn: Any) -> bool:
    return any(e.params.get("name") == _SOFTMAX for e in _inner(eqn))


def _names_its_values(eqn: Any) -> bool:
    """Tells whether the op is heddle.jax.attention or another function of this
    package with a derivative of its own."""
    return eqn.primitive is primitives.custom_vjp_call_p and any(
        str(e.params.get("name", "")).startswith(MARKER) for e in _inner(eqn)
    )


def _products_of_attention(jaxpr: Any) -> set[int]:
    """Returns the ids of the products that compute the scores of a softmax, and of the
    products that read its probabilities."""
    maker = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
    readers: dict[Any, list[Any]] = {}
    for eqn in jaxpr.eqns:
        for var in eqn.invars:
            if isinstance(var, core.Var):
                readers.setdefault(var, []).append(eqn)
    found: set[int] = set()

    def follow(
        start: Iterable[Any],
        next_ops: Callable[[Any], list[Any]],
        values: Callable[[Any], Iterable[Any]],
    ) -> None:
        """Walks from `start`, through values with as many elements, to the next
        products, and adds these to `found`."""
        pending, seen = list(start), set()
        size = pending[0].aval.size
        while pending:
            var = pending.pop()
            if not isinstance(var, core.Var) or var.aval.size != size or var in seen:
                continue
            seen.add(var)
            for eqn in next_ops(var):
                if _is_product(eqn):
                    found.add(id(eqn))
                else:
                    pending += values(eqn)

    for eqn in filter(_is_softmax, jaxpr.eqns):
        follow(
            eqn.invars,
            lambda var: [maker[var]] if var in maker else [],
            lambda op: op.invars,
        )
        follow(eqn.outvars, lambda var: readers.get(var, []), lambda op: op.outvars)
    return found


def _with_names(jaxpr: Any) -> Any:
    """Returns the jaxpr with the name KEPT on the results of ops that are not
    cheap."""
    again = _products_of_attention(jaxpr)
    random: set[Any] = set()  # random numbers
    eqns = []
    for eqn in jaxpr.eqns:
        reads_random = any(isinstance(v, core.Var) and v in random for v in eqn.invars)
        is_mask = reads_random and all(v.aval.dtype == bool for v in eqn.outvars)
        if _is_random(eqn):
            random.update(eqn.outvars)
        is_bits = eqn.primitive.name in _RANDOM
        is_again = id(eqn) in again or _is_cheap(eqn) or is_bits
        if (is_again and not is_mask) or _names_its_values(eqn):
            eqns.append(eqn)
            continue
        inner = _in_bodies(_with_names, eqn)
        if eqn.primitive is primitives.jit_p:
            eqns.append(inner)
            continue
        results = [core.Var(var.aval) for var in eqn.outvars]
        eqns.append(inner.replace(outvars=results))
        for result, var in zip(results, eqn.outvars, strict=True):
            eqns.append(
                eqn.replace(
                    invars=[result],
                    outvars=[var],
                    primitive=primitives.name_p,
                    params={"name": KEPT},
                    effects=set(),
                )
            )
    return jaxpr.replace(eqns=eqns)


def _in_bodies(change: Callable[[Any], Any], eqn: Any) -> Any:
    """Returns the op with changed jaxprs, if it is one of _BODIES."""
    key = _BODIES.get(eqn.primitive)
    if key is None:
        return eqn
    bodies = eqn.params[key]
    if key == "branches":
        changed: Any = tuple(b.replace(jaxpr=change(b.jaxpr)) for b in bodies)
    else:
        changed = bodies.replace(jaxpr=change(bodies.jaxpr))
    return eqn.replace(params={**eqn.params, key: changed})


def _with_barriers(jaxpr: Any) -> Any:
    """Returns the jaxpr with a barrier for each call of jax.checkpoint in it."""

    def convert(eqn: Any) -> Any:
        if eqn.primitive is not primitives.remat_p:
            return _in_bodies(_with_barriers, eqn)
        inner = _with_barriers(eqn.params["jaxpr"])
        return eqn.replace(params={**eqn.params, "jaxpr": inner, "prevent_cse": True})

    return jaxpr.replace(eqns=[convert(eqn) for eqn in jaxpr.eqns])


def _checkpointed(closed: Any) -> Any:
    """Returns a scan's body as one call of jax.checkpoint."""
    jaxpr = closed.jaxpr
    ops = [e.primitive for eqn in jaxpr.eqns for e in _inner(eqn)]
    if primitives.remat_p in ops:
        return closed.replace(jaxpr=_with_barriers(jaxpr))
    if jaxpr.effects or closed.consts:
        return closed
    operands = [core.Var(var.aval) for var in jaxpr.invars]
    results = [core.Var(var.aval) for var in jaxpr.outvars]
    call = core.new_jaxpr_eqn(
        operands,
        results,
        primitives.remat_p,
        {
            "jaxpr": _with_names(jaxpr),
            "prevent_cse": True,
            "differentiated": False,
            "policy": _POLICY,
        },
        set(),
    )
    return closed.replace(
        jaxpr=jaxpr.replace(invars=operands, outvars=results, eqns=[call])
    )


@contextlib.contextmanager
def keeping_little() -> Iterator[None]:
    """While this context is active, scans are differentiated as the module's docstring
    says."""
    try:
        from jax._src.interpreters import ad

        rules = ad.primitive_linearizations
        original = rules[primitives.scan_p]
    except (ImportError, AttributeError, KeyError):  # another version of JAX
        yield
        return

    def linearize(is_vjp: bool, nonzeros: Any, *args: Any, **params: Any) -> Any:
        jaxpr = _checkpointed(params.pop("jaxpr"))
        return original(is_vjp, nonzeros, *args, jaxpr=jaxpr, **params)

    rules[primitives.scan_p] = linearize
    try:
        yield
    finally:
        rules[primitives.scan_p] = original
