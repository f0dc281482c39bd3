"""Layers that carry a state from one document of a row to the next.

Attention stays inside documents by their positions or borders. Convolutions, linear
attention and other recurrent layers do not look at positions, nor do the attention
masks of some models.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, get_args

from pagefeed.core._base import check_choice
from pagefeed.core.any_loader import AnyLoader
from pagefeed.errors import InvalidArgumentError

Leak: TypeAlias = Literal["refused", "allowed"]
"""Advice for models whose layers would mix documents of a row."""

BORDERS = ("position_ids", "seq_idx", "cu_seqlens", "doc_lens")
"""Fields that say that documents of a row are to be kept apart."""

TAKE_BORDERS = frozenset(
    {
        *("bamba", "falcon_h1", "granitemoehybrid", "lfm2", "lfm2_moe"),
        *("olmo_hybrid", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"),
    }
)
"""Models of transformers 5.24 whose kernels take the borders of joined batches, and
which refuse these without the kernels."""

STATELESS = ("dense", "mlp", "moe", "sparse", "minimax_m3_sparse")
"""Layers that are called neither attention nor carry a state."""


def check_layers(
    models: Iterable[Any],
    loader: AnyLoader,
    leak: Leak,
    who: str,
    *,
    joined: bool | None = None,
) -> None:
    """Refuse models that would mix the documents of a row, unless it is allowed.

    Args:
        models: Modules of torch.
        loader: The loader that feeds them.
        leak: ``"allowed"`` checks nothing.
        who: The trainer.
        joined: Whether batches are joined rows, with their borders; None for a trainer
            whose adapter joins none.

    Raises:
        InvalidArgumentError: Naming the layers, and what to do.
    """
    check_choice(leak, get_args(Leak), "leak")
    keeps_apart = not {*BORDERS}.isdisjoint(loader.fields.names)
    has_one_each = getattr(loader.sequences, "pad", None) is not None
    if leak == "allowed" or has_one_each or not keeps_apart:
        return
    for model in models:
        layers, takes_borders = _layers_with_state(model)
        if not layers or (joined and takes_borders):
            if _ignores_positions(model):
                raise InvalidArgumentError(
                    f"{type(model).__name__} makes its attention masks without "
                    f"positions: {who} would mix documents packed into a row. Give the "
                    "model flash attention, or the Loader Documents(max_length=...), "
                    "a document in each row; or leak='allowed'"
                )
            continue
        way = "flatten=True, whose seq_idx and cu_seq_lens its kernels take; "
        is_way = takes_borders and joined is False
        raise InvalidArgumentError(
            f"{type(model).__name__} has layers with a state ({', '.join(layers)}), "
            f"which {'borders' if joined else 'positions'} do not keep inside a "
            f"document: {who} would mix documents packed into a row. Give "
            f"{way if is_way else ''}Documents(max_length=...), "
            "a document in each row; or leak='allowed'"
        )


def _layers_with_state(model: Any) -> tuple[list[str], bool]:
    """Return the kinds of layers that carry a state, and whether they take borders."""
    kinds: set[str] = set()
    takes_borders = True
    for module in model.modules():
        config = getattr(module, "config", None)
        types = getattr(config, "layer_types", None) or ()
        own = {kind for kind in types if _carries_state(str(kind))}
        if not own and getattr(module, "_is_stateful", False):
            own = {type(module).__name__}
        if own:
            takes_borders &= getattr(config, "model_type", None) in TAKE_BORDERS
        kinds |= own
    return sorted(kinds), bool(kinds) and takes_borders and _guards_borders()


def _ignores_positions(model: Any) -> bool:
    """Whether no attention mask of a model of transformers is made from positions."""
    forwards = set()
    for module in model.modules():
        config, forward = getattr(module, "config", None), type(module).forward
        if "flash" in str(getattr(config, "_attn_implementation", None)):
            return False
        if forward.__module__.startswith("transformers.models."):
            forwards.add(forward)
    return bool(forwards) and not any(map(_masks_by_positions, forwards))


def _masks_by_positions(forward: Any) -> bool:
    """Whether a method gives positions to what makes masks from a configuration."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(forward)))
    for node in ast.walk(tree):
        names: set[Any] = set()
        if isinstance(node, ast.Call):
            names = {keyword.arg for keyword in node.keywords}
        elif isinstance(node, ast.Dict):
            names = {getattr(key, "value", None) for key in node.keys}
        if {"config", "position_ids"} <= names:
            return True
    return False


def _carries_state(kind: str) -> bool:
    is_attention = kind.endswith("attention") and kind != "linear_attention"
    return not is_attention and kind not in STATELESS


def _guards_borders() -> bool:
    """Whether models refuse borders that they cannot take: transformers since 5.24."""
    try:
        import transformers
    except ImportError:  # A model of the user's own.
        return False
    major, minor, *_ = transformers.__version__.split(".")
    return (int(major), int(minor)) >= (5, 24)
