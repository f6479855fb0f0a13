"""The order of a program's last elementwise ops, which are the update's.

Optimizers treat all parameters together, step by step: all first moments, then
all second moments, and so on. Heddle fuses ops into a kernel if they are near each
other. So the ops that only variables and results depend on are put in the order of the
variables. The ops of one parameter then become one kernel.
"""

from jaxlib.mlir import ir

from ..ir import users, walk


def order_updates(main: ir.Operation) -> None:
    block = main.regions[0].blocks[0]
    ops = [op.operation for op in block.operations]
    # Elementwise ops whose users are all final, too, or are ends.
    final: set[ir.Operation] = set()
    for op in reversed(ops):
        if is_elementwise(op):
            readers = [outermost(u, block) for v in op.results for u in users(v)]
            if all(u in final or is_end(u) for u in readers):
                final.add(op)
    ends = [op for op in ops if is_end(op)]
    placed: set[ir.Operation] = set()

    def place(op: ir.Operation) -> None:
        """Moves the final ops that `op` depends on in front of the first end."""
        for value in operands_of(op):
            maker = value.owner
            if isinstance(maker, ir.Block):
                continue
            maker = maker.operation
            if maker in final and maker not in placed:
                placed.add(maker)
                place(maker)
                maker.move_before(ends[0])

    for op in ends:
        place(op)


def is_end(op: ir.Operation) -> bool:
    return op.name in ("heddle.store", "func.return")


def is_elementwise(op: ir.Operation) -> bool:
    if op.name == "linalg.generic":
        return "reduction" not in str(op.attributes["iterator_types"])
    return op.name in ("linalg.map", "linalg.broadcast", "linalg.transpose")


def operands_of(op: ir.Operation) -> list[ir.Value]:
    """Returns all values that the op reads, in its regions too."""
    inner = [v for o in walk(op) for v in o.operands] if len(op.regions) else []
    return [*op.operands, *inner]


def outermost(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """Returns the op of `block` that holds `op`."""
    while op.block != block:
        op = op.parent.operation
    return op
