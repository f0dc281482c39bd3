"""What is written on this machine alone refuses URLs: none becomes a folder `s3:`."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf

URL = "s3://bucket/secret/out?X-Amz-Signature=abc"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table = pa.table({"input_ids": [[1, 2, 3]] * 9})
    pq.write_table(table, "a.parquet")
    return tmp_path


@pytest.mark.usefixtures("here")
def test_calls(monkeypatch: pytest.MonkeyPatch):
    Path("tokens.bin").write_bytes(bytes(64))
    dataset = pf.parquet("a.parquet", column="input_ids")
    for call in (
        lambda: pf.StreamWriter(URL, dtype="u2"),
        lambda: pf.parquet("a.parquet", column="input_ids", cache_dir=URL),
        lambda: pf.tokens("tokens.bin", dtype="uint16", cache_dir=URL),
        lambda: pf.convert(dataset, URL, to="megatron"),
    ):
        with pytest.raises(pf.errors.InvalidArgumentError, match="is a URL, s3://"):
            call()
    monkeypatch.setenv("PAGEFEED_CACHE_DIR", URL)
    for one in (
        pf.parquet("a.parquet", column="input_ids"),
        pf.tokens("tokens.bin", dtype="uint16"),
    ):
        with pytest.raises(pf.errors.InvalidArgumentError, match="is a URL, s3://"):
            _ = one.index
    assert not Path("s3:").exists()


@pytest.mark.usefixtures("here")
def test_a_url_that_lacks_a_slash_is_no_folder():
    dataset = pf.parquet("a.parquet", column="input_ids")
    for url in ("s3:/bucket/secret", "gs:bucket/secret", "https:/host/secret"):
        for call in (
            lambda url=url: pf.parquet(url, column="input_ids"),
            lambda url=url: pf.convert(dataset, url, to="parquet"),
            lambda url=url: pf.StreamWriter(url, dtype="u2"),
            lambda url=url: pf.Tokenizer(url),
        ):
            with pytest.raises(
                pf.errors.InvalidArgumentError, match="is not a URL"
            ) as at:
                call()
            assert "secret" not in str(at.value)
    assert os.listdir() == ["a.parquet"]


def test_a_file_url_is_a_path(here: Path):
    with pf.StreamWriter(f"file://{here}/stream", dtype="u2") as out:
        out.append([1, 2])
    assert len(pf.stream(here / "stream")) == 1
