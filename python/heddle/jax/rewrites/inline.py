"""Inlines all calls into @main, and erases the functions."""

from jaxlib.mlir import ir

from ..ir import replace, walk


def inline_calls(module: ir.Module, keep: tuple[str, ...] = ()) -> None:
    """Inlines all calls but those of functions whose names begin with `keep`."""
    functions = {}
    for op in module.body.operations:
        if op.operation.name == "func.func":
            name = ir.StringAttr(op.attributes["sym_name"]).value
            functions[name] = op.operation
    main = functions.pop("main")
    calls = [op for op in walk(main) if op.name == "func.call"]
    while calls:
        call = calls.pop()
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        if not callee.startswith(keep or "\0"):
            calls += inline(call, functions[callee])
    for name, function in functions.items():
        if not name.startswith(keep or "\0"):
            function.erase()


def inline(call: ir.Operation, function: ir.Operation) -> list[ir.Operation]:
    """Puts a copy of the function's ops before the call, and erases the call.
    Returns the calls in the copy."""
    copy = function.clone()
    block = copy.regions[0].blocks[0]
    for argument, value in zip(block.arguments, call.operands, strict=True):
        argument.replace_all_uses_with(value)
    calls, made = [], []
    *ops, end = [op.operation for op in block.operations]
    for op in ops:
        new = ir.Operation.create(
            op.name,
            results=[result.type for result in op.results],
            operands=list(op.operands),
            attributes={name: op.attributes[name] for name in op.attributes},
            regions=len(op.regions),
            loc=ir.Location.callsite(op.location, [call.location]),
            ip=ir.InsertionPoint(call),
        )
        for old, moved in zip(op.regions, new.regions, strict=True):
            while len(old.blocks):
                old.blocks[0].append_to(moved)
        for old, result in zip(op.results, new.results, strict=True):
            old.replace_all_uses_with(result)
        made.append(new)
    values = list(end.operands)
    for op in made:
        calls += [op] if op.name == "func.call" else []
        calls += [inner for inner in walk(op) if inner.name == "func.call"]
    replace(call, values)
    copy.erase()
    return calls
