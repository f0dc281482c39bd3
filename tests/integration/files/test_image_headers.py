"""Sizes of images, read from headers as a decoder reads them."""

import io

import numpy as np
import pytest

from pagefeed.images import size_of

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

FORMATS = [
    ("PNG", {}),
    ("JPEG", {}),
    ("JPEG", {"progressive": True, "exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"}),
    ("WEBP", {}),
    ("WEBP", {"lossless": True}),
    ("WEBP", {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"}),
    ("GIF", {}),
]


@pytest.mark.parametrize(("kind", "options"), FORMATS, ids=str)
def test_sizes_are_those_of_pillow(kind, options):
    rng = np.random.default_rng(1)
    for width, height in rng.integers(1, 700, (40, 2)).tolist():
        out = io.BytesIO()
        Image.new("RGB", (width, height)).save(out, kind, **options)
        data = out.getvalue()
        assert size_of(data) == (width, height)
        assert size_of(memoryview(data)) == (width, height)


@pytest.mark.parametrize(("kind", "options"), FORMATS, ids=str)
def test_what_is_cut_off_has_its_size_or_none(kind, options):
    out = io.BytesIO()
    Image.new("RGB", (300, 200)).save(out, kind, **options)
    data = out.getvalue()
    found = {size_of(data[:end]) for end in range(min(len(data), 700))}
    assert found <= {None, (300, 200)}


def test_other_bytes_have_no_size():
    rng = np.random.default_rng(2)
    begins = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b""]
    begins.append(b"RIFF1234WEBPVP8 ")
    for begin in begins:
        assert size_of(begin) is None
        for _ in range(300):
            found = size_of(begin + rng.bytes(int(rng.integers(0, 60))))
            assert found is None or min(found) > 0
    assert size_of(b"\xff\xd8\xff\xc0\0\x11\x08\0\0\0\x10") is None
    assert size_of(b"BM not known") is None
