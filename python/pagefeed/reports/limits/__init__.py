"""What limits a training, measured: data, compute or their overlap, and the remedy."""

from pagefeed.reports.limits.diagnosis import Diagnosis, diagnose, doctor
from pagefeed.reports.limits.evidence import Evidence

__all__ = ["Diagnosis", "Evidence", "diagnose", "doctor"]
