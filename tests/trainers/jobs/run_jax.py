"""JAX on two processes: which rows each feeds, and the global batches of both."""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import pagefeed as pf
from job import LENGTH, Job
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.jax import gather, global_batches
from pagefeed.launch import from_jax

job = Job()
jax.distributed.initialize(
    f"localhost:{os.environ['MASTER_PORT']}", job.world_size, job.rank
)
ROWS = 8
devices = np.array(jax.devices()).reshape(2, 2)


def loader(ranks, **options):
    return job.loader(
        **{
            "format": "numpy",
            "fields": ("input_ids",),
            "batch_size": ROWS // ranks.world_size,
            **ranks._asdict(),
            **options,
        }
    )


def run(name, mesh, spec):
    """An epoch of global batches; each process tells the rows of its devices."""
    sharding = NamedSharding(mesh, spec)
    ranks = from_jax(sharding, rows=ROWS)
    seen = []
    for batch in global_batches(loader(ranks), sharding):
        ids = batch["input_ids"]
        assert ids.shape == (ROWS, LENGTH)
        rows: list[int] = []
        for shard in ids.addressable_shards:
            if shard.index[1].start in (None, 0) and shard.replica_id in (0, 1):
                rows += np.asarray(shard.data)[:, 0].tolist()
        seen.append(sorted(set(rows)))
    job.report(name, {"ranks": list(ranks), "seen": seen})


# Data over all four devices; over processes with the sequence over each one's devices;
# and over the devices of each process, whose rows are then the same on both.
run("data", Mesh(devices.reshape(4), ("data",)), PartitionSpec("data"))
run("sequence", Mesh(devices, ("data", "seq")), PartitionSpec("data", "seq"))
run("replicas", Mesh(devices.T, ("data", "model")), PartitionSpec("data"))
sharding = NamedSharding(Mesh(devices.reshape(4), ("data",)), PartitionSpec("data"))
try:
    global_batches(loader(pf.launch.Ranks(0, 1)), sharding)
except InvalidArgumentError as error:
    job.report("wrong rank", str(error))
try:
    loader(pf.launch.Ranks(job.rank, 2), seed=job.rank).check_ranks(gather)
except InvalidArgumentError as error:
    job.report("wrong seed", str(error))
jax.distributed.shutdown()
sys.exit(0)
