"""The page of reports for maintainers: each is complete, and its rule decides."""

from __future__ import annotations

import json
import re

import pytest

from accord_conformance.rules.manifest import requirements
from project import ROOT

PAGE = ROOT / "docs/explanation/upstream-reports.md"
REPORTS = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]

every_report = pytest.mark.parametrize(
    "report", REPORTS, ids=[part.partition("\n")[0] for part in REPORTS]
)

# Findings of the kit that were verified by hand; other defects have sections of their own, too.
FINDINGS = {
    ("Qwen Code", "R-INIT-08"),
    ("Qwen Code", "R-GEN-12"),
    ("Hermes", "R-SESS-12"),
    ("Claude adapter", "R-SESS-33"),
    ("Copilot CLI", "R-SESS-21"),
    ("Codex adapter", "R-EXT-09"),
}


def test_every_verified_finding_has_a_report() -> None:
    reported = {
        (program, rule)
        for report in REPORTS
        for program in re.findall(r"\A(.+?) \d", report)
        for rule in re.findall(r"R-[A-Z]+-\d+", report)
    }
    assert sorted(FINDINGS - reported) == []


@every_report
def test_report_can_be_sent_as_it_is(report: str) -> None:
    title = report.partition("\n")[0]
    assert re.match(r".+ \d+(\.\d+)+: .+", title), "the title names the program and its version"
    assert "https://agentclientprotocol.com/protocol/" in report
    assert "To repeat it" in report


@every_report
def test_report_shows_frames(report: str) -> None:
    (frames,) = re.findall(r"```text\n(.*?)```", report, re.DOTALL)
    lines = frames.splitlines()
    assert any(line.startswith("< ") for line in lines)
    for line in lines:
        assert line[:2] in ("> ", "< ")
        # What was left out is marked by an ellipsis, and the rest is JSON.
        whole = re.sub(r"…,|,?…", "", line[2:])
        assert json.loads(whole)["jsonrpc"] == "2.0"


@every_report
def test_rule_of_a_report_is_demanded_by_the_schema_or_the_text(report: str) -> None:
    for name in re.findall(r"R-[A-Z]+-\d+", report):
        rule = requirements()[name]
        assert rule.is_must
        assert any(map(rule.is_normative, rule.versions))
