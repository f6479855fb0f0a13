"""Finds attention that a program writes out with jax.nn.softmax.

While a program is traced, jax.nn.softmax over one dimension is a call of a named
function. Its derivative p * (t - sum(p * t)) is another one. The derivative is linear
and its own transpose, so the forward and the backward pass call the same function. The
products around these calls have the queries, keys, values and their gradients as
operands and results:

    scores = scale * (query key^T), masked        d = mask(grad(p, o' value^T)) * scale
    p = softmax(scores)                           query' = d key, key' = d^T query
    o = p value                                   value' = p^T o'

Calls without this exact form are left as they are.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.mlir import ir

from ..ir import (
    MARKER,
    constant_of,
    create,
    element_type,
    replace,
    shape_of,
    source,
    tensor_type,
    users,
    walk,
)
from .products import (
    NoMatch,
    Product,
    View,
    dimensions,
    evaluate,
    owner,
    product_of_operand,
    product_of_result,
)

Array = jax.Array
FORWARD = f"{MARKER}softmax"
BACKWARD = f"{MARKER}grad_of_softmax"
# Scores of masked keys: their exponentials are zero.
_MASKED = -1e8


@jax.jit
def heddle_softmax(x: Array) -> Array:
    exponentials = jnp.exp(x - x.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


@jax.jit
def heddle_grad_of_softmax(y: Array, tangent: Array) -> Array:
    return y * (tangent - (y * tangent).sum(-1, keepdims=True))


@jax.custom_jvp
def softmax(x: Array) -> Array:
    return heddle_softmax(x)


@softmax.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    y = softmax(primals[0])
    return y, heddle_grad_of_softmax(y, tangents[0])


def callee(op: ir.Operation) -> str:
    if op.name != "func.call":
        return ""
    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)


def is_causal(seen: np.ndarray, letters: str) -> bool:
    """Whether the mask is causal. False if all keys are seen; no other mask matches."""
    order = [letters.index(c) for c in letters if c not in "st"]
    order += [letters.index("s"), letters.index("t")]
    seen = np.transpose(seen, order)
    if seen.all():
        return False
    queries, keys = seen.shape[-2:]
    if queries == keys and (seen == np.tri(queries, dtype=bool)).all():
        return True
    raise NoMatch("the mask is not causal")


@dataclasses.dataclass
class Scores:
    """How scores come from a product of queries and keys."""

    product: Product
    scale: float
    causal: bool


def number_of(value: ir.Value) -> float:
    """Returns the number that all elements of a value equal."""
    number = constant_of(value)
    if number is None:
        try:
            numbers = np.unique(evaluate(value))
        except NoMatch:
            numbers = np.empty(0)
        if numbers.size != 1:
            raise NoMatch("the scale is no constant")
        number = numbers.item()
    return float(number)


def trace_scores(value: ir.Value, letters: str) -> Scores:
    scale, causal = 1.0, False
    while True:
        op = owner(value)
        if op is None:
            raise NoMatch("scores are an argument")
        if op.name == "stablehlo.dot_general":
            return Scores(product_of_result(op, letters, "d"), scale, causal)
        if op.name == "stablehlo.transpose":
            view = View(value, letters)
            order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
            letters = "".join(view.letters[order.index(d)] for d in range(len(order)))
            value = op.operands[0]
        elif op.name == "stablehlo.divide":
            scale /= number_of(op.operands[1])
            value = op.operands[0]
        elif op.name == "stablehlo.multiply":
            is_first = constant_of(op.operands[0]) is not None
            scale *= number_of(op.operands[0 if is_first else 1])
            value = op.operands[1 if is_first else 0]
        elif op.name == "stablehlo.select":
            if number_of(op.operands[2]) > _MASKED or causal:
                raise NoMatch("the mask leaves weight to keys")
            causal = is_causal(evaluate(op.operands[0]), letters)
            value = op.operands[1]
        elif op.name == "stablehlo.add" and not causal:
            try:
                bias, value = evaluate(op.operands[1]), op.operands[0]
            except NoMatch:
                bias, value = evaluate(op.operands[0]), op.operands[1]
            if not np.logical_or(bias == 0, bias <= _MASKED).all():
                raise NoMatch("a bias is added")
            causal = is_causal(bias == 0, letters)
        else:
            raise NoMatch(f"scores come from {op.name}")


def only_user(value: ir.Value) -> ir.Operation:
    found = users(value)
    if len(found) != 1:
        raise NoMatch("a value has several uses")
    return found[0]


def follow_gradient(value: ir.Value, letters: str) -> View:
    """Returns the gradient of the product of queries and keys."""
    while True:
        found = users(value)
        if len(found) == 2 and all(op.name == "stablehlo.dot_general" for op in found):
            return View(value, letters)
        op = only_user(value)
        if op.name == "stablehlo.transpose":
            order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
            letters = "".join(letters[d] for d in order)
        elif op.name == "stablehlo.divide" and op.operands[0] == value:
            number_of(op.operands[1])
        elif op.name == "stablehlo.multiply":
            number_of(op.operands[1] if op.operands[0] == value else op.operands[0])
        elif op.name == "stablehlo.select" and op.operands[1] == value:
            if number_of(op.operands[2]) != 0:
                raise NoMatch("a masked gradient is not zero")
        else:
            raise NoMatch(f"the gradient of the scores goes to {op.name}")
        value = op.results[0]


class Attention:
    """One attention: its forward and, if the program has it, backward pass."""

    def __init__(self, call: ir.Operation) -> None:
        self.call = call
        probabilities = call.results[0]
        shape = shape_of(probabilities)
        if len(shape) not in (3, 4):
            raise NoMatch(f"scores have {len(shape)} dimensions")
        if str(element_type(probabilities)) != "f32":
            raise NoMatch("scores are not f32")
        if len(call.operands) != 1:
            raise NoMatch("another form of softmax")
        # The product shows which dimensions are batch, heads and queries.
        backward = None
        products = []
        for user in users(probabilities):
            if callee(user).startswith(BACKWARD):
                backward = user
            elif user.name == "stablehlo.dot_general":
                products.append(user)
            else:
                raise NoMatch(f"probabilities go to {user.name}")
        self.backward = backward
        letters = self.letters_of_scores(len(shape))
        self.weights = View(probabilities, letters)
        self.scores = trace_scores(call.operands[0], letters)
        self.query = self.scores.product.operand_with("s")
        self.key = self.scores.product.operand_with("t")
        forward, gradient = [], []
        for op in products:
            side = 0 if op.operands[0] == probabilities else 1
            sums = dimensions(op)[2 + side]
            (forward if [letters[d] for d in sums] == ["t"] else gradient).append(op)
        if len(forward) != 1 or len(gradient) != (backward is not None):
            raise NoMatch("probabilities have other uses")
        self.output = product_of_operand(forward[0], self.weights, "d", "t")
        self.value = self.output.other_than(self.weights)
        if backward is not None:
            self.match_backward(backward, gradient[0])

    def letters_of_scores(self, rank: int) -> str:
        """Names dimensions: t is softmax's, b and n are the batch dimensions of the
        product of queries and keys, and s is the remaining dimension."""
        value, places = self.call.operands[0], list(range(rank))
        while (op := owner(value)) and op.name != "stablehlo.dot_general":
            if op.name == "stablehlo.transpose":
                order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
                places = [order[p] for p in places]
                value = op.operands[0]
            elif op.name == "stablehlo.select":
                value = op.operands[1]
            elif op.name in ("stablehlo.divide", "stablehlo.multiply", "stablehlo.add"):
                is_first = self.is_computed(op.operands[0])
                value = op.operands[0 if is_first else 1]
            else:
                raise NoMatch(f"scores come from {op.name}")
        if op is None:
            raise NoMatch("scores are an argument")
        count = len(dimensions(op)[0])
        axis = rank - 1
        letters = [""] * rank
        names = iter("bn" if count == 2 else "n" if count == 1 else "")
        if count not in (1, 2) or rank != count + 2:
            raise NoMatch("scores are not of one batch, heads, queries and keys")
        for dim in range(rank):
            if places[dim] < count:
                letters[dim] = next(names)
            else:
                letters[dim] = "t" if dim == axis else "s"
        if sorted(letters) != sorted("bnst"[4 - rank :]):
            raise NoMatch("softmax runs over another dimension")
        return "".join(letters)

    @staticmethod
    def is_computed(value: ir.Value) -> bool:
        """Whether the value depends on data, as scores do."""
        try:
            evaluate(value)
        except NoMatch:
            return True
        return False

    def match_backward(self, backward: ir.Operation, value_grad: ir.Operation) -> None:
        others = [v for v in backward.operands if v != self.weights.value]
        if len(backward.operands) != 2 or len(others) != 1:
            raise NoMatch("another derivative of softmax")
        # p^T o' and o' value^T.
        self.value_grad = product_of_operand(value_grad, self.weights, "d", "s")
        output_grad = self.value_grad.other_than(self.weights)
        letters = self.weights.letters
        view = View(others[0], letters).base()
        inner = owner(view.value)
        if inner is None or inner.name != "stablehlo.dot_general":
            raise NoMatch("the gradient of probabilities is no product")
        product = product_of_result(inner, view.letters, "d")
        if not product.operand_with("t").same(self.value):
            raise NoMatch("the gradient uses other values")
        if not product.operand_with("s").same(output_grad):
            raise NoMatch("the gradient uses another gradient of the output")
        self.output_grad = output_grad
        scores_grad = follow_gradient(backward.results[0], letters)
        self.query_grad = self.key_grad = None
        for op in users(scores_grad.value):
            side = 0 if op.operands[0] == scores_grad.value else 1
            summed = [scores_grad.letters[d] for d in dimensions(op)[2 + side]]
            if summed == ["t"]:
                made = product_of_operand(op, scores_grad, "d", "t")
                other, wanted = made.other_than(scores_grad), self.key
                self.query_grad = made
            else:
                made = product_of_operand(op, scores_grad, "d", "s")
                other, wanted = made.other_than(scores_grad), self.query
                self.key_grad = made
            if not other.same(wanted):
                raise NoMatch("the gradient uses other queries or keys")
        if self.query_grad is None or self.key_grad is None:
            raise NoMatch("a gradient of queries or keys is missing")

    def convert(self) -> None:
        """Replaces the products by heddle.attention and its gradient."""
        products = [self.output]
        if self.backward is not None:
            products += [self.query_grad, self.key_grad, self.value_grad]
        if any(product.op.block != self.call.block for product in products):
            raise NoMatch("its parts lie in different loops or branches")
        at = self.output.op
        query = self.query.arranged("bsnd", at)
        key = self.key.arranged("btnd", at)
        value = self.value.arranged("btnd", at)
        if key.type != value.type:
            raise NoMatch("values have another size than keys")
        attributes = {"scale": ir.FloatAttr.get(ir.F64Type.get(), self.scores.scale)}
        if self.scores.causal:
            attributes["causal"] = ir.UnitAttr.get()

        def segments(count: int) -> dict[str, ir.Attribute]:
            sizes = ", ".join(["1"] * count + ["0", "0", "0"])
            return {"operandSegmentSizes": ir.Attribute.parse(f"array<i32: {sizes}>")}

        lse_type = tensor_type(shape_of(query)[:-1], ir.F32Type.get())
        loc = self.call.location
        made = create(
            "heddle.attention",
            [query.type, lse_type],
            [query, key, value],
            attributes | segments(3),
            at=at,
            loc=loc,
        )
        self.substitute(self.output, View(made.results[0], "bsnd"))
        if self.backward is None:
            return
        at = min_op([self.value_grad.op, self.query_grad.op, self.key_grad.op])
        gradient = self.output_grad.arranged("bsnd", at)
        types = [query.type, key.type, value.type]
        grads = create(
            "heddle.attention_grad",
            types,
            [query, key, value, *made.results, gradient],
            attributes | segments(6),
            at=at,
            loc=loc,
        )
        self.substitute(self.query_grad, View(grads.results[0], "bsnd"))
        self.substitute(self.key_grad, View(grads.results[1], "btnd"))
        self.substitute(self.value_grad, View(grads.results[2], "btnd"))

    @staticmethod
    def substitute(product: Product, view: View) -> None:
        letters = product.result.letters
        at = product.op
        value = view
        if len(letters) != len(view.letters):
            # Without a batch: drops the dimension of size 1.
            shape = shape_of(view.value)[1:]
            kind = tensor_type(shape, element_type(view.value))
            made = create("stablehlo.reshape", [kind], [view.value], at=at)
            value = View(made.results[0], view.letters[1:])
        replace(product.op, [value.arranged(letters, at)])


def min_op(ops: list[ir.Operation]) -> ir.Operation:
    """Returns the first of ops of one block."""
    first = ops[0]
    for op in ops[1:]:
        if op.is_before_in_block(first):
            first = op
    return first


def looks_like_attention(call: ir.Operation) -> bool:
    """Whether probabilities [..., queries, keys] go into a product."""
    products = [u for u in users(call.results[0]) if u.name == "stablehlo.dot_general"]
    return bool(products) and len(shape_of(call.results[0])) > 2


def stored_elements(value: ir.Value) -> int:
    """Returns the number of stored elements of a value. If a loop stores the value of
    each iteration, counts all iterations."""
    sizes = [int(np.prod(shape_of(value), dtype=np.int64))]
    for user in users(value):
        if user.name == "stablehlo.dynamic_update_slice" and value == user.operands[1]:
            sizes.append(stored_elements(user.results[0]))
        elif user.name in ("stablehlo.reshape", "stablehlo.broadcast_in_dim"):
            sizes.append(stored_elements(user.results[0]))
    return max(sizes)


def raise_attention(module: ir.Module, remarks: list[str]) -> None:
    calls = [op for op in walk(module) if callee(op).startswith((FORWARD, BACKWARD))]
    for call in calls:
        if not len(call.results):  # what JAX's linearization leaves of a call
            call.erase()
    for call in [op for op in walk(module) if callee(op).startswith(FORWARD)]:
        try:
            Attention(call).convert()
        except NoMatch as reason:
            if not looks_like_attention(call):
                continue
            size = 4 * stored_elements(call.results[0])
            remark = (
                f"{source(call)}: attention is computed as written, with {size} bytes "
                f"of stored scores: {reason}; heddle.jax.attention stores none"
            )
            # The backward pass of a loop may compute the same softmax again.
            if remark not in remarks:
                remarks.append(remark)
