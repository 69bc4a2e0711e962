"""A static audit that finds reads of the CPU mirror which break when it is None, before the server does."""

from __future__ import annotations

from patchkit.audit.engine import audit
from patchkit.audit.report import Confidence, Finding, Report

__all__ = ["Confidence", "Finding", "Report", "audit"]
