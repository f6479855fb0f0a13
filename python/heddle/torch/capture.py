"""Makes a functional graph of a module with torch.export."""

import contextlib
import dataclasses
import pathlib
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node
from torch.utils import _pytree
from torch.utils.checkpoint import CheckpointFunction

from heddle._lines import last_call
from heddle.torch.errors import TorchError
from heddle.torch.hugging_face import dense_experts

aten = torch.ops.aten
# A decomposition may bring in further unknown ops, so the graph is decomposed in
# rounds. A few rounds are enough.
_ROUNDS = 4


@dataclasses.dataclass(frozen=True)
class State:
    """A parameter or buffer. `name` is the first of its names in the module."""

    name: str
    tensor: torch.Tensor
    is_trained: bool


@dataclasses.dataclass
class Captured:
    """A graph without side effects. Nodes of kind placeholder are states, constants or
    inputs. `outputs` are the values of the module's results, and `mutations` the new
    values of buffers."""

    nodes: list[Node]
    states: dict[str, State]
    constants: dict[str, torch.Tensor]
    inputs: dict[str, str]
    outputs: list[tuple[str, Node]]
    mutations: dict[str, Node]
    prefix: str = ""

    def module_of(self, node: Node) -> str:
        """Returns the path of the module that a node was traced in."""
        stack = node.meta.get("nn_module_stack")
        path = list(stack.values())[-1][0] if stack else ""
        return path.removeprefix(self.prefix).removesuffix(".")

    def line_of(self, node: Node) -> str:
        """Returns FILE:LINE of the model's source that a node was made by."""
        frames = re.findall(r'File "([^"]+)", line (\d+)', _trace(node))
        return f"{_short(frames[-1][0])}:{frames[-1][1]}" if frames else ""


def _trace(node: Node) -> str:
    return node.meta.get("stack_trace") or ""


def _short(path: str) -> str:
    """Removes the folder that Python imported the file from."""
    file = pathlib.PurePath(path)
    for folder in sorted(filter(None, sys.path), key=len, reverse=True):
        if file.is_relative_to(folder):
            return str(file.relative_to(folder))
    return file.name


def _states(module: torch.nn.Module) -> dict[str, State]:
    """Returns the parameters and float buffers by all of their names. Names of
    one tensor share one state."""
    states: dict[str, State] = {}
    by_identity: dict[int, State] = {}
    named = list(module.named_parameters(remove_duplicate=False))
    persistent = module.state_dict(keep_vars=True)
    named += [
        (name, tensor)
        for name, tensor in module.named_buffers(remove_duplicate=False)
        if name in persistent and tensor.is_floating_point()
    ]
    for name, tensor in named:
        trained = isinstance(tensor, torch.nn.Parameter) and tensor.requires_grad
        state = by_identity.setdefault(id(tensor), State(name, tensor, trained))
        states[name] = state
    return states


def _names(tree: Any, name: str) -> list[str]:
    """Returns a name for each leaf of a tree of inputs or outputs."""
    if hasattr(tree, "to_tuple") and hasattr(tree, "keys"):
        tree = dict(tree.items())
    if isinstance(tree, Mapping):
        return [leaf for key, item in tree.items() for leaf in _names(item, str(key))]
    if isinstance(tree, (list, tuple)):
        many = len(tree) > 1
        return [
            leaf
            for i, item in enumerate(tree)
            for leaf in _names(item, f"{name}{i}" if many else name)
        ]
    return [name]


def _kept_whole() -> dict[Any, Callable[..., Any]]:
    """Returns PyTorch's decompositions of ops that torch.export keeps whole, without
    the decompositions into internal primitives of PyTorch."""
    return {
        op: function
        for op, function in decomposition_table.items()
        if not function.__module__.startswith("torch._refs")
    }


def _decompose(
    program: torch.export.ExportedProgram, is_known: Callable[[Node], bool]
) -> torch.export.ExportedProgram:
    """Makes the graph functional. Replaces ops that Heddle lacks by PyTorch's
    decompositions, where these exist."""
    program = program.run_decompositions({})
    _stop_gradients(program)
    table = _kept_whole() | dict(torch.export.default_decompositions())
    for _ in range(_ROUNDS):
        unknown = {
            node.target
            for node in program.graph.nodes
            if node.op == "call_function" and not is_known(node)
        }
        wanted = {op: table[op] for op in unknown if op in table}
        if not wanted:
            break
        program = program.run_decompositions(wanted)
    return program


def _is_without_gradient(node: Node) -> bool:
    """Tells whether a node was traced under torch.no_grad()."""
    return "WrapWithSetGradEnabled" in str((*node.meta.get("torch_fn", ()), ""))


