"""Damaged raw files are refused by name, and never read as something else."""

import numpy as np
import pytest

import pagefeed as pf
from models.refusing import drained, refused, truncate
from pagefeed import errors

NPY = "{{'descr': {}, 'fortran_order': False, 'shape': {}}}"


def test_raw_files(tmp_path):
    path = tmp_path / "a.bin"
    np.arange(5000, dtype=np.uint16).tofile(path)
    truncate(path, 1)
    refused(
        errors.CorruptFileError,
        "not a whole number of tokens",
        lambda: pf.tokens(path, dtype="uint16"),
        path,
    )
    with pytest.raises(errors.InvalidArgumentError, match="say of what type"):
        drained(pf.tokens(path))
    with pytest.raises(errors.InvalidArgumentError, match="not a type of tokens"):
        pf.tokens(path, dtype="float32")
    with pytest.raises(errors.InvalidArgumentError, match="not a type of tokens"):
        pf.tokens(path, dtype=">u2")


@pytest.mark.parametrize(
    ("array", "kind", "match"),
    [
        (np.zeros(9000, np.float32), errors.UnsupportedError, "integers"),
        (np.zeros(9000, ">i4"), errors.UnsupportedError, "little-endian"),
        (
            np.asfortranarray(np.zeros((9, 9), np.int32)),
            errors.UnsupportedError,
            "Fort",
        ),
    ],
)
def test_npy_of_other_types(tmp_path, array, kind, match):
    path = tmp_path / "a.npy"
    np.save(path, array)
    refused(kind, match, lambda: pf.tokens(path), path)


def test_npy_files(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(9000, dtype=np.int32))
    whole = path.read_bytes()
    for damaged, match in [
        (whole[:-4], "truncated"),
        (whole + b"1234", "not all of the file"),
        (whole[:6] + b"\x09" + whole[7:], "another version"),
        (whole[:20] + b"\x00\x01" + whole[22:], "damaged"),
        (whole[:9], "damaged"),
    ]:
        path.write_bytes(damaged)
        refused(errors.CorruptFileError, match, lambda: pf.tokens(path), path)


@pytest.mark.parametrize(
    "header",
    [
        NPY.format("'<i4'", f"({2**62}, 4)"),  # times 4 it is 0 modulo 2**64
        NPY.format("'<i4'", f"({2**70},)"),
        NPY.format("'<i4'", "(-1,)"),
        NPY.format("'<i4'", "(0.5,)"),
        NPY.format("'<i4'", "7"),
        NPY.format("'i4,(2'", "(0,)"),
        NPY.format("'<i0'", "(0,)"),
        NPY.format("None, None", "(0,)"),
        NPY.format("9" * 5000, "(0,)"),
        "{'shape': (0,)}",
        "[]",
        "(" * 150,
        "-" * 50_000 + "1",
        "[" * 190 + "]" * 190,
        "\0",
    ],
)
def test_npy_headers_that_make_no_sense(tmp_path, header):
    path = tmp_path / "a.npy"
    text = header.encode()
    path.write_bytes(b"\x93NUMPY\2\0" + len(text).to_bytes(4, "little") + text)
    refused(errors.CorruptFileError, "NumPy header", lambda: pf.tokens(path), path)


def test_a_number_that_is_no_token(tmp_path):
    path = tmp_path / "a.bin"
    np.array([3, -1] * 3000, np.int32).tofile(path)
    dataset = pf.tokens(path, dtype="int32")
    refused(errors.TokenRangeError, "holds -1", lambda: dataset, path)
    np.full(3000, 2**63, np.uint64).tofile(path)
    dataset = pf.tokens(path, dtype="uint64")
    refused(errors.TokenRangeError, "not a token id", lambda: dataset, path)


def test_a_file_that_changes_under_the_loader(tmp_path):
    path = tmp_path / "a.bin"
    np.arange(5000, dtype=np.uint16).tofile(path)
    dataset = pf.tokens(path, dtype="uint16")
    assert len(dataset) == 1
    np.arange(1, 5001, dtype=np.uint16).tofile(path)
    refused(
        errors.StaleFileError, "changed since it was indexed", lambda: dataset, path
    )
