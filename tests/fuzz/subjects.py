"""Sound files of every reader but Parquet's, and how each is damaged and read."""

import base64
import io
import json
import random
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
from saved_files import KINDS, saved, shared, write_corpus

import pagefeed as pf
from made import chats, flat_files
from made.changed_indexes import arrays_changed, index_changed, shared_changed
from made.damage import BINARY, JSON, TEXT, Damage, compressed, inside
from made.tokenizers_made import MADE, ranks, sentence_pieces, tokenizer_json
from pagefeed.flat import FLAT_FORMATS

ROWS = 40
HOSTILE_JINJA = [
    *("{{ 1 // 0 }}", "{{ 'a' * 10**12 }}", "{{ 10 ** 10 ** 10 }}", "{{ none.a.b }}"),
    *("{% for i in range(10**9) %}{{ i }}{% endfor %}", "{{ '%999999999d' % 1 }}"),
    "{% macro f(x) %}{{ f(x) + f(x) }}{% endmacro %}{{ f('a') }}",
    f"{{% set n = namespace(s='a') %}}{'{% set n.s = n.s + n.s %}' * 40}{{{{ n.s }}}}",
    *(
        "{{ 'a' | center(10**11) }}",
        "{{ messages | tojson(indent=10**9) }}",
        "{% if %}",
    ),
    *("{{ ''.__class__.__mro__ }}", "{% include 'a' %}", "{{ [1] * 10**11 }}"),
]


class Subject(NamedTuple):
    """A few sound files, of which one at a time is damaged."""

    read: str
    """The reader, a function of `readers`."""
    files: dict[str, bytes]
    """By their names in a folder."""
    damages: Mapping[str, Damage]
    """Of every file but those of `others`."""
    others: Mapping[str, Mapping[str, Damage]] = {}
    """Damages of files by their names; a file with none stays as it is."""
    has_end: bool = False
    """Whether a file that is cut can be told from a whole one."""
    options: Mapping[str, Any] = {}
    """For the reader."""

    def damaged(self, draw: random.Random) -> tuple[str, str, bytes]:
        """How a file was damaged, its name, and its bytes."""
        name = draw.choice([n for n in sorted(self.files) if self.others.get(n) != {}])
        damages = self.others.get(name, self.damages)
        kind = draw.choice(sorted(damages))
        data = self.files[name]
        for _ in range(draw.choice([1, 1, 1, 2])):
            data = damages[kind](data, draw)
        return kind, name, data


def template_changed(data: bytes, draw: random.Random) -> bytes:
    """A template with something hostile in it."""
    at = draw.choice([0, len(data), draw.randrange(len(data) + 1)])
    return data[:at] + draw.choice(HOSTILE_JINJA).encode() + data[at:]


def _written(write: Callable[[Path], object]) -> dict[str, bytes]:
    """The files that are written to a folder."""
    with tempfile.TemporaryDirectory(prefix="pagefeed-fuzz-") as folder:
        write(Path(folder))
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _records() -> list[dict[str, Any]]:
    return [
        {
            "text": f'text {row}, "quoted"\nand 漢字 {"long " * (row % 7)}',
            "number": row * 1000,
            "word": ["page", "row", None][row % 3],
        }
        for row in range(ROWS)
    ]


def _table() -> pa.Table:
    rows = _records()
    words = pa.array([row["word"] for row in rows])
    return pa.table(
        {
            **{name: [row[name] for row in rows] for name in ("text", "number")},
            "word": words.dictionary_encode(),
            "large": words.cast("large_string"),
            "view": words.cast("string_view"),
            "list": [[row["number"]] * (n % 4) for n, row in enumerate(rows)],
            "struct": [{"a": row["word"], "b": [row["text"]]} for row in rows],
            "flag": [row["word"] is None for row in rows],
        }
    )


def _arrow(options: str) -> bytes:
    sink, table = io.BytesIO(), _table()
    if options == "stream":
        writer = pa.ipc.new_stream(sink, table.schema)
    elif options == "lz4":
        pyarrow.feather.write_feather(table, sink, compression="lz4", chunksize=16)
        return sink.getvalue()
    else:
        writer = pa.ipc.new_file(sink, table.schema)
    with writer:
        writer.write_table(table, max_chunksize=16)
    return sink.getvalue()


def _flat(name: str, documents: flat_files.Documents, folder: Path) -> None:
    flat_files.KINDS[name](folder, documents)


def _stream(folder: Path, documents: flat_files.Documents) -> None:
    dtype = [("token", "u2"), ("weight", "f4")]
    with pf.StreamWriter(folder, dtype=dtype, serialize="bytes") as out:
        for document in documents:
            spans = [(0, 1, bytes(1 + len(document) % 5))]
            out.append(document, weight=np.ones(len(document)), spans=spans)


def _texts(
    name: str,
    data: bytes,
    damages: Mapping[str, Damage],
    options: Mapping[str, Any],
    has_end: bool = False,
) -> Subject:
    return Subject("texts", {name: data}, damages, {}, has_end, options)


