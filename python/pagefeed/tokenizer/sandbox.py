"""Renders chat templates with Jinja in a sandbox, within limits."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from types import BuiltinMethodType
from typing import Any

from pagefeed.core._base import require
from pagefeed.tokenizer.limits import MOST_STEPS, STEP, Steps, check_made

FREE = frozenset(("count", "d", "default", "first", "float", "items", "length", "safe"))
"""Filters that look at no item."""
COMPARING = (
    *("==", "!=", "<", "<=", ">", ">=", "eq", "equalto", "ge", "greaterthan"),
    *("gt", "in", "le", "lessthan", "lt", "ne"),
)
TEXTS = frozenset(("string", "tojson", "trim", "_tilde"))
"""Filters that make texts alone."""
OF_DICTIONARIES = frozenset(dir(dict))
SLOW = ("pprint", "striptags", "urlize", "wordwrap")
"""Filters that no chat needs, and that take a time beyond all sizes."""


class TemplateRefusal(Exception):  # noqa: N818 - it may be the template's own
    """A template is invalid, or fails on its messages."""


class Sandbox:
    """A template, compiled once for each of the threads that render at the same time.

    Args:
        text: The template, in Jinja.
        mark: Written before and after each generation block.
        now: The function ``strftime_now`` of templates.

    Raises:
        TemplateRefusal: If it is not a valid template.
        MissingDependencyError: If jinja2 is not installed.
    """

    def __init__(self, text: str, mark: str, now: Callable[[str], str]) -> None:
        self._made_of = text, mark, now
        self._idle = [self._compiled()]

    def _compiled(self) -> tuple[Steps, Any]:
        text, mark, now = self._made_of
        steps = Steps()
        environment = _environment(mark, now, steps)
        try:
            return steps, environment.from_string(text)
        except Exception as problem:
            raise TemplateRefusal(_described(problem)) from problem

    def render(self, **variables: object) -> str:
        """Render the template.

        Raises:
            TemplateRefusal: If it raises an error, or exceeds a limit.
        """
        try:
            compiled = self._idle.pop()
        except IndexError:  # Others render.
            compiled = self._compiled()
        steps, template = compiled
        steps.left = MOST_STEPS * STEP
        parts, size = [], 0
        try:
            for text in template.generate(**variables):
                parts.append(text)
                size += len(text)
                check_made(size)
            return "".join(parts)
        except MemoryError as problem:
            raise TemplateRefusal("it takes too much memory") from problem
        except Exception as problem:  # The template may raise anything.
            raise TemplateRefusal(_described(problem)) from problem
        finally:
            self._idle.append(compiled)


def _described(problem: Exception) -> str:
    own = type(problem).__module__.startswith("jinja2")
    return f"{problem}" if own else f"{type(problem).__name__}: {problem}"


def _environment(mark: str, now: Callable[[str], str], steps: Steps) -> Any:
    jinja, sandbox, extension = (
        require(name, extra="chat", purpose="chat templates")
        for name in ("jinja2", "jinja2.sandbox", "jinja2.ext")
    )

    def refuse(message: str) -> None:
        raise jinja.TemplateError(message)

    def as_json(value: object, **options: Any) -> str:
        indent = options.get("indent") or 0
        if len(indent) > 16 if isinstance(indent, str) else indent > 16:
            raise OverflowError("tojson indents by more than 16")
        if options.keys() & {"cls", "default"}:
            raise TypeError("tojson takes plain values")
        if sum(map(len, options.get("separators") or ())) > 16:
            raise OverflowError("tojson separates by more than 16 signs")
        return json.dumps(value, **{"ensure_ascii": False, **options})

    environment = _limited(jinja, sandbox, steps)(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_generation(jinja, extension, mark), extension.loopcontrols],
    )
    environment.filters["tojson"] = as_json
    for name in SLOW:
        del environment.filters[name]
    del environment.globals["lipsum"]
    for table, names in (
        (environment.filters, environment.filters.keys() - FREE),
        (environment.tests, COMPARING),
    ):
        for name in names:
            table[name] = _counted(name, table[name], steps)
    for name in ("count", "made", "member_of", "shown", "tilde", "weigh"):
        environment.filters[f"_{name}"] = getattr(steps, name)
    environment.globals |= {"raise_exception": refuse, "strftime_now": now}
    return environment


def _counted(name: str, function: Any, steps: Steps) -> Any:
    """Return a filter or test that counts what it is given and what it makes."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def counted(*given: Any, **named: Any) -> Any:
        if len(given) == first + 1 and not named and type(given[first]) is str:
            steps.take(len(given[first]))
            return steps.made(function(*given))
        before, (value, *others) = given[:first], given[first:]
        if isinstance(value, Iterator):
            value = steps.count(value)
        steps.before_filter(name, value, *others, **named)
        return steps.made(function(*before, value, *others, **named))

    return counted


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


