"""Batches on an accelerator, copied ahead of the loop that consumes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pagefeed.core._base import check_positive, near_name, require
from pagefeed.core.any_loader import AnyLoader
from pagefeed.core.batches import Batch
from pagefeed.core.run import LoaderState, merge_ranges
from pagefeed.errors import CancelledError, InvalidArgumentError
from pagefeed.integrations.checks import check_format


@dataclass(eq=False)
class _Ahead:
    """A batch on its way to the device."""

    batch: Any
    source: Any
    """The batch on the host, which lives until the copy is done."""
    state: Any
    """State of the loader after it."""
    num_bytes: int
    """Bytes that were copied."""
    copied: Any
    """An event of the stream of copies; None without one."""


class DeviceBatches(Iterable[Batch]):
    """The batches of a loader on a device; see :func:`on_device`."""

    def __init__(
        self, loader: AnyLoader, device: Any, ahead: int, host: frozenset[str]
    ) -> None:
        self.loader, self.device = loader, device
        self._torch = _torch()
        self.num_ahead, self._host = ahead, host
        is_cuda = device.type == "cuda"
        self._stream = self._torch.cuda.Stream(device) if is_cuda else None
        self._steps: _DeviceSteps | None = None
        self.peak_bytes = 0
        """Most bytes of tensors that were copied and not yet consumed."""

    def __len__(self) -> int:
        """Return the steps of an iteration."""
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        """Start an iteration of the loader, see :meth:`Loader.__iter__`."""
        self._check_learning()
        self._steps = _DeviceSteps(self, iter(self.loader))
        return self._steps

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the batch that was consumed last.

        Raises:
            InvalidArgumentError: As :meth:`Loader.state_dict`, or if losses change the
                weights of a mixture.
        """
        self._check_learning()
        state, steps = self.loader.state_dict(), self._steps
        if steps is None or steps.state is None or steps.is_moved():
            return state
        consumed, now = steps.state, self.loader.view().position.saved
        if isinstance(now, LoaderState) and not steps.has_ended:
            # Add steps skipped, and weights set, since the batch was taken.
            skipped = merge_ranges([*consumed.skipped, *now.skipped])
            consumed = replace(consumed, skipped=skipped)
            consumed = consumed.having(mixture=now.parts.get("mixture"))
        return dict(consumed.to_dict())

    def _check_learning(self) -> None:
        """Refuse weights that follow the losses of batches that are not consumed yet.

        Raises:
            InvalidArgumentError: Then.
        """
        if self.loader.view().learning is not None:
            raise InvalidArgumentError(
                "on_device takes batches ahead, and the weights of this mixture follow "
                "the losses of each batch: iterate over the loader itself"
            )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next iteration continue at a state, and forget the batches ahead."""
        self.loader.load_state_dict(state)
        self._steps = None

    def begin_copy(self, batch: Any) -> _Ahead:
        """Begin to copy a batch."""
        sizes = list[int]()
        for name in sorted(self._host.difference(batch)):
            raise InvalidArgumentError(
                f"host={sorted(self._host)} names {name!r}, which a batch does not "
                f"have: it has {sorted(batch)}{near_name(name, batch)}"
            )

        def moved(tensor: Any) -> Any:
            sizes.append(tensor.nbytes)
            if self._stream is not None and tensor.device.type == "cpu":
                tensor = tensor.pin_memory()  # Unchanged if the loader pinned it.
            return tensor.to(self.device, non_blocking=True)

        with self._torch.cuda.stream(self._stream):
            copy = _mapped(batch, moved, self._host)
        state = self.loader.view().position.saved
        event = None if self._stream is None else self._stream.record_event()
        return _Ahead(copy, batch, state, sum(sizes), event)

    def finish(self, ahead: _Ahead) -> Any:
        """Let the current stream wait for a copy; return the batch."""
        if ahead.copied is not None:
            current = self._torch.cuda.current_stream(self.device)
            current.wait_event(ahead.copied)

            def used(tensor: Any) -> Any:
                tensor.record_stream(current)  # Else its memory is used again too soon.
                return tensor

            _mapped(ahead.batch, used, self._host)
        return ahead.batch


class _DeviceSteps(Iterator[Batch]):
    """One iteration over the batches of a device."""

    def __init__(self, batches: DeviceBatches, source: Iterator[Batch]) -> None:
        self._batches, self._source = batches, source
        self._ahead = deque[_Ahead]()
        self._here = self._place()
        self._has_failed = False
        self._taken: Any = None
        """A batch whose copy has not begun: an error may have prevented it."""
        self.state: Any = None
        """State after the batch that was consumed last; None before the first."""
        self.has_ended = False
        """Whether the loader has no further batch."""

    def _place(self) -> tuple[int, int, Any]:
        """Return where the loader is, and what it skips."""
        now = self._batches.loader.view().position.now
        return now.first_epoch, now.step, getattr(now, "skipped", None)

    def is_moved(self) -> bool:
        """Return whether the loader went elsewhere since its last batch was taken."""
        (epoch, step, skipped), (now_epoch, now_step, skips) = self._here, self._place()
        passes_over = now_step > step and skips != skipped
        return (epoch, step) != (now_epoch, now_step) and not passes_over

    def __next__(self) -> Batch:
        """Return the next batch, and begin to copy later ones."""
        if self.is_moved():
            self._ahead.clear()
            self._taken, self.has_ended = None, False
        if not self._ahead:
            self._take()
        if not self._ahead:
            self.state = None  # The position is that of the loader.
            raise StopIteration
        first = self._ahead.popleft()
        self.state = first.state
        batch = self._batches.finish(first)
        while len(self._ahead) < self._batches.num_ahead and self._takes_more():
            pass
        return batch

    def _takes_more(self) -> bool:
        """Begin to copy another batch; keep an error until that batch is asked for."""
        try:
            if not self._has_failed:
                self._take()
        except CancelledError:
            raise
        except Exception:  # noqa: BLE001 - it is raised again once the others are used
            self._has_failed = True
        return not (self.has_ended or self._has_failed)

    def _take(self) -> None:
        """Begin to copy the loader's next batch, if there is one."""
        self._has_failed = False
        if self._taken is None and not self.has_ended:
            self._taken = next(self._source, None)
            self.has_ended = self._taken is None
        self._here = self._place()
        if self._taken is not None:
            self._ahead.append(self._batches.begin_copy(self._taken))
            self._taken = None
        held = sum(ahead.num_bytes for ahead in self._ahead)
        self._batches.peak_bytes = max(self._batches.peak_bytes, held)


