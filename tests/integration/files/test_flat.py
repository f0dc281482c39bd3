"""Flat token files of every format are datasets like any other."""

import json
import os
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made import flat_files
from made.shuffles import SHUFFLES
from pagefeed import errors

DOCUMENTS = flat_files.some_documents()
TOKENS = np.array([token for document in DOCUMENTS for token in document])


@pytest.fixture(scope="module", params=flat_files.KINDS)
def dataset(request, tmp_path_factory) -> pf.dataset.FlatDataset:
    folder = tmp_path_factory.mktemp(request.param)
    return flat_files.KINDS[request.param](folder, DOCUMENTS)


def loader(dataset, sequences, **settings) -> pf.Loader:
    defaults = {"batch_size": 4, "seed": 3, "rank": 0, "world_size": 1}
    return pf.Loader(dataset, sequences=sequences, **defaults | settings)


def windows(dataset, length, **settings) -> np.ndarray:
    settings = {"shuffle": None, "drop_last": False, "padding": -1} | settings
    feed = loader(dataset, pf.Windows(length), **settings)
    return np.concatenate([batch["input_ids"] for batch in feed])


@pytest.mark.parametrize("length", [64, 1000])
def test_windows_are_the_tokens_joined(dataset, length):
    found = windows(dataset, length).reshape(-1)
    assert (found[: len(TOKENS)] == TOKENS).all()
    assert (found[len(TOKENS) :] == -1).all()


def test_rows_are_the_documents(dataset):
    assert len(dataset) == len(DOCUMENTS)
    assert dataset[5] == {dataset.column: DOCUMENTS[5]}
    assert [row[dataset.column] for row in dataset] == DOCUMENTS
    feed = loader(dataset, pf.Documents(max_length=50), shuffle="row", drop_last=False)
    found = [
        tuple(ids[:length].tolist())
        for batch in feed
        for ids, length in zip(batch["input_ids"], batch["lengths"], strict=True)
        if length
    ]
    assert sorted(found) == sorted(tuple(each[:50]) for each in DOCUMENTS)


def test_packed_documents_are_whole(dataset):
    feed = loader(
        dataset,
        pf.Packed(4096, eos=1, split="never"),
        fields=("input_ids", "document_ids"),
        drop_last=False,
    )
    found = []
    for batch in feed:
        for ids, numbers in zip(batch["input_ids"], batch["document_ids"], strict=True):
            found += [
                ids[numbers == n].tolist() for n in np.unique(numbers[numbers >= 0])
            ]
    assert sorted(found) == sorted([*each, 1] for each in DOCUMENTS)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_every_shuffle_resumes_at_another_world_size(dataset, shuffle):
    whole = loader(dataset, pf.Windows(100, "drop"), shuffle=shuffle, batch_size=6)
    expected = [batch["input_ids"] for batch in whole]
    assert pf.verify(whole).ok
    started = loader(dataset, pf.Windows(100, "drop"), shuffle=shuffle, batch_size=6)
    for _ in zip(range(5), started, strict=False):
        pass
    state = json.loads(json.dumps(started.state_dict()))
    parts = []
    for rank in range(2):
        resumed = loader(
            dataset,
            pf.Windows(100, "drop"),
            shuffle=shuffle,
            batch_size=3,
            rank=rank,
            world_size=2,
        )
        resumed.load_state_dict(state)
        parts.append([batch["input_ids"] for batch in resumed])
    for step, pair in enumerate(zip(*parts, strict=True), 5):
        both = np.stack(pair, axis=1).reshape(6, 100)
        assert (both == expected[step]).all()


def test_tokens_are_located(dataset):
    feed = loader(dataset, pf.Windows(100, "drop"))
    origins = feed.locate(step=2, row=1)
    [_, _, batch, *_] = feed
    for origin in origins:
        stop = origin.first_token + origin.num_tokens
        tokens = DOCUMENTS[_row_of(dataset, origin)][origin.first_token : stop]
        place = slice(origin.offset, origin.offset + origin.num_tokens)
        assert batch["input_ids"][1][place].tolist() == tokens
    assert sum(origin.num_tokens for origin in origins) == 100


def _row_of(dataset, origin) -> int:
    first = int(dataset.index.file_first_row[dataset.files.index(origin.file)])
    return first + int(origin.row)


def test_it_is_pickled_and_mapped(dataset, tmp_path):
    kept = pickle.loads(pickle.dumps(dataset))
    assert kept.fingerprint == dataset.fingerprint
    assert pickle.loads(pickle.dumps(dataset.index)).fingerprint == dataset.fingerprint
    cached = [replace(dataset, cache_dir=str(tmp_path)) for _ in range(2)]
    assert {each.index.fingerprint for each in cached} == {dataset.fingerprint}
    assert len(os.listdir(tmp_path)) == 1
    assert cached[1][7] == dataset[7]