def _stop_gradients(program: torch.export.ExportedProgram) -> None:
    """Detaches the values that leave torch.no_grad(), which the graph only marks."""
    graph = program.graph
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if not _is_without_gradient(node) or not isinstance(value, torch.Tensor):
            continue
        outside = [user for user in node.users if not _is_without_gradient(user)]
        if not outside or not value.is_floating_point():
            continue
        with graph.inserting_after(node):
            detached = graph.call_function(aten.detach.default, (node,))
        detached.meta = dict(node.meta)
        for user in outside:
            if user.op != "output":
                user.replace_input_with(node, detached)


# Functions whose backward is the derivative of their forward.
_DERIVED = {"transformers.models.bloom.modeling_bloom.GeLUFunction"}


class _NoContext:
    """The context of a function's forward. Drops what is saved for a backward, because
    none is called."""

    def save_for_backward(self, *unused: torch.Tensor) -> None:
        pass


# Two threads that export take turns, because each replaces Function.apply.
_EXPORT = threading.RLock()


@contextlib.contextmanager
def _without_own_gradients() -> Iterator[None]:
    """Refuses functions with a backward of their own while the context is active,
    because torch.export would replace it by the derivative of forward. Functions in
    other threads keep their backward."""
    function = torch.autograd.Function
    exporter = threading.get_ident()

    def guarded(cls: type, *args: Any, **kwargs: Any) -> Any:
        is_differentiated = (
            threading.get_ident() == exporter
            and torch.is_grad_enabled()
            and any(
                isinstance(leaf, torch.Tensor) and leaf.requires_grad
                for leaf in _pytree.tree_leaves((args, kwargs))
            )
        )
        # Higher-order ops, such as torch.cond, are ops of the graph.
        if cls.__module__.startswith("torch._higher_order_ops"):
            is_differentiated = False
        if is_differentiated and cls is CheckpointFunction:
            # Its backward is the derivative of the function that it runs.
            run, _, *operands = args
            return run(*operands)
        if is_differentiated and f"{cls.__module__}.{cls.__name__}" in _DERIVED:
            return cls.forward(_NoContext(), *args, **kwargs)  # type: ignore[attr-defined]
        if is_differentiated:
            raise TorchError(
                f"{cls.__name__} is a torch.autograd.Function with a backward of its "
                "own, which torch.export drops; write it as ops that have this "
                "derivative, such as x + (f(x) - x).detach()"
            )
        return apply.__get__(None, cls)(*args, **kwargs)

    def refuse_hook(tensor: torch.Tensor, hook: Any) -> Any:
        if threading.get_ident() == exporter:
            raise TorchError(f"a hook of a gradient {_NO_HOOK}")
        return register(tensor, hook)

    with _EXPORT:
        apply, register = function.__dict__["apply"], torch.Tensor.register_hook
        function.apply = classmethod(guarded)  # type: ignore[assignment]
        torch.Tensor.register_hook = refuse_hook  # type: ignore[method-assign]
        try:
            yield
        finally:
            function.apply = apply  # type: ignore[method-assign]
            torch.Tensor.register_hook = register  # type: ignore[method-assign]


_NO_HOOK = (
    "changes the backward pass, which torch.export drops; remove it, and clip by the "
    "trainer's option"
)


def _refuse_hooks(module: torch.nn.Module) -> None:
    """Refuses hooks that run in PyTorch's backward pass."""
    for name, parameter in module.named_parameters():
        if any(
            getattr(parameter, hooks, None)
            for hooks in ("_backward_hooks", "_post_accumulate_grad_hooks")
        ):
            raise TorchError(f"the hook of the parameter {name} {_NO_HOOK}")
    for name, part in module.named_modules():
        if part._backward_hooks or part._backward_pre_hooks:
            raise TorchError(f"the backward hook of the module {name} {_NO_HOOK}")


# PyTorch's errors for ops with a result whose number or size depends on data. The text
# of such an error is only the op.
_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException)


def _program(
    module: torch.nn.Module,
    args: Sequence[Any],
    is_known: Callable[[Node], bool],
    shapes: Any,
) -> torch.export.ExportedProgram:
    _refuse_hooks(module)
    try:
        with _without_own_gradients(), dense_experts():
            program = torch.export.export(
                module, tuple(args), dynamic_shapes=shapes, strict=False
            )
        return _decompose(program, is_known)
    except Exception as problem:
        text = str(problem).strip().split("\n\n")[0]
        if "data-dependent" in text or isinstance(problem, _DEPENDENT):
            text = f"a branch or a size depends on values ({text})"
        if not isinstance(problem, TorchError):
            text = f"torch.export cannot trace {type(module).__name__}: {text}"
        line = _user_line(problem)
        raise TorchError(f"{line}: {text}" if line else text) from problem


def _user_line(problem: Exception) -> str:
    """Returns FILE:LINE of the last call outside of PyTorch."""
    call = last_call(problem, torch)
    return f"{_short(str(call[0]))}:{call[1]}" if call else ""


