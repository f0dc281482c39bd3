"""Lists of many objects: by pages, folders at the same time, failures in between."""

import re
import time
from collections import Counter
from typing import Any

import pytest

from pagefeed.core.storage import located
from pagefeed.errors import (
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    PagefeedWarning,
    UnavailableError,
)
from pagefeed.remote import output_folder
from servers.list_server import ListServer
from servers.web_servers import running

FOLDERS, FILES = 12, 2500


def keys_of(folders, files):
    return [
        f"web/day={folder:02}/part-{number:06}.parquet"
        for folder in range(folders)
        for number in range(files)
    ]


@pytest.fixture(scope="module")
def server():
    server = ListServer(keys_of(FOLDERS, FILES))
    with running(server):
        yield server


@pytest.fixture
def fresh(server):
    server.asked.clear()
    server.fails, server.latency = lambda _: False, 0.0
    return server


def listed(server, url="s3://corpus/web/", **options):
    return located(url, server.options | options).files


def test_folders_are_listed_at_the_same_time(fresh):
    fresh.latency = 0.05
    found = listed(fresh)
    assert list(found) == [f"s3://corpus/{key}" for key in fresh.keys]
    pages = FOLDERS * (FILES // 1000 + 1)
    assert len(fresh.asked) <= pages + FOLDERS + 2
    by_folder = Counter(asked["prefix"] for asked in fresh.asked)
    assert set(by_folder) == {"web/"} | {f"web/day={at:02}/" for at in range(FOLDERS)}


def test_a_folder_may_be_called_like_a_file():
    """As Spark writes them, beside files and other such folders, in any order."""
    keys = [
        "a.parquet/_SUCCESS",
        "a.parquet/0.parquet",
        "b.parquet",
        "c.parquet/0.parq",
    ]
    given = [f"s3://corpus/{name}.parquet" for name in "cba"]
    server = ListServer(keys)
    with running(server):
        found = located(given, server.options).files
        assert list(found) == [f"s3://corpus/{key}" for key in reversed(keys[1:])]
        with pytest.raises(MissingFileError, match=r"s3://corpus/d\.parquet.* \(404\)"):
            located([*given, "s3://corpus/d.parquet"], server.options)


def test_a_page_that_fails_is_asked_for_again_alone(fresh):
    left = [3]

    def fails(asked):
        is_late = "continuation-token" in asked and left[0] > 0
        left[0] -= is_late
        return is_late

    fresh.fails = fails
    assert len(listed(fresh)) == FOLDERS * FILES
    asked_for = Counter(tuple(sorted(asked.items())) for asked in fresh.asked)
    assert sum(asked_for.values()) - len(asked_for) == 3, "nothing else came again"


def test_each_page_has_the_whole_deadline(fresh):
    """A list that takes far longer than the deadline is complete."""
    fresh.latency = 0.3
    found = listed(fresh, "s3://corpus/web/day=00/", deadline=1)
    assert len(found) == FILES
    keys = [f"flat/part-{number:06}.parquet" for number in range(6000)]
    flat = ListServer(keys, latency=0.3)
    with running(flat):
        begin = time.monotonic()
        assert (
            len(located("s3://corpus/flat/", flat.options | {"deadline": 1}).files)
            == 6000
        )
        assert time.monotonic() - begin > 1, "longer than the deadline"
        assert len(flat.asked) == 7


def test_a_list_that_goes_on_failing_is_an_error(fresh):
    fresh.fails = lambda asked: "continuation-token" in asked
    with pytest.raises(UnavailableError, match="503"):
        listed(fresh, deadline=2)


def without_token(page):
    return re.sub("<NextContinuationToken>.*</NextContinuationToken>", "", page)


TOKEN = "<NextContinuationToken>web/z</NextContinuationToken>"
SPOILED = {
    "IsTruncated without a token": (without_token, "without a NextContinuationToken"),
    "an empty token": (
        lambda page: re.sub("Token>.*</Next", "Token></Next", page),
        "without a NextContinuationToken",
    ),
    "another document": (lambda _: "<html>Log in</html>", "is not a list"),
    "an error": (lambda _: "<Error><Code>InternalError</Code></Error>", "is an error"),
    "a part": (lambda page: page[:-20], "breaks off"),
    "a token again": (
        lambda page: page.replace(
            "false<", f"true</IsTruncated>{TOKEN}<IsTruncated>t<"
        ),
        "does not end",
    ),
}


@pytest.fixture(scope="module")
def flat():
    server = ListServer([f"web/part-{at:06}.parquet" for at in range(1500)])
    with running(server):
        yield server


@pytest.mark.parametrize("spoiled", SPOILED)
def test_a_list_is_complete_or_an_error(flat, spoiled):
    flat.spoils, why = SPOILED[spoiled]
    flat.asked.clear()
    with pytest.raises(FileAccessError, match=why):
        listed(flat, deadline=1)
    assert len(flat.asked) < 20


def test_a_list_that_says_that_it_ends_has_ended(flat):
    """Although it names a token."""
    flat.spoils = lambda page: page.replace(">true<", ">false<")
    assert len(listed(flat, deadline=1)) == 1000


NAMELESS = ["/a", "a//b", "b//", "./a", "a/./b", "../a", "a/..", "a\tb", "a\nb", " a "]


def escaped(keys):
    return [key.replace("\t", "&#9;").replace("\n", "&#10;") for key in keys]


@pytest.mark.parametrize("number", [3, 2500])
def test_names_that_no_url_has_are_left_out_and_counted(number):
    """Beside files that are read, in small lists and in long ones."""
    bad = [f"web/{key}.parquet" for key in NAMELESS if not key.endswith(("/", " "))]
    good = [f"web/{at:04}.parquet" for at in range(number)]
    markers = ["web/marker.parquet/", "web/"]
    server = ListServer(sorted(escaped([*bad, *good, *markers])))
    with running(server):
        begin = time.monotonic()
        with pytest.warns(PagefeedWarning, match="names were left out") as told:
            found = located("s3://corpus/web", server.options).files
        assert list(found) == [f"s3://corpus/{key}" for key in good]
        assert time.monotonic() - begin < 30, "nothing is tried again"
    [text] = [str(each.message) for each in told]
    assert any(f" {count} names" in text for count in range(4, 2 * len(bad) + 1))


@pytest.mark.parametrize("place", ["s3://bucket/", "gs://bucket/x/", "az://bucket/"])
@pytest.mark.parametrize("name", NAMELESS[:-1])
def test_no_url_reads_another_object(place, name):
    """Of a name that would be written otherwise in a request."""
    options: Any = {"endpoint_url": "http://127.0.0.1:1", "deadline": 0.2}
    options |= {"aws_region": "x", "skip_signature": True}
    options["azure_storage_account_name"] = "a"
    for url in (f"{place}{name}", f"{place}{name}/c.parquet"):
        with pytest.raises(InvalidArgumentError, match="no name of an object"):
            located(url, options)
        with pytest.raises(InvalidArgumentError, match="no name of an object"):
            output_folder(url, options, "output").write("a", b"")


@pytest.mark.parametrize("name", ["/a", "a//b", "./a", "a/../b"])
def test_no_url_of_the_hub_reads_another_file(name):
    for path in (name, f"{name}/c.parquet"):
        with pytest.raises(InvalidArgumentError, match="as the hub shows it"):
            located(f"hf://datasets/owner/name@main/{path}")
