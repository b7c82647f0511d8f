"""Reports: a run directory as one page that opens offline, and its figures as files."""

from boltzport.report.page import write_report
from boltzport.report.rundata import RunData, read_run

__all__ = ["RunData", "read_run", "write_report"]