def _text_subjects() -> dict[str, Subject]:
    """What `tokenize` reads."""
    lines = "".join(json.dumps(row) + "\n" for row in _records()).encode()
    sink, others = io.BytesIO(), _table().column_names[1:]
    pyarrow.csv.write_csv(_table().select(["text", "number", "word"]), sink)
    csv = sink.getvalue()
    named = {"keep": ["number", "word"]}
    made: dict[str, tuple[bytes, dict[str, Any]]] = {
        "a.jsonl": (lines, named),
        "a.csv": (csv, named),
    }
    found = {
        name[2:]: _texts(name, data, TEXT, how) for name, (data, how) in made.items()
    }
    for name, codec in (("a.jsonl", "gzip"), ("a.jsonl", "zstd"), ("a.csv", "gzip")):
        end = {"gzip": ".gz", "zstd": ".zst"}[codec]
        data, how = made[name]
        found[name[2:] + end] = _texts(
            name + end, compressed(data, codec), inside(codec, TEXT), how
        )
    return found | {
        "arrow": _texts("a.arrow", _arrow("file"), BINARY, {"keep": others}, True),
        "arrow stream": _texts("a.arrow", _arrow("stream"), BINARY, {"keep": others}),
        "feather": _texts("a.feather", _arrow("lz4"), BINARY, {"keep": others}, True),
    }


def _flat_subjects() -> dict[str, Subject]:
    """Files of tokens."""
    documents = flat_files.some_documents(20, longest=60)
    writers: dict[str, Callable[[Path], object]] = {
        name: partial(_flat, name, documents) for name in FLAT_FORMATS
    }
    writers["stream"] = partial(_stream, documents=documents)
    made = {}
    for name, write in writers.items():
        files = _written(write)
        by_name = {one: JSON for one in files if one.endswith(".json")}
        read = "stream" if name == "stream" else "flat"
        has_end, options = name != "raw", {"format": name}
        made[name] = Subject(read, files, BINARY, by_name, has_end, options)
    return made


def _tokenizer_subjects() -> dict[str, Subject]:
    """Tokenizers of every source, and templates of chats."""
    coded = [(base64.b64encode(token), rank) for token, rank in ranks().items()]
    made = {
        "model": Subject("tokenizer", {"a.model": sentence_pieces("bpe")}, BINARY),
        "ranks": Subject(
            "tokenizer",
            {"a.tiktoken": b"".join(b"%s %d\n" % pair for pair in coded)},
            TEXT,
        ),
    }
    for name in MADE:
        files = {"tokenizer.json": tokenizer_json(name).encode()}
        made[f"tokenizer {name}"] = Subject("tokenizer", files, JSON)
    for name, template in chats.TEMPLATES.items():
        files = _written(partial(chats.write_chat_tokenizer, template=template))
        by_name = {
            "chat_template.jinja": TEXT | {"hostile": template_changed},
            "tokenizer.json": {},
        }
        files["chat_template.jinja"] = template.encode()
        made[f"chat {name}"] = Subject("chat", files, JSON, by_name)
    return made


def _cache_subjects(kind: str, corpus: str) -> dict[str, Subject]:
    """Cache folders of a kind: damaged, or changed by their owner and sealed anew."""
    cache, digest = saved(kind, corpus)
    whole = sorted(cache.values())

    def another(_data: bytes, draw: random.Random) -> bytes:
        """A whole file, sound by itself, in the wrong place."""
        return draw.choice(whole)

    options = {"kind": kind, "corpus": corpus, "digest": digest}
    of_arrays = {"sealed": arrays_changed, "numbers": lambda data, _: data}
    of_files: dict[str, Mapping[str, Damage]] = {one: {} for one in cache}
    for name in cache:
        if name.endswith("-index"):
            of_files[name] = {"sealed": index_changed}
        elif name.endswith("about.json"):
            of_files[name] = of_arrays
    damages = BINARY | {"another": another}
    return {
        f"saved {kind}": Subject("saved", cache, damages, options=options),
        f"sealed {kind}": Subject("sealed", cache, {}, of_files, options=options),
    }


def subjects() -> dict[str, Subject]:
    """All, by their names."""
    caches: dict[str, Subject] = {}
    with_own = Path(tempfile.mkdtemp(prefix="pagefeed-corpus-"))
    write_corpus(with_own)
    for kind in KINDS:
        caches |= _cache_subjects(kind, f"{with_own}")
    corpus = Path(tempfile.mkdtemp(prefix="pagefeed-corpus-"))
    index, digest = shared(corpus)
    of_others = Subject(
        "shared",
        index,
        {"sealed": shared_changed, **BINARY},
        options={"digest": digest, "corpus": f"{corpus}"},
    )
    return {
        **_text_subjects(),
        **_flat_subjects(),
        **_tokenizer_subjects(),
        **caches,
        "shared": of_others,
    }
