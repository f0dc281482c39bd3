"""Datasets of the hub: revisions, signed URLs that expire, tokens, rate limits."""

from typing import Any

import pytest

import pagefeed as pf
from made.numbered import numbered_loader
from pagefeed.errors import (
    AccessDeniedError,
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
)
from servers.web_servers import COMMIT, TOKEN, Cdn, Hub, as_json, running

PINNED = f"hf://datasets/owner/name@{COMMIT}/tokens"


@pytest.fixture
def hub(root):
    cdn = Cdn(root / "corpus")
    hub = Hub(root / "corpus", cdn)
    with running(cdn, hub):
        yield hub


def dataset(hub, url="hf://datasets/owner/name/tokens", **options):
    settings: Any = {"hf_endpoint": hub.url, "hf_token": TOKEN, "allow_http": True}
    return pf.parquet(url, column="input_ids", storage_options=settings | options)


def test_a_folder_is_pinned_to_its_commit(hub):
    expected = [f"{PINNED}/part-{number}.parquet" for number in (0, 1)]
    assert list(dataset(hub).files) == expected
    assert list(dataset(hub, "hf://datasets/owner/name@v1.0").files) == expected
    assert list(dataset(hub, f"{PINNED}/*-1.parquet").files) == expected[1:]
    one = dataset(hub, "hf://datasets/owner/name/tokens/part-0.parquet")
    assert list(one.files) == expected[:1]
    assert one.index.find_file("hf://datasets/owner/name/tokens/part-0.parquet") == 0


def test_revisions_may_have_slashes(hub):
    expected = [f"{PINNED}/part-{number}.parquet" for number in (0, 1)]
    for same in ("refs%2Fconvert%2Fparquet", "refs/convert/parquet", "~parquet"):
        found = dataset(hub, f"hf://datasets/owner/name@{same}/tokens")
        assert list(found.files) == expected
    found = dataset(hub, "hf://datasets/owner/name@refs/pr/1/tokens/*-1.parquet")
    assert list(found.files) == expected[1:]


@pytest.mark.parametrize(
    "url",
    ["hf://spaces/a/b", "hf://datasets/a", "hf://datasets/a/b@/c", "hf://u:pw@place/a"],
)
def test_what_is_no_dataset_is_refused(hub, url):
    with pytest.raises(InvalidArgumentError, match="hf://datasets/OWNER/NAME") as found:
        dataset(hub, url)
    assert "pw" not in str(found.value)
    assert not hub.asked


def test_an_epoch_resolves_each_file_once(hub, root):
    data = dataset(hub)
    near = pf.parquet(root / "corpus" / "tokens", column="input_ids")
    far = [batch["input_ids"].tolist() for batch in numbered_loader(data)]
    assert far == [batch["input_ids"].tolist() for batch in numbered_loader(near)]
    resolved = [path for _, path, _ in hub.asked if "/resolve/" in path]
    assert any("authorization" in headers for _, _, headers in hub.asked)
    assert len(resolved) <= 4  # Two files; two threads may ask at the same time.
    assert not any("authorization" in headers for _, _, headers in hub.cdn.asked)


def test_signed_urls_are_renewed(hub):
    data = dataset(hub)
    assert len(data) == 600
    for signature in hub.signatures:
        hub.signatures[signature] = 0.0
    assert len(list(numbered_loader(data))) > 10


@pytest.mark.parametrize("times", [1, 3])
def test_signed_urls_may_redirect_again(hub, times):
    def elsewhere(handler):
        path, _, turn = handler.path.partition("&turn=")
        if int(turn or 0) == times:
            return False
        handler.send(302, b"", {"Location": f"{path}&turn={int(turn or 0) + 1}"})
        return True

    expected = [batch["input_ids"].tolist() for batch in numbered_loader(dataset(hub))]
    hub.cdn.fault = elsewhere
    found = [batch["input_ids"].tolist() for batch in numbered_loader(dataset(hub))]
    assert found == expected
    assert not any("authorization" in headers for _, _, headers in hub.cdn.asked)


def test_redirects_without_end_are_told(hub):
    def around(handler):
        handler.send(302, b"", {"Location": handler.path})
        return True

    data = dataset(hub)
    hub.cdn.fault = around
    with pytest.raises(FileAccessError, match="redirects without end"):
        _ = data.index


