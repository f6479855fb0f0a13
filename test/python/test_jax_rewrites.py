"""Single constructs that are rewritten before jaxlib's passes."""

import functools
import pathlib
import re
import tempfile
import unittest

try:
    import jax
except ImportError as problem:
    raise unittest.SkipTest(f"needs jax: {problem}") from None

import heddle
import heddle.jax
import jax.numpy as jnp
from heddle.compiler import run_program
from jax import lax
from jax_programs import floats, integers
from test_jax_programs import check


class RewriteTest(unittest.TestCase):
    def same(self, function: object, *args: object) -> heddle.jax.Exported:
        with heddle.jax.compile(function, *args) as program:
            check(self, program(*args), jax.jit(function)(*args))
            return program.exported

    def test_scatter_add(self) -> None:
        def few(x, i, u):
            return x.at[i].add(u), x.at[:, i].add(u.T), x.at[i, i].add(u[:, 0])

        self.same(few, floats(0, 7, 7), integers(1, 7, 3), floats(2, 3, 7))
        exported = self.same(few, floats(0, 9, 9), integers(1, 9, 12), floats(2, 12, 9))
        self.assertIn("heddle.embedding_grad", exported.text)

    def test_scatter_out_of_range(self) -> None:
        def drop(x, i, u):
            return x.at[i].add(u, mode="drop"), x.at[i].set(u, mode="drop")

        index = jnp.array([1, 9, -20, 3, 4, 5, 100], jnp.int32)
        self.same(drop, floats(0, 6, 4), index, floats(1, 7, 4))

    def test_scatter_kinds(self) -> None:
        def kinds(x, i, u):
            return x.at[i].set(u), x.at[i].max(u), x.at[i].min(u), x.at[i].mul(u)

        index = jnp.array([0, 3, 1, 5, 6, 2, 8], jnp.int32)
        self.same(kinds, floats(0, 9, 4), index, floats(1, 7, 4))
        self.same(kinds, floats(0, 9, 4), index[:2], floats(1, 2, 4))
        self.same(kinds, integers(0, 99, 9), index, integers(1, 99, 7))

    def test_scan_keeps_no_copies(self) -> None:
        """Values that a loop keeps for its backward loop are read where they were
        computed."""

        def step(w, x):
            def loss(w):
                y, rows = lax.scan(lambda y, v: (jnp.tanh(y @ v), y * y), x, w)
                return y.sum() + rows.sum()

            return jax.value_and_grad(loss)(w)

        exported = self.same(step, floats(0, 3, 8, 8), floats(1, 4, 8))
        self.assertIn("tensor.expand_shape", exported.text)
        with tempfile.TemporaryDirectory() as folder:
            module = pathlib.Path(folder) / "step.mlir"
            module.write_text(exported.text)
            kernels = run_program("compile", module, "--stop-after", "kernels")
        # Neither the layers' parameters nor the kept values are copied.
        self.assertNotRegex(kernels, r"-> tensor<1x8x8xf32>")
        self.assertNotRegex(kernels, r"-> tensor<1x4x8xf32>")

    def test_windows(self) -> None:
        def update(x, i, u):
            return (
                x.at[2:5, 1].set(u),
                x.at[i].set(0.0),
                lax.dynamic_update_slice(x, u[None], (i, i)),
            )

        self.same(update, floats(0, 6, 7), jnp.int32(3), floats(1, 3))

        def rows(x, starts):
            return jax.vmap(lambda row, i: lax.dynamic_slice(row, (i,), (3,)))(
                x, starts
            )

        def gradient(x, starts):
            return jax.grad(lambda x: jnp.sum(rows(x, starts) ** 2))(x)

        self.same(gradient, floats(0, 4, 8), integers(1, 6, 4))

    def test_take_along_axis(self) -> None:
        def gradient(x, i):
            return jax.grad(lambda x: jnp.sum(jnp.take_along_axis(x, i, axis=1) ** 3))(
                x
            )

        self.same(gradient, floats(0, 4, 8), integers(1, 8, 4, 1))
        self.same(gradient, floats(0, 4, 8), integers(1, 8, 4, 6))

    def test_segment_sum(self) -> None:
        def sums(x, i):
            return jax.ops.segment_sum(x, i, 5), jax.ops.segment_max(x, i, 5)

        self.same(sums, floats(0, 11), integers(1, 5, 11))

    def test_sort(self) -> None:
        def sort(x, i):
            return (
                jnp.sort(x, axis=0),
                jnp.argsort(x, axis=1),
                jnp.sort(i)[::-1],
                lax.top_k(x, 3),
            )

        self.same(sort, floats(0, 5, 13), integers(1, 4, 10))

        def ties(i, x):
            return (
                lax.sort((i, x), num_keys=1),
                lax.sort((i, x), num_keys=2),
                jnp.argsort(-i),
            )

        self.same(ties, integers(0, 3, 9), floats(1, 9))

        def types(x):
            kinds = jnp.bfloat16, jnp.float16, jnp.int8, jnp.uint8, jnp.uint32, bool
            parts = [jnp.sort(x.astype(kind), axis=1) for kind in kinds]
            return parts, jnp.argsort(x.astype(jnp.bfloat16), axis=1)

        self.same(types, integers(0, 99, 2, 1))
        for size in (5, 260):  # by ranks, and by a network
            self.same(types, integers(0, 99, 2, size))
            self.same(sort, floats(0, 3, size), integers(1, 9, size))
        self.same(
            jnp.sort,
            jnp.array([jnp.nan, 1, -jnp.inf, jnp.inf, -0.0, 0.0], jnp.float32)[
                :, None
            ].T[:, 1:],
        )

    def test_sort_gradient(self) -> None:
        self.same(
            jax.grad(lambda x: jnp.sum(jnp.sort(x) * jnp.arange(6.0))), floats(0, 6)
        )
        self.same(jax.grad(lambda x: jnp.sum(lax.top_k(x, 2)[0] ** 2)), floats(0, 3, 6))

    def test_loops(self) -> None:
        def count(x, n):
            first = lax.fori_loop(0, n, lambda i, x: x * 1.5 + i, x)
            second = lax.while_loop(
                lambda s: jnp.sum(s[0]) < 50,
                lambda s: (s[0] * 2, s[1] + 1),
                (jnp.abs(x), 0),
            )
            third = lax.fori_loop(2, 5, lambda i, x: x + i, x)
            return first, second, third

        text = self.same(count, floats(0, 4), jnp.int32(3)).text
        self.assertIn("scf.for", text)
        self.assertIn("scf.while", text)

    def test_scan(self) -> None:
        def scan(x, y):
            def body(carry, part):
                carry = jnp.tanh(carry + part)
                return carry, (carry * 2, part[0])

            return (
                lax.scan(body, x, y),
                lax.scan(body, x, y, reverse=True),
                jnp.cumsum(y, 0),
            )

        self.same(scan, floats(0, 3), floats(1, 5, 3))
        self.same(
            jax.grad(lambda x, y: jnp.sum(scan(x, y)[0][1][0])),
            floats(0, 3),
            floats(1, 5, 3),
        )

    def test_branches(self) -> None:
        def branches(x, i):
            return lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh, lambda x: x * x], x)

        for i in (-1, 0, 1, 2, 3, 9):
            self.same(branches, floats(0, 4), jnp.int32(i))

    def test_pooling(self) -> None:
        def pool(x):
            a = lax.reduce_window(
                x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
            )
            b = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
            return jnp.sum(a**2) + jnp.sum(b**3)

        self.same(jax.value_and_grad(pool), floats(0, 2, 7, 6, 3))

    def test_split_and_concatenate(self) -> None:
        def parts(x):
            a, b, c = jnp.split(x, [2, 5], axis=1)
            return jnp.concatenate([c * a[:, :1], b, a], axis=1)

        self.same(
            lambda x: (parts(x), jax.grad(lambda x: jnp.sum(parts(x) ** 2))(x)),
            floats(0, 4, 8),
        )

    def test_random(self) -> None:
        def draw(key):
            a, b = jax.random.split(key)
            bits = (
                jax.random.bits(a, (5,)),
                jax.random.randint(b, (4,), 0, 100),
                jax.random.permutation(a, 6),
            )
            return *bits, jax.random.normal(b, (3, 5)), jax.random.uniform(a, (7,))

        self.same(draw, jax.random.key(3))
        self.same(draw, jax.random.PRNGKey(4))

    def test_random_halves(self) -> None:
        """Numbers of 16 bits, which are made of random bits."""

        def draw(key):
            half = jax.random.uniform(key, (9,), jnp.float16)
            return half, jax.random.uniform(key, (3, 5), jnp.bfloat16)

        self.same(draw, jax.random.key(3))

    def test_unsigned(self) -> None:
        def unsigned(x, y):
            return (
                x // y,
                x % y,
                x > y,
                x >> 3,
                x.astype(jnp.float32),
                jnp.maximum(x, y),
                x.astype(jnp.uint8),
            )

        big = jnp.array([4000000000, 7, 2147483648], jnp.uint32)
        self.same(unsigned, big, jnp.array([3, 4000000000, 5], jnp.uint32))

        def image(x):
            return x.astype(jnp.float32) / 255

        self.same(image, jnp.array([0, 127, 128, 255], jnp.uint8))

    def test_types(self) -> None:
        def types(x, b):
            return (
                x.astype(jnp.bfloat16) * 2,
                ~b,
                jnp.where(b, x, -x),
                x.astype(jnp.float16),
            )

        self.same(types, floats(0, 5), jnp.array([True, False, True, True, False]))

    def test_floats_beyond_integers(self) -> None:
        def convert(*arrays):
            kinds = jnp.int8, jnp.uint8, jnp.int32, jnp.uint32
            return [x.astype(kind) for x in arrays for kind in kinds]

        numbers = [-0.5, 1.9, 127, 128, 255.5, -129, 3e9, -3e9, 5e9, 2.0**31]
        numbers += [jnp.inf, -jnp.inf, jnp.nan]
        kinds = jnp.float32, jnp.float16, jnp.bfloat16
        array = jnp.array(numbers, jnp.float32)
        self.same(convert, *(array.astype(kind) for kind in kinds))

    def test_static_and_keywords(self) -> None:
        def power(x, n, *, scale):
            return x**n * scale["a"]

        scale = {"a": jnp.float32(3)}
        with heddle.jax.compile(
            power, floats(0, 4), 3, scale=scale, static_argnums=1
        ) as program:
            wanted = power(floats(0, 4), 3, scale=scale)
            check(self, program(floats(0, 4), 3, scale=scale), wanted)
            with self.assertRaisesRegex(
                heddle.RunError, "expected arguments of the structure"
            ):
                program(floats(0, 4), 3, scale=jnp.float32(3))


