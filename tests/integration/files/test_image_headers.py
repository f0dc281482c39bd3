"""Sizes of images, read from headers as a decoder reads them."""

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagefeed.images import size_of
from scaled import scaled

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


@pytest.mark.parametrize(
    ("kind", "options"), [one for one in FORMATS if one[0] == "WEBP"], ids=str
)
@pytest.mark.parametrize("size", [(16383, 1), (1, 16383), (8192, 3), (3, 8192)])
def test_all_bits_of_a_side_count(kind, options, size):
    out = io.BytesIO()
    Image.new("RGB", size).save(out, kind, **options)
    assert size_of(out.getvalue()) == size


@pytest.mark.parametrize("count", [1, 2, 3])
def test_markers_may_be_filled_up(count):
    out = io.BytesIO()
    Image.new("RGB", (300, 200)).save(out, "JPEG")
    data = out.getvalue()
    frame = data.index(b"\xff\xc0")
    filled = data[:frame] + b"\xff" * count + data[frame:]
    with Image.open(io.BytesIO(filled)) as opened:
        assert opened.size == (300, 200)
    assert size_of(filled) == (300, 200)


@pytest.mark.parametrize(("kind", "options"), FORMATS, ids=str)
def test_what_is_cut_off_has_its_size_or_none(kind, options):
    out = io.BytesIO()
    Image.new("RGB", (300, 200)).save(out, kind, **options)
    data = out.getvalue()
    found = {size_of(data[:end]) for end in range(min(len(data), 700))}
    assert found <= {None, (300, 200)}


EXIF = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\3\0\0\0\x01\0\6\0\0\0\0\0\0"
"""Says that the image is to be turned by a quarter."""
KINDS = [
    *(("PNG", mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")),
    *(("JPEG", mode) for mode in ("L", "RGB", "CMYK")),
    *(("WEBP", mode) for mode in ("RGB", "RGBA")),
    *(("GIF", mode) for mode in ("L", "P")),
]


@st.composite
def stored(draw):
    """An image as Pillow writes it, turned, animated or with a profile."""
    kind, mode = draw(st.sampled_from(KINDS))
    # A side of a WebP has 14 bits; the others have the most that Pillow writes.
    most = {"WEBP": 16383, "JPEG": 65500, "GIF": 65535}.get(kind, 1 << 20)
    long, short = draw(st.integers(1, most)), draw(st.integers(1, 3))
    sides = draw(st.permutations([long, short]))
    options: dict[str, Any] = {}
    if kind != "GIF" and draw(st.booleans()):
        options["exif"] = EXIF
    if kind == "JPEG":
        options |= {"progressive": draw(st.booleans()), "quality": 30}
        options |= {"icc_profile": bytes(draw(st.sampled_from([0, 70_000])))}
    if kind == "WEBP":
        options["lossless"] = draw(st.booleans())
    if kind in ("WEBP", "GIF") and draw(st.booleans()):
        # Of two frames, else they are joined.
        options |= {"save_all": True, "append_images": [Image.new(mode, sides, 1)]}
    out = io.BytesIO()
    Image.new(mode, sides).save(out, kind, **options)
    return out.getvalue()


@settings(max_examples=scaled(60), deadline=None)
@given(data=stored(), cut=st.floats(0, 1), damage=st.randoms(use_true_random=False))
def test_sizes_of_all_kinds_are_those_of_pillow(data, cut, damage):
    with Image.open(io.BytesIO(data)) as opened:
        size = opened.size
    assert size_of(data) == size
    # The end of a header is not behind the image.
    assert size_of(data[: int(len(data) * cut)]) in {None, size}
    harmed = bytearray(data)
    for _ in range(damage.randint(1, 4)):
        harmed[damage.randrange(min(len(harmed), 200))] = damage.randrange(256)
    found = size_of(bytes(harmed))
    assert found is None or min(found) > 0


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
