"""How to show it: figures of merit of a policy on recorded votes, and tables that people read.

This package computes nothing that a measure or a policy does not know; it puts their answers side by side.
"""

from quorate.report.summary import Summary, summarise
from quorate.report.tables import macs, percent

__all__ = ["Summary", "macs", "percent", "summarise"]
