"""Writes a captured graph as the function @forward of an .mlir file."""

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from heddle.torch.capture import Captured, State, fold
from heddle.torch.errors import NoFormError, Problem, TorchError, UnsupportedError
from heddle.torch.op_table import HANDLERS, op_name
from heddle.torch.text import Builder, Shape, Value, number, quote, symbol, tensor_type

# Integers of PyTorch are i64; Heddle's ids are i32, and so are all integers.
TYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i32",
    torch.int32: "i32",
    torch.int16: "i32",
    torch.uint8: "i32",
    torch.int8: "i8",
    torch.bool: "i1",
}


def element_type(dtype: torch.dtype) -> str:
    try:
        return TYPES[dtype]
    except KeyError:
        raise NoFormError(f"Heddle has no tensors of {dtype}") from None


def to_array(tensor: torch.Tensor) -> tuple[np.ndarray, str]:
    """Returns a tensor's memory and its type in Heddle."""
    element = element_type(tensor.dtype)
    tensor = tensor.detach().cpu().contiguous()
    if element == "i32":
        limits = np.iinfo(np.int32)
        array = tensor.to(torch.int64).numpy().clip(limits.min, limits.max)
        return array.astype(np.int32), element
    if element in ("bf16", "f16"):
        return tensor.view(torch.int16).numpy(), element
    return tensor.numpy(), element


@dataclasses.dataclass
class Module:
    """The text of a model, with the facts that its caller needs."""

    text: str
    states: list[State]
    inputs: dict[str, str]
    """The element type of each argument of @forward, by its name."""
    problems: list[Problem]


