"""Random numbers for functions of users, the same in every run of a seed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from typing import Any, TypeAlias

import numpy as np

from pagefeed.core.order.keys import KeyPart, derive_key
from pagefeed.errors import InvalidArgumentError

Draw: TypeAlias = "Callable[[], np.random.Generator]"
"""Makes the generator of a call. Functions that take none do not call it."""

BY_PLACE = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
BY_NAME = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
VARIADIC = Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD


def make_generator(seed: KeyPart, *parts: KeyPart) -> np.random.Generator:
    """Return a generator of NumPy; equal arguments give equal numbers.

    Example:
        >>> first, again = make_generator(1, "row", 7), make_generator(1, "row", 7)
        >>> first.random() == again.random()
        True
    """
    key = derive_key(seed, "draws", *parts)
    return np.random.default_rng(int.from_bytes(key[:16], "little"))


@dataclass(frozen=True)
class Drawing:
    """A function of a user that gets a value, and a generator if it takes one.

    It takes one if it has a parameter ``rng`` that no ``partial`` has set, or a second
    parameter without a default. A function without a signature takes none.

    Example:
        >>> Drawing.of(lambda value, rng: value, "transform").draws
        True
        >>> Drawing.of(lambda value, scale=2: value, "transform").draws
        False
    """

    function: Callable[..., Any]
    draws: bool = False
    """Whether it takes a generator."""
    by_name: bool = False
    """Whether that is given as ``rng=``."""

    @classmethod
    def of(cls, function: Callable[..., Any], name: str) -> Drawing:
        """Look at the parameters of a function.

        Args:
            function: The function.
            name: The argument that the user gave it as.

        Raises:
            InvalidArgumentError: If it cannot be called so.
        """
        signature = _signature(function)
        if signature is None:
            return cls(function)
        further = [*signature.parameters.values()][1:]
        by_name = not (isinstance(function, partial) and "rng" in function.keywords)
        by_name &= any(p.name == "rng" and p.kind in BY_NAME for p in further)
        second = further[0] if further and further[0].kind in BY_PLACE else None
        draws = by_name or (second is not None and second.default is Parameter.empty)
        drawing = cls(function, draws=draws, by_name=by_name)
        try:
            cls(signature.bind, draws=draws, by_name=by_name)(
                None, np.random.default_rng
            )
        except TypeError as error:
            raise InvalidArgumentError(
                f"{name}={function!r:.80} takes {signature}: {error}. It is called "
                "with one value, and a generator of random numbers if its second "
                "parameter is rng; set others by functools.partial"
            ) from error
        return drawing

    def __call__(self, value: Any, draw: Draw) -> Any:
        """Call the function with a value, and if it takes one the generator of it."""
        if not self.draws:
            return self.function(value)
        if self.by_name:
            return self.function(value, rng=draw())
        return self.function(value, draw())


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature; that of the inner function if a wrapper passes all on."""
    for follows in (False, True):
        with suppress(TypeError, ValueError):
            found = inspect.signature(function, follow_wrapped=follows)
            kinds = {parameter.kind for parameter in found.parameters.values()}
            if follows or kinds.isdisjoint(VARIADIC):
                return found
    return None
