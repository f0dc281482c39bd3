"""Files cut short or with bits flipped: the right values or a typed error."""

import itertools
import random
from pathlib import Path

import pytest

from made.damage import bit_flipped, pieces
from made.files import ParquetBytes, footer_offset
from models.probing import Job, assert_all, probe

COLUMNS = ["input_ids", "plain", "fixed", "text", "word", "number", "nested"]
KINDS = ["v1", "v2-snappy", "v1-zstd-index", "v1-gzip-crc", "v2-lz4-crc"]
FLIPS = 240

Span = tuple[int, int]


def page_spans(data: bytes) -> tuple[list[Span], list[Span]]:
    """Where the page headers and the page bodies lie."""
    headers, bodies, at = [], [], 4
    for page in itertools.chain.from_iterable(ParquetBytes.parse(data).chunks):
        size = len(page.encode())
        headers.append((at, at + size - len(page.body)))
        bodies.append((at + size - len(page.body), at + size))
        at += size
    return headers, bodies


def flipped(sound: Path, folder: Path, spans: list[Span], options: dict) -> list[Job]:
    """One flipped bit per job, drawn evenly over all bytes of the spans."""
    data = sound.read_bytes()
    places = [at for start, end in spans for at in range(start, end)]
    draw = random.Random(f"{sound.name} {len(places)}")
    jobs = []
    for number in range(FLIPS):
        path = folder / f"{number}.parquet"
        path.write_bytes(bit_flipped(data, draw.choice(places), draw))
        column = COLUMNS[number % len(COLUMNS)]
        jobs.append(Job(path=path, column=column, expected=sound, options=options))
    return jobs


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bits_of_page_bodies(sound: dict[str, Path], tmp_path: Path, kind: str):
    _, bodies = page_spans(sound[kind].read_bytes())
    outcomes = probe(flipped(sound[kind], tmp_path, bodies, {}))
    if kind.endswith("crc"):  # all of the body is under the checksum
        assert_all(outcomes, {"same"})
        assert any(one.outcome == "ChecksumError" for one in outcomes)
    else:
        assert_all(outcomes, {"same", "different"})


@pytest.mark.parametrize("kind", ["v1-gzip-crc", "v2-lz4-crc"])
def test_flipped_bits_behind_unverified_checksums(
    sound: dict[str, Path], tmp_path: Path, kind: str
):
    _, bodies = page_spans(sound[kind].read_bytes())
    options = {"verify_checksums": False}
    assert_all(
        probe(flipped(sound[kind], tmp_path, bodies, options)), {"same", "different"}
    )


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bits_of_page_headers(
    sound: dict[str, Path], tmp_path: Path, kind: str
):
    headers, _ = page_spans(sound[kind].read_bytes())
    outcomes = probe(flipped(sound[kind], tmp_path, headers, {}))
    assert_all(outcomes, {"same", "different"})


@pytest.mark.parametrize("page_index", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bits_of_footers(
    sound: dict[str, Path], tmp_path: Path, kind: str, page_index: bool
):
    data = sound[kind].read_bytes()
    _, bodies = page_spans(data)
    span = (bodies[-1][1], len(data))  # page indexes and footer
    jobs = flipped(sound[kind], tmp_path, [span], {"page_index": page_index})
    assert_all(probe(jobs), {"same", "different"})


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_files(sound: dict[str, Path], tmp_path: Path, kind: str):
    data = sound[kind].read_bytes()
    footer = footer_offset(data)
    lengths = [*range(20), *range(20, footer, 997), *range(footer, len(data), 61)]
    jobs = []
    for number, length in enumerate([*lengths, len(data) - 1]):
        path = tmp_path / f"first-{length}.parquet"
        path.write_bytes(data[:length])
        jobs.append(Job(path=path, column=COLUMNS[number % len(COLUMNS)]))
    assert_all(probe(jobs), set())


@pytest.mark.parametrize("kind", KINDS)
def test_missing_and_repeated_bytes(sound: dict[str, Path], tmp_path: Path, kind: str):
    data = sound[kind].read_bytes()
    footer = footer_offset(data)
    draw = random.Random(kind)
    jobs = []
    for number in range(60):
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(pieces(data[:footer], draw) + data[footer:])
        column = COLUMNS[number % len(COLUMNS)]
        jobs.append(Job(path=path, column=column, expected=sound[kind]))
    assert_all(probe(jobs), {"same", "different"})
