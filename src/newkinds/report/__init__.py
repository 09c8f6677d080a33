"""The page that a run leaves: what was found, how sure it is, and how it got there."""

from newkinds.report.data import ReportData
from newkinds.report.known_kinds import nearest_known
from newkinds.report.page import write_report

__all__ = ["ReportData", "nearest_known", "write_report"]