def _torch() -> Any:
    return require("torch", extra="torch", purpose="on_device")


def _is_tensor(value: Any) -> bool:
    return bool(_torch().is_tensor(value))


def _mapped(
    value: Any, function: Callable[[Any], Any], host: Iterable[str] = ()
) -> Any:
    """Return a batch with a function applied to its tensors, except some fields."""
    if _is_tensor(value):
        return function(value)
    if isinstance(value, dict):
        return {
            name: inner if name in host else _mapped(inner, function)
            for name, inner in value.items()
        }
    if isinstance(value, list) and any(map(_is_tensor, value)):
        return [_mapped(inner, function) for inner in value]
    return value


def on_device(
    loader: AnyLoader, device: Any, *, ahead: int = 1, host: Iterable[str] = ()
) -> DeviceBatches:
    """Copy the next batches to a device while the loop trains on this one.

    On CUDA a separate stream copies them, from page-locked memory. Its
    ``state_dict()`` is that of the batch that was consumed last; the loader's own state
    is ahead of it. The first batch comes when ``ahead`` further ones have been read.

    Args:
        loader: A loader with ``format="torch"``.
        device: Device of torch, such as ``"cuda"``. On ``"cpu"`` nothing is copied.
        ahead: Batches that are copied ahead. The device holds as many more of them; see
            ``peak_bytes`` of what is returned.
        host: Fields that stay where they are. Values without tensors always do.

    Returns:
        An iterable with ``state_dict``, ``load_state_dict`` and ``len``, for any number
        of epochs.

    Raises:
        InvalidArgumentError: If there is no such device, the loader's format is not
            ``"torch"``, or losses change the weights of its mixture.

    For example, with ``Loader(..., format="torch")``::

        batches = on_device(loader, "cuda", ahead=2)
        for batch in batches:
            train(batch["input_ids"])  # int64 [8, 2048] on the GPU
        state = batches.state_dict()
    """
    check_format(loader, "torch", "on_device")
    try:
        place = _torch().empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise InvalidArgumentError(
            f"device={device!r:.60} cannot hold a tensor: {error}"
        ) from error
    names = frozenset([host] if isinstance(host, str) else host)
    return DeviceBatches(loader, place, check_positive(ahead, "ahead"), names)
