"""A result in each of the formats of report files."""

from __future__ import annotations

from collections.abc import Callable

from accord_conformance.reports.html import html
from accord_conformance.reports.json_text import json_text
from accord_conformance.reports.junit import junit
from accord_conformance.reports.markdown import markdown
from accord_conformance.reports.run_result import RunResult

FORMATS: dict[str, Callable[[RunResult], str]] = {
    "json": lambda result: json_text(result.as_json()),
    "junit": junit,
    "markdown": markdown,
    "html": html,
}


def report_bytes(name: str, result: RunResult) -> bytes:
    """Return a report as the bytes of a file; a lone surrogate is replaced."""
    return (FORMATS[name](result).rstrip("\n") + "\n").encode("utf-8", "replace")