class AttentionTest(unittest.TestCase):
    def test_attention(self) -> None:
        for causal, groups in ((True, 4), (False, 4), (True, 2), (False, 1)):
            args = (
                floats(0, 2, 9, 4, 8),
                floats(1, 2, 9, groups, 8),
                floats(2, 2, 9, groups, 8),
            )

            def ours(q, k, v, causal=causal):
                return jnp.sum(heddle.jax.attention(q, k, v, causal=causal) ** 2)

            def theirs(q, k, v, causal=causal):
                return jnp.sum(
                    jax.nn.dot_product_attention(q, k, v, is_causal=causal) ** 2
                )

            wanted = jax.value_and_grad(theirs, (0, 1, 2))(*args)
            check(self, jax.value_and_grad(ours, (0, 1, 2))(*args), wanted)
            for function in (ours, theirs):
                step = jax.value_and_grad(function, (0, 1, 2))
                with heddle.jax.compile(step, *args) as program:
                    self.assertIn("heddle.attention_grad", program.exported.text)
                    check(self, program(*args), wanted)

    def test_vmapped_attention(self) -> None:
        args = (
            floats(0, 3, 2, 5, 4, 8),
            floats(1, 3, 2, 5, 4, 8),
            floats(2, 3, 2, 5, 4, 8),
        )
        function = jax.vmap(heddle.jax.attention)
        with heddle.jax.compile(function, *args) as program:
            check(self, program(*args), function(*args))


