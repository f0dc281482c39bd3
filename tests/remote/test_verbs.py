"""Verbs on a bucket, and what they tell of it."""

import json
import shutil
from pathlib import Path

import pytest

from made.tokenizers_made import tokenizer_json
from pagefeed.cli import VERBS, main


@pytest.fixture
def far(s3):
    """Arguments that name the bucket's files and how to get there."""
    options = [f"--storage-option={name}={value}" for name, value in s3.options.items()]
    return ["s3://corpus/tokens/", *options, "--json"]


def told(capsys, *words):
    code = main([*words])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


RUN = ["--column", "input_ids", "--length", "32", "--batch-size", "4"]
TEXT = ["--column", "text", "--tokenize", "{tokenizer}", "--eos", "0", *RUN[2:]]
COMMANDS = {
    "count": "{data} --column text --tokenizer {tokenizer}",
    "tokenize": "{data} --tokenizer {tokenizer} --output {made}/tokens",
    "inspect": "{data} RUN",
    "head": "{data} --column input_ids --tokenizer {tokenizer}",
    "convert": "{data} --column input_ids --to parquet --output {made}/converted",
    "tokenizer train": "{data} --column text --vocab-size 300 --output {made}/t.json",
    "tokenizer extend": "{tokenizer} {data} --column text --new-tokens 2 "
    "--output {made}/e.json --beside more={data}",
    "index": "{data} --column input_ids --output {made}/_pagefeed",
    "plan": "{data} RUN",
    "smoke": "{data} TEXT --steps 2 --tokenizer {tokenizer}",
    "doctor": "{data} RUN --seconds 0.01",
    "check": "{data} RUN --ranks 0:1 --facts {here}/facts",
    "report": "{data} RUN --output {made}/report.html",
    "trace": "{data} TEXT --step 1 --tokenizer {tokenizer}",
    "verify": "{data} RUN",
    "export": "{data} RUN --output {made}/exported",
    "stage": "{data} RUN --output {here}/staged",
}
"""A command of each verb that takes settings of remote storage."""


@pytest.fixture
def places(s3, root, tmp_path):
    """What commands name, on this machine and in a bucket."""
    for folder in (root / "made", tmp_path):
        folder.mkdir(exist_ok=True)
        (folder / "tokenizer.json").write_text(tokenizer_json("gpt2"))
    near = {"data": str(s3.folder), "made": str(tmp_path), "here": str(tmp_path)}
    near["tokenizer"] = f"{tmp_path}/tokenizer.json"
    away = {"data": s3.base, "made": "s3://made", "here": str(tmp_path)}
    yield near, away | {"tokenizer": "s3://made/tokenizer.json"}
    shutil.rmtree(root / "made")


@pytest.mark.parametrize("verb", COMMANDS)
def test_settings_are_for_any_path_that_is_a_url(verb, far, places, capsys):
    near, away = places
    command = COMMANDS[verb].replace("RUN", " ".join(RUN))
    words = command.replace("TEXT", " ".join(TEXT)).split()
    local = [word.format(**near) for word in words]
    assert main([*verb.split(), *local, *far[1:]]) == 2
    error = capsys.readouterr().err
    assert "--storage-option endpoint_url, region, access_key_id" in error
    assert "no path of the command is a URL" in error
    for number, word in enumerate(words):
        if word.format(**away) != local[number]:
            near["made"] = f"{near['here']}/{number}"
            one = [each.format(**near) for each in words]
            one[number] = word.format(**away)
            Path(near["made"]).mkdir()
            assert main([*verb.split(), *one, *far[1:]]) == 0, capsys.readouterr().err
    capsys.readouterr()


def test_all_verbs_that_take_settings_were_tried(capsys):
    taking = set()
    for verb in [*VERBS, "tokenizer train", "tokenizer extend"]:
        with pytest.raises(SystemExit):
            main([*verb.split(), "--help"])
        if "--storage-option" in capsys.readouterr().out:
            taking.add(verb)
    assert taking == {*COMMANDS}


