"""The observer: which side a finding is for, what is not a finding, and merging of reports."""

from __future__ import annotations

import pytest

from accord_conformance.judges.observer import Observer
from accord_conformance.reports.report import MAX_FAILURES, Finding, Report
from accord_conformance.rules.manifest import requirements
from accord_conformance.traffic.message import Side
from conformance.doubles.conversation import Talker
from quirk import quirk

TEXT = {"type": "text", "text": "Hello"}


def opened(version: int) -> Talker:
    talker = Talker(version)
    talker.initialize()
    talker.new()
    return talker


def test_findings_have_the_frame_that_shows_them() -> None:
    observer = Observer()
    (found,) = observer.receive("agent", b"Starting...", 1.5)
    assert (found.rule, found.passed, found.by) == ("R-STDIO-04", False, "agent")
    (frame,) = found.frames
    assert (frame.number, frame.time, frame.text) == (1, 1.5, b"Starting...")


@pytest.mark.parametrize("side", ["agent", "client"])
def test_only_the_messages_of_the_judged_side_are_judged(side: Side) -> None:
    talker = Talker(2)
    talker.observer.only = side
    talker.initialize()
    talker.new({"color": "red"}, color="red")
    image = {"type": "image", "data": "no base64", "mimeType": "image/png"}
    talker.stop(talker.prompt(image))  # the agent sends it back
    report = talker.report()
    broken = [(found.rule, found.by) for found in report.failures()]
    assert broken == [("R-GEN-12", side), ("R-CONT-06", side)]


def test_blank_lines_are_ignored() -> None:
    observer = Observer()
    assert observer.receive("agent", b"  \r") == []


@pytest.mark.parametrize("version", [1, 2])
def test_end_and_cancel_that_cross_are_not_a_finding(version: int) -> None:
    talker = opened(version)
    prompt = talker.prompt()
    talker.note("session/cancel", talker.here())
    talker.stop(prompt)
    assert list(talker.report().failures()) == []


def test_unanswered_release_at_the_end_counts_as_a_release() -> None:
    talker = opened(1)
    command = talker.here(command="make")
    talker.call("terminal/create", command, {"terminalId": "x"}, "agent")
    talker.ask("terminal/release", talker.here(terminalId="x"), "agent")
    talker.observer.end("client")
    report = talker.report()
    assert list(report.failures()) == []
    assert report.rules["R-TERM-09"].passed


def test_recording_that_starts_late_has_no_findings() -> None:
    talker = Talker(1)
    talker.answer(7, {"stopReason": "end_turn"})
    talker.update("agent_message_chunk", content={"type": "text", "text": "Hello"})
    assert list(talker.report().failures()) == []


def test_vendor_extensions_are_not_findings() -> None:
    talker = opened(2)
    talker.call("_example.com/dance", {"any": 1}, {"thing": 2})
    talker.note("$/progress", {"any": 1}, "agent")
    talker.update("_example.com/mood", mood="good")
    talker.tool(kind="_example.com/dance", _meta={"any": {"thing": 1}})
    assert list(talker.report().failures()) == []


def test_messages_after_a_false_version_2_are_judged_as_version_1() -> None:
    talker = Talker(2)
    body = {"info": None, "capabilities": None, "agentInfo": {"name": "a", "version": "1"}}
    talker.initialize(says={**body, "authMethods": []})
    talker.version = 1
    talker.new()
    talker.stop(talker.prompt())
    assert {found.rule for found in talker.report().failures()} == {"R-INIT-06"}


def test_prompt_that_an_unknown_session_echoes_before_its_response_is_echoed() -> None:
    talker = opened(2)
    there = {"sessionId": "of-nobody"}
    asked = talker.ask("session/prompt", {**there, "prompt": [TEXT]})
    for update in (
        {"sessionUpdate": "state_update", "state": "running"},
        {"sessionUpdate": "user_message", "messageId": "m", "content": [TEXT]},
    ):
        talker.note("session/update", {**there, "update": update}, "agent")
    talker.answer(asked, {"messageId": "m"})
    # The next session may be that of the update: an agent may report its state before its id.
    talker.ask("session/new", {"cwd": "/", "mcpServers": []})
    idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
    for update in ({"sessionUpdate": "state_update", "state": "running"}, idle):
        talker.note("session/update", {**there, "update": update}, "agent")
    rules = {found.rule for found in talker.report().failures()}
    assert "R-SESS-02" in rules
    assert "R-PROMPT-10" not in rules


def test_rule_without_an_occasion_is_not_exercised() -> None:
    report = opened(1).report()
    rules = requirements()
    assert report.outcome(rules["R-SESS-01"]) == "passed"
    assert report.outcome(rules["R-CANCEL-05"]) == "not exercised"
    assert "R-CANCEL-07" not in {rule.id for rule in report.applicable_rules()}  # in version 2


