"""What a server refuses to write is said at once: no wait makes it write."""

import pytest

from pagefeed.errors import AccessDeniedError, FileAccessError, MissingFileError
from pagefeed.remote import RemoteStorage, output_folder
from servers.refusing_store import refusing

MIB = 1 << 20
REFUSALS = [
    (403, "AccessDenied", AccessDeniedError, "credentials that .* may write it"),
    (403, "QuotaExceeded", FileAccessError, "a quota is used up"),
    (507, "StorageFull", FileAccessError, "a quota is used up"),
    (404, "NoSuchBucket", MissingFileError, "there is no such bucket"),
    (409, "InvalidBucketState", FileAccessError, "409 InvalidBucketState"),
    (400, "EntityTooLarge", FileAccessError, "400 EntityTooLarge"),
]


def put(url, options, size, **condition):
    storage = RemoteStorage(options)
    try:
        return storage.remote.put(f"{url}/a.bin", bytes(size), **condition)
    finally:
        # A first try that was cut, and one that waited for its answer.
        assert storage.counts()["retries"] <= 1


@pytest.mark.parametrize("size", [1 << 10, MIB, 20 * MIB])
@pytest.mark.parametrize(("status", "code", "kind", "said"), REFUSALS)
def test_an_object(status, code, kind, said, size):
    with refusing(status, code) as store:
        with pytest.raises(kind, match=f"s3://corpus/out/a.bin: .*{said}"):
            put("s3://corpus/out", store.options, size)
        assert len(store.asked) <= 2
        assert store.lost == (size > 1 << 10)


@pytest.mark.parametrize("condition", [{"new": True}, {"unchanged": ('"a"', None)}])
@pytest.mark.parametrize(("status", "code", "kind", "said"), REFUSALS)
def test_a_condition_that_was_not_looked_at(status, code, kind, said, condition):
    """Else another writer would be taken for the first, again and again."""
    with refusing(status, code) as store, pytest.raises(kind, match=said):
        put("s3://corpus/out", store.options, 9, **condition)


def write_parts(folder):
    with folder.writer("a.bin") as out:
        for _ in range(5):
            out.write(bytes(16 * MIB))


UNASKED = (412, "PreconditionFailed", FileAccessError, "412 PreconditionFailed")
"""A condition that no request of an upload's parts had."""


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize(("status", "code", "kind", "said"), [*REFUSALS, UNASKED])
def test_an_upload_of_parts(status, code, kind, said, begins):
    with refusing(status, code, begins=begins) as store:
        folder = output_folder("s3://corpus/out", store.options, "output")
        with pytest.raises(kind, match=f"s3://corpus/out/.*: .*{said}") as told:
            write_parts(folder)
        assert "index" not in str(told.value)
        assert isinstance(folder.storage, RemoteStorage)
        assert folder.storage.counts()["retries"] <= 2  # One of each part.


@pytest.mark.parametrize("size", [1 << 10, MIB, 20 * MIB])
def test_a_server_of_s3_that_knows_no_such_key(s3, size):
    options = {**s3.options, "secret_access_key": "another"}
    with pytest.raises(AccessDeniedError, match="SignatureDoesNotMatch"):
        put("s3://corpus/out", options, size)


def far(store):
    """Settings of every provider, without credentials."""
    return {
        "endpoint_url": store.options["endpoint_url"],
        "aws_region": "here",
        "azure_storage_account_name": "account",
        "allow_http": True,
        "deadline": 5,
    }


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_nobody_may_write_where_a_bucket_lets_them(scheme):
    with refusing(403, "AccessDenied", begins=True) as store:
        options = far(store) | {"skip_signature": True}
        folder = output_folder(f"{scheme}://corpus/out", options, "output")
        folder.write("a.bin", bytes(9))
        [asked] = store.heads
        assert asked.startswith("PUT /")
        assert "\r\nauthorization: bearer \r\n" in f"{asked.lower()}\r\n" or (
            "authorization" not in asked.lower()
        )


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_advice_for_writes_without_credentials(scheme, monkeypatch):
    """To send none is no help where none may write."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.delenv(name, raising=False)
    with refusing(403, "AccessDenied") as store:
        options = far(store) | {"skip_signature": True}
        folder = output_folder(f"{scheme}://corpus/out", options, "output")
        with pytest.raises(AccessDeniedError, match="without skip_signature") as told:
            folder.write("a.bin", bytes(9))
        assert "may write it" in str(told.value)
        assert "public bucket" not in str(told.value)


def test_an_object_that_must_not_be_removed():
    with refusing(403, "AccessDenied") as store:
        folder = output_folder("s3://corpus/out", store.options, "output")
        with pytest.raises(AccessDeniedError, match="may remove it"):
            folder.remove(["a"])
