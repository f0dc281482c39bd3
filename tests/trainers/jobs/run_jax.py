"""JAX on two processes: which rows each feeds, and the global batches of both."""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import grain
import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import pagefeed as pf
from job import LENGTH, Job
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.jax import gather, global_batches, grain_dataset
from pagefeed.launch import from_jax

job = Job()
jax.distributed.initialize(
    f"localhost:{os.environ['MASTER_PORT']}", job.world_size, job.rank
)
ROWS = 8


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


def train(kind, die_at=None):
    """Count tokens on all devices; Orbax keeps the count and the position together."""
    devices = np.array(jax.devices())
    sharding = NamedSharding(Mesh(devices, ("data",)), PartitionSpec("data"))
    whole = NamedSharding(sharding.mesh, PartitionSpec())
    made = loader(from_jax(sharding, rows=ROWS))
    count = jax.device_put(np.int32(0), whole)
    batches = iter(global_batches(made, sharding))
    if kind == "grain":
        batches = iter(grain_dataset(made))
    manager = ocp.CheckpointManager(job.folder / f"orbax-{kind}")
    last = manager.latest_step()
    if last is not None:
        data = ocp.args.JsonRestore()
        if kind == "grain":
            data = grain.checkpoint.CheckpointRestore(batches)
        target = ocp.args.StandardRestore({"count": count})
        both = ocp.args.Composite(model=target, data=data)
        restored = manager.restore(last, args=both)
        count = restored["model"]["count"]
        if kind == "loader":
            made.load_state_dict(restored["data"])
    add = jax.jit(lambda count, ids: count + ids.size, out_shardings=whole)
    seen = []
    for batch in batches:
        ids = batch["input_ids"]
        if kind == "grain":
            ids = jax.make_array_from_process_local_data(sharding, ids)
        count = add(count, ids)
        mine = {s.index[0].start: s.data[:, 0] for s in ids.addressable_shards}
        seen.append(
            np.concatenate([np.asarray(rows) for rows in mine.values()]).tolist()
        )
        if made.step == 6 and last is None:
            data = ocp.args.JsonSave(made.state_dict())
            if kind == "grain":
                data = grain.checkpoint.CheckpointSave(batches)
            target = ocp.args.StandardSave({"count": count})
            manager.save(6, args=ocp.args.Composite(model=target, data=data))
            manager.wait_until_finished()
        if made.step == die_at:
            job.report("killed", {"seen": seen})
            job.die(behind_others=True)
    manager.close()
    job.report("resumed", {"seen": seen, "count": int(count)})


if "train" in job.options:
    train(**job.options["train"])
    jax.distributed.shutdown()
    sys.exit(0)
devices = np.array(jax.devices()).reshape(2, 2)


# Data over all four devices; over processes with the sequence over each one's devices;
# and over the devices of each process, whose rows are then the same on both.
run("data", Mesh(devices.reshape(4), ("data",)), PartitionSpec("data"))
run("sequence", Mesh(devices, ("data", "seq")), PartitionSpec("data", "seq"))
run("replicas", Mesh(devices.T, ("data", "model")), PartitionSpec("data"))
sharding = NamedSharding(Mesh(devices.reshape(4), ("data",)), PartitionSpec("data"))
rows: list[int] = []
for batch in loader(pf.launch.Ranks(0, 2)):  # The same rank on both: nothing is raised.
    ids = jax.make_array_from_process_local_data(sharding, batch["input_ids"])
    rows += [int(row) for s in ids.addressable_shards for row in s.data[:, 0]]
job.report("silent", rows)
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
