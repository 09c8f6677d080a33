"""The page that a run leaves: what was found, how sure it is, and how it got there."""

from newkinds.report.data import ReportData
from newkinds.report.page import write_report

__all__ = ["ReportData", "write_report"]
