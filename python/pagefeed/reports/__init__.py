"""Proofs and predictions: what a dataset is, what a run will do, and that it does."""

from pagefeed._removed import refuse_removed_of
from pagefeed.reports.decoding import TextTokenizer, load_tokenizer
from pagefeed.reports.diagnosis import Diagnosis, diagnose, doctor
from pagefeed.reports.evidence import Evidence
from pagefeed.reports.forecasts import (
    DatasetForecast,
    Forecast,
    StageForecast,
    forecast,
)
from pagefeed.reports.inspection import (
    ColumnFacts,
    DocumentLengths,
    FileFacts,
    Inspection,
    PageSizes,
    inspect,
    small_files_of,
)
from pagefeed.reports.nodes import check_nodes, facts_of_node
from pagefeed.reports.page import report
from pagefeed.reports.rehearsal import ColumnReads
from pagefeed.reports.row_losses import DocumentLoss, losses_by_row
from pagefeed.reports.sampling import plan_digest
from pagefeed.reports.smoke_test import Check, Smoke, shown_checks, smoke
from pagefeed.reports.soundness import (
    UNREADABLE,
    Damage,
    damage_of,
    sound_batches,
    sound_part,
)
from pagefeed.reports.step_costs import StepCosts, step_costs
from pagefeed.reports.tables import facts_of_inspection, facts_of_plan, mixture_tables
from pagefeed.reports.telling import Part, Table, Told, lines_of
from pagefeed.reports.tracing import TracedRow, TracedSegment, replay, trace
from pagefeed.reports.verification import Leg, Verification, verify
from pagefeed.reports.weights import mixture_weights

__all__ = [
    "UNREADABLE",
    "Check",
    "ColumnFacts",
    "ColumnReads",
    "Damage",
    "DatasetForecast",
    "Diagnosis",
    "DocumentLengths",
    "DocumentLoss",
    "Evidence",
    "FileFacts",
    "Forecast",
    "Inspection",
    "Leg",
    "PageSizes",
    "Part",
    "Smoke",
    "StageForecast",
    "StepCosts",
    "Table",
    "TextTokenizer",
    "Told",
    "TracedRow",
    "TracedSegment",
    "Verification",
    "check_nodes",
    "damage_of",
    "diagnose",
    "doctor",
    "facts_of_inspection",
    "facts_of_node",
    "facts_of_plan",
    "forecast",
    "inspect",
    "lines_of",
    "load_tokenizer",
    "losses_by_row",
    "mixture_tables",
    "mixture_weights",
    "plan_digest",
    "replay",
    "report",
    "shown_checks",
    "small_files_of",
    "smoke",
    "sound_batches",
    "sound_part",
    "step_costs",
    "trace",
    "verify",
]
refuse_removed_of(__name__)