def test_it_is_divided(dataset):
    parts = dataset.split(train=0.8, validation=0.2, seed=1)
    assert sum(map(len, parts.values())) == len(dataset)
    train = parts["train"]
    feed = loader(train, pf.Packed(4000), padding=-1, drop_last=False)
    found = np.concatenate([batch["input_ids"].reshape(-1) for batch in feed])
    chosen = [token for row in train for token in row[dataset.column]]
    assert sorted(found[found >= 0].tolist()) == sorted(chosen)
    whole = loader(train, pf.Documents(max_length=4000))
    assert pf.forecast(whole).tokens == len(chosen)
    tiers = dataset.by_length([100])
    assert len(tiers["tokens < 100"]) == sum(len(each) < 100 for each in DOCUMENTS)


def test_it_is_mixed_with_parquet(dataset, tmp_path):
    rows = [[70_000 + n] * 50 for n in range(200)]
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "a.parquet")
    code = pf.parquet(tmp_path, column="input_ids")
    weights = {"flat": (dataset, 0.5), "code": (code, 0.5)}
    mixture = pf.mix(weights, stop="first_exhausted")
    feed = loader(mixture, pf.Packed(256), epochs=1)
    found = np.concatenate([batch["input_ids"].reshape(-1) for batch in feed])
    share = (found >= 70_000).mean()
    assert 0.3 < share < 0.7
    assert pf.verify(feed).ok


def test_documents_that_are_not_known_have_no_borders(tmp_path):
    tokens = np.arange(1, 100_001, dtype=np.uint32)
    tokens.tofile(tmp_path / "a.bin")
    (tokens[:70_000] + 500_000).tofile(tmp_path / "b.bin")
    paths = [tmp_path / "a.bin", tmp_path / "b.bin"]
    dataset = pf.tokens(paths, dtype="uint32")
    assert len(dataset) == 7 + 5  # Runs of 64 KiB.
    feed = loader(
        dataset,
        pf.Windows(10_000, "drop"),
        batch_size=1,
        shuffle=None,
        fields=("input_ids", "position_ids", "document_ids"),
    )
    for number, batch in enumerate(feed):
        line = np.concatenate([tokens, tokens[:70_000] + 500_000])
        assert (batch["input_ids"][0] == line[number * 10_000 :][:10_000]).all()
        assert (batch["position_ids"][0] == np.arange(10_000)).all()
        assert (batch["document_ids"] == 0).all()
    feed = loader(
        dataset,
        pf.Windows(15_000),
        batch_size=1,
        shuffle=None,
        fields=("input_ids", "position_ids"),
    )
    places = [batch["position_ids"][0] for batch in feed]
    assert (places[6] == [*range(10_000), *range(5_000)]).all()  # Where b.bin begins.


def _letters(text):
    return [ord(letter) for letter in text]


def test_texts_in_memory_of_unknown_documents_keep_their_borders(tmp_path):
    np.zeros(400_000, np.uint32).tofile(tmp_path / "a.bin")
    flat = pf.tokens(tmp_path / "a.bin", dtype="uint32")
    pq.write_table(
        pa.table({"text": ["lettersabc"] * 40_000}),
        tmp_path / "a.parquet",
        use_dictionary=False,
        data_page_size=37_000,
        write_batch_size=50,
    )
    how = pf.Tokenizer(_letters, vocab_size=1 << 10, name="letters")
    texts = pf.parquet(tmp_path / "a.parquet", column="text").tokenize(how)
    mixture = pf.mix({"flat": (flat, 0.5), "texts": (texts, 0.5)}, max_steps=400)
    feed = loader(
        mixture,
        pf.Windows(1000, "drop"),
        fields=("input_ids", "position_ids"),
        shuffle=None,
        memory="2MiB",
    )
    for batch in feed:
        are_texts = batch["input_ids"][:, 0] > 0
        places = batch["position_ids"][are_texts]
        assert (places == np.arange(1000) % 10).all()


@pytest.mark.parametrize(
    "sequences",
    [pf.Packed(64), pf.Documents(), pf.Windows(64, eos=0), pf.Windows(64, bos=0)],
)
def test_what_needs_documents_refuses_files_without(tmp_path, sequences):
    np.arange(9000, dtype=np.uint16).tofile(tmp_path / "a.bin")
    with pytest.raises(errors.InvalidArgumentError, match="eos="):
        loader(pf.tokens(tmp_path, dtype="uint16"), sequences)


