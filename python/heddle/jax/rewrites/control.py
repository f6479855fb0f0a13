"""Loops and branches: stablehlo.while and case become scf."""

from jaxlib.mlir import ir

from ..ir import (
    constant_of,
    create,
    element_type,
    replace,
    tensor_type,
    terminate,
)


def last(block: ir.Block) -> ir.Operation:
    return block.operations[len(block.operations) - 1].operation


def scalar(value: ir.Value, at: ir.Operation) -> ir.Value:
    """Returns the number that a tensor without dimensions holds."""
    return create("tensor.extract", [element_type(value)], [value], at=at).results[0]


def boxed(value: ir.Value, at: ir.Operation) -> ir.Value:
    """Returns a tensor without dimensions that holds a number."""
    return create(
        "tensor.from_elements", [tensor_type([], value.type)], [value], at=at
    ).results[0]


def move_block(old: ir.Region, new: ir.Region) -> ir.Block:
    old.blocks[0].append_to(new)
    return new.blocks[0]


def convert_case(op: ir.Operation) -> None:
    """Makes a chain of scf.if. An index out of range takes the last branch."""
    count = len(op.regions)
    types = [result.type for result in op.results]

    def chain(first: int, at: ir.Operation) -> list[ir.Value]:
        """Returns the values of branches[first:], computed before `at`."""
        index_type = element_type(op.operands[0])
        number = ir.DenseElementsAttr.get_splat(
            tensor_type([], index_type), ir.IntegerAttr.get(index_type, first)
        )
        wanted = create(
            "stablehlo.constant",
            [tensor_type([], index_type)],
            [],
            {"value": number},
            at=at,
            loc=op.location,
        )
        direction = ir.Attribute.parse("#stablehlo<comparison_direction EQ>")
        is_it = create(
            "stablehlo.compare",
            [tensor_type([], ir.IntegerType.get_signless(1))],
            [op.operands[0], wanted.results[0]],
            {"comparison_direction": direction},
            at=at,
            loc=op.location,
        ).results[0]
        number = create(
            "tensor.extract",
            [ir.IntegerType.get_signless(1)],
            [is_it],
            at=at,
            loc=op.location,
        )
        branch = create(
            "scf.if", types, [number.results[0]], regions=2, at=at, loc=op.location
        )
        block = move_block(op.regions[first], branch.regions[0])
        terminate(block, "scf.yield", op.location)
        if first + 2 >= count:
            block = move_block(op.regions[count - 1], branch.regions[1])
            terminate(block, "scf.yield", op.location)
        else:
            block = branch.regions[1].blocks.append()
            end = create(
                "scf.yield", [], [], at=ir.InsertionPoint(block), loc=op.location
            )
            create("scf.yield", [], chain(first + 1, end), at=end, loc=op.location)
            end.erase()
        return list(branch.results)

    if count == 1:
        block = op.regions[0].blocks[0]
        values = list(last(block).operands)
        for inner in list(block.operations)[:-1]:
            inner.operation.move_before(op)
        replace(op, values)
        return
    replace(op, chain(0, op))


def counted(op: ir.Operation) -> tuple[int, ir.Value | int] | None:
    """Returns (carried value that counts, its limit) of a loop that counts up by one.

    The limit is a value outside of the loop or a number. None for any other loop.
    """
    before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
    test = last(before).operands[0].owner
    if not isinstance(test, (ir.OpView, ir.Operation)):
        return None
    test = test.operation
    if test.name != "stablehlo.compare" or "LT>" not in str(
        test.attributes["comparison_direction"]
    ):
        return None
    if len(before.operations) > 3:
        return None
    counter = test.operands[0]
    if not isinstance(counter.owner, ir.Block) or counter.owner != before:
        return None
    number = ir.BlockArgument(counter).arg_number
    if str(element_type(counter)) not in ("i32", "i64"):
        return None
    limit = constant_of(test.operands[1])
    if limit is None:
        # A limit that the loop carries unchanged.
        bound = test.operands[1]
        if not isinstance(bound.owner, ir.Block) or bound.owner != before:
            return None
        position = ir.BlockArgument(bound).arg_number
        if last(after).operands[position] != after.arguments[position]:
            return None
        limit = op.operands[position]
        inner = constant_of(limit)
        limit = limit if inner is None else inner
    step = last(after).operands[number].owner
    if (
        not isinstance(step, (ir.OpView, ir.Operation))
        or step.operation.name != "stablehlo.add"
    ):
        return None
    one = constant_of(step.operation.operands[1])
    if one != 1 or step.operation.operands[0] != after.arguments[number]:
        return None
    return number, limit


