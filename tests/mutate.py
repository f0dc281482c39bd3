"""Change the control plane at random, and see whether a test notices.

    .venv/bin/python tests/mutate.py --count 50 --seed 1 --only order mixture route
    .venv/bin/python tests/mutate.py --at mixture/course.py:185

Each fault is one change of one expression in a copy of the package: an operator, a
comparison, a number, a condition, an argument left out. The tests that fit its module
run on the copy; a fault that none of them sees survives, and is printed as a diff.
"""

import argparse
import ast
import difflib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# What tests import, and no fault is in, is imported once: they run in forks.
import hypothesis
import numpy  # noqa: F401, ICN001
import pyarrow.parquet  # noqa: F401
import pytest
import torch  # noqa: F401

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
PACKAGE = ROOT / "python" / "pagefeed"

# The quick tests that fit a module: the first entry of which a word is in its path.
FITTING: list[tuple[str, str]] = [
    ("order/", "unit/order unit/long_delays unit/sums property/order.py"),
    ("mixture/tokenizers", "recorded_tokenizer mixture_refusals"),
    ("mixture/", "unit/mixture released property/mixture integration/mixture"),
    ("run/state", "released states"),
    ("run/damage run/provenance", "iterator ranks runs/loader"),
    ("run/dataset_order", "released batches/documents"),
    ("run/", "released property/route last_steps ranks states iterator metrics"),
    ("uncounted/", "uncounted line_blocks"),
    (
        "pack bundles blocks",
        "released packing packed_ sequences/packed sequences/sequences",
    ),
    ("sequences/", "released windows sequences small_files null_tokens"),
    ("selection/", "predicate selection faces filter divisions"),
    ("flat/", "flat"),
    ("text/", "text/text streaming"),
    ("aligned", "aligned metadata"),
    ("folders selection/rows", "folders filter faces"),
    ("dataset/spans", "windows selection filter"),
    ("dataset/", "schemas index_cache faces files/folders lookups seams"),
    ("field", "batches/fields made_fields"),
    ("document row_columns", "batches/documents batches/decode token_ids"),
    ("documents/ahead reports/decoding", "batches/decode"),
    ("batches/engines", "batches/view iterator"),
    ("batches/formats", "batches/torch"),
    ("batches/", "iterator last_steps small_files released metrics"),
    ("attention", "batches/fields"),
    ("dialects", "dialects"),
    ("torch.py", "batches/torch process_groups"),
    ("launch/", "agreement ranks runs/arguments process_groups"),
    ("metrics/", "metrics"),
    ("view", "view"),
    ("reports/page", "reports/report"),
    ("reports/nodes", "reports/check"),
    ("reports/smoke", "smoke"),
    ("reports/diagnosis reports/evidence", "doctor"),
    ("reports/inspection", "inspect"),
    ("reports/tracing", "trace"),
    ("storage_bench remote/", "remote/"),
    ("reports/", "forecast files/filter mixture_lanes"),
    ("stored", "unit/stored"),
    ("storage/", "unit/storage unit/urls files/folders"),
    ("vocabulary/rates vocabulary/segmentation", "text/extension"),
    ("prepare/vocabulary", "text/vocabulary text/extension"),
    ("prepare/", "text/tokenize convert line_blocks"),
    ("tokenizer", "tokenizer text/chat"),
    ("arguments any_loader", "arguments"),
    ("progress", "progress"),
    ("_base/extras", "no_extras"),
    ("_base/lazy", "unit/lazy"),
    ("_base/parallel", "unit/parallel progress"),
    ("_base/faces", "faces"),
    ("", "runs/loader seams unit arguments released"),
]
"""Words of paths of modules, and of paths of tests, without ``test_``."""
LEFT_OUT = ("cli/", "progress", "errors", "integrations/")
"""What people read, which has tests of its own, but none of its every word, and
adapters, which tests run inside each framework, in an environment of its own."""
WITHIN = ("integrations/dialects", "integrations/attention")
"""What needs no such environment."""
SLOW = "workers or very_many or hundred or even_out or reading_ahead or chain"
"""Tests left out: each takes longer than all others of its file."""

COMPARISONS: list[tuple[type[ast.cmpop], type[ast.cmpop]]] = [
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
]
OPERATORS: list[tuple[type[ast.operator], type[ast.operator]]] = [
    (ast.Add, ast.Sub),
    (ast.Mult, ast.FloorDiv),
    (ast.Mod, ast.FloorDiv),
    (ast.BitAnd, ast.BitOr),
    (ast.LShift, ast.RShift),
]
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "left": "right"}


def other(kind: type, pairs: list[tuple[type, type]]) -> type | None:
    for one, two in pairs:
        if kind in (one, two):
            return two if kind is one else one
    return None


