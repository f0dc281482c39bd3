"""JAX: global arrays from the batches of all processes, and datasets for Grain.

The sharding says which rows a process feeds, and JAX accepts wrong ones without an
error: make the loader with ``pagefeed.launch.from_jax(sharding, rows=...)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import require
from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.batches import Batch
from pagefeed.core.loader import Loader
from pagefeed.errors import InvalidArgumentError
from pagefeed.integrations.checks import check_has, check_loader, check_shapes
from pagefeed.integrations.delivery import Delivery, ResumableDelivery, Start
from pagefeed.integrations.versions import warn_of_newer
from pagefeed.launch import from_jax

jax = require("jax", extra="jax", purpose=__name__)

OF_BORDERS = ("cu_seqlens", "max_seqlen", "doc_lens", "max_doc_lens")

warn_of_newer("jax")

__all__ = ["gather", "global_batches", "grain_dataset", "local_rows"]


def gather(facts: Any) -> list[Any]:
    """Gather plain objects over JAX's processes: ``loader.check_ranks(gather)``."""
    if jax.process_count() == 1:
        return [facts]
    import pickle

    utils = require("jax.experimental.multihost_utils", extra="jax", purpose="gather")
    mine = np.frombuffer(pickle.dumps(facts), np.uint8)
    sizes = utils.process_allgather(np.array([len(mine)])).ravel()
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: len(mine)] = mine
    rows = np.asarray(utils.process_allgather(padded)).reshape(len(sizes), -1)
    return [
        pickle.loads(row[:size].tobytes())  # noqa: S301 - likewise
        for row, size in zip(rows, sizes.tolist(), strict=True)
    ]


def global_batches(
    loader: AnyLoader,
    sharding: Any,
    *,
    endless: bool = False,
    start: Start = "epoch",
) -> Delivery:
    """Return batches of global arrays, sharded over the processes.

    Args:
        loader: With ``format="numpy"``, the rank of ``from_jax(sharding, rows=...)``,
            and batch size x world size the rows of the global batch.
        sharding: Sharding of [rows, length]; fields with fewer axes use its first.
        endless: Continue with the next epoch.
        start: ``"here"`` begins where the last iteration stopped, not at an epoch.

    Raises:
        InvalidArgumentError: If the loader has another rank, or gives tensors.

    Example:
        >>> mesh = Mesh(jax.devices(), ("data",))  # doctest: +SKIP
        >>> sharding = NamedSharding(mesh, PartitionSpec("data"))  # doctest: +SKIP
        >>> for batch in global_batches(loader, sharding):  # doctest: +SKIP
        ...     batch["input_ids"]  # jax.Array [rows, length]
    """
    check_loader(loader, "JAX")
    check_has(sharding, ["devices_indices_map"], "a jax.sharding.Sharding")
    flat = [name for name in OF_BORDERS if name in loader.fields.names]
    if flat:
        raise InvalidArgumentError(
            f"{flat[0]} is not [rows, length], and so cannot be sharded: leave it out "
            "of fields, and build masks from document_ids"
        )
    if isinstance(loader, Loader) and loader.batch_tokens is not None:
        check_shapes(loader, "JAX")
    rows = loader.batch_size * loader.world_size

    def convert(batch: Batch) -> dict[str, Any]:
        return {
            name: jax.make_array_from_process_local_data(
                sharding, value, (rows, *value.shape[1:])
            )
            for name, value in batch.items()
        }

    batches = Delivery(
        loader,
        "JAX",
        cutting="a sharding of [rows, length] cuts them",
        ranks=from_jax(sharding, rows=rows),
        convert=convert,
        format="numpy",
        endless=endless,
        start=start,
        gather=gather,
    )
    batches.begin_run()
    return batches


def local_rows(array: Any) -> npt.NDArray[Any]:
    """Return the rows of a global array that this process fed, in order.

    Use it for what :meth:`pagefeed.mixing.Learner.add` takes: fields of a global batch,
    and what a step computed from it, such as losses.

    Args:
        array: A ``jax.Array`` [rows, ...] that is sharded along its rows only.
    """
    shards = {
        shard.index[0].start or 0: shard.data for shard in array.addressable_shards
    }
    return np.concatenate([np.asarray(shards[start]) for start in sorted(shards)])


def grain_dataset(loader: AnyLoader, *, start: Start = "epoch") -> Any:
    """Return a ``grain.IterDataset`` of a loader's batches, without Grain's sharding.

    Its iterator's ``get_state`` and ``set_state`` save and restore the position, so
    that checkpoints of Grain and Orbax resume it. For Grain's own order, give
    ``grain.MapDataset.source`` a :class:`pagefeed.SequenceView`, and read with
    ``ReadOptions(num_threads=0)``.
    """
    grain = require("grain", extra="jax", purpose="grain_dataset")
    batches = ResumableDelivery(
        loader, "Grain", format=None, start=start, gather=gather
    )
    batches.begin_run()

    class LoaderIterator(grain.DatasetIterator):  # type: ignore[name-defined]
        """The batches from the loader's position on."""

        def __init__(self) -> None:
            super().__init__()
            self._batches: Iterator[Any] = iter(batches)

        def __next__(self) -> Any:
            return next(self._batches)

        def get_state(self) -> dict[str, Any]:
            return dict(batches.state_dict())

        def set_state(self, state: dict[str, Any]) -> None:
            batches.load_state_dict(state)
            self._batches = iter(batches)

    class LoaderDataset(grain.IterDataset):  # type: ignore[name-defined]
        """A loader, as Grain sees it."""

        def __iter__(self) -> LoaderIterator:
            return LoaderIterator()

        def __repr__(self) -> str:
            return f"LoaderDataset({loader!r})"

        def __reduce_ex__(self, protocol: Any) -> Any:
            raise InvalidArgumentError(
                "grain_dataset cannot be sent to processes, as mp_prefetch would: the "
                "loader reads ahead on its threads. Leave mp_prefetch out; for "
                "Python code that needs processes, give grain.MapDataset.source a "
                "pagefeed.SequenceView"
            )

    return LoaderDataset()
