"""Proofs and predictions: what a dataset is, what a run will do, and that it does."""

from pagefeed.reports.dataset_forecast import Forecast, forecast
from pagefeed.reports.decoding import TextTokenizer, load_tokenizer
from pagefeed.reports.inspection import (
    ColumnFacts,
    FileFacts,
    Inspection,
    Lengths,
    PageSizes,
    Rewriting,
    ShuffleCost,
    inspect,
)
from pagefeed.reports.mixture_forecast import (
    DatasetForecast,
    MixtureForecast,
    StageForecast,
    forecast_mixture,
    plot_mixture,
)
from pagefeed.reports.soundness import (
    UNREADABLE,
    Damage,
    damage_of,
    sound_batches,
    sound_part,
)
from pagefeed.reports.tracing import TracedPart, TracedRow, replay, trace
from pagefeed.reports.verification import Leg, Verification, verify

__all__ = [
    "UNREADABLE",
    "ColumnFacts",
    "Damage",
    "DatasetForecast",
    "FileFacts",
    "Forecast",
    "Inspection",
    "Leg",
    "Lengths",
    "MixtureForecast",
    "PageSizes",
    "Rewriting",
    "ShuffleCost",
    "StageForecast",
    "TextTokenizer",
    "TracedPart",
    "TracedRow",
    "Verification",
    "damage_of",
    "forecast",
    "forecast_mixture",
    "inspect",
    "load_tokenizer",
    "plot_mixture",
    "replay",
    "sound_batches",
    "sound_part",
    "trace",
    "verify",
]
