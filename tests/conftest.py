"""What all tests share: how much is tried, what may be skipped, and what tests cost."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import hypothesis
import pytest

from scaled import EXAMPLES

TESTS = Path(__file__).resolve().parent
IN_CI = "CI" in os.environ

SLOW = (
    *("interop/", "trainers/", "test_docs.py", "test_notebooks.py", "test_site.py"),
    *("integration/reports/test_examples.py", "test_stubs.py"),
    "integration/reports/test_benchmark_of_loaders.py",
    *("integration/batches/test_torch.py", "integration/runs/test_memory.py"),
    *("integration/runs/test_processes.py", "integration/runs/test_process_groups.py"),
    *("integration/text/test_corpus.py", "integration/text/test_tokenize_killed.py"),
    "integration/text/test_tokenize_hostile.py",
    *("remote/test_cache_kills.py", "remote/test_credentials.py"),
    *("remote/test_encrypted.py", "remote/test_proxy.py", "remote/test_slow_line.py"),
    *("remote/test_shared_index.py", "remote/test_start.py"),
    *("remote/test_storage_cache.py", "remote/test_unfinished.py"),
    *("remote/test_verbs.py", "remote/test_writing.py"),
)
"""Files and folders that `make test` leaves to `make test-all`: pages of the
documentation, other writers, trainers, servers, killed processes, limits of memory.
Single tests are marked."""

MOST_SECONDS = 20
"""Processor time of a test in CI, if it is not marked "dear"."""
COST = "processor seconds"

SKIPS = {
    r"make test-trainers ARGS=": "each framework has an environment of its own",
    r"in a test of (its|their) own$|^its epochs end where|^steps do not end its run|"
    r"^evaluations are its user's$|gathers no rows$|^another adapter's$": (
        "pairs of a trainer and a feature that it does not have"
    ),
    r"there is (a|no) CUDA device$": "one of the two is skipped on any machine",
    r"^of integers only$|^pyarrow does not write them so$": "pairs that no file has",
    r"^takes another user, who has no threads$": "CI may not change users",
    r"^crates of other platforms are not downloaded here$": "needs a network",
    r"corpus/\S* is absent;": "the sample corpus is not public",
    r"^the system counts no calls$": "a kernel without /proc/self/io",
    r"^too few files are cached to tell$": "the machine dropped its cache",
}
"""What CI may skip: patterns of reasons, and why they hold."""

EXTRAS = {
    *("PIL", "botocore", "deltalake", "duckdb", "fastparquet", "jinja2", "matplotlib"),
    *("msgpack", "pandas", "polars", "psutil", "pyarrow", "pyiceberg", "pyroaring"),
    *("sentencepiece", "tiktoken", "tokenizers", "torch", "torchdata", "tqdm"),
}
"""What imports one of these is skipped where it is not installed."""

# A deadline per example would make a loaded machine fail; pytest's timeout suffices.
# CI judges a change by the same examples every time; elsewhere each run tries new ones.
hypothesis.settings.register_profile(
    "pagefeed",
    deadline=None,
    derandomize="PAGEFEED_SAME_EXAMPLES" in os.environ,
    max_examples=EXAMPLES,
)
hypothesis.settings.load_profile("pagefeed")

# Lines stay whole: readline, which pytest imports, sets a width for the workers.
os.environ.pop("COLUMNS", None)

# No test asks the services of the machine it runs on, or reads its user's profiles.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
for name in list(os.environ):
    if name.startswith(("AWS_CONTAINER_", "AWS_WEB_IDENTITY_", "AWS_ROLE_")):
        del os.environ[name]

RunPython = Callable[[str], str]


@pytest.fixture
def run_python() -> RunPython:
    """Run a program in a fresh interpreter and return what it printed."""

    def run(program: str) -> str:
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "name the fifty tests that take most processor time"
    parser.addoption("--dearest", action="store_true", help=text)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file that `make test` leaves out anyway."""
    is_slow = os.path.relpath(collection_path, TESTS).startswith(SLOW)
    return True if is_slow and config.option.markexpr == "not slow" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        at = os.path.relpath(item.path, TESTS)
        if at.startswith(SLOW) or "s3" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
        if at.startswith("trainers/"):
            item.add_marker("dear")


Report = pytest.TestReport | pytest.CollectReport


def check_skip(report: Report) -> None:
    """Fail what is skipped in CI for a reason that is not listed."""
    assert isinstance(report.longrepr, tuple)
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if IN_CI and not any(re.search(pattern, reason) for pattern in SKIPS):
        report.outcome = "failed"
        report.longrepr = f"SKIPS of tests/conftest.py does not list: {reason}"


def skip_what_is_missing(report: Report, call: pytest.CallInfo[object] | None) -> None:
    """Skip what failed because an extra is not installed."""
    error = call.excinfo.value if report.failed and call and call.excinfo else None
    while error is not None:
        name = (getattr(error, "name", None) or "").partition(".")[0]
        is_import = isinstance(error, ModuleNotFoundError) and name in EXTRAS
        if is_import and importlib.util.find_spec(name) is None:
            path = report.nodeid.partition("::")[0]
            report.outcome = "skipped"
            report.longrepr = (path, 1, f"Skipped: {name} is not installed")
            return
        error = error.__cause__ or error.__context__


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[
    None, pytest.CollectReport, pytest.CollectReport
]:
    report = yield
    call: pytest.CallInfo[object] | None = getattr(report, "call", None)
    skip_what_is_missing(report, call)
    if report.skipped:
        check_skip(report)
    return report


def processor_seconds() -> float:
    """Processor time of this process and of those it waited for."""
    return sum(os.times()[:4])


BEGAN = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[BEGAN] = processor_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    skip_what_is_missing(report, call)
    if report.skipped and not hasattr(report, "wasxfail"):
        check_skip(report)
    elif report.when == "teardown":
        seconds = processor_seconds() - item.stash[BEGAN]
        report.user_properties = [(COST, seconds)]
        is_dear = seconds > MOST_SECONDS and not item.get_closest_marker("dear")
        if IN_CI and is_dear and report.passed:
            report.outcome = "failed"
            report.longrepr = (
                f"took {seconds:.0f} s of processor time: {MOST_SECONDS} at most"
            )
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not terminalreporter.config.getoption("--dearest"):
        return
    reports = terminalreporter.getreports("")
    costs = sorted(
        (dict(report.user_properties)[COST], report.nodeid)
        for report in reports
        if report.when == "teardown"
    )
    total = sum(seconds for seconds, _ in costs)
    terminalreporter.section(f"{total:.0f} s of processor time, most of it in")
    for seconds, test in costs[:-51:-1]:
        terminalreporter.write_line(f"{seconds:6.1f} {test}")