@pytest.mark.parametrize("dtype", flat_files.CODES)
def test_megatron_of_all_integers(tmp_path, dtype):
    documents = [[1, 2, 3], [], [127], [4] * 40_000]
    prefix = flat_files.write_megatron(tmp_path / "a", documents, dtype)
    dataset = pf.megatron(prefix)
    assert [row["input_ids"] for row in dataset] == documents
    assert dataset.modes() is None


def test_megatron_documents_of_sequences(tmp_path):
    documents = [[1, 2, 3, 4, 5], [], [6], [7, 8]]
    inside = [[2, 3], [], [1], [1, 1]]
    prefix = flat_files.write_megatron(tmp_path / "a", documents, sequences=inside)
    (tmp_path / "a.idx").write_bytes(
        (tmp_path / "a.idx").read_bytes() + bytes([0, 1, 0, 0, 2])
    )
    assert [row["input_ids"] for row in pf.megatron(prefix)] == documents
    by_sequence = pf.megatron(f"{prefix}.idx", rows="sequences")
    rows = [row["input_ids"] for row in by_sequence]
    assert rows == [[1, 2], [3, 4, 5], [6], [7], [8]]
    modes = by_sequence.modes()
    assert modes is not None
    assert modes.tolist() == [0, 1, 0, 0, 2]
    assert by_sequence.fingerprint != pf.megatron(prefix).fingerprint


def test_where_documents_begin_is_part_of_the_identity(tmp_path):
    np.array([5, 7] * 500 + [9], np.uint16).tofile(tmp_path / "a.bin")
    by_end = [pf.tokens(tmp_path, dtype="uint16", eos=eos) for eos in (5, 7)]
    assert len({len(dataset) for dataset in by_end}) == 1
    assert by_end[0][0] != by_end[1][0]
    assert len({dataset.fingerprint for dataset in by_end}) == 2
    state = loader(by_end[0], pf.Packed(16)).state_dict()
    with pytest.raises(errors.StateMismatchError):
        loader(by_end[1], pf.Packed(16)).load_state_dict(state)


def test_where_samples_begin_is_part_of_the_identity(tmp_path):
    # Beyond the samples of a file's bytes that its digest is made of.
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 9, 60_000)
    lengths[10_000:10_002] = 3, 8
    prints = set()
    for name in ("a", "b"):
        documents = [[1] * length for length in lengths.tolist()]
        data = pf.mds(flat_files.write_mds(tmp_path / name, documents))
        prints.add(data.fingerprint)
        lengths[10_000:10_002] = 8, 3
    assert len(prints) == 2


def test_an_index_of_many_shards_is_parsed_once(tmp_path, monkeypatch):
    documents = [[n] * 4 for n in range(64)]
    folder = flat_files.write_mds(tmp_path, documents, shards=64)
    parsed, loads = list[int](), json.loads

    def counted(text, **settings):
        parsed.append(1)
        return loads(text, **settings)

    monkeypatch.setattr(json, "loads", counted)
    dataset = pf.mds(folder)
    assert len(dataset) == len(parsed) * 64 == 64
    index = tmp_path / "index.json"
    entries = json.loads(index.read_text())["shards"]
    index.write_text(json.dumps({"version": 2, "shards": [*entries, entries[0]]}))
    with pytest.raises(errors.CorruptFileError, match="named twice"):
        pf.mds(folder)


def test_a_long_document_is_one_page(tmp_path):
    documents = [[1], [2] * 300_000, [3] * 10]
    dataset = flat_files.megatron(tmp_path, documents)
    assert dataset.index.page_rows.tolist() == [2, 1]
    found = windows(dataset, 4096)
    assert found[found >= 0].tolist() == [t for each in documents for t in each]


SPANS = [(0, 2, 0), (2, 3, 1), (7, 9, 2)]
"""Two that touch, and one apart."""


def test_what_lies_beside_the_tokens(tmp_path):
    dtype = [("token", "u2"), ("weight", "f8"), ("mark", "i1")]
    for shard in (1, 0):  # In any order.
        place = {"shard": shard, "num_shards": 2}
        with pf.StreamWriter(tmp_path, dtype=dtype, serialize=_json, **place) as out:
            for row in range(50):
                tokens = np.arange(10 + row) + shard
                spans = [(start, stop, {"n": n + row}) for start, stop, n in SPANS]
                beside = {"weight": tokens / 8, "mark": np.full(len(tokens), -row)}
                out.append(tokens, spans=spans[: row % 4], **beside)
    dataset = pf.stream(tmp_path, aligned=["weight", "mark"])
    for row in (0, 3, 49, 50, -1):
        shard, own = divmod(row % 100, 50)
        found = dataset[row]
        tokens = np.arange(10 + own) + shard
        assert found["input_ids"] == tokens.tolist()
        assert found["weight"] == (tokens / 8).tolist()
        assert set(found["mark"]) == {-own}
        expected = [(start, stop, {"n": n + own}) for start, stop, n in SPANS]
        assert [
            (span["start"], span["end"], json.loads(span["payload"]))
            for span in found["spans"]
        ] == expected[: own % 4]


