"""A release is refused by name for everything that is missing or does not fit."""

import io
import shutil
import sys
import tarfile
import zipfile

import pytest

from made.shared_data import ROOT

sys.path.insert(0, str(ROOT / "packaging"))
import release

WHEELS = (
    "pagefeed-1.2.3-cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "pagefeed-1.2.3-cp311-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64.whl",
    "pagefeed-1.2.3-cp311-abi3-macosx_11_0_arm64.whl",
)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "Cargo.toml").write_text('[workspace.package]\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 1.2.3\n\n- New.\n\n## 1\n")
    (tmp_path / "dist").mkdir()
    for name in WHEELS:
        with zipfile.ZipFile(tmp_path / "dist" / name, "w") as wheel:
            for licence in release.LICENCES:
                wheel.writestr(f"pagefeed-1.2.3.dist-info/licenses/{licence}", "")
    with tarfile.open(tmp_path / "dist" / "pagefeed-1.2.3.tar.gz", "w:gz") as source:
        for licence in release.LICENCES:
            source.addfile(tarfile.TarInfo(f"pagefeed-1.2.3/{licence}"), io.BytesIO())
    for page in release.PAGES:
        (tmp_path / "site" / page).mkdir(parents=True)
    return tmp_path


def wrong(root, tag="v1.2.3"):
    return list(release.problems(tag, root, root / "dist", root / "site"))


def test_what_fits_can_be_released(root):
    assert wrong(root) == []
    assert release.section((root / "CHANGELOG.md").read_text(), "1.2.3") == "- New."


def test_every_problem_is_named(root):
    dist = root / "dist"
    (dist / WHEELS[2]).unlink()
    (dist / "pagefeed-1.2.2.tar.gz").touch()
    with zipfile.ZipFile(dist / WHEELS[0], "w") as wheel:
        wheel.writestr("LICENSE", "")
    shutil.rmtree(root / "site" / "search")
    (root / "CHANGELOG.md").write_text(
        "## Unreleased\n\n- Newer.\n\n## 1.2.3\n\n## 1\n"
    )
    said = "\n".join(wrong(root, "1.2.3"))
    for words in (
        "the tag is 1.2.3, and Cargo.toml has version 1.2.3: tag v1.2.3",
        "no text under a heading '## 1.2.3'",
        "unreleased changes",
        "0 files for macOS on arm64",
        f"{WHEELS[0]} lacks LICENSE-THIRD-PARTY",
        "pagefeed-1.2.2.tar.gz, which is not of this release",
        "has no search: run make docs",
    ):
        assert words in said
    assert said.count("\n") == 6


def test_the_change_log_has_this_version():
    import pagefeed

    changes = (ROOT / "CHANGELOG.md").read_text()
    assert release.section(changes, pagefeed.__version__)
