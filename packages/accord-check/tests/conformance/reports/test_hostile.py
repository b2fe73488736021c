"""Hostile text of a peer stays one line in its place, in every report format."""

from __future__ import annotations

import io
import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from accord.v1.initialize import InitializeRequest
from accord_conformance.cli import show_report
from accord_conformance.judges.observer import Observer
from accord_conformance.pytest_plugin import ClientUnderTest, describe_failures
from accord_conformance.reports.formats import report_bytes
from accord_conformance.reports.report import Finding, Report, RunResult, ScenarioResult
from accord_conformance.traffic.message import Frame, find_problems

NASTY = {
    "html": "</pre></p></title><script>alert(1)</script><img src=x onerror=alert(1)>",
    "comment": "--><!-- ]]> <![CDATA[",
    "fence": "```\n~~~\n# Title\n![x](https://example.com/x.png) <details>",
    "table": "| a | b |\n|---|---|\n| `c` | **d** |",
    "mention": "@everyone closes #1, see https://example.com",
    "escape": "\x1b[2J\x1b]0;title\x07\x9b31m\x7f\r",
    "rich": "[bold red]no rule broken[/] [link=https://example.com]x[/link] :warning: \\",
    "lines": "x\nR-GEN-03 MUST: all is well\u2028y\u2029z\x85",
    "bidi": "\u202etxt.exe\u2066\u2069",
    "surrogate": "\ud800 and \udfff",
    "nothing": "\x00\ufffe\uffff",
    "long": "x" * 700_000,
}
FORMATS = ("json", "junit", "markdown", "html")

hostile = pytest.mark.parametrize("text", NASTY.values(), ids=NASTY.keys())


def result_of(text: str) -> RunResult:
    """Return a result with the peer's text wherever it can occur."""
    data = text.encode("utf-8", "surrogatepass")
    frames = (Frame(1, 0.25, "agent", data), Frame(2, 0.5, "client", b'{"a": "%s"}' % data))
    report = Report(subject="agent", side="agent", version=1)
    broken = Finding(
        rule="R-GEN-04",
        passed=False,
        by="agent",
        expected=f"no {text}",
        got=text,
        frames=frames,
        where="sessions/new",
    )
    report.add(broken)
    played = ScenarioResult(
        scenario="mcp/stdio", about="B.", version=1, outcome="unfinished", reason=f"it wrote {text}"
    )
    return RunResult(f"client {text}", [report], [played], {2: f"error {text[:200]!r}"})


# The links to the sources of a rule are the kit's own.
OWN_LINK = re.compile(
    r"\[[\w .:/#-]+\]"
    r"\(https://(agentclientprotocol\.com|github\.com/agentclientprotocol)/[\w./#-]+\)"
)


@cache
def usual_pages() -> dict[str, str]:
    return pages_of("harmless")


def pages_of(text: str) -> dict[str, str]:
    """Return the report in each format; none is long or has control characters."""
    pages = {form: report_bytes(form, result_of(text)).decode("utf-8") for form in FORMATS}
    for form, page in pages.items():
        assert len(page.encode()) < 200_000, form
        odd = re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
        assert odd == [], form
    return pages


@hostile
def test_reports_have_the_same_structure_with_any_text(text: str) -> None:
    pages, usual = pages_of(text), usual_pages()
    assert next(iter(json.loads(pages["json"]))) == "subject"
    assert tags_in(pages["html"]) == tags_in(usual["html"])

    root = ElementTree.fromstring(pages["junit"].encode())
    (failure,) = root.iter("failure")
    assert len((failure.text or "").splitlines()) == 5
    assert [suite.get("failures") for suite in root.iter("testsuite")].count("1") == 1

    assert outline(pages["markdown"]) == outline(usual["markdown"])
    for line in prose_in(pages["markdown"]):
        line = OWN_LINK.sub("", line)  # the rest is the agent's
        assert not re.search(r"<(?!/?(details|summary)>)|(?<!\\)[\[\]]|@\w|(?<!&)#\d|:/", line), (
            line
        )


@hostile
def test_terminal_shows_one_line_for_each_finding(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = on_terminal(result_of(text), monkeypatch)
    usual = on_terminal(result_of("harmless"), monkeypatch)
    assert len(shown) == len(usual)
    assert "\N{WARNING SIGN}" not in "".join(shown)
    if text == NASTY["rich"]:
        assert "[bold red]no rule broken[/]" in "".join(shown)


@hostile
def test_failed_agent_test_shows_one_line_for_each_finding(text: str) -> None:
    lines = describe_failures(result_of(text).reports[0], ["R-GEN-04"]).split("\n")
    assert len(lines) == 6
    assert max(map(len, lines)) < 8000
    assert "\x1b" not in "".join(lines)


@hostile
def test_failed_client_test_shows_one_line_for_each_finding(text: str, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(report_bytes("json", result_of(text)))
    with pytest.raises(AssertionError) as broken:
        ClientUnderTest(file).check()
    lines = str(broken.value).split("\n")
    assert len(lines) == 6
    assert "\x1b" not in "".join(lines)


@hostile
def test_hostile_frames_are_judged_and_reported(text: str) -> None:
    observer = Observer()
    for fields in (
        {"method": text},
        {"id": 1, "method": "initialize", "params": {"protocolVersion": 1, text: text}},
        {"id": text, "method": "session/new", "params": {text: {text: [text]}, "cwd": text}},
    ):
        frame = json.dumps({"jsonrpc": "2.0", **fields}).encode()
        observer.receive("client", frame, 0.0)
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, text: {text: text}}}
    observer.receive("agent", json.dumps(answer).encode(), 0.0)
    observer.receive("agent", json.dumps({"jsonrpc": "2.0", "method": text}).encode(), 0.0)
    report = observer.finish()
    assert report.failed_rules()
    for form in FORMATS:
        assert len(report_bytes(form, RunResult("x", [report]))) < 600_000


def test_paths_of_problems_are_short() -> None:
    found = find_problems(InitializeRequest, {"protocolVersion": 1, "x" * 1_000_000: 1})
    assert [len(problem.path) < 200 for problem in found] == [True]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(f"<{tag} {attrs}")

    def handle_endtag(self, tag: str) -> None:
        self.found.append(f"</{tag}")

    def handle_comment(self, data: str) -> None:
        self.found.append("<!--")


def tags_in(page: str) -> list[str]:
    tags = _Tags()
    tags.feed(page)
    return tags.found


def outline(page: str) -> list[str]:
    """Return how each line of Markdown starts."""
    return [re.sub("`+ ?", "```", line)[:8] for line in page.split("\n")]


def prose_in(page: str) -> list[str]:
    """Return the lines outside of code, with code spans removed."""
    text = re.sub(r"(?ms)^ *(`{3,})$.*?^ *\1$", "", page)
    return re.sub(r"(`+) ?.*? ?(?<!`)\1(?!`)", "", text).split("\n")


def on_terminal(result: RunResult, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    out = io.StringIO()

    def console(**options: object) -> Console:
        return Console(file=out, width=100, force_terminal=False, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(show_report, "Console", console)
    monkeypatch.setattr(show_report, "Console", console)
    show_report.show_result(result, set(), set())
    return out.getvalue().split("\n")