def convert_while(op: ir.Operation) -> None:
    """Makes scf.for of a loop that counts from a known number, else scf.while."""
    found = counted(op)
    start = constant_of(op.operands[found[0]]) if found else None
    if found is None or start is None:
        to_scf_while(op)
    else:
        to_scf_for(op, *found, int(start))


def to_scf_for(
    op: ir.Operation, number: int, limit: ir.Value | int, start: int
) -> None:
    kind = element_type(op.operands[number])

    def make(value: int, at: ir.Operation) -> ir.Value:
        attr = ir.IntegerAttr.get(kind, value)
        return create(
            "arith.constant", [kind], [], {"value": attr}, at=at, loc=op.location
        ).results[0]

    low = make(start, op)
    high = make(limit, op) if isinstance(limit, int) else scalar(limit, op)
    step = make(1, op)
    inits = [value for i, value in enumerate(op.operands) if i != number]
    loop = create(
        "scf.for", [v.type for v in inits], [low, high, step, *inits], regions=1, at=op
    )
    body = move_block(op.regions[1], loop.regions[0])
    # The index comes first among the arguments of the new body.
    index = body.add_argument(kind, op.location)
    others = [body.add_argument(v.type, op.location) for v in inits]
    count = len(op.operands)
    first = body.operations[0].operation
    boxed_index = create(
        "tensor.from_elements",
        [tensor_type([], kind)],
        [index],
        at=first,
        loc=op.location,
    ).results[0]
    remaining = iter(others)
    for i in range(count):
        body.arguments[i].replace_all_uses_with(
            boxed_index if i == number else next(remaining)
        )
    for i in reversed(range(count)):
        body.erase_argument(i)
    values = [v for i, v in enumerate(last(body).operands) if i != number]
    terminate(body, "scf.yield", op.location, values)
    results = list(loop.results)
    if isinstance(limit, int):
        final_number = make(max(limit, start), op)
    else:
        final_number = create("arith.maxsi", [kind], [low, high], at=op).results[0]
    final = boxed(final_number, op)
    results.insert(number, final)
    replace(op, results)


def to_scf_while(op: ir.Operation) -> None:
    types = [v.type for v in op.operands]
    loop = create("scf.while", types, list(op.operands), regions=2, at=op)
    before = move_block(op.regions[0], loop.regions[0])
    end = last(before)
    condition = create(
        "tensor.extract",
        [ir.IntegerType.get_signless(1)],
        [end.operands[0]],
        at=end,
        loc=op.location,
    )
    terminate(
        before, "scf.condition", op.location, [condition.results[0], *before.arguments]
    )
    after = move_block(op.regions[1], loop.regions[1])
    terminate(after, "scf.yield", op.location)
    replace(op, list(loop.results))


def convert_barrier(op: ir.Operation) -> None:
    """Makes heddle.barrier, which keeps jax.checkpoint's second computation
    from being merged with the first."""
    sizes = ir.Attribute.parse(f"array<i32: {len(op.operands)}, 0>")
    types = [value.type for value in op.operands]
    made = create(
        "heddle.barrier", types, op.operands, {"operandSegmentSizes": sizes}, at=op
    )
    replace(op, list(made.results))