def test_failed_should_rule_is_a_warning() -> None:
    report = Report()
    report.add(Finding(rule="R-INIT-19", passed=False, by="agent"))
    assert report.outcome(requirements()["R-INIT-19"]) == "warned"
    assert report.failed_rules() == []
    assert report.failed_rules(strict=True) == ["R-INIT-19"]


def test_reports_of_connections_are_merged() -> None:
    whole = Report()
    for _ in range(MAX_FAILURES):
        part = Report(version=1, frames=2)
        part.add(Finding(rule="R-GEN-03", passed=False, by="agent"))
        part.add(Finding(rule="R-GEN-03", passed=False, by="agent"))
        whole.merge(part)
    assert whole.frames == 2 * MAX_FAILURES
    assert whole.rules["R-GEN-03"].failed == 2 * MAX_FAILURES
    assert len(whole.rules["R-GEN-03"].failures) == MAX_FAILURES


def test_sums_count_each_rule_once() -> None:
    report = opened(1).report()
    sums = report.by_area()
    counted = sum(
        area.passed + area.failed + area.warned + area.advised + area.not_exercised for area in sums
    )
    assert counted == len(list(report.applicable_rules()))


def test_error_for_an_id_without_method_and_result_can_have_that_id() -> None:
    talker = opened(1)
    talker.observer.receive("client", b'{"jsonrpc":"2.0","id":4712}')
    error = b'{"jsonrpc":"2.0","id":4712,"error":{"code":-32600,"message":"Invalid request"}}'
    talker.observer.receive("agent", error)
    assert [found for found in talker.report().failures() if found.by == "agent"] == []


@pytest.mark.parametrize("answer_comes_first", [False, True])
def test_request_withdrawn_at_the_close_counts_after_its_response(answer_comes_first: bool) -> None:
    talker = opened(2)
    prompt = talker.prompt()
    talker.tool()
    asked = talker.permission()
    close = talker.ask("session/close", talker.here())
    if not answer_comes_first:
        talker.note("$/cancel_request", {"requestId": asked}, "agent")
    talker.answer(asked, {"outcome": {"outcome": "cancelled"}}, "client")
    talker.tool(status="cancelled")
    talker.stop(prompt, "cancelled")
    talker.answer(close, {})
    report = talker.report()
    assert list(report.failures()) == []
    expected = "not exercised" if answer_comes_first else "passed"
    assert report.outcome(requirements()["R-SESS-34"]) == expected


@pytest.mark.parametrize("ident", ['"no name"', "77", "null"])
def test_error_with_the_id_of_a_message_without_a_method_is_not_a_finding(ident: str) -> None:
    talker = opened(1)
    talker.observer.receive("agent", f'{{"jsonrpc":"2.0","id":{ident},"method":5}}'.encode())
    error = f'{{"jsonrpc":"2.0","id":{ident},"error":{{"code":-32600,"message":"Invalid"}}}}'
    talker.observer.receive("client", error.encode())
    assert [found for found in talker.report().failures() if found.by == "client"] == []


@pytest.mark.parametrize(
    ("asked", "answered", "fits"),
    [("7.0", "7", True), ("7", "7.0", True), ("1e1", "10", True), ("7", '"7"', False)],
)
def test_ids_are_equal_if_their_json_values_are(asked: str, answered: str, fits: bool) -> None:
    talker = opened(1)
    call = f'{{"jsonrpc":"2.0","id":{asked},"method":"_accord/any","params":{{}}}}'
    talker.observer.receive("client", call.encode())
    reply = f'{{"jsonrpc":"2.0","id":{answered},"result":{{}}}}'
    talker.observer.receive("agent", reply.encode())
    broken = {found.rule for found in talker.report().failures() if found.by == "agent"}
    assert broken == (set() if fits else {"R-GEN-06"})


@quirk("null-beside-result")
@pytest.mark.parametrize(
    "members",
    ['"result":{"any":1},"error":null', '"result":null,"error":{"code":-32601,"message":"No"}'],
)
def test_null_member_next_to_the_other_one_is_absent(members: str) -> None:
    talker = opened(1)
    ident = talker.ask("_accord/any", {})
    reply = f'{{"jsonrpc":"2.0","id":{ident},{members}}}'
    talker.observer.receive("agent", reply.encode())
    assert list(talker.report().failures()) == []


@quirk("null-result")
def test_null_for_an_empty_result_is_the_only_finding() -> None:
    talker = opened(1)
    talker.call("session/close", talker.here(), None)
    assert {found.rule for found in talker.report().failures()} == {"R-GEN-10"}
