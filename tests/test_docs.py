"""What the pages of docs/ show works as shown."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from made.shared_data import ROOT
from made.tokenizers_made import tokenizer_json

FENCE = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
PAGES = sorted((ROOT / "docs").glob("*.md"))


def write_corpus(folder):
    """The folders that the examples name."""
    rng = np.random.default_rng(0)
    texts = ["one two three. " * 50, "vier fünf sechs " * 80] * 40
    of_texts = folder.with_name("texts")
    of_texts.mkdir()
    folder.mkdir()
    pq.write_table(pa.table({"text": texts}), of_texts / "part-0.parquet")
    (folder / "tokenizer.json").write_text(tokenizer_json("gpt2"))
    for name in ("web", "code"):
        (folder / name).mkdir()
        rows = [rng.integers(0, 1000, n) for n in rng.integers(1000, 3000, 300)]
        columns = {
            "input_ids": rows,
            "quality": rng.random(len(rows)),
            "lang": rng.choice(["en", "de", "fr"], len(rows)),
        }
        pq.write_table(pa.table(columns), folder / name / "part-0.parquet")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "corpus")
    namespace: dict[str, object] = {}
    for text in FENCE.findall(page.read_text()):
        exec(compile(text, page.name, "exec"), namespace)
