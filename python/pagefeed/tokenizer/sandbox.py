"""Renders chat templates with Jinja in a sandbox, within limits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from pagefeed.core._base import require

MOST_STEPS = 1_000_000
"""Most loop passes and calls of one rendering; long chats need some ten thousand."""
MOST_SIZE = 64 << 20
"""Most characters of a text, or items of a list, that a template may make."""


class TemplateRefusal(Exception):  # noqa: N818 - it may be the template's own
    """A template is invalid, or fails on its messages."""


class Sandbox:
    """A template, compiled.

    Args:
        text: The template, in Jinja.
        mark: Written before and after each generation block.
        now: The function ``strftime_now`` of templates.

    Raises:
        TemplateRefusal: If it is not a valid template.
        MissingDependencyError: If jinja2 is not installed.
    """

    def __init__(self, text: str, mark: str, now: Callable[[str], str]) -> None:
        self._steps = _StepCount()
        environment = _environment(mark, now, self._steps)
        try:
            self._template = environment.from_string(text)
        except Exception as problem:
            raise TemplateRefusal(_described(problem)) from problem

    def render(self, **variables: object) -> str:
        """Render the template.

        Raises:
            TemplateRefusal: If it raises an error, or exceeds a limit.
        """
        self._steps.left = MOST_STEPS
        parts, size = [], 0
        try:
            for text in self._template.generate(**variables):
                parts.append(text)
                size += len(text)
                _check_size(size)
            return "".join(parts)
        except Exception as problem:  # The template may raise anything.
            raise TemplateRefusal(_described(problem)) from problem


def _described(problem: Exception) -> str:
    own = type(problem).__module__.startswith("jinja2")
    return f"{problem}" if own else f"{type(problem).__name__}: {problem}"


class _StepCount(threading.local):
    """Counts the steps of the rendering on this thread."""

    left = MOST_STEPS

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise OverflowError(f"it takes more than {MOST_STEPS:,} steps")

    def count(self, items: Any) -> Any:
        """Count a step for each item of a loop."""
        if hasattr(items, "__len__"):
            self.take(len(items))
            return items
        taken = []
        for item in items:
            self.take(1)
            taken.append(item)
        return taken


def _environment(mark: str, now: Callable[[str], str], steps: _StepCount) -> Any:
    jinja, sandbox, extension = (
        require(name, extra="chat", purpose="chat templates")
        for name in ("jinja2", "jinja2.sandbox", "jinja2.ext")
    )

    def refuse(message: str) -> None:
        raise jinja.TemplateError(message)

    def as_json(value: object, **options: Any) -> str:
        return json.dumps(value, **{"ensure_ascii": False, **options})

    environment = _limited(jinja, sandbox, steps)(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_generation(jinja, extension, mark), extension.loopcontrols],
    )
    # Filters that take the context are never evaluated at compile time.
    environment.filters["_counted"] = jinja.pass_context(
        lambda _, items: steps.count(items)
    )
    environment.filters["_bounded"] = jinja.pass_context(
        lambda _, value: _bounded(value)
    )
    environment.filters["tojson"] = as_json
    environment.globals |= {"raise_exception": refuse, "strftime_now": now}
    return environment


def _generation(jinja: Any, extension: Any, mark: str) -> Any:
    class Generation(extension.Extension):  # type: ignore[misc]
        """Writes the mark before and after a generation block."""

        tags = frozenset({"generation"})

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            call = self.call_method("_marked")
            return jinja.nodes.CallBlock(call, [], [], body).set_lineno(line)

        def _marked(self, caller: Any) -> str:
            return f"{mark}{caller()}{mark}"

    return Generation


def _limited(jinja: Any, sandbox: Any, steps: _StepCount) -> Any:
    nodes = jinja.nodes

    def filtered(node: Any, name: str, at: Any) -> Any:
        node_filter = nodes.Filter(node, name, [], [], None, None)
        return node_filter.set_lineno(at.lineno).set_environment(at.environment)

    class Limited(sandbox.ImmutableSandboxedEnvironment):  # type: ignore[misc]
        """Counts steps, and limits the size of values."""

        intercepted_binops = frozenset(("+", "*", "**"))

        def _parse(self, *given: Any) -> Any:
            parsed = super()._parse(*given)
            for loop in parsed.find_all(nodes.For):
                loop.iter = filtered(loop.iter, "_counted", loop)
            for name in parsed.find_all(nodes.Assign):
                name.node = filtered(name.node, "_bounded", name)
            for name in parsed.find_all(nodes.AssignBlock):
                name.filter = filtered(name.filter, "_bounded", name)
            return parsed

        def call(self, *given: Any, **named: Any) -> Any:
            steps.take(1)
            return _bounded(super().call(*given, **named))

        def call_binop(self, context: Any, operator: str, *both: Any) -> Any:
            _check_operands(operator, *both)
            return super().call_binop(context, operator, *both)

    return Limited


def _bounded(value: Any) -> Any:
    if isinstance(value, str | list):
        _check_size(len(value))
    return value


def _check_operands(operator: str, left: Any, right: Any) -> None:
    """Refuse operations with a large result before they run."""
    if operator == "**" and isinstance(left, int) and isinstance(right, int):
        _check_size(left.bit_length() * right)
    elif operator == "*":
        for many, times in ((left, right), (right, left)):
            if isinstance(many, str | list | tuple) and isinstance(times, int):
                _check_size(len(many) * times)


def _check_size(size: int) -> None:
    if size > MOST_SIZE:
        raise OverflowError(f"it makes something of {size:,} parts")
