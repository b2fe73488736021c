"""The authority of each rule: only the protocol's own rules decide the result."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import accord_conformance
from accord_conformance.cli.show_report import show_failures, show_rules
from accord_conformance.reports.formats import report_bytes
from accord_conformance.reports.report import EXIT_FAILED, Finding, Report, RunResult, verdict
from accord_conformance.rules.manifest import (
    AUTHORITIES,
    Requirement,
    links,
    requirements,
    rule_files,
)
from conformance.doubles.conversation import Talker
from project import ROOT
from schema import official

PAGES = ROOT / "docs/explanation"
RULES = requirements().values()
PAIRS = [(rule, version) for rule in RULES for version in rule.versions]


def rows() -> dict[str, dict[str, Any]]:
    """Return the rows of the rule files."""
    files = [tomllib.loads(path.read_text("utf-8")) for path in rule_files()]
    return {name: row for file in files for name, row in file.items() if isinstance(row, dict)}


def opened(version: int) -> Talker:
    """Return a conversation with an open session."""
    talker = Talker(version)
    talker.initialize()
    talker.new()
    return talker


def broken_in(rule: Requirement, version: int, **more: Any) -> Report:
    """Return a report in which only this rule failed."""
    report = Report(version=version)
    by = "client" if rule.who == "client" else "agent"
    report.add(Finding(rule=rule.id, passed=False, by=by, expected="a", got="b", **more))
    return report


# What a judge reports can decide the exit status.
DECIDING = [
    (rule, version)
    for rule, version in PAIRS
    if rule.is_must and rule.is_normative(version) and rule.how in ("checked", "observed")
]
SECTION = re.compile(
    r"(draft/)?[a-z0-9-]+(#[a-z0-9_-]+)?|(rfds/(v2/)?[a-z0-9-]+|json-rpc)#[a-z0-9_-]+"
)
URL = re.compile(
    r"https://(agentclientprotocol\.com/(protocol/v[12]|rfds)/|www\.jsonrpc\.org/specification#)"
    r"[\w./#-]+"
)


def test_every_row_has_an_authority_for_each_of_its_versions() -> None:
    found = rows()
    assert found.keys() == requirements().keys()
    for name, row in found.items():
        said = row.get("authority")
        assert said is not None, name
        if isinstance(said, dict):
            assert set(said) == {f"v{version}" for version in row["versions"]}, name
        for version in row["versions"]:
            assert requirements()[name].authority_in(version) in AUTHORITIES, name


def test_deciding_rules_name_the_place_that_demands_them() -> None:
    assert len(DECIDING) > 450
    for rule, version in DECIDING:
        demand = rule.demand_in(version)
        assert demand.place, (rule.id, version)
        assert 0 < len(demand.words) <= 100, (rule.id, version)
        assert rule.decides(version)


def test_places_in_the_text_are_links_of_a_known_form() -> None:
    for rule, version in PAIRS:
        demand = rule.demand_in(version)
        if demand.place:
            assert demand.kind in ("schema", "text"), rule.id
            assert URL.fullmatch(demand.url), (rule.id, demand.url)
        if demand.place and demand.kind == "text":
            assert SECTION.fullmatch(demand.place), (rule.id, demand.place)


@pytest.mark.parametrize("version", [1, 2])
def test_places_in_the_schema_exist(version: int) -> None:
    official.require()
    stable, unstable = (
        official.load(f"v{version}", unstable=draft)["$defs"] for draft in (False, True)
    )
    for rule in RULES:
        demand = rule.demand.get(version)
        if demand is None or demand.kind != "schema" or not demand.place:
            continue
        name, _, member = demand.place.partition(".")
        found = unstable if rule.stability != "stable" else stable
        assert name in found, (rule.id, demand.label)
        if member:
            assert member in found[name].get("properties", {}), (rule.id, demand.label)


@pytest.mark.parametrize("version", [1, 2])
def test_only_a_must_of_the_protocol_decides_the_exit_status(version: int) -> None:
    rules = [rule for rule, of in PAIRS if of == version]
    deciding = {rule.id for rule in rules if rule.decides(version)}
    whole, harmless = Report(version=version), Report(version=version)
    for rule in rules:
        report = broken_in(rule, version)
        whole.merge(report)
        if rule.id not in deciding:
            harmless.merge(report)
        weak = rule.authority_in(version) in ("sdk", "derived")
        undemanded = rule.is_must and rule.id not in deciding
        assert (report.outcome(rule) == "advised") == (weak or undemanded), rule.id
    assert set(whole.failed_rules()) == deciding
    assert set(whole.failed_rules(strict=True)) == {rule.id for rule in rules}
    for broken, strict, status in (
        (harmless, False, 0),
        (harmless, True, EXIT_FAILED),
        (broken_in(requirements()["R-GEN-06"], version), False, EXIT_FAILED),
    ):
        assert verdict(RunResult("agent", [broken], strict=strict)).status == status


@pytest.mark.parametrize("name", ["R-SESS-37", "R-AUTH-24", "R-REQCAN-10", "R-ERR-03", "R-FS-09"])
def test_what_no_text_demands_never_decides(name: str) -> None:
    rule = requirements()[name]
    for version in rule.versions:
        report = broken_in(rule, version)
        assert report.outcome(rule) == "advised"
        assert report.failed_rules() == []
        assert report.demand(rule) is None


def test_finding_that_the_demand_does_not_cover_is_advice() -> None:
    rule = requirements()["R-GEN-11"]
    report = broken_in(rule, 1, authority="derived")
    assert report.outcome(rule) == "advised"
    assert report.demand(rule) is None
    assert broken_in(rule, 1).outcome(rule) == "failed"


@pytest.mark.parametrize("form", ["json", "markdown", "html", "junit"])
def test_reports_print_what_demands_a_failed_rule(form: str) -> None:
    reports = [broken_in(requirements()["R-GEN-06"], 1), broken_in(requirements()["R-GEN-05"], 2)]
    page = report_bytes(form, RunResult("agent", reports)).decode()
    assert "v1 schema: RequestId" in page
    assert "v2 docs: overview#error-handling" in page
    assert "a notification never gets a response" in page
    if form != "junit":
        assert "https://agentclientprotocol.com/protocol/v1/schema#requestid" in page
        assert "https://agentclientprotocol.com/protocol/v2/overview#error-handling" in page


def test_terminal_prints_what_demands_a_failed_rule(capsys: pytest.CaptureFixture[str]) -> None:
    show_failures(broken_in(requirements()["R-GEN-06"], 1))
    shown = capsys.readouterr().out
    assert "v1 schema: RequestId: the response has the same value" in shown
    assert "https://agentclientprotocol.com/protocol/v1/schema#requestid" in shown
    show_rules([requirements()["R-GEN-06"]])
    assert "v2 schema: RequestId: the response has the same value" in capsys.readouterr().out


def test_authority_follows_from_the_named_source() -> None:
    for rule in RULES:
        kinds = {
            "schema": "schema" in rule.source,
            "text": bool(re.search(r"v[12] docs|RFD|site", rule.source)),
            "sdk": "SDK" in rule.source,
            "derived": True,
        }
        for version, authority in rule.authority.items():
            # A schema also describes in prose what its types express.
            named = kinds[authority] or rule.id in SAID_BY_THE_SCHEMA or rule.decides(version)
            assert named, (rule.id, version, authority)
        if not (kinds["schema"] or kinds["text"]):
            assert not any(map(rule.is_normative, rule.versions)), rule.id


# The named pages describe a field that the schema describes in the same way.
SAID_BY_THE_SCHEMA = {"R-MCP-10"}


@pytest.mark.parametrize(
    ("name", "version", "authority"),
    [
        ("R-GEN-09", 1, "sdk"),
        ("R-GEN-09", 2, "sdk"),
        ("R-BATCH-10", 1, "sdk"),
        ("R-BATCH-10", 2, "sdk"),
        ("R-MCP-12", 1, "derived"),
        ("R-MCP-12", 2, "derived"),
        ("R-ERR-03", 1, "derived"),
        ("R-ERR-03", 2, "derived"),
        ("R-AUTH-09", 1, "derived"),
        ("R-INIT-06", 1, "text"),
        ("R-GEN-12", 1, "text"),
    ],
)
def test_rules_that_many_agents_violate_were_reviewed_individually(
    name: str, version: int, authority: str
) -> None:
    assert requirements()[name].authority_in(version) == authority


def test_without_a_negotiated_version_the_weakest_authority_counts() -> None:
    assert requirements()["R-PERM-05"].authority_in(None) == "derived"
    assert requirements()["R-GEN-03"].authority_in(None) == "text"


def test_misplaced_protocol_key_is_an_advisory_and_a_custom_key_is_not() -> None:
    talker = opened(1)
    talker.tool(subagents={})  # in the unstable schema
    report = talker.report()
    assert report.outcome(requirements()["R-GEN-12"]) == "advised"
    assert report.failed_rules() == []
    assert report.failed_rules(strict=True) == ["R-GEN-12"]
    talker = opened(1)
    talker.tool(subagents={}, color="red")
    assert talker.report().failed_rules() == ["R-GEN-12"]


def test_agent_without_tool_call_cancellation_has_an_advisory_and_a_wrong_error_does_not() -> None:
    for code, outcome in ((-32601, "advised"), (-32603, "failed")):
        talker = opened(2)
        talker.refused("tool_call/cancel", talker.here(toolCallId="none"), code)
        report = talker.report()
        assert report.outcome(requirements()["R-TCAN-05"]) == outcome


def test_advisories_are_kept_when_connections_are_merged() -> None:
    rule = requirements()["R-GEN-12"]
    whole = Report(version=1)
    for _ in range(2):
        whole.merge(broken_in(rule, 1, authority="derived"))
    assert (whole.outcome(rule), whole.authority(rule)) == ("advised", "derived")
    whole.merge(broken_in(rule, 1))
    assert (whole.outcome(rule), whole.authority(rule)) == ("failed", "text")


def test_sources_are_links_unless_derived() -> None:
    for rule, version in PAIRS:
        found = links(rule, version)
        assert found, rule.id
        for link in found:
            assert link.label in rule.source
            assert link.url.startswith("https://") or link.label == "derived", (rule.id, link)
    urls = [link.url for link in links(requirements()["R-SESS-14"], 2)]
    assert urls == [
        "https://agentclientprotocol.com/protocol/v2/schema",
        "https://agentclientprotocol.com/protocol/v2/session-setup",
    ]
    assert [link.label for link in links(requirements()["R-GEN-01"], 1)] == ["v1 docs: overview"]


def test_rules_that_real_agents_violate_have_a_hint() -> None:
    page = (PAGES / "conformance-findings.md").read_text("utf-8")
    named = set(re.findall(r"R-[A-Z]+-\d+", page))
    assert sorted(name for name in named if not requirements()[name].hint) == []


def test_page_counts_the_rules_by_authority() -> None:
    words = " ".join((PAGES / "conformance.md").read_text("utf-8").split())
    musts = [rule for rule in RULES if rule.is_must]
    deciding = {rule.id for rule, _ in DECIDING}
    assert f"{len(deciding)} of the {len(musts)} MUST rules" in words


# The rules and the probes: what a probe sends and expects was compared with the place that its rule
# prints. A probe that the place does not cover has `authority="derived"`, and is not here; one that
# may also get another error has `code_authority`.
REVIEWED = {
    ("R-ARCH-05", "an unknown session"),
    ("R-ARCH-05", "archiving a session{why}"),
    ("R-ARCH-05", "unarchiving a session{why}"),
    ("R-CANCEL-13", "a prompt that was not inserted when the session was cancelled"),
    ("R-CONF-14", "options of unknown categories"),
    ("R-CONT-03", "an image, a sound, a resource and a link"),
    ("R-ELIC-08", "a form without `type` and `properties`"),
    ("R-ELIC-20", "a text of an unknown format"),
    ("R-ELIC-30", "the completion of a declined elicitation"),
    ("R-ELIC-30", "the completion of an unknown elicitation"),
    ("R-EXT-12", "a malformed subject of a known type"),
    ("R-EXT-12", "{why}"),
    ("R-GEN-08", "a permission request with unknown keys"),
    ("R-GEN-08", "a session with an unknown key"),
    ("R-GEN-08", "unknown keys in updates"),
    ("R-GEN-08", "updates of unknown kinds"),
    ("R-GEN-11", "malformed values that the schema tolerates"),
    ("R-MCP-01", "a session with an MCP server on stdio"),
    ("R-PERM-09", "a permission request without a subject"),
    ("R-PLAN-10", "plans as Markdown and files, and their removal"),
    ("R-PROMPT-27", "a held prompt of a closed session"),
    ("R-SESS-21", "closing a session during its turn"),
    ("R-SYSP-02", "text to append"),
    ("R-SYSP-03", "a mode that is not offered"),
    ("R-SYSP-03", "an unknown mode"),
    ("R-SYSP-03", "content of an unknown type"),
    ("R-SYSP-04", "text to append"),
    ("R-TITLE-02", "a title for a listed session"),
    ("R-TITLE-02", "a title for an open session"),
    ("R-TITLE-02", "an unknown session"),
    ("R-TITLE-03", "{why}"),
    ("R-TOOL-23", "diffs without a patch"),
}


def test_probes_that_decide_the_exit_status_were_reviewed_individually() -> None:
    files = Path(accord_conformance.__file__).parent.glob("*/scenarios/*.py")
    probes = {probe for path in files for probe in deciding_probes(path.read_text("utf-8"))}
    assert sorted(probes) == sorted(REVIEWED)


def deciding_probes(source: str) -> Iterator[tuple[str, str]]:
    """Yield the rules and the descriptions of the probes in a file of scenarios."""
    for scenario in ast.parse(source).body:
        nodes = [node for node in ast.walk(scenario) if isinstance(node, ast.Assign | ast.Call)]
        assigned: dict[str, ast.expr] = {}
        for node in sorted(nodes, key=lambda node: node.lineno):
            if isinstance(node, ast.Call):
                if is_probe(node):
                    yield from deciding_probe(node, assigned)
            elif isinstance(node.targets[0], ast.Name):
                assigned[node.targets[0].id] = node.value


def is_probe(call: ast.Call) -> bool:
    name = ast.unparse(call.func).rpartition(".")[2].removeprefix("_")
    return name in ("expect_alive", "expect_success", "expect_error")


def deciding_probe(call: ast.Call, assigned: dict[str, ast.expr]) -> Iterator[tuple[str, str]]:
    options = {option.arg: option.value for option in call.keywords}
    if ast.unparse(options.pop("authority", ast.Constant(None))) == "'derived'":
        return
    options.pop("code_authority", None)
    parts = [
        assigned.get(part.id, part) if isinstance(part, ast.Name) else part
        for part in (*call.args, *options.values())
    ]
    named = {name for part in parts for name in re.findall(r"R-[A-Z]+-\d+", ast.unparse(part))}
    assert named, ast.unparse(call)
    texts = [ast.unparse(part) for part in parts]
    (what,) = [
        text.lstrip("f").strip("'\"")
        for text in texts
        if text.startswith(("'", '"', "f'", 'f"')) and "R-" not in text
    ] or ["{why}"]
    for rule in map(requirements().__getitem__, named):
        if any(map(rule.decides, rule.versions)):
            yield rule.id, what
