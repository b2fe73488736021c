"""The page of compatibility is made from the recordings, and agrees with the table of quirks."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accord.client.budget import REPORTS
from accord.errors import ProtocolError
from accord.rules.quirks import QUIRKS, quirks_of
from accord_trace import Recording, open_trace
from accord_trace.records import Direction
from recordings.agents import AGENTS, ON, SETTINGS, recordings_of
from recordings.compatibility import DATA, DETECTORS, HERE, left_open, messages, report, task_of
from recordings.fake_model import NO_TOOL
from recordings.record import FAILURES, options_of, reason_of

CLIENTS = sorted(HERE.glob("clients/*.acp.jsonl"))


def test_data_is_up_to_date() -> None:
    expected = json.dumps(report(), indent=2, ensure_ascii=False) + "\n"
    assert DATA.read_text("utf-8") == expected, "python tests/recordings/compatibility.py"


def test_detectors_are_of_the_table() -> None:
    assert DETECTORS.keys() <= QUIRKS.keys()


@pytest.mark.parametrize("run", report()["agents"], ids=lambda run: run["recording"])
def test_seen_quirk_is_known_of_the_program(run: dict[str, Any]) -> None:
    found = messages(HERE / run["recording"])
    answer = next(one for one in found if one.kind == "response" and one.method == "initialize")
    info = answer.value.get("agentInfo") or answer.value.get("info") or {}
    known = {row.id for row in quirks_of(info.get("name", ""))}
    assert set(run["quirks"]) <= known


def test_agents_that_are_known_to_report_what_they_use_have_done_so() -> None:
    """`accord.client.budget.REPORTS` is what the recordings show, and no more."""
    shown: dict[str, set[str]] = {}
    for path in HERE.glob("*.acp.jsonl"):
        found = messages(path)
        answer = next(one for one in found if one.kind == "response" and one.method == "initialize")
        info = answer.value.get("agentInfo") or answer.value.get("info") or {}
        reports = shown.setdefault(info.get("name", "").lower(), set())
        text = path.read_text("utf-8")
        reports |= {"tokens"} if re.search(r'"totalTokens": ?[1-9]', text) else set()
        reports |= {"cost"} if re.search(r'"cost": ?\{"amount": ?0?[.1-9]', text) else set()
    shown = {name: found for name, found in shown.items() if found}
    assert shown.items() >= {name: set(found) for name, found in REPORTS.items()}.items()


def test_programs_of_others_are_recorded_as_agents_and_as_clients() -> None:
    made = report()
    assert len({run["program"] for run in made["agents"]} - {"Accord"}) >= 9
    assert len(made["clients"]) >= 6
    assert all(run["version"] for side in ("agents", "clients") for run in made[side])


def test_every_agent_is_recorded_in_every_setting_or_listed_with_its_failure() -> None:
    expected = {name for known in AGENTS for name in recordings_of(known)}
    recorded = {path.name.removesuffix(".acp.jsonl") for path in HERE.glob("*.acp.jsonl")}
    failed = set(json.loads(FAILURES.read_text("utf-8")))
    assert recorded | failed == expected
    assert not recorded & failed
    by_others = [known for known in AGENTS if known.version == 1 and not known.has_link]
    assert all(known.settings == SETTINGS for known in by_others)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), "a turn did not end within 60 s"),
        (TimeoutError("the agent did not start"), "the agent did not start"),
        (ProtocolError("exited with status 1"), "exited with status 1"),
    ],
)
def test_failure_has_a_reason_in_words(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
    assert not any("Error" in text for text in json.loads(FAILURES.read_text("utf-8")).values())


def test_page_names_the_agents_that_one_row_per_setting_does_not_describe() -> None:
    page = " ".join(DATA.with_suffix(".md").read_text("utf-8").split())
    (named,) = re.findall(r"Both are used by (.+?)\. This repeats", page)
    both = {
        run["program"]
        for run in report()["agents"]
        if any(name.startswith("fs/") for name in run["uses"])
        and any(name.startswith("terminal/") for name in run["uses"])
    }
    assert set(re.split(", | and ", named)) == both


every_run = pytest.mark.parametrize("run", report()["agents"], ids=lambda run: run["recording"])


@every_run
def test_row_names_the_setting_that_the_recording_was_made_in(run: dict[str, Any]) -> None:
    name = run["recording"].removesuffix(".acp.jsonl")
    (setting,) = [made[name] for made in map(recordings_of, AGENTS) if name in made]
    offered = {"files": setting.files, "terminals": setting.terminals}
    assert run["offered"] == (offered if run["protocol"] == 1 else None)
    program, _, arguments = run["command"].partition("record.py ")
    assert program == "python tests/recordings/"
    options = options_of(arguments.split())
    assert (options.name, options.setting) == ([name.partition(".")[0]], setting.name)


@every_run
def test_row_does_not_claim_what_the_client_did_not_offer(run: dict[str, Any]) -> None:
    """A feature that was off, or a call that was refused, is not shown as one that works."""
    offered = run["offered"] or {"files": False, "terminals": False}
    served = set(run["uses"]) - set(run["refused"])
    for task, feature, family in (
        ("file", "files", "fs/"),
        ("shell_command", "terminals", "terminal/"),
    ):
        if not offered[feature]:
            assert run[task]["by"] != "client"
            assert not [name for name in served if name.startswith(family)]
    if run["file"]["by"] != "not asked":
        assert run["no_cancel"] or run["cancels"]


@pytest.mark.parametrize("path", CLIENTS, ids=lambda path: path.name)
def test_recording_of_a_client_is_read_without_problems(path: Path) -> None:
    trace = open_trace(path)
    assert {record.method for record in trace} >= {"initialize", "session/new", "session/prompt"}
    assert trace.problems == []
    assert trace.header.redacted


TO_AGENT, TO_CLIENT = "to_agent", "to_client"
NEW = [
    (TO_AGENT, {"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}),
    (TO_CLIENT, {"id": 1, "result": {"sessionId": "s"}}),
]
PROMPT = (TO_AGENT, {"id": 2, "method": "session/prompt", "params": {"sessionId": "s"}})
Frames = list[tuple[Direction, dict[str, Any]]]


def update(kind: str, session: str = "s", **fields: Any) -> tuple[str, dict[str, Any]]:
    params = {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}
    return TO_CLIENT, {"method": "session/update", "params": params}


def initialize(result: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    request = {"id": 0, "method": "initialize", "params": {"protocolVersion": 2}}
    return [(TO_AGENT, request), (TO_CLIENT, {"id": 0, **result})]


WRITE = (TO_CLIENT, {"id": 7, "method": "fs/write_text_file", "params": {"sessionId": "s"}})
WRITTEN = (TO_AGENT, {"id": 7, "result": {}})
REFUSED = (TO_AGENT, {"id": 7, "error": {"code": -32601, "message": "Method not found"}})
ENDED = (TO_CLIENT, {"id": 2, "result": {"stopReason": "end_turn"}})
FAILED = update("tool_call_update", toolCallId="t", status="failed", content=[{"text": "No. Way"}])
COMPLETED = update("tool_call_update", toolCallId="t", status="completed")
SAID = update("agent_message_chunk", content={"type": "text", "text": NO_TOOL})


@pytest.mark.parametrize(
    ("is_done", "frames", "by", "reason"),
    [
        (True, [WRITE, WRITTEN, COMPLETED, ENDED], "client", ""),
        (True, [COMPLETED, ENDED], "agent", ""),
        (True, [WRITE, REFUSED, COMPLETED, ENDED], "agent", ""),
        (False, [WRITE, WRITTEN, COMPLETED, ENDED], "failed", ""),
        (False, [COMPLETED, ENDED], "failed", ""),
        (False, [FAILED, ENDED], "failed", "No. Way"),
        (False, [SAID, ENDED], "no tool", ""),
        (None, [COMPLETED, ENDED], "not asked", ""),
    ],
)
def test_task_was_done_only_if_it_was_found_on_the_disk(
    is_done: bool | None, frames: list[tuple[str, Any]], by: str, reason: str, tmp_path: Path
) -> None:
    outcome: dict[str, Any] = {"no_cancel": "it is short"}
    outcome |= {} if is_done is None else {"file": is_done}
    found = messages(saved([*NEW, PROMPT, *frames], tmp_path))
    assert task_of(found, outcome, "file") == {"by": by, "reason": reason}


CALL = update("tool_call", toolCallId="t", title="Write", status="pending")


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([CALL, ENDED], ["Write"]),
        ([CALL, COMPLETED, ENDED], []),
        ([CALL, FAILED, ENDED], []),
        ([CALL, (TO_CLIENT, {"id": 2, "result": {"stopReason": "cancelled"}})], []),
    ],
)
def test_tool_call_without_a_final_status_is_left_open(
    frames: list[tuple[str, Any]], expected: list[str], tmp_path: Path
) -> None:
    assert left_open(messages(saved([*NEW, PROMPT, *frames], tmp_path))) == expected


def test_agent_without_a_cancel_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        replace(AGENTS[0], slow=None)
    assert recordings_of(AGENTS[0])[AGENTS[0].name] is ON


def saved(frames: list[tuple[str, Any]], folder: Path) -> Path:
    path = folder / "r.acp.jsonl"
    with Recording(path) as recording:
        hop = recording.hop()
        for direction, frame in frames:
            text = (
                frame
                if isinstance(frame, bytes)
                else json.dumps({"jsonrpc": "2.0", **frame}).encode()
            )
            hop.frames(direction, [text])  # pyright: ignore[reportArgumentType]
    return path


def seen(frames: list[tuple[str, Any]], folder: Path) -> set[str]:
    found = messages(saved(frames, folder))
    return {name for name, detect in DETECTORS.items() if detect(found)}


@pytest.mark.parametrize(
    ("quirk", "frames"),
    [
        ("false-v2", initialize({"result": {"protocolVersion": 2, "agentCapabilities": {}}})),
        ("v2-refused-as-invalid", initialize({"error": {"code": -32602, "message": "no"}})),
        ("version-refused-code", initialize({"error": {"code": -32001, "message": "no"}})),
        ("early-methods", [(TO_CLIENT, {"id": 1, "method": "fs/readTextFile", "params": {}})]),
        (
            "mode-key",
            [(TO_AGENT, {"id": 1, "method": "session/set_mode", "params": {"mode": "x"}})],
        ),
        ("current-mode-key", [*NEW, update("current_mode_update", modeId="x")]),
        ("updates-before-session", [update("plan", entries=[]), *NEW]),
        ("prompt-echoed", [*NEW, PROMPT, update("user_message_chunk")]),
        ("unannounced-tool-call", [*NEW, update("tool_call_update", toolCallId="t")]),
        ("null-result", [*NEW, PROMPT, (TO_CLIENT, {"id": 2, "result": None})]),
        ("unknown-updates", [*NEW, update("something_new")]),
        ("noise-on-stdout", [(TO_CLIENT, b"Welcome!")]),
        (
            "mcp-server-shapes",
            [
                (
                    TO_AGENT,
                    {"id": 1, "method": "session/new", "params": {"mcpServers": [{"env": {}}]}},
                )
            ],
        ),
        (
            "mode-without-category",
            [
                NEW[0],
                (
                    TO_CLIENT,
                    {"id": 1, "result": {"modes": {}, "configOptions": [{"id": "mode"}]}},
                ),
            ],
        ),
        (
            "set-model",
            [NEW[0], (TO_CLIENT, {"id": 1, "result": {"sessionId": "s", "models": {}}})],
        ),
        (
            "error-after-cancel",
            [
                *NEW,
                PROMPT,
                (TO_AGENT, {"method": "session/cancel", "params": {"sessionId": "s"}}),
                (TO_CLIENT, {"id": 2, "error": {"code": -32603, "message": "cancelled"}}),
            ],
        ),
        (
            "idle-without-reason",
            [*NEW, update("state_update", state="running"), update("state_update", state="idle")],
        ),
        (
            "shell-line",
            [(TO_CLIENT, {"id": 1, "method": "terminal/create", "params": {"command": "ls -l"}})],
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_quirk_is_detected(quirk: str, frames: list[tuple[str, Any]], tmp_path: Path) -> None:
    assert quirk in seen(frames, tmp_path)


def test_every_detector_has_an_example() -> None:
    (mark,) = [one for one in test_quirk_is_detected.pytestmark if one.name == "parametrize"]  # type: ignore[attr-defined]
    assert {quirk for quirk, _ in mark.args[1]} == DETECTORS.keys()


def test_bundled_agents_have_no_quirk() -> None:
    for name in ("accord-coder", "accord-script", "accord-script.off"):
        found = messages(HERE / f"{name}.acp.jsonl")
        assert [quirk for quirk, detect in DETECTORS.items() if detect(found)] == []
