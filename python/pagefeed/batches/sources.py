"""What a loader delivers, and what makes batches of it, by its settings."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Literal, TypeAlias, cast

from pagefeed.batches.feeds import Feed, TokenFeed
from pagefeed.batches.settings import LoaderSettings
from pagefeed.dataset import Dataset
from pagefeed.errors import InvalidArgumentError
from pagefeed.run import DatasetRun, LoaderState, Run
from pagefeed.wiring import provided

__all__ = ["Grown", "make_feed", "make_run", "rest_of_epoch"]

Grown: TypeAlias = Literal["next-epoch", "now"]
"""When data are delivered that were added."""


def make_run(
    settings: LoaderSettings,
    *,
    begun: LoaderState | None = None,
    later: Dataset | None = None,
) -> Run:
    """Return what is delivered on this rank.

    Args:
        settings: Of the loader.
        begun: A state of the epoch that goes on, if data may have been added in it.
        later: The data of the epochs behind it, if there are such.

    Raises:
        InvalidArgumentError: If it holds no sequence.
    """
    names = [each.name for each in fields(Run) if each.init and each.name != "memory"]
    options: dict[str, Any] = {name: getattr(settings, name) for name in names}
    options["memory"] = settings.order_bytes
    run: Run | None = settings.dataset.make_run(options)
    if run is not None:
        return run
    dataset = cast("Dataset", settings.dataset)
    if begun is not None and later is not None:
        grown: Run = provided("run of grown data")(
            dataset=dataset, begun=begun, later=later, **options
        )
        return grown
    return DatasetRun(dataset=dataset, **options)


def make_feed(settings: LoaderSettings, run: Run) -> Feed:
    """Return what makes batches of the sequences of a run.

    Raises:
        InvalidArgumentError: If its batches cannot hold what is asked for.
    """
    feed: Feed | None = settings.sequences.feed(settings, run)
    return TokenFeed(settings, run) if feed is None else feed


def rest_of_epoch(
    settings: LoaderSettings, whole: Run, state: LoaderState, grown: Grown | None
) -> tuple[Run, LoaderState]:
    """Return the run of an epoch in which data were added, and where it goes on.

    Args:
        settings: Of the loader.
        whole: The run of all data.
        state: A state of the epoch.
        grown: When what was added since is delivered; None if nothing was.

    Raises:
        InvalidArgumentError: If there is no one dataset, or data are to be mixed into
            steps some of which are skipped.
    """
    dataset = settings.dataset
    if not isinstance(dataset, Dataset):
        raise InvalidArgumentError(
            "a state goes on over data that grew in a loader of one dataset, not in a "
            "mixture: give the mixture the datasets of the state"
        )
    before = dataset
    if grown is not None:
        before = provided("data before growth")(dataset, state.dataset)
    is_followed = bool(state.grown) or whole.epochs != 1
    rest = make_run(
        replace(settings, dataset=before),
        begun=state,
        later=dataset if is_followed else None,
    )
    begin = rest.going_on(rest.accept(state))
    if grown != "now" or not begin.goes_on(state.first_epoch):
        return rest, begin
    position = rest.at(begin).start
    if any(end > position for _, end in begin.skipped):
        raise InvalidArgumentError(
            "grown='now' mixes data into the steps ahead, and some of these are "
            "skipped: load with grown='next-epoch', or a state from before the skip"
        )
    can_look_back = not begin.skipped and begin.epoch == begin.first_epoch
    begin = replace(
        begin,
        grown=(*begin.grown, (state.dataset, begin.position)),
        dataset=whole.initial.dataset,
        erased=whole.initial.erased,
        skipped=(),
        sizes=begin.sizes if can_look_back else None,
    )
    rest = make_run(settings, begun=begin, later=dataset)
    return rest, rest.accept(begin)