class Emitter:
    """Emits node by node. `node` is the current one."""

    def __init__(
        self,
        captured: Captured,
        raise_op: "Callable[[Emitter, Node], Value | None] | None" = None,
    ) -> None:
        self.captured = captured
        self.raise_op = raise_op
        self.builder = Builder()
        self.known = fold(captured)
        self.values: dict[Node, Any] = {}
        self.problems: list[Problem] = []
        self.node: Node = captured.nodes[0]
        # The kind of a value's last dimension: "f" for the inner dimension of a block,
        # over which the block's next product sums.
        self.features: dict[str, str] = {}
        self.loaded: dict[str, State] = {}
        self.arguments: dict[str, Value] = {}
        self.uses_steps = False
        self.vocabularies = self._vocabularies()
        self._used_names: dict[str, int] = {}
        self._constants: dict[Node, Value] = {}
        # The forms of constant masks of attention, by the names of their values.
        self.masks: dict[str, tuple[bool, int | None] | None] = {}
        # Products that were made for a later split, by the names of their merged
        # results.
        self.stacks: dict[str, Value] = {}
        self.factored = find_stacked(captured)
        self._stacked_loads: dict[str, Value] = {}

    def _vocabularies(self) -> set[int]:
        return {
            node.args[0].meta["val"].shape[0]
            for node in self.captured.nodes
            if op_name(node) == "embedding" and isinstance(node.args[0], Node)
        }

    # Values.

    def value(self, node: Any) -> Any:
        """Returns the value of a node or number, or those of a list."""
        if isinstance(node, (list, tuple)):
            return [self.value(item) for item in node]
        if not isinstance(node, Node):
            return node
        if node in self.known:
            known = self.known[node]
            if not isinstance(known, torch.Tensor):
                return known
            if node not in self._constants:
                self._constants[node] = self.builder.constant(*to_array(known))
            return self._constants[node]
        return self.values[node]

    def known_tensor(self, node: Any) -> torch.Tensor | None:
        return self.known.get(node) if isinstance(node, Node) else None

    @property
    def meta(self) -> torch.Tensor:
        """The result of the current node, as PyTorch's tensor without memory."""
        value = self.node.meta["val"]
        return value[0] if isinstance(value, (list, tuple)) else value

    @property
    def shape(self) -> Shape:
        return tuple(int(size) for size in self.meta.shape)

    @property
    def element(self) -> str:
        return element_type(self.meta.dtype)

    def refuse(self, reason: str) -> NoFormError:
        return NoFormError(reason)

    # States.

    def load(self, node: Node) -> Value:
        """Loads a parameter or buffer in PyTorch's shape."""
        state = self.captured.states[node.name]
        self.loaded[state.name] = state
        element = element_type(state.tensor.dtype)
        shape = tuple(state.tensor.shape)
        own = self.factored.get(state.name, shape)
        self.builder.name = state.name
        self.builder.location = ""
        kind = tensor_type(own, element)
        text = f"heddle.load {symbol(state.name)} : {kind}"
        value = self.builder.op(text, [], own, element)
        if own != shape:
            stacked, value = value, self.builder.reshape(value, shape)
            value = Value(value.name, value.shape, value.type)
            self._stacked_loads[value.name] = stacked
        value.source = ("load", state)
        return value

    def stacked_weight(self, weight: Value) -> Value | None:
        """Returns the weight of several products with a dimension for the product. None
        for any other weight."""
        return self._stacked_loads.get(weight.name)

    def unstack(self, x: Value) -> list[Value]:
        """Returns the slices along the first dimension."""
        parts = [self.builder.fresh(x.shape[1:], x.type) for _ in range(x.shape[0])]
        kinds = ", ".join(part.tensor for part in parts)
        self.builder.append(
            f"heddle.unstack {self.builder.quoted} {x.name} : {x.tensor} -> {kinds}",
            [x],
            parts,
        )
        for part in parts:
            self.features[part.name] = "f"
        return parts

    def steps(self) -> Value:
        """Returns the number of completed steps, on which dropout depends."""
        self.uses_steps = True
        return self.builder.op("heddle.load @steps : tensor<i64>", [], (), "i64")

    # Nodes.

    def run(self) -> None:
        for node in self.captured.nodes:
            self.node = node
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "call_function" and node not in self.known:
                self._call(node)

    def _placeholder(self, node: Node) -> None:
        if node.name in self.captured.states:
            self.values[node] = self.load(node)
        elif node.name in self.captured.inputs:
            name = self.captured.inputs[node.name]
            if not isinstance(node.meta.get("val"), torch.Tensor):
                return  # a number or None, which the graph holds
            value = Value(f"%arg_{node.name}", self.shape, self.element)
            self.values[node] = self.arguments[name] = value

    def _call(self, node: Node) -> None:
        self.builder.name = self._name(node)
        line = self.captured.line_of(node)
        file, _, row = line.rpartition(":")
        self.builder.location = f"{quote(file)}:{row}:0" if line else ""
        try:
            self.values[node] = self._emit(node)
        except NoFormError as problem:
            self._report(node, str(problem))
        except KeyError:
            # An operand has a problem of its own, which is reported.
            if not self.problems:
                raise

    def _emit(self, node: Node) -> Any:
        if node.target is operator.getitem:
            return self.value(node.args[0])[node.args[1]]
        handler = HANDLERS.get(op_name(node))
        if handler is None:
            raise NoFormError("")
        result = self.raise_op(self, node) if self.raise_op else None
        if result is None:
            args = [self.value(argument) for argument in node.args]
            kwargs = {key: self.value(item) for key, item in node.kwargs.items()}
            result = handler(self, *args, **kwargs)
        self._spread_features(node, result)
        return result

    def _spread_features(self, node: Node, result: Any) -> None:
        inner = any(
            isinstance(self.values.get(operand), Value)
            and self.features.get(self.values[operand].name) == "f"
            for operand in node.all_input_nodes
        )
        for value in result if isinstance(result, (list, tuple)) else [result]:
            if isinstance(value, Value) and inner:
                self.features.setdefault(value.name, "f")

    def _report(self, node: Node, reason: str) -> None:
        self.problems.append(
            Problem(
                str(node.target),
                self.captured.module_of(node),
                self.captured.line_of(node),
                reason,
            )
        )

    def _name(self, node: Node) -> str:
        """Returns the name of the operator. An op that is all of its module has the
        module's name. For any other op, the op's name is appended."""
        module = self.captured.module_of(node)
        name = op_name(node)
        if name not in _MODULES:
            module = f"{module}.{name}" if module else name
        count = self._used_names.get(module, 0)
        self._used_names[module] = count + 1
        return module if count == 0 else f"{module}_{count}"


