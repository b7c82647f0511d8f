"""Comparison of several runs in one table and one figure, with errors over seeds, and without a winner."""

from boltzport.comparison.compare import Comparison, TargetComparison, compare
from boltzport.comparison.conventions import conventions_text
from boltzport.comparison.display import comparison_table, paper_table
from boltzport.comparison.page import write_comparison
from boltzport.comparison.paper import PaperTable, paper_json, paper_markdown, paper_tables
from boltzport.comparison.records import to_csv, to_json

__all__ = [
    "Comparison",
    "PaperTable",
    "TargetComparison",
    "compare",
    "comparison_table",
    "conventions_text",
    "paper_json",
    "paper_markdown",
    "paper_table",
    "paper_tables",
    "to_csv",
    "to_json",
    "write_comparison",
]