class RefusalTest(unittest.TestCase):
    """Every refusal names the line of the program."""

    def refused(
        self, message: str, function: object, *args: object, **options: object
    ) -> None:
        with self.assertRaisesRegex(
            heddle.CompileError, r"test_jax_rewrites\.py:\d+: .*" + message
        ):
            heddle.jax.export(function, *args, **options)

    def test_refusals(self) -> None:
        self.refused("Fourier", lambda x: jnp.fft.fft(x).real, floats(0, 8))
        self.refused(
            "cholesky|potrf", lambda x: jnp.linalg.cholesky(x @ x.T), floats(0, 3, 3)
        )
        self.refused("callback", lambda x: jax.debug.print("{}", x) or x, floats(0, 3))

    def test_constants(self) -> None:
        """Constants have the line of the call that traces the whole function. It is not
        a line of the program."""
        with self.assertRaises(heddle.CompileError) as raised:
            heddle.jax.export(lambda x: jnp.abs(x + 1j * x), floats(0, 3))
        text = str(raised.exception)
        found = re.findall(r"test_jax_rewrites\.py:(\d+): '(\w+)': complex", text)
        self.assertEqual(len(found), len(text.splitlines()), text)
        self.assertEqual(len({line for line, _ in found}), 1, text)
        names = [name for _, name in found]
        self.assertEqual(names, ["convert_element_type", "mul", "add"])

    def test_within_branches_of_jax(self) -> None:
        """JAX's own functions within a branch have no line of the program."""
        self.refused("getrf", lambda x: jax.scipy.linalg.expm(x), floats(0, 4, 4))

    def test_errors_of_jax(self) -> None:
        """Errors of JAX name the line, too. Errors that the program raises stay as they
        are."""
        self.refused("boolean conversion", lambda x: x if x[0] > 0 else -x, floats(0, 3))
        self.refused("boolean indices", lambda x: x[x > 0].sum(), floats(0, 3))

        def loop(x):
            return lax.while_loop(lambda y: y.sum() < 9, lambda y: y * 2, x).sum()

        self.refused("Reverse-mode", lambda x: jax.grad(loop)(x), floats(0, 3))
        with self.assertRaises(KeyError):
            heddle.jax.export(lambda x: {"a": x}["b"], floats(0, 3))

    def test_shard_map(self) -> None:
        mesh = jax.sharding.AbstractMesh((2,), ("dp",))
        spec = jax.sharding.PartitionSpec("dp")
        function = jax.shard_map(
            lambda x: x * 2, mesh=mesh, in_specs=spec, out_specs=spec
        )
        self.refused("shard_map is not supported", lambda x: function(x), floats(0, 4))

    def test_all_at_once(self) -> None:
        with self.assertRaises(heddle.CompileError) as raised:
            heddle.jax.export(
                lambda x: (jnp.fft.fft(x).real, jnp.fft.fft(x * 2).imag), floats(0, 8)
            )
        self.assertGreaterEqual(len(str(raised.exception).splitlines()), 2)


