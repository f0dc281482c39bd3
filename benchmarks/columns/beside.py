"""What columns beside the tokens cost: epochs with and without them, in turn."""

import argparse
import time
from collections.abc import Callable, Sequence

import pagefeed as pf

__all__ = ["BATCH_SIZE", "LENGTH", "arguments", "compare"]

LENGTH = 2048
BATCH_SIZE = 64


def arguments(what: str) -> argparse.Namespace:
    """Read how many tokens and rounds are asked for."""
    parser = argparse.ArgumentParser(description=what.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=40_000_000)
    return parser.parse_args()


def compare(
    ways: Sequence[list[str]],
    open_loader: Callable[[int, str | None], pf.Loader],
    rounds: int,
) -> None:
    """Print the best epoch of each way, beside the first, which is tokens alone.

    Args:
        ways: Names of the columns of each way.
        open_loader: Makes the loader of a way, by its number and the shuffle.
        rounds: Epochs of each, in turn.
    """
    for shuffle in (None, "page"):
        best: dict[int, dict[str, float]] = {}
        for _ in range(rounds):
            for way in range(len(ways)):
                found = _epoch(open_loader(way, shuffle))
                known = best.setdefault(way, found)
                if found["Mtok per CPU s"] > known["Mtok per CPU s"]:
                    best[way] = found
        for way, names in enumerate(ways):
            share = best[way]["Mtok per CPU s"] / best[0]["Mtok per CPU s"]
            shown = ", ".join(f"{value:.1f} {n}" for n, value in best[way].items())
            print(f"shuffle={shuffle}, {names}: {shown}; {share:.2f} of alone")


def _epoch(loader: pf.Loader) -> dict[str, float]:
    begin, cpu, batches = time.monotonic(), time.process_time(), 0
    for batch in loader:
        batches += int(batch["input_ids"][0, 0] >= 0)
    tokens = batches * BATCH_SIZE * LENGTH
    return {
        "Mtok per CPU s": tokens / (time.process_time() - cpu) / 1e6,
        "Mtok/s": tokens / (time.monotonic() - begin) / 1e6,
        "bytes read/token": loader.stats()["bytes_read"] / tokens,
    }