def _json(payload):
    return json.dumps(payload).encode()


LOOM = np.dtype([("index", "<i4"), ("user", "<u4")])
"""Records of GuideLoom with metadata."""


def write_loom(folder, lengths=(20_000, 30_000), user="<u4"):
    """Shards as GuideLoom 1.1 writes them: no header, a payload for every 7 tokens."""
    folder.mkdir()
    record = np.dtype([("index", "<i4"), ("user", user)])
    for shard, length in enumerate(lengths):
        records = np.empty(length, record)
        records["index"] = np.arange(length) // 7
        tokens = np.arange(length) + 100_000 * shard
        if record["user"].names is None:
            records["user"] = tokens
        else:
            records["user"]["ids"], records["user"]["page"] = tokens, tokens // 5000
        payloads = [b"%d" % n for n in range(-(-length // 7))]
        ends = np.cumsum([0, *map(len, payloads)]).astype("<i8")
        for suffix, data in (
            ("in_band.bin", records.tobytes()),
            ("out_of_band.index", ends.tobytes()),
            ("out_of_band.bin", b"".join(payloads)),
        ):
            (folder / f"{shard:07}.{suffix}").write_bytes(data)
    return folder


def test_streams_of_guideloom_are_windows_with_their_spans(tmp_path):
    folder = write_loom(tmp_path / "loom")
    dataset = pf.guideloom(folder, dtype="u4")
    tokens = np.concatenate([np.arange(20_000), np.arange(30_000) + 100_000])
    feed = loader(
        dataset,
        pf.Windows(2_000),
        shuffle="row",
        fields=("input_ids", "metadata"),
        batch_size=5,
    )
    seen = []
    for batch in feed:
        named = np.full((5, 2000), -1)
        for part in batch["metadata"].to_pylist():
            for span in part["spans"]:
                here = slice(span["start"], span["end"])
                named[part["sequence"], here] = int(span["payload"])
        assert (named == batch["input_ids"] % 100_000 // 7).all()
        seen.append(batch["input_ids"])
    assert (np.sort(np.concatenate(seen).reshape(-1)) == tokens).all()
    with pytest.raises(errors.InvalidArgumentError, match="dtype='int64'"):
        pf.stream(folder)
    with pytest.raises(errors.InvalidArgumentError, match="where they end"):
        loader(dataset, pf.Packed(64))


def test_a_number_of_guideloom_says_where_documents_begin(tmp_path):
    user = [("ids", "<i8"), ("page", "<i2")]
    folder = write_loom(tmp_path / "loom", user=user)
    given: dict[str, Any] = {"dtype": user, "column": "ids", "document": "page"}
    dataset = pf.guideloom(folder, aligned=["page"], **given)
    rows = [row["ids"] for row in dataset]
    assert [len(row) for row in rows] == [5000] * 10
    assert rows[7] == list(range(115_000, 120_000))
    assert dataset[7]["spans"][3] == {"start": 15, "end": 22, "payload": b"2145"}
    assert set(dataset[7]["page"]) == {23}
    with pytest.raises(errors.ColumnNotFoundError, match="'page'"):
        pf.guideloom(folder, **given | {"document": "id"})
    with pytest.raises(errors.InvalidArgumentError, match="by column="):
        pf.guideloom(folder, dtype=user)


def test_documents_of_guideloom_are_rows(tmp_path):
    folder = write_loom(tmp_path / "loom")
    for path in folder.glob("*.in_band.bin"):
        path.unlink()
    texts = pf.guideloom(folder, dtype="u1")
    assert bytes(texts[2500]["input_ids"]) == b"2500"
    with pytest.raises(errors.CorruptFileError, match="dtype"):
        len(pf.guideloom(folder, dtype="i8"))


def test_a_gap_in_the_shards_of_guideloom_is_named(tmp_path):
    folder = write_loom(tmp_path / "loom", lengths=(10, 10, 10))
    for path in folder.glob("0000001.*"):
        path.unlink()
    with pytest.raises(errors.MissingFileError, match=r"0000001\.in_band"):
        pf.guideloom(folder, dtype="u4")