# Ops that do what their module does.
_MODULES = {
    "linear", "addmm", "embedding", "layer_norm", "rms_norm", "batch_norm",
    "group_norm", "conv1d", "conv2d", "convolution", "scaled_dot_product_attention",
    "dropout", "gelu", "silu", "relu", "tanh", "sigmoid", "max_pool2d", "avg_pool2d",
    "adaptive_avg_pool2d", "cross_entropy_loss",
}  # fmt: skip


_VIEWS = {"view", "reshape", "_unsafe_view"}
_SPLITS = {"split", "chunk", "split_with_sizes"}


def _number_of_parts(node: Node) -> int:
    """Returns the number of equal parts into which a product's last dimension is split,
    if the split is the product's only use. Otherwise returns 0."""
    while len(node.users) == 1 and op_name(next(iter(node.users))) in _VIEWS:
        node = next(iter(node.users))
    if len(node.users) != 1:
        return 0
    user = next(iter(node.users))
    if op_name(user) not in _SPLITS:
        return 0
    rank = len(node.meta["val"].shape)
    dim = user.args[2] if len(user.args) > 2 else user.kwargs.get("dim", 0)
    sizes = {part.shape[-1] for part in user.meta["val"]}
    is_last = isinstance(dim, int) and dim % rank == rank - 1
    return len(user.meta["val"]) if is_last and len(sizes) == 1 else 0


