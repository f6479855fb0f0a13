"""Sums into rows start from the tensor to which their result is added.

    embedding_grad(ids, updates, zeros) + x  =  embedding_grad(ids, updates, x)

A tied table has such a sum: it adds the gradients of the lookup and of the logits.
"""

from jaxlib.mlir import ir

from ..ir import constant_of, create, replace, users, walk


def accumulate(module: ir.Module) -> None:
    # A list, because sums are erased on the way.
    for op in [op for op in walk(module) if op.name == "heddle.embedding_grad"]:
        if constant_of(op.operands[2]) == 0:
            accumulate_into_sum(op)


def accumulate_into_sum(gradient: ir.Operation) -> None:
    value = gradient.results[0]
    found = users(value)
    if len(found) != 1 or found[0].name != "stablehlo.add":
        return
    (add,) = found
    if add.block != gradient.block:
        return
    other = add.operands[1 if add.operands[0] == value else 0]
    ids, updates, _ = gradient.operands
    made = create(
        gradient.name,
        [value.type],
        [ids, updates, other],
        {name: gradient.attributes[name] for name in gradient.attributes},
        at=add,
        loc=gradient.location,
    )
    replace(add, list(made.results))
    gradient.erase()
