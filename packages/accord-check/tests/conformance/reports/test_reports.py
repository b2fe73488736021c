"""Report files are complete, and the agent's text is escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from accord_conformance.reports.formats import html, junit, markdown
from accord_conformance.reports.report import (
    Finding,
    LoginProblem,
    Report,
    RunResult,
    ScenarioResult,
    verdict,
)
from accord_conformance.rules.manifest import requirements
from accord_conformance.traffic.message import Frame

NASTY = '</pre><script>alert("1")</script> ``` | <b>& \x00\x1b[31m'


@pytest.fixture
def result() -> RunResult:
    """A result with one passed rule, one failed, one warned of, and an unfinished scenario."""
    report = Report(subject="agent", side="agent", version=1)
    frames = (
        Frame(1, 0.25, "client", b'{"id": 1}'),
        Frame(2, 0.5, "agent", NASTY.encode() + b"x" * 5000),
    )
    report.add(Finding(rule="R-GEN-03", passed=True, by="agent"))
    report.add(
        Finding(
            rule="R-GEN-04",
            passed=False,
            by="agent",
            expected="a result",
            got=NASTY,
            frames=frames,
            where="sessions/new",
        )
    )
    report.add(Finding(rule="R-LIST-06", passed=False, by="agent", expected="an error", got="none"))
    played = [
        ScenarioResult(scenario="sessions/new", about="A.", version=1, outcome="finished"),
        ScenarioResult(
            scenario="mcp/stdio", about="B.", version=1, outcome="unfinished", reason=NASTY
        ),
    ]
    played += [
        ScenarioResult(
            scenario="permissions/reject",
            about="C.",
            version=1,
            outcome="wrong",
            reason=f"it was done: {NASTY}",
            advice="Do not.",
            frames=frames,
        ),
        ScenarioResult(
            scenario="shutdown/stdin-closed",
            about="D.",
            version=1,
            outcome="advised",
            reason="it stays",
            advice="Go.",
        ),
    ]
    login = LoginProblem(version=1, scenarios=["prompts/text"], turns=0, offered=["key <x>"])
    return RunResult("my-agent <x> `y`", [report], played, {2: f"error {NASTY}"}, [login])


def test_failed_rules_are_listed_by_version(result: RunResult) -> None:
    assert result.failed_rules() == [("R-GEN-04", 1)]
    assert result.failed_rules(strict=True) == [("R-GEN-04", 1), ("R-LIST-06", 1)]


def test_json_is_complete(result: RunResult) -> None:
    reported = result.as_json()
    assert [report["version"] for report in reported["reports"]] == [1]
    rules = {rule["id"]: rule for rule in reported["reports"][0]["rules"]}
    assert rules["R-GEN-04"]["outcome"] == "failed"
    assert rules["R-LIST-06"]["outcome"] == "warned"
    assert reported["scenarios"][1]["ending"] == "unfinished"
    assert reported["scenarios"][2]["advice"] == "Do not."
    assert len(reported["scenarios"][2]["frames"]) == 2
    assert reported["loginWanted"][0]["scenarios"] == ["prompts/text"]


def test_markdown_fences_text_of_agents(result: RunResult) -> None:
    text = markdown(result)
    assert "### R-GEN-04: failed" in text
    assert "### R-LIST-06: warned" in text
    assert "<script>" not in text.replace("#2 0.500 s < </pre><script>", "")
    assert "````" in text  # longer than any fence inside
    assert "x" * 1000 not in text
    assert "`mcp/stdio`: unfinished" in text
    assert "Version 2 was not tested" in text
    assert "### `permissions/reject`: failed, no rule describes it" in text
    assert "it stays. Go." in text
    assert "the agent requires a login" in text


def test_junit_has_a_case_for_each_rule(result: RunResult) -> None:
    root = ElementTree.fromstring(junit(result))
    cases = {case.get("name", "").split()[0]: case for case in root.iter("testcase")}
    assert cases["R-GEN-03"].find("failure") is None
    failure = cases["R-GEN-04"].find("failure")
    assert failure is not None
    assert '<script>alert("1")' in (failure.text or "")
    assert cases["R-LIST-06"].find("failure") is None
    assert "warned" in (cases["R-LIST-06"].findtext("system-out") or "")
    suites = list(root.iter("testsuite"))
    assert sum(int(suite.get("failures", "")) for suite in suites) == 3
    assert cases["permissions/reject"].find("failure") is not None
    assert cases["login"].find("failure") is not None
    assert "shutdown/stdin-closed" not in cases
    assert sum(int(suite.get("tests", "")) for suite in suites) == len(list(root.iter("testcase")))


class Tags(HTMLParser):
    """Collects the names of elements, and the URLs that they load."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.loads: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        found = [value or "" for name, value in attrs if name in ("src", "href")]
        if tag == "a":
            self.links += found
        else:
            self.loads += found


