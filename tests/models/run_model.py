"""What a run should do, in plain Python: a list of positions and a place in it.

It knows nothing of lanes, plans or engines. Positions count the sequences of all ranks
through all epochs; a step is the next so many of them that are not skipped.
"""

import itertools
from dataclasses import dataclass, replace
from typing import NamedTuple

MOST_RANGES = 12
"""Skipped ranges that a model makes: a state holds some more."""


class Step(NamedTuple):
    """A step that lies ahead: its number, and the positions that all ranks take."""

    number: int
    positions: list[int]


@dataclass
class RunModel:
    """One run: where its iteration began, and what was consumed."""

    batch_size: int
    world_size: int
    epoch_size: int | None = None
    """Sequences of an epoch of one dataset; None for a mixture."""
    epochs: int = 1
    max_steps: int = 0
    """Steps of an iteration of a mixture."""
    drop_last: bool = True
    first_epoch: int = 0
    """Epoch in which the iteration began."""
    position: int = 0
    skipped: frozenset[int] = frozenset()
    anchor: tuple[int, int] = (0, 0)
    """A position and the number of its step, from which steps are counted."""
    taken: bool = False
    """Whether the running iteration gave a step since it began or was moved."""
    running: bool = False
    """Whether there is an iteration that the loader has not seen the end of."""
    balanced: bool = False
    """Whether an epoch's order depends on the number of ranks that began it."""
    begun: tuple[int, int] | None = None
    """An epoch that was begun by another number of ranks, and that number."""

    @property
    def step_size(self) -> int:
        return self.batch_size * self.world_size

    @property
    def start(self) -> int:
        """The first position of the iteration."""
        return self.first_epoch * self.epoch_size if self.epoch_size else 0

    @property
    def end(self) -> int:
        """One past the last position of an iteration of epochs."""
        return self.next_epoch * (self.epoch_size or 0)

    @property
    def next_epoch(self) -> int:
        """Epoch in which the iteration after this one begins."""
        return self.first_epoch + self.epochs

    def kept(self, first: int) -> list[int]:
        """The positions from one on that are not skipped, to the iteration's end."""
        if self.epoch_size:
            return [p for p in range(first, self.end) if p not in self.skipped]
        found: list[int] = []
        kept = (p for p in itertools.count(first) if p not in self.skipped)
        while True:
            step = list(itertools.islice(kept, self.step_size))
            if self.number(step[0]) >= self.max_steps:
                return found
            found += step

    def number(self, position: int) -> int:
        """The number of the step at a position, skipped ones counted."""
        first, step = self.anchor
        index = (position - first) // self.step_size
        if self.epoch_size:
            steps, rest = divmod(self.end - first, self.step_size)
            begin = first + steps * self.step_size - self.world_size
            if self.lends(steps, rest) and position >= begin:
                index = max(index, steps)
        return step + index

    def lends(self, steps: int, rest: int) -> bool:
        """Whether so many full steps lend to the rest, which some ranks lack."""
        is_short = 0 < rest < self.world_size
        return is_short and steps > 0 and self.batch_size > 1 and not self.drop_last

    def steps(self) -> list[Step]:
        """The steps that lie ahead."""
        return [
            step for step in self.known_steps() if step.positions[0] >= self.position
        ]

    def known_steps(self) -> list[Step]:
        """All steps that the loader can still tell, those taken too."""
        kept, size = self.kept(self.anchor[0]), self.step_size
        parts = [kept[at : at + size] for at in range(0, len(kept), size)]
        if self.drop_last and parts and len(parts[-1]) < size:
            parts.pop()
        # What the last step borrows does not change its number.
        numbers = [self.number(part[0]) for part in parts]
        if parts and self.lends(len(parts) - 1, len(parts[-1])):
            parts[-1] = parts[-2][-self.world_size :] + parts[-1]
            del parts[-2][-self.world_size :]
        return [Step(*step) for step in zip(numbers, parts, strict=True)]

    @property
    def is_finished(self) -> bool:
        return not self.steps()

    @property
    def place(self) -> int:
        """The next position that is not skipped, or the end."""
        end = self.end if self.epoch_size else self.position
        return next(iter(self.kept(self.position)), end)

    @property
    def step(self) -> int:
        """The number of the next step; at the end, one past the last that is left."""
        if ahead := self.steps():
            return ahead[0].number
        is_end = not self.epoch_size or self.place == self.end
        return self.end_number if is_end else self.number(self.place)

    @property
    def end_number(self) -> int:
        """The number that leads to the end."""
        if not self.epoch_size:
            return self.max_steps
        distance = self.end - self.anchor[0]
        partial = 0 if self.drop_last else self.step_size - 1
        return self.anchor[1] + (distance + partial) // self.step_size

    @property
    def epoch(self) -> int:
        """The epoch of the next sequence, or the last one of a loop at its end."""
        if self.is_finished:
            return self.next_epoch - self.running
        return self.stand // self.epoch_size if self.epoch_size else self.first_epoch

    @property
    def stand(self) -> int:
        """Where the loader stands: before an iteration, maybe before skipped steps."""
        return self.position if self.is_before else self.place

    @property
    def _step_here(self) -> int:
        """The number of the step where the loader stands."""
        return self.number(self.position) if self.is_before else self.step

    @property
    def is_before(self) -> bool:
        """Whether it waits for an iteration: then it passes over nothing yet."""
        if self.running:
            return False
        # Where all that is left is skipped, other sizes may still find a step.
        is_at_end = self.epoch_size is not None and self.position >= self.end
        return not is_at_end and self.number(self.position) < self.end_number

    def ranks_of(self, epoch: int) -> int:
        """The number of ranks that an epoch is balanced for."""
        is_begun = self.begun is not None and self.begun[0] == epoch
        return self.begun[1] if self.begun and is_begun else self.world_size

    def epoch_at(self, position: int) -> int:
        return position // self.epoch_size if self.epoch_size else 0

    def __len__(self) -> int:
        """Steps of a whole iteration, by sizes alone."""
        if not self.epoch_size:
            return self.max_steps
        size = self.epochs * self.epoch_size
        return size // self.step_size if self.drop_last else -(-size // self.step_size)

    @property
    def has_one_size(self) -> bool:
        """Whether all steps of the iteration had these sizes."""
        return self.anchor == (self.start, 0)

    def has_sizes(self, batch_size: int, world_size: int) -> bool:
        """Whether steps of these sizes are like this run's."""
        return (batch_size, world_size) == (self.batch_size, self.world_size)

    # What moves it.

    def begin_again(self, epoch: int) -> None:
        self.first_epoch, self.skipped = epoch, frozenset()
        self._restart()

    def _restart(self) -> None:
        self.position, self.anchor, self.taken = self.start, (self.start, 0), False
        self.begun = None

    def iterate(self) -> None:
        """Begin an iteration: a new epoch, the same again, or where it was placed."""
        if self.is_finished:
            self.begin_again(self.next_epoch)
        elif self.running and self.taken:
            self._restart()
        self.running, self.taken = True, False

    def take(self) -> list[int]:
        """The positions of the next step; there must be one."""
        taken = self.steps()[0].positions
        self.position, self.taken = taken[-1] + 1, True
        return taken

    def finish(self) -> None:
        """The iterator said that it is over."""
        self.begin_again(self.next_epoch)
        self.running = False

    def settle(self) -> None:
        """Without a loop the end of an iteration is the begin of the next."""
        if self.is_finished and not self.running:
            self.begin_again(self.next_epoch)

    def seek(self, number: int) -> None:
        """Go to a step, or to the next that is not skipped."""
        steps = self.known_steps()
        ahead = [step for step in steps if step.number >= number]
        if ahead:
            self._move(ahead[0].positions[0])
        elif steps:
            end = steps[-1].positions[-1] + 1
            kept = self.kept(end) if self.epoch_size else []
            self._move(kept[0] if kept else self.end or end)
        self.taken = False

    def skip(self, numbers: set[int]) -> bool:
        """Leave steps out; False if that makes too many ranges."""
        gone = {
            p for step in self.steps() if step.number in numbers for p in step.positions
        }
        skipped = self.skipped | gone
        if sum(p - 1 not in skipped for p in skipped) > MOST_RANGES:
            return False
        anchor = self.stand, self._step_here
        self.skipped = skipped
        self._move(self.position)
        if not self.has_one_size:  # What is passed over still counts.
            self.anchor = anchor
        return True

    def _move(self, position: int) -> None:
        self.position = position
        # A place in a later epoch does not say by how many ranks this one was begun.
        if self.begun is not None and self.begun[0] != self.epoch_at(self.stand):
            self.anchor, self.begun = (self.place, self.step), None
        # Where all that is left is skipped, a mixture's place has no number yet.
        if not self.has_one_size and (self.epoch_size or not self.is_finished):
            self.anchor = self.place, self.step

    def set_epoch(self, number: int) -> bool:
        """Place it at an iteration; False if it is that one already."""
        begin = self.next_epoch if self.is_finished else self.first_epoch
        if number == begin // self.epochs:
            return False
        self.begin_again(number * self.epochs)
        self.running = False
        return True

    def resized(self, batch_size: int, world_size: int) -> "RunModel":
        """A run that loads the state of this one, with other sizes."""
        place, step = self.stand, self._step_here
        loaded = replace(
            self,
            batch_size=batch_size,
            world_size=world_size,
            position=place,
            taken=False,
            running=False,
        )
        same = self.has_sizes(batch_size, world_size)
        epoch = self.epoch_at(place)
        same &= self.begun is None or self.begun[0] == epoch
        ranks = self.ranks_of(epoch)
        is_foreign = self.balanced and ranks != world_size
        loaded.begun = (epoch, ranks) if is_foreign else None
        if step == 0:
            loaded.anchor = self.start, 0
        elif not (same and self.has_one_size):
            loaded.anchor = place, step
        return loaded
