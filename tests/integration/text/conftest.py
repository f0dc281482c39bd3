"""Texts of a domain, and tokenizers extended for it, that several files share."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.extended import KINDS, law, open_tokenizer


@pytest.fixture(scope="module")
def domain(tmp_path_factory):
    path = tmp_path_factory.mktemp("law") / "law.parquet"
    texts = [law(row) for row in range(400)]
    court = ["high" if row % 4 else "low" for row in range(400)]
    pq.write_table(pa.table({"text": texts, "court": court}), path, row_group_size=50)
    return path


@pytest.fixture(scope="module")
def extended(domain, tmp_path_factory):
    """Each kind, extended: the report and the tokenizer."""
    path = tmp_path_factory.mktemp("extended")
    made = {}
    for kind in KINDS:
        done = pf.prepare.extend_tokenizer(
            open_tokenizer(kind),
            pf.parquet(domain, column="text"),
            path / f"{kind}.json",
            new_tokens=60,
            held_out=0.1,
        )
        made[kind] = done, pf.Tokenizer(done.path)
    return made
