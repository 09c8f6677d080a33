"""The report: an HTML page about a run, and the paper's figures of it."""

from newkinds.report.data import ReportData
from newkinds.report.page import write_report

__all__ = ["ReportData", "write_report"]