def find_stacked(captured: Captured) -> dict[str, Shape]:
    """Finds layers whose result is split at once, such as one product for
    query, key and value. Returns the shapes of their weights and biases with a
    dimension for the part, so that a plan can split each part."""
    uses: dict[str, int] = {}
    for node in captured.nodes:
        if node.op == "placeholder" and node.name in captured.states:
            name = captured.states[node.name].name
            uses[name] = uses.get(name, 0) + len(node.users)
    found: dict[str, Shape] = {}
    for node in captured.nodes:
        kind = op_name(node)
        if kind not in ("linear", "addmm"):
            continue
        weight = node.args[2 if kind == "addmm" else 1]
        bias = node.args[0] if kind == "addmm" else (*node.args, None)[2]
        states = [_state_of(captured, item) for item in (weight, bias)]
        parts = _number_of_parts(node)
        if parts < 2 or states[0] is None or uses[states[0].name] != 1:
            continue
        if bias is not None and (states[1] is None or uses[states[1].name] != 1):
            continue
        rows, columns = states[0].tensor.shape
        if kind == "linear":
            found[states[0].name] = (parts, rows // parts, columns)
        else:
            found[states[0].name] = (rows, parts, columns // parts)
        if states[1] is not None:
            width = states[1].tensor.shape[0]
            found[states[1].name] = (parts, width // parts)
    return found


def _state_of(captured: Captured, node: Any) -> State | None:
    if not isinstance(node, Node) or node.op != "placeholder":
        return None
    return captured.states.get(node.name)


@dataclasses.dataclass(frozen=True)
class Groups:
    """The optimizer's groups: the learning rate of each, and the group and the
    decay of each parameter."""

    rates: dict[str, float]
    of: dict[str, tuple[str, float]]


def emit(
    captured: Captured,
    loss: str | None,
    labels: str | None,
    groups: Groups | None = None,
) -> Module:
    """Writes the module. `loss` names the output that is trained on, and `labels` the
    input that holds labels. None: there is no such output or input."""
    # These modules need this one.
    from heddle.torch import ops
    from heddle.torch.patterns import raise_op

    emitter = Emitter(captured, raise_op)
    emitter.run()
    if emitter.problems:
        return Module("", [], {}, emitter.problems)
    results: list[tuple[str, str, Value]] = []
    for name, node in captured.outputs:
        if name == loss:
            emitter.node = node
            emitter.builder.name, emitter.builder.location = "loss", ""
            try:
                total, count = ops.loss.loss_parts(emitter, node)
            except NoFormError as problem:
                raise TorchError(str(problem)) from None
            results = [
                ("loss_sum", "loss_sum", total),
                ("count", "label_count", count),
                *results,
            ]
        elif isinstance(node, Node) and isinstance(emitter.value(node), Value):
            results.append((name, "output", emitter.value(node)))
    for name, node in captured.mutations.items():
        value = emitter.value(node)
        state = emitter.loaded.get(name)
        if state is not None:
            emitter.builder.name = name
            emitter.builder.append(
                f"heddle.store {value.name}, {symbol(state.name)} : {value.tensor}",
                [value],
                has_effect=True,
            )
    return _module(emitter, results, labels, groups)


def _module(
    emitter: Emitter,
    results: list[tuple[str, str, Value]],
    labels: str | None,
    groups: Groups | None,
) -> Module:
    body = emitter.builder.body([value for _, _, value in results])
    lines = ['module attributes {heddle.model = "torch"} {']
    lines += [
        f"  {_variable(state, emitter.factored.get(name, tuple(state.tensor.shape)))}"
        f"{_group(name, groups) if state.is_trained else ''}"
        for name, state in emitter.loaded.items()
    ]
    lines += [
        f"  heddle.variable {symbol(name)} : tensor<f64> setting "
        f"init(constant<{number(rate, 'f64')}>)"
        for name, rate in (groups.rates if groups else {}).items()
    ]
    if emitter.uses_steps:
        lines.append("  heddle.variable @steps : tensor<i64> counter init(zeros)")
    ports = ", ".join(
        f"{value.name}: {value.tensor} "
        + _port(name, "labels" if name == labels else "features")
        for name, value in emitter.arguments.items()
    )
    kinds = ", ".join(f"{v.tensor} {_port(name, role)}" for name, role, v in results)
    lines.append(f"  func.func @forward({ports}) -> ({kinds}) {{")
    lines += body
    names = ", ".join(value.name for _, _, value in results)
    types = ", ".join(value.tensor for _, _, value in results)
    lines += [f"    return {names} : {types}", "  }", "}", ""]
    inputs = {name: value.type for name, value in emitter.arguments.items()}
    return Module("\n".join(lines), list(emitter.loaded.values()), inputs, [])


def _port(name: str, role: str) -> str:
    return f"{{heddle.name = {quote(name)}, heddle.role = #heddle.port_role<{role}>}}"


def _variable(state: State, own: Shape) -> str:
    element = element_type(state.tensor.dtype)
    shape = list(state.tensor.shape)
    role = "parameter" if state.is_trained else "buffer"
    if state.is_trained and element != "f32":
        raise TorchError(
            f"expected the parameter {state.name} of float32, got "
            f"{str(state.tensor.dtype).removeprefix('torch.')}; call model.float(), "
            "and pass bf16=True to compute in bf16"
        )
    # A tensor of no dimensions has the variable's own name and shape.
    saved = f" checkpoint(<{quote(state.name)}, {shape}>)" if shape else ""
    return (
        f"heddle.variable {symbol(state.name)} : {tensor_type(own, element)} {role} "
        f"init({_initializer(state)}){saved}"
    )


def _group(name: str, groups: Groups | None) -> str:
    if groups is None or name not in groups.of:
        return ""
    rate, decay = groups.of[name]
    decay_text = number(decay, "f64")
    return f" {{heddle.group = #heddle.group<{symbol(rate)}, decay {decay_text}>}}"


def has_no_values(tensor: torch.Tensor) -> bool:
    """Tells whether a tensor has no memory, or one number for all elements."""
    return tensor.is_meta or (tensor.numel() > 1 and not any(tensor.stride()))


def _initializer(state: State) -> str:
    """Returns the values to start from where no weights are given."""
    tensor = state.tensor.detach()
    if has_no_values(tensor):
        if tensor.dim() > 1:
            return "normal<0.02>"
        return "zeros" if state.name.endswith("bias") else "ones"
    if not tensor.numel() or bool((tensor == tensor.flatten()[0]).all()):
        value = float(tensor.flatten()[0]) if tensor.numel() else 0.0
        return {0.0: "zeros", 1.0: "ones"}.get(
            value, f"constant<{number(value, 'f64')}>"
        )
    return f"normal<{number(float(tensor.float().std()), 'f64')}>"


def require(module: Module) -> Module:
    if module.problems:
        raise UnsupportedError(module.problems)
    return module