def capture(
    module: torch.nn.Module,
    inputs: Mapping[str, Any],
    is_known: Callable[[Node], bool],
    prefix: str = "",
    shapes: Any = None,
) -> Captured:
    """Traces a module with example inputs, in order. Sizes become static, except those
    that `shapes` makes symbols. Removes `prefix` from names of modules."""
    program = _program(module, list(inputs.values()), is_known, shapes)
    captured = from_program(program, _states(module), is_known)
    names = _names(inputs, "input")
    keys = list(captured.inputs)
    if len(names) == len(keys):
        captured.inputs = dict(zip(keys, names, strict=True))
    captured.prefix = prefix
    return captured


def from_program(
    program: torch.export.ExportedProgram,
    states: dict[str, State] | None = None,
    is_known: Callable[[Node], bool] | None = None,
) -> Captured:
    """Reads an exported program in which no op is left to decompose."""
    if is_known is not None and states is None:
        program = _decompose(program, is_known)
    if states is None:
        states = _states_of(program)
    signature = program.graph_signature
    result = Captured([], {}, {}, {}, [], {})
    for spec in signature.input_specs:
        name, target = spec.arg.name, spec.target
        if spec.kind == InputKind.USER_INPUT:
            result.inputs[name] = name
        elif target in states:
            result.states[name] = states[target]
        elif target is not None:  # a token of effects has no target
            tensors = {**program.state_dict, **program.constants}
            result.constants[name] = tensors[target]
    _read_outputs(program, result, states)
    return result


def _states_of(program: torch.export.ExportedProgram) -> dict[str, State]:
    states: dict[str, State] = {}
    by_identity: dict[int, State] = {}
    parameters = set(program.graph_signature.parameters)
    for name, tensor in program.state_dict.items():
        trained = name in parameters and tensor.requires_grad
        if name in parameters or tensor.is_floating_point():
            states[name] = by_identity.setdefault(
                id(tensor), State(name, tensor, trained)
            )
    return states


def _read_outputs(
    program: torch.export.ExportedProgram, result: Captured, states: dict[str, State]
) -> None:
    nodes = list(program.graph.nodes)
    (output,) = [node for node in nodes if node.op == "output"]
    result.nodes = [node for node in nodes if node.op != "output"]
    results: list[Node] = []
    for spec, node in zip(
        program.graph_signature.output_specs, output.args[0], strict=True
    ):
        if spec.kind == OutputKind.BUFFER_MUTATION:
            if spec.target in states:
                result.mutations[spec.target] = node
        elif spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
            results.append(node)
    names = _output_names(program, len(results))
    result.outputs = list(zip(names, results, strict=True))


def _output_names(program: torch.export.ExportedProgram, count: int) -> list[str]:
    import torch.utils._pytree as pytree

    spec = program.call_spec.out_spec
    names = []
    if spec is not None and spec.num_leaves == count:
        tree = pytree.tree_unflatten(list(range(count)), spec)
        names = _names(tree, "output")
    if len(names) != count or len(set(names)) != count:
        names = [f"output{i}" if count > 1 else "output" for i in range(count)]
    return names


def fold(captured: Captured) -> dict[Node, torch.Tensor]:
    """Evaluates all nodes that depend on no parameter, buffer or input."""
    known: dict[Node, Any] = {}
    with torch.no_grad():
        for node in captured.nodes:
            if node.op == "placeholder" and node.name in captured.constants:
                value = captured.constants[node.name]
                if not value.is_meta:
                    known[node] = value
            elif node.op == "call_function":
                value = _evaluate(node, known)
                if value is not None:
                    known[node] = value
    return known


_RANDOM = {"rand", "randn", "randint", "bernoulli", "native_dropout", "dropout"}
# Ops whose results depend only on the operand's shape.
_FILLS: dict[Any, Any] = {
    aten.zeros_like.default: 0,
    aten.ones_like.default: 1,
    aten.new_zeros.default: 0,
    aten.new_ones.default: 1,
    aten.full_like.default: None,
    aten.new_full.default: None,
}


def _evaluate(node: Node, known: Mapping[Node, Any]) -> Any:
    if node.target in _FILLS:
        value = _FILLS[node.target]
        if value is None:
            value = node.args[1 if node.target == aten.full_like.default else 2]
        if isinstance(value, Node):
            return None
        shape = node.meta["val"]
        return torch.full(tuple(shape.shape), value, dtype=shape.dtype)
    name = getattr(node.target, "_opname", "")
    if name in _RANDOM or not all(arg in known for arg in node.all_input_nodes):
        return None

    def value_of(argument: Node) -> Any:
        return known[argument]

    args = torch.fx.map_arg(node.args, value_of)
    kwargs = dict(torch.fx.map_arg(node.kwargs, value_of))
    if kwargs.get("device") is not None:
        kwargs["device"] = torch.device("cpu")
    return node.target(*args, **kwargs)