def test_verbs_of_a_run(far, capsys):
    assert told(capsys, "inspect", *far, *RUN)["rows"] == 600
    plan = told(capsys, "plan", *far, *RUN)
    assert plan["reads"] > plan["pages"] / 2
    assert plan["bytes_read"] > 10_000
    assert told(capsys, "verify", *far, *RUN)["ok"]
    traced = told(capsys, "trace", *far, *RUN, "--step", "2")
    assert "s3://corpus/tokens/part-" in json.dumps(traced)
    # The tokens number themselves through, so labels and ids are those of any text.
    tried = told(capsys, "smoke", *far, *RUN, "--steps", "4")
    assert tried["ok"]


def test_verbs_of_files(far, capsys):
    column = ["--column", "input_ids"]
    assert told(capsys, "index", *far, *column)["rows"] == 600
    assert told(capsys, "index", *far, *column, "--row-groups")["pages"] == 6
    head = told(capsys, "head", *far, *column)
    assert "0" in json.dumps(head)


def test_texts_are_counted(far, capsys, tmp_path):
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(tokenizer_json("gpt2"))
    words = ["--column", "text", "--tokenizer", str(tokenizer)]
    words += ["--cache-dir", str(tmp_path)]
    found = told(capsys, "count", *far, *words)
    assert found["rows"] == 600
    assert found["tokens"] > 600


def test_the_bandwidth_that_a_run_needs(far, capsys):
    words = [word for word in far if word != "--json"]
    assert main(["plan", *words, *RUN, "--tokens-per-second", "1e6"]) == 0
    out = capsys.readouterr().out
    lines = out[out.index("at 1,000,000 tokens a second") :].splitlines()
    shuffles = [line.split()[0] for line in lines[2:]]
    assert shuffles == ["page", "row_group", "row", "buffer", "none"]
    rates = [float(line.split()[-1].replace(",", "")) for line in lines[2:]]
    assert rates[2] >= rates[0] > 0  # A page for each sequence costs the most.


def test_a_plan_tells_what_each_shuffle_costs(far, capsys):
    plan = told(capsys, "plan", *far, *RUN, "--bytes-per-second", "10KB")
    costs = {cost["shuffle"]: cost for cost in plan["shuffles"]}
    assert [*costs] == ["page", "row_group", "row", "buffer", "none"]
    assert [name for name in costs if costs[name]["is_auto"]] == ["page"]
    page, row = costs["page"], costs["row"]
    assert (page["requests"], page["bytes"]) == (plan["reads"], plan["bytes_read"])
    assert page["seconds"] == page["bytes"] / 10_000
    assert row["requests"] >= page["requests"] >= costs["row_group"]["requests"]
    # A wide line: what is left are 50 ms for every 128 requests.
    wide = told(capsys, "plan", *far, *RUN, "--bytes-per-second", "1TB")
    assert wide["shuffles"][2]["seconds"] == row["requests"] * 0.05 / 128
    assert "shuffles" in told(capsys, "plan", *far, *RUN)


@pytest.mark.parametrize("name", ["a.npy", "a.idx", "a.npy?signature=hidden"])
def test_the_name_of_a_url_tells_its_format(capsys, tmp_path, name):
    output = ["--to", "parquet", "--output", str(tmp_path / "out")]
    assert main(["convert", f"https://127.0.0.1:1/{name}", *output]) != 0
    error = capsys.readouterr().err
    assert "files of this kind are read from this machine only" in error
    assert "hidden" not in error


def test_a_url_of_parquet_with_a_query_is_converted(web, capsys, tmp_path):
    url = f"{web.urls[0]}?version=2"
    words = ["--to", "npy", "--output", str(tmp_path / "a.npy"), "--json"]
    assert told(capsys, "convert", url, *words)["num_documents"] == 300