class ArrangementTest(unittest.TestCase):
    """Forms of JAX's ops that would cost copies or passes over memory."""

    def same(self, function: object, *args: object, **options: object) -> str:
        with heddle.jax.compile(function, *args, **options) as program:
            check(self, program(*args), jax.jit(function)(*args))
            return program.exported.text

    def test_weight_gradients_are_not_transposed(self) -> None:
        def gradients(w, v, x):
            def loss(w, v):
                return jnp.sum(jnp.einsum("bnf,nfk->bnk", jnp.tanh(x @ w), v) ** 2)

            return jax.grad(loss, (0, 1))(w, v)

        args = floats(0, 10, 14), floats(1, 3, 14, 6), floats(2, 5, 3, 10)
        text = self.same(gradients, *args)
        self.assertNotIn("tensor<14x10xf32>", text)

    def test_scans_keep_results_of_products(self) -> None:
        """The backward loop computes gelu again, and attention has its own op."""

        def attend(x):
            scores = jnp.einsum("bsnd,btnd->bnst", x, x) / 2
            return jnp.einsum("bnst,btnd->bsnd", jax.nn.softmax(scores, -1), x)

        def layer(x, w):
            x = x + attend(x.reshape(2, 6, 2, 4)).reshape(x.shape)
            return x + jax.nn.gelu(x @ w["up"]) @ w["down"], None

        def loss(w, x):
            return jnp.sum(lax.scan(layer, x, w)[0] ** 2)

        w = {"up": floats(0, 3, 8, 20) / 4, "down": floats(1, 3, 20, 8) / 4}
        text = self.same(jax.value_and_grad(loss), w, floats(2, 2, 6, 8))
        self.assertEqual(text.count('"heddle.attention_grad"'), 1)
        # The carried value, the layer's input and the product of gelu.
        loop = re.findall(r"scf\.for .* -> \((.*?)\)", text)[0]
        kept = ["2x6x8xf32", "3x2x6x20xf32", "3x2x6x8xf32"]
        self.assertEqual(sorted(re.findall(r"tensor<([^>]*)>", loop)), kept)

        def checkpointed(w, x):
            body = jax.checkpoint(layer, prevent_cse=False)
            return jnp.sum(lax.scan(body, x, w)[0] ** 2)

        text = self.same(jax.value_and_grad(checkpointed), w, floats(2, 2, 6, 8))
        self.assertNotIn("3x2x6x20xf32", text)
        self.assertIn("heddle.barrier", text)

    def test_checkpoints_in_functions_and_branches_have_barriers(self) -> None:
        @functools.partial(jax.checkpoint, prevent_cse=False)
        def layer(x, w):
            return jnp.tanh(jnp.tanh(x @ w) @ w)

        def in_function(x, w):
            return jax.jit(layer)(x, w), None

        def in_branch(x, w):
            return lax.cond(x[0, 0] < 9, layer, lambda x, w: x, x, w), None

        for body in (in_function, in_branch):

            def loss(w, x, body=body):
                return jnp.sum(lax.scan(body, x, w)[0] ** 2)

            args = floats(0, 3, 6, 6) / 3, floats(1, 2, 6)
            text = self.same(jax.value_and_grad(loss), *args)
            self.assertIn("heddle.barrier", text, body.__name__)

    def test_remark_counts_all_iterations(self) -> None:
        """A loop whose checkpoints keep all stores the scores of each iteration."""

        def layer(x, w):
            scores = jnp.einsum("bsnd,btnd->bnst", x, x) + w
            return jnp.einsum("bnst,btnd->bsnd", jax.nn.softmax(scores, -1), x), None

        def loss(w, x):
            policy = jax.checkpoint_policies.everything_saveable
            body = jax.checkpoint(layer, prevent_cse=False, policy=policy)
            return jnp.sum(lax.scan(body, x, w)[0] ** 2)

        args = floats(0, 3, 6, 6), floats(1, 2, 6, 2, 4)
        remarks = heddle.jax.export(jax.grad(loss), *args).remarks
        self.assertIn(f"{4 * 3 * 2 * 2 * 6 * 6} bytes", " ".join(remarks))

    def test_sums_over_all_are_split(self) -> None:
        text = self.same(lambda x: jnp.sqrt(jnp.sum(x**2)), floats(0, 130, 140))
        self.assertIn("-> tensor<130xf32>", text)

    def test_embedding_gradient_of_a_tied_table(self) -> None:
        def gradient(table, ids):
            return jax.grad(lambda t: jnp.sum((t[ids] @ t.T) ** 2))(table)

        text = self.same(gradient, floats(0, 9, 4), integers(1, 9, 12))
        (table,) = re.findall(r'"heddle.embedding_grad"\(.*, (%\w+)\) ', text)
        self.assertRegex(text, rf"{table} = linalg.generic.*reduction")

    def test_updates_are_ordered_by_parameter(self) -> None:
        def step(state, x):
            new = jax.tree.map(lambda s: 0.9 * s + x[0], state)
            return jax.tree.map(lambda s: jnp.tanh(s) * x[1], new)

        state = {"a": floats(0, 17, 3), "b": floats(1, 19, 3)}
        text = self.same(step, state, floats(2, 2), donate_argnums=0)
        order = re.findall(r"ins\(%.* outs\(%\w+ : tensor<(\d+)x3xf32>\)", text)
        self.assertGreater(len(order), 6)
        self.assertEqual(order, sorted(order))


if __name__ == "__main__":
    unittest.main()
