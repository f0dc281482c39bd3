"""Proofs and predictions from the index alone: what a run will do, and that it does."""

from pagefeed.reports.dataset_forecast import Forecast, forecast
from pagefeed.reports.mixture_forecast import (
    DatasetForecast,
    MixtureForecast,
    StageForecast,
    forecast_mixture,
    plot_mixture,
)
from pagefeed.reports.verification import Leg, Verification, verify

__all__ = [
    "DatasetForecast",
    "Forecast",
    "Leg",
    "MixtureForecast",
    "StageForecast",
    "Verification",
    "forecast",
    "forecast_mixture",
    "plot_mixture",
    "verify",
]
