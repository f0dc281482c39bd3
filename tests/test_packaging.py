"""What is released says what it is: licences, version, pages, targets."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pagefeed
from made.shared_data import ROOT
from pagefeed.cli import VERBS, main


@pytest.fixture(scope="module")
def licences():
    path = ROOT / "packaging" / "licences.py"
    spec = importlib.util.spec_from_file_location("licences", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def crate(name, *needs, kind="lib", source="registry"):
    package = {
        "id": name,
        "name": name,
        "version": "1.0",
        "license": "MIT",
        "source": source,
        "targets": [{"kind": [kind]}],
    }
    deps = [{"pkg": need, "dep_kinds": [{"kind": how}]} for need, how in needs]
    return package, {"id": name, "deps": deps}


def test_only_linked_crates_are_listed(licences):
    crates = [
        crate("pagefeed-python", ("core", None), ("macro", None), source=None),
        crate("core", ("codec", None), ("tester", "dev"), ("cc", "build"), source=None),
        crate("codec"),
        crate("macro", ("syn", None), kind="proc-macro"),
        *(crate(name) for name in ("tester", "cc", "syn")),
    ]
    metadata = {
        "packages": [package for package, _ in crates],
        "resolve": {"nodes": [node for _, node in crates]},
    }
    found = licences.linked_crates(metadata)
    assert [package["name"] for package in found] == ["codec"]


def test_texts_are_written_once(licences, tmp_path):
    made = []
    for name in ("a", "b"):
        (tmp_path / name / "zlib").mkdir(parents=True)
        (tmp_path / name / "LICENSE-MIT").write_text("Permission is granted\n")
        (tmp_path / name / "zlib" / "COPYING").write_text(f"of {name}")
        package, _ = crate(name)
        made.append(package | {"manifest_path": str(tmp_path / name / "Cargo.toml")})
    text = licences.write(made)
    assert text.count("Permission is granted") == 1
    assert "a, b" in text
    assert "of a" in text
    assert "of b" in text
    assert "a 1.0: MIT" in text


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_every_linked_crate_has_a_licence(tmp_path):
    output = tmp_path / "licences.txt"
    command = [sys.executable, str(ROOT / "packaging" / "licences.py"), str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "offline" in done.stderr:
        pytest.skip("crates of other platforms are not downloaded here")
    assert done.returncode == 0, done.stderr
    head = output.read_text().partition("=" * 78)[0]
    assert "parquet 60" in head
    assert "see its text" not in head


def test_version_is_told(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == f"pagefeed {pagefeed.__version__}"


def test_workflows_run_targets_of_the_makefile():
    texts = [path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")]
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    run = r"(?:run: make|^ {10}-) ([a-z-]+)"  # Alone, or in the list of a matrix.
    made = set(re.findall(run, "\n".join(texts), re.MULTILINE))
    assert {"check", "test", "test-newest", "docs", "wheel", "fuzz"} <= made <= targets


@pytest.mark.parametrize("target", ["test-aarch64", "test-pythons"])
def test_steps_that_few_machines_run_still_parse(target):
    def said(*command):
        return subprocess.run(
            command, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout

    steps = said("make", "--dry-run", target).replace("\\\n", "")
    scripts = set(re.findall(r"packaging/\w+\.py", steps))
    assert f"packaging/try_{target.removeprefix('test-')}.py" in scripts
    for script in scripts - {"packaging/licences.py"}:
        assert "usage" in said(sys.executable, script, "--help")
    known = said(str(Path(sys.executable).with_name("maturin")), "build", "--help")
    [build] = re.findall(r"maturin build (.*)", steps)
    for option in re.findall(r"--[a-z-]+", build):
        assert option in known


def test_tests_install_all_extras_but_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = ",".join(project["optional-dependencies"]["all"])
    every = {*re.findall(r"\w+", extras)} - {"pagefeed"}
    [light] = re.findall(
        r"^LIGHT := (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert {*light.split()} == every - {"torch"}


def test_all_pages_are_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text()
    named = set(re.findall(r": ([\w/-]+\.md)$", text, re.MULTILINE))
    docs = ROOT / "docs"
    found = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    assert named == {page for page in found if not page.startswith("recipes/")}


def test_links_between_pages_lead_somewhere():
    for page in (ROOT / "docs").rglob("*.md"):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_says_its_exit_codes_or_is_as_all(verb, capsys):
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    assert f"usage: pagefeed {verb}" in capsys.readouterr().out
