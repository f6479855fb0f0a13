"""JAX programs on Heddle's devices.

    import heddle.jax

    step = heddle.jax.compile(
        train_step, params, opt_state, batch, donate_argnums=(0, 1),
        mesh={"dp": 2}, in_shardings=(None, None, P("dp")))
    for batch in batches:
        params, opt_state, loss = step(params, opt_state, batch)

Programs are lowered by JAX and jaxlib's own passes to MLIR's linalg.
"""

from heddle.jax.fused_attention import attention
from heddle.jax.leaf import Leaf
from heddle.jax.lowering import Exported, export
from heddle.jax.program import Array, Program, compile

__all__ = ["Array", "Exported", "Leaf", "Program", "attention", "compile", "export"]