def _limited(jinja: Any, sandbox: Any, steps: Steps) -> Any:
    visitor = require("jinja2.visitor", extra="chat", purpose="chat templates")
    counting = _Rewriter(visitor, jinja.nodes)
    made, operate = steps.made, sandbox.SandboxedEnvironment.default_binop_table

    class Limited(sandbox.ImmutableSandboxedEnvironment):  # type: ignore[misc]
        """Counts steps, and limits the size of values."""

        intercepted_binops = frozenset(("+", "*", "**", "%"))
        concat = staticmethod(steps.join)

        def _parse(self, *given: Any) -> Any:
            return counting.rewritten(super()._parse(*given))

        def getattr(self, value: Any, name: str) -> Any:
            if type(value) is dict and name in value and name not in OF_DICTIONARIES:
                return value[name]
            return super().getattr(value, name)

        def call(self, context: Any, function: Any, *given: Any, **named: Any) -> Any:
            steps.take(STEP)
            if type(function) is BuiltinMethodType and type(function.__self__) is str:
                for name in ("_loop_vars", "_block_vars"):
                    named.pop(name, None)  # What else is called may ask for them.
                owner = function.__self__
                steps.before_text(function.__name__, owner, *given, *named.values())
                return made(function(*given, **named))
            if type(function) is not jinja.runtime.Macro:
                steps.before_call(function, given, named)
            return made(super().call(context, function, *given, **named))

        def call_binop(self, _: Any, operator: str, *both: Any) -> Any:
            left, right = both
            if operator != "+":
                steps.before_operator(operator, left, right)
            return made(operate[operator](left, right))

    return Limited


class _Rewriter:
    """Makes a parsed template count what no filter or call does."""

    def __init__(self, visitor: Any, nodes: Any) -> None:
        self._nodes = nodes
        changes = {
            nodes.For: self._loop,
            nodes.Concat: self._concat,
            nodes.Compare: self._compare,
            nodes.List: self._literal,
            nodes.Tuple: self._literal,
            nodes.Dict: self._literal,
            nodes.Getitem: self._item,
            nodes.Output: self._output,
        }

        class Rewriting(visitor.NodeTransformer):  # type: ignore[misc]
            def visit(self, node: Any, *given: Any, **named: Any) -> Any:
                node = self.generic_visit(node, *given, **named)
                change = changes.get(type(node))
                return node if change is None else change(node)

        self.rewritten: Callable[[Any], Any] = Rewriting().visit

    def _filtered(self, node: Any, name: str) -> Any:
        node_filter = self._nodes.Filter(node, name, [], [], None, None)
        return node_filter.set_lineno(node.lineno).set_environment(node.environment)

    def _is_fixed(self, node: Any) -> bool:
        lists = self._nodes.List, self._nodes.Tuple
        items = node.items if isinstance(node, lists) else [node]
        return all(isinstance(item, self._nodes.Const) for item in items)

    def _loop(self, node: Any) -> Any:
        node.iter = self._filtered(node.iter, "_count")
        return node

    def _concat(self, node: Any) -> Any:
        parts = self._nodes.List(node.nodes).set_lineno(node.lineno)
        return self._filtered(parts.set_environment(node.environment), "_tilde")

    def _compare(self, node: Any) -> Any:
        operands = [node, *node.ops]
        is_quick = len(operands) == 2 and node.ops[0].op not in ("in", "notin")
        if is_quick and any(self._is_fixed(operand.expr) for operand in operands):
            return node  # A text of another length differs at once.
        for operand in operands:
            if not self._is_fixed(operand.expr):
                is_searched = operand is not node and operand.op in ("in", "notin")
                name = "_member_of" if is_searched else "_weigh"
                operand.expr = self._filtered(operand.expr, name)
        return node

    def _literal(self, node: Any) -> Any:
        is_read = type(node) is not self._nodes.Tuple or node.ctx == "load"
        if not is_read or self._is_fixed(node):
            return node
        return self._filtered(node, "_weigh")

    def _output(self, node: Any) -> Any:
        node.nodes = [
            part if self._is_text(part) else self._filtered(part, "_shown")
            for part in node.nodes
        ]
        return node

    def _is_text(self, node: Any) -> bool:
        """Whether a node is a text, unless it fails."""
        match type(node):
            case self._nodes.Add:
                return self._is_text(node.left) or self._is_text(node.right)
            case self._nodes.Filter:
                return node.name in TEXTS
            case self._nodes.Const:
                return isinstance(node.value, str)
        return isinstance(node, self._nodes.TemplateData)

    def _item(self, node: Any) -> Any:
        is_slice = isinstance(node.arg, self._nodes.Slice)
        return self._filtered(node, "_made") if is_slice else node
