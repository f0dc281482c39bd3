"""Proofs and predictions from the index alone: what a run will do, and that it does."""

from pagefeed.reports.dataset_forecast import Forecast, forecast
from pagefeed.reports.mixture_forecast import (
    MixtureForecast,
    forecast_mixture,
    plot_mixture,
)
from pagefeed.reports.verification import Leg, verify

__all__ = [
    "Forecast",
    "Leg",
    "MixtureForecast",
    "forecast",
    "forecast_mixture",
    "plot_mixture",
    "verify",
]
