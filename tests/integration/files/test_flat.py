"""Flat token files of every format are datasets like any other."""

import json
import os
import pickle
from dataclasses import replace

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

    def counted(text):
        parsed.append(1)
        return loads(text)

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


@pytest.mark.parametrize(
    ("serialize", "deserialize", "payload"),
    [
        ("bytes", None, lambda n: b"%d" % n),
        ("numpy", None, lambda n: np.full((n + 1, 2), n / 4, np.float32)),
        ("msgpack", None, lambda n: {"concept": n, "names": ["a", "b"]}),
        (lambda n: json.dumps(n).encode(), json.loads, lambda n: {"n": n}),
    ],
)
def test_what_lies_beside_the_tokens(tmp_path, serialize, deserialize, payload):
    if serialize == "msgpack":
        pytest.importorskip("msgpack", reason="msgpack is not installed")
    dtype = [("metadata", "u4"), ("token", "u2"), ("weight", "f8"), ("mark", "i1")]
    for shard in range(2):
        folder = tmp_path / str(shard)
        with pf.StreamWriter(folder, dtype=dtype, serialize=serialize) as out:
            for row in range(50):
                tokens = np.arange(10 + row) + shard
                spans = [(start, stop, payload(n + row)) for start, stop, n in SPANS]
                spans = spans[: row % 4]
                beside = {"weight": tokens / 8, "mark": np.full(len(tokens), -row)}
                out.append(tokens, spans=spans, **beside)
    dataset = pf.stream(tmp_path)
    for row in (0, 3, 49, 50, -1):
        shard, own = divmod(row % 100, 50)
        found = dataset.document(row, deserialize=deserialize)
        tokens = np.arange(10 + own) + shard
        assert (found.tokens == tokens).all()
        assert (found.fields["weight"] == tokens / 8).all()
        assert (found.fields["mark"] == -own).all()
        expected = [(start, stop, payload(n + own)) for start, stop, n in SPANS]
        assert len(found.spans) == own % 4
        for ours, theirs in zip(found.spans, expected[: own % 4], strict=True):
            assert ours[:2] == theirs[:2]
            np.testing.assert_equal(ours[2], theirs[2])
    tokens = tmp_path / "1" / "stream.bin"
    data = bytearray(tokens.read_bytes())
    data[-15:-11] = (10**6).to_bytes(4, "little")
    tokens.write_bytes(data)
    with pytest.raises(errors.CorruptFileError, match="payload 1,000,000"):
        pf.stream(tmp_path).document(-1, deserialize=deserialize)
