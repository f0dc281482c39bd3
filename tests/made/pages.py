"""Pages of the documentation as programs: their blocks run, their outputs compared.

A page is run from its top in an empty folder. A block of Python runs in the page's one
namespace; with `title="train.py"` it is written to that file instead. In a block of
shell, `pagefeed`, `python` and `torchrun` run as they stand, and `pip` and `cd` are
passed over. A block of `text` or `json` behind one of these is what it prints, in
which `...` stands for anything. A block behind `<!-- not run: why -->` is not run.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagefeed.cli import main
from pagefeed.cli.demo.data import write_data
from servers.object_store import s3_server

FENCE = re.compile(
    r"(?P<skip><!-- not run: [^>]+ -->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w+)(?P<more>[^\n]*)\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    flags=re.DOTALL | re.MULTILINE,
)
TITLE = re.compile(r'title="([^"]+)"')
SHOWN = ("text", "json")
PASSED_OVER = ("pip", "cd", "uv", "make")
LONGEST = 200
"""Seconds of a command: two processes of torch take 20, and minutes under load."""
MAKES_DATA = "pagefeed demo --data corpus"
BUCKET = "my-bucket"


@dataclass
class Block:
    """A block of code, and where its output stands in the page."""

    language: str
    text: str
    title: str | None
    output: str | None = None
    output_at: tuple[int, int] | None = None
    printed: str = ""

    @property
    def is_as_shown(self) -> bool:
        if self.output is None:
            return True
        checker = doctest.OutputChecker()
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        return checker.check_output(self.output, self.printed, flags)


def blocks_of(page: str) -> list[Block]:
    """The blocks that run, each with the output that follows it."""
    found: list[Block] = []
    end = -1
    for match in FENCE.finditer(page):
        language, indent = match["language"], len(match["indent"])
        text = "".join(
            line[indent:] if line.strip() else "\n"
            for line in match["text"].splitlines(keepends=True)
        )
        follows = end >= 0 and not page[end : match.start()].strip()
        if language in SHOWN and found and follows:
            found[-1].output = text
            found[-1].output_at = match.span("text")
            end = -1
        elif language in ("python", "bash") and not match["skip"]:
            title = TITLE.search(match["more"])
            found.append(Block(language, text, title[1] if title else None))
            end = match.end()
        else:
            end = -1
    return found


@contextlib.contextmanager
def surroundings(page: str, corpus: Path | None = None) -> Iterator[None]:
    """What a page finds in the working folder: the example data, and a bucket with it.

    Args:
        page: Its text; without a bucket in its blocks no server is started.
        corpus: The example data, if it was made already.
    """
    blocks = [block.text for block in blocks_of(page)]
    with contextlib.ExitStack() as stack:
        if not any(MAKES_DATA in text for text in blocks):
            _put_data(Path("corpus"), corpus)
        if any(f"s3://{BUCKET}" in text for text in blocks):
            _put_data(Path(".server", BUCKET, "corpus"), corpus)
            options = stack.enter_context(s3_server(Path(".server")))
            known = os.environ.copy()
            stack.callback(os.environ.update, known)
            names = [f"AWS_{name.upper()}" for name in options]
            os.environ.update(zip(names, options.values(), strict=True))
            for name in names:
                stack.callback(os.environ.pop, name)
        yield


def _put_data(folder: Path, made: Path | None) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    if made is None:
        write_data(folder)
    else:
        shutil.copytree(made, folder)


def run_page(page: str) -> Iterator[Block]:
    """Run a page in the working folder, and yield its blocks with what they printed."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.title is not None:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text)
        elif block.language == "python":
            with _captured() as out:
                code = compile(block.text, "<page>", "exec")
                status = _exited(exec, code, namespace)
            block.printed = out.getvalue()
            assert not status, f"the block exits with {status}:\n{block.text}"
        else:
            commands = block.text.replace("\\\n", " ").splitlines()
            fails = "Error" in (block.output or "")
            block.printed = "".join(_command(line, fails=fails) for line in commands)
        yield block


def _exited(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call returns or exits with: an exit does not end the tests."""
    try:
        return call(*arguments)
    except SystemExit as exited:
        return exited.code


@contextlib.contextmanager
def _captured() -> Iterator[io.StringIO]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        yield out


def _command(line: str, *, fails: bool) -> str:
    words = shlex.split(line, comments=True)
    if not words or words[0] in PASSED_OVER:
        return ""
    if words[0] == "pagefeed":
        with _captured() as out, contextlib.redirect_stderr(out):
            status = _exited(main, words[1:])
        assert bool(status) <= fails, (line, out.getvalue())
        return out.getvalue()
    if words[0] in ("python", "torchrun", "cat", "ls"):
        tool = Path(sys.executable).with_name(words[0])
        command = [str(tool) if tool.exists() else words[0], *words[1:]]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LONGEST
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout
    raise AssertionError(f"the page runs {words[0]!r}: mark the block as not run")


def with_outputs(page: str) -> str:
    """A page whose outputs are what its blocks printed, where they differ."""
    changes = [
        (block.output_at, block.printed)
        for block in run_page(page)
        if block.output_at is not None and not block.is_as_shown
    ]
    for (start, stop), text in reversed(changes):
        lines = [line.rstrip() for line in text.rstrip().splitlines()]
        page = page[:start] + "\n".join(lines) + "\n" + page[stop:]
    return page