def test_rate_limits_are_waited_for(hub):
    left = [3]

    def limited(handler):
        if "/resolve/" not in handler.path or left[0] == 0:
            return False
        left[0] -= 1
        handler.send(429, b"", {"RateLimit": '"resolvers";r=0;t=1'})
        return True

    hub.fault = limited
    assert len(dataset(hub)) == 600
    assert left == [0]


def test_gated_and_missing(hub):
    with pytest.raises(AccessDeniedError, match="401") as caught:
        dataset(hub, hf_token="hf_wrong")
    assert "hf_wrong" not in str(caught.value)
    with pytest.raises(MissingFileError):
        dataset(hub, "hf://datasets/owner/name@v9/tokens")
    with pytest.raises(MissingFileError):
        dataset(hub, f"{PINNED}/part-7.parquet")


@pytest.mark.parametrize(
    ("status", "code", "error", "words"),
    [
        (403, "GatedRepo", AccessDeniedError, "gated: ask for access at {}; the token"),
        (
            401,
            "RepoNotFound",
            MissingFileError,
            "does not exist, or is private and the",
        ),
        (404, "RevisionNotFound", MissingFileError, "{} lists branches and tags"),
    ],
)
def test_the_hub_says_what_is_wrong(hub, status, code, error, words):
    def refuse(handler):
        handler.send(status, b"", {"X-Error-Code": code})
        return True

    hub.fault = refuse
    page = f"{hub.url}/datasets/owner/name"
    with pytest.raises(error) as caught:
        dataset(hub)
    assert words.format(page) in str(caught.value)
    with pytest.raises(error) as caught:
        dataset(hub, f"{PINNED}/part-0.parquet")
    assert words.format(page) in str(caught.value)
    if code != "RevisionNotFound":
        with pytest.raises(error, match="no token was sent: set HF_TOKEN"):
            dataset(hub, hf_token="")


def test_the_token_has_the_hubs_own_name(hub):
    settings: Any = {"hf_endpoint": hub.url, "token": TOKEN, "allow_http": True}
    url = "hf://datasets/owner/name/tokens"
    found = pf.parquet(url, column="input_ids", storage_options=settings)
    assert len(found) == 600


@pytest.mark.parametrize("link", ["http://127.0.0.1:1/elsewhere", "//other.example/"])
def test_a_list_goes_on_at_the_hub_alone(hub, link):
    def leads_away(handler):
        if "/tree/" not in handler.path:
            return False
        handler.send(200, b"[]", {"Link": f'<{link}>; rel="next"'})
        return True

    hub.fault = leads_away
    with pytest.raises(FileAccessError, match="continues at another server"):
        dataset(hub)


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"[" * 99_999,
            b"[[1]]",
            b"[null]",
            b'[{"type": "file"}]',
            b"{}",
            b"9" * 9999,
        ),
        b'[{"type": "file", "path": "a.parquet", "size": "x", "oid": "1"}]',
    ],
)
def test_a_list_may_hold_anything(hub, body):
    def other(handler):
        if "/tree/" not in handler.path:
            return False
        handler.send(200, body)
        return True

    hub.fault = other
    with pytest.raises(FileAccessError, match="not as expected"):
        dataset(hub)


def test_a_list_may_go_on_at_a_relative_link(hub):
    cursors = []

    def relative(handler):
        if "/tree/" not in handler.path:
            return False
        found = "?recursive=true&cursor=1" in handler.path
        cursors.append(handler.path)
        name = f"tokens/part-{int(found)}.parquet"
        entry = {"type": "file", "path": name, "size": 9, "oid": "0" * 40}
        link = {} if found else {"Link": '<?recursive=true&cursor=1>; rel="next"'}
        handler.send(200, as_json([entry]), link)
        return True

    hub.fault = relative
    assert len(dataset(hub).files) == 2
    assert len(cursors) == 2


def test_another_commit_leaves_the_cache_as_it_is(hub, tmp_path, monkeypatch):
    def read(commit):
        monkeypatch.setattr("servers.web_servers.COMMIT", commit)
        data = dataset(hub, storage_cache="1GB", storage_cache_dir=str(tmp_path))
        found = [batch["input_ids"].tolist() for batch in numbered_loader(data)]
        return found, data.storage.counts()["bytes_fetched"]

    first, cold = read(COMMIT)
    again, warm = read(COMMIT)
    assert again == first
    assert warm < cold / 10
    assert read("f" * 40) == (first, warm)


def test_head_may_be_refused(hub):
    hub.fault = lambda handler: handler.command == "HEAD" and handler.send(405) is None
    assert len(dataset(hub, f"{PINNED}/part-0.parquet")) == 300