def test_html_loads_and_runs_nothing(result: RunResult) -> None:
    page = html(result)
    tags = Tags()
    tags.feed(page)
    assert "script" not in tags.names
    assert "b" in tags.names
    assert all(link.startswith("https://agentclientprotocol.com/") for link in tags.links)
    assert tags.links
    assert tags.loads == []
    assert "&lt;script&gt;" in page
    assert "R-GEN-04" in page
    assert "permissions/reject <b>failed, no rule describes it</b>" in page
    assert "it stays. Go." in page
    assert "the agent requires a login" in page
    assert "x" * 1000 not in page


def test_terminal_control_characters_are_escaped(result: RunResult) -> None:
    for text in (html(result), markdown(result)):
        assert "\x1b" not in text
        assert "\\x1b[31m" in text or "\\x1b\\[31m" in text


def test_huge_frames_are_truncated_in_json() -> None:
    report = Report(subject="agent", side="agent", version=1)
    huge = (Frame(1, 0.0, "agent", b"x" * 1_000_000),)
    report.add(Finding(rule="R-GEN-04", passed=False, by="agent", frames=huge))
    assert len(str(RunResult("agent", [report]).as_json())) < 150_000


@pytest.mark.parametrize("other", [True, False])
def test_junit_reports_versions_that_were_not_checked(result: RunResult, other: bool) -> None:
    only = RunResult("agent", result.reports if other else [], [], {2: "initialize failed"})
    root = ElementTree.fromstring(junit(only))
    case = next(case for case in root.iter("testcase") if case.get("classname") == "v2")
    assert [sign.tag for sign in case] == ["skipped" if other else "error"]
    assert case[0].get("message") == "initialize failed"


def test_verdict_is_at_the_top_with_deciding_findings_first(result: RunResult) -> None:
    advised = Finding(rule="R-BATCH-10", passed=False, by="agent", expected="one", got="none")
    result.reports[0].add(advised)
    words = verdict(result).text
    assert words.startswith(
        "Failed: 1 rule failed, R-GEN-04 (v1); "
        "1 scenario failed for a reason that no rule describes, "
    )
    assert re.search(r"\(1 warning, 1 advised, \d+ not exercised\)", words)
    page, text = html(result), markdown(result)
    assert page.index("Failed: 1 rule failed") < page.index("<h2>")
    assert text.index("Failed: 1 rule failed") < text.index("## Version 1")
    for shown in (page, text):
        order = [shown.index(name) for name in ("R-GEN-04", "R-LIST-06", "Advice", "R-BATCH-10")]
        assert order == sorted(order)
        assert shown.index("R-BATCH-10") < shown.rindex("not exercised")
    hint = requirements()["R-BATCH-10"].hint
    assert hint.split("`")[0] in text
    assert "](https://github.com/agentclientprotocol/typescript-sdk)" in text


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({}, 0, "Passed: 1 rule in version 1, none failed."),
        ({"exceeded_budget_s": 5.0}, 1, "Failed: the time budget of 5 s was exceeded."),
        ({"unsupported": {1: "why"}}, 1, "Failed: no version could be tested."),
        ({"run_errors": ["Traceback"]}, 70, "No verdict: 1 error in the kit."),
    ],
    ids=["passed", "spent", "unspoken", "fault"],
)
def test_verdict_has_the_exit_status(change: dict[str, Any], status: int, words: str) -> None:
    report = Report(subject="agent", side="agent", version=1)
    report.add(Finding(rule="R-GEN-03", passed=True, by="agent"))
    found = verdict(RunResult("agent", [report], **change))
    unseen = re.search(r" \((\d+) not exercised\)", found.text)
    assert (unseen is None) == (status == 70 or "unsupported" in change)
    assert (found.status, found.text.replace(unseen[0] if unseen else "", "")) == (status, words)


def test_scenario_that_failed_in_both_versions_is_named_once() -> None:
    report = Report(subject="agent", side="agent", version=1)
    played = [
        ScenarioResult(scenario=name, about="", version=version, outcome="wrong")
        for name, version in (("prompts/text", 1), ("prompts/text", 2), ("stop/stdin", 2))
    ]
    assert verdict(RunResult("agent", [report], played)).text.startswith(
        "Failed: 2 scenarios failed for a reason that no rule describes, "
        "prompts/text (v1 and v2), stop/stdin (v2)"
    )


def test_baseline_and_strict_affect_the_verdict() -> None:
    report = Report(subject="agent", side="agent", version=1)
    for rule in ("R-GEN-03", "R-BATCH-10"):
        report.add(Finding(rule=rule, passed=False, by="agent", expected="a", got="b"))
    result = RunResult("agent", [report], baseline={("R-GEN-03", 1)})
    assert verdict(result).status == 0
    assert re.search(r"\(1 advised, \d+ not exercised, 1 known from", verdict(result).text)
    result.strict = True
    assert verdict(result).status == 1
    assert "R-BATCH-10 (v1)" in verdict(result).text