def mutants(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901 - one case a kind
    """What a node may become: each a fault of one place."""
    match node:
        case ast.Compare(left, [op], right):
            if changed := other(type(op), [*COMPARISONS]):
                yield ast.Compare(left, [changed()], right)
        case ast.BinOp(left, op, right):
            if changed := other(type(op), [*OPERATORS]):
                yield ast.BinOp(left, changed(), right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            yield values[-1]
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.IfExp(_, body, orelse):
            yield body
            yield orelse
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant("left" | "right" as side):
            yield ast.Constant("right" if side == "left" else "left")
        case ast.Name(name) if name in NAMES:
            yield ast.Name(NAMES[name])
        case ast.Call(function, arguments, keywords) if keywords:
            yield ast.Call(function, arguments, keywords[:-1])


class Swap(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else super().visit(node)


def places(tree: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """All nodes that a fault may be in, but for annotations, texts and errors."""
    found, ahead = [], [tree]
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.Raise):
            continue
        found += [(node, mutant) for mutant in mutants(node)]
        skipped = {"annotation", "returns", "decorator_list", "type_params"}
        for name, value in ast.iter_fields(node):
            if name not in skipped:
                children = value if isinstance(value, list) else [value]
                ahead += [child for child in children if isinstance(child, ast.AST)]
    return found


def is_changed(name: str) -> bool:
    return name.startswith(WITHIN) or not name.startswith(LEFT_OUT)


def tests_for(path: Path) -> list[str]:
    name = str(path.relative_to(PACKAGE))
    fitting = next(
        tests
        for words, tests in FITTING
        if not words or any(word in name for word in words.split())
    )
    every = sorted(TESTS.rglob("test_*.py"))
    found = [
        str(test)
        for word in fitting.split()
        for test in every
        if word in str(test.relative_to(TESTS)).replace("test_", "")
    ]
    return list(dict.fromkeys(found))


def survives(copy: Path, tests: list[str], timeout: float) -> bool:
    """Whether the tests pass on a copy of the package, in a fork of this process."""
    child = os.fork()
    if child == 0:
        os.setsid()
        out = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(out, stream)
        os.chdir(ROOT)
        paths = [str(copy), str(TESTS)]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
        sys.path[:0] = paths
        options = ["-qx", "--assert=plain", "-p", "no:cacheprovider"]
        os._exit(pytest.main([*options, "-k", f"not ({SLOW})", *tests]))
    ended, began = (0, 0), time.monotonic()
    while ended[0] == 0:
        time.sleep(0.05)
        ended = os.waitpid(child, os.WNOHANG)
        if time.monotonic() - began > timeout:
            os.killpg(child, signal.SIGKILL)
            ended = os.waitpid(child, 0)
    return ended[1] == 0


class Fault(NamedTuple):
    """One node of a module, and what stands in its place."""

    path: Path
    tree: ast.Module
    old: ast.AST
    new: ast.AST

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(PACKAGE)}:{getattr(self.old, 'lineno', 0)}"

    def applied(self) -> tuple[str, str]:
        """The module without it and with it."""
        before = ast.unparse(self.tree)
        swapped = Swap(self.old, self.new).visit(self.tree)
        after = ast.unparse(ast.fix_missing_locations(swapped))
        return before, after


def drawn(options: argparse.Namespace) -> Iterator[Fault]:
    """Faults anywhere: a module as often as it is long."""
    draw = random.Random(options.seed)
    names = {path: str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    paths = sorted(
        path
        for path, name in names.items()
        if any(word in name for word in options.only) and is_changed(name)
    )
    weights = [path.stat().st_size for path in paths]
    for _ in range(options.count):
        path = draw.choices(paths, weights)[0]
        tree = ast.parse(path.read_text())
        if found := places(tree):
            yield Fault(path, tree, *draw.choice(found))


def of_lines(lines: list[str]) -> Iterator[Fault]:
    """All faults that begin in some lines, each written ``path:line``."""
    for line in lines:
        name, _, number = line.rpartition(":")
        path = PACKAGE / name
        for place in range(len(places(ast.parse(path.read_text())))):
            # A tree of its own for each: a fault stays in its tree.
            tree = ast.parse(path.read_text())
            old, new = places(tree)[place]
            if getattr(old, "lineno", 0) == int(number):
                yield Fault(path, tree, old, new)


class Jury:
    """Tests, run on copies of the package with one fault each."""

    def __init__(self, folder: Path, timeout: float) -> None:
        self.folder, self.timeout = folder, timeout
        self.sound: dict[tuple[str, ...], bool] = {}
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, folder / "pagefeed", ignore=skipped)

    def judge(self, fault: Fault) -> str:
        """Say whether a fault lives, or that its tests fail without it."""
        tests = tests_for(fault.path)
        if tuple(tests) not in self.sound:
            passes = bool(tests) and survives(self.folder, tests, self.timeout)
            self.sound[tuple(tests)] = passes
        if not self.sound[tuple(tests)]:
            return f"UNJUDGED (fail without it: {' '.join(tests)})"
        target = self.folder / "pagefeed" / fault.path.relative_to(PACKAGE)
        before, after = fault.applied()
        target.write_text(after)
        lives = survives(self.folder, tests, self.timeout)
        shutil.copyfile(fault.path, target)
        if not lives:
            return "killed"
        lines = before.splitlines(), after.splitlines()
        return "\n".join(["SURVIVES", *difflib.unified_diff(*lines, n=2, lineterm="")])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[""], help="words in paths")
    parser.add_argument("--at", nargs="*", help="path:line, for all faults there")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each")
    options = parser.parse_args()
    # A failure is enough: it need not become the smallest one.
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("found", phases=phases, database=None)
    hypothesis.settings.load_profile("found")
    said: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="pagefeed-mutants-") as folder:
        jury = Jury(Path(folder), options.timeout)
        faults = of_lines(options.at) if options.at else drawn(options)
        for number, fault in enumerate(faults):
            began = time.monotonic()
            verdict = jury.judge(fault)
            seconds = time.monotonic() - began
            print(f"{number} {fault.place} ({seconds:.0f} s) {verdict}", flush=True)
            said[verdict.split()[0]] += 1
    print(dict(said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
