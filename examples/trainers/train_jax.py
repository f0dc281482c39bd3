"""JAX: global batches by their sharding, on all devices of all processes.

XLA_FLAGS=--xla_force_host_platform_device_count=4 \
        python examples/trainers/train_jax.py tokens/
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import pagefeed as pf
from pagefeed.integrations.jax import global_batches
from pagefeed.launch import from_jax

ROWS, LENGTH, VOCABULARY = 8, 128, 65536


def loss_of(embedding: jax.Array, ids: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the loss of predicting each token from the one before."""
    logits = embedding[ids[:, :-1]] @ embedding.T
    labels = labels[:, 1:]
    chosen = jnp.take_along_axis(
        jax.nn.log_softmax(logits), jnp.maximum(labels, 0)[..., None], axis=2
    )
    return -chosen[..., 0].mean(where=labels >= 0)


def main(tokens: str) -> None:
    """Train ten steps, and tell the loss of the last."""
    mesh = Mesh(np.array(jax.devices()), ("data",))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    rank, world_size = from_jax(sharding, rows=ROWS)
    loader = pf.Loader(
        pf.parquet(tokens, column="input_ids"),
        sequences=pf.Packed(LENGTH, eos=0),
        batch_size=ROWS // world_size,
        seed=1,
        dtype="int32",
        fields=("input_ids", "labels"),
        rank=rank,
        world_size=world_size,
    )
    embedding = jax.random.normal(jax.random.key(0), (VOCABULARY, 16)) * 0.02
    step = jax.jit(jax.value_and_grad(loss_of))
    for batch in global_batches(loader, sharding):
        loss, slope = step(embedding, batch["input_ids"], batch["labels"])
        embedding -= 0.1 * slope
        if loader.step == 10:
            break
    print(f"loss {loss:.3f} on {len(jax.devices())} devices")
    print(f"rank {rank} of {world_size} ends at step {loader.step}")


if __name__ == "__main__":
    main(sys.argv[1])
