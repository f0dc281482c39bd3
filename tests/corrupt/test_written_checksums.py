"""Files written here carry checksums; where others do not, that is told."""

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf
from made.damage import bit_flipped
from made.files import ParquetBytes
from made.tokenizers_made import tokenizer_json
from pagefeed.cli import main
from pagefeed.errors import ChecksumError

ROWS = [[row, row + 1, 3] for row in range(300)]


def converted(folder: Path) -> Path:
    pq.write_table(pa.table({"input_ids": ROWS}), folder / "plain.parquet")
    dataset = pf.parquet(folder / "plain.parquet", column="input_ids")
    pf.convert(dataset, folder / "out", to="parquet")
    return folder / "out"


def tokenized(folder: Path) -> Path:
    records = [{"text": f"text {row}", "id": f"a{row}"} for row in range(300)]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    (folder / "tokenizer.json").write_text(tokenizer_json("gpt2"))
    tokenizer = pf.Tokenizer(folder / "tokenizer.json")
    pf.tokenize(folder / "a.jsonl", folder / "out", tokenizer=tokenizer, keep=["id"])
    return folder / "out"


@pytest.mark.parametrize("write", [converted, tokenized])
def test_no_flipped_bit_of_a_page_is_read(tmp_path, write):
    [path] = write(tmp_path).glob("*.parquet")
    data, draw = path.read_bytes(), random.Random(7)
    names = pq.read_schema(path).names
    pages = ParquetBytes.parse(data).chunks
    assert len(pages) == len(names)
    for name, chunk in zip(names, pages, strict=True):
        for page in chunk:
            at = data.index(page.body) + draw.randrange(len(page.body))
            path.write_bytes(bit_flipped(data, at, draw))
            index = pf.PageIndex.build(path, column=name)
            with pytest.raises(ChecksumError):
                [index.read_page(number) for number in range(len(index))]


def test_pages_without_checksums_are_told(tmp_path, capsys):
    converted(tmp_path)
    for path, share in (("out", 1), ("plain.parquet", 0), ("", 0.5)):
        dataset = pf.parquet(tmp_path / path, column="input_ids")
        found = pf.inspect(dataset)
        assert found.checksum_share == share
        assert any("carry no checksum" in one for one in found.advice) == (share < 1)
        run = ["--column", "input_ids", "--length", "8", "--steps", "2"]
        main(["smoke", str(tmp_path / path), *run])
        printed = capsys.readouterr().out.replace(str(tmp_path), "")
        [line] = [one for one in printed.split("\n") if "checksum" in one]
        expected = (
            "all pages" if share == 1 else f"{1 - share:.0%} of the pages carry no"
        )
        assert expected in line
