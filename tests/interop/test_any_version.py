"""A complete turn of `accord.Agent` and `accord.connect` with the official SDKs, in v1 and v2."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interop.turns import PEERS, PERMISSION, SENTENCE, Peer, after_v1, after_v2, run
from requirement import requirement

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="runs a shell script and sleep"),
]

OURS = replace(PEERS[1]["accord"], agent="accord_agent_any.py", client="accord_client_any.py")
OFFICIAL = {version: [name for name in PEERS[version] if name != "accord"] for version in (1, 2)}
NOTES = "first\nsecond\nthird\n"
MISSING = -32601  # code for both versions has no extension methods
SAW = {"permission": "yes", "read": "second\n", "exitCode": 0, "output": "2 passed\n"}


def firsts(items: list[str]) -> list[str]:
    return list(dict.fromkeys(items))


def plain(report: dict[str, Any]) -> dict[str, Any]:
    """Remove the numbers from ids, and repetitions from updates."""
    report = report | {"updates": firsts(report["updates"])}
    for name in ("said", "titles"):
        if name in report:
            report[name] = list(report[name].values())
    text = re.sub(r"\b(tool|message|session|terminal)-[0-9a-f]+\b", r"\1", json.dumps(report))
    report = json.loads(text)
    if "leftTerminals" in report:
        # Not deterministic: whether the first wait for `sleep` is sent before its timeout, and when
        # a terminal without a waiting request is released.
        report["calls"] = sorted(set(report["calls"]))
    return report


def agent_v1() -> dict[str, Any]:
    wire = after_v1(OURS)
    updates = [name for name in wire["updates"] if name != "current_mode_update"]
    return wire | {
        "modeAtAnswer": None,  # the client that sets the mode knows it
        "echo": MISSING,
        "saw": SAW | {"signal": "SIGKILL"},
        "updates": firsts(["config_option_update", *updates]),
        "calls": [
            *("create", "kill", "output"),
            PERMISSION.format("tool"),
            *("read", "release", "wait", "write"),
        ],
        "terminal": "terminal",
    }


def agent_v2(client: Peer) -> dict[str, Any]:
    asked = "Edit notes.txt?,tool_call,tool,reject_once,allow_once"
    wire = after_v2(OURS, client)
    return wire | {
        "echo": MISSING,
        "messages": ["message"] * 3,
        "saw": SAW | {"signal": "SIGTERM"},
        "said": [SENTENCE, "waiting"],
        "terminal": {
            "command": "sleep 60",
            "id": "terminal",
            "exitCode": 0,
            "output": "2 passed\n",
        },
        "updates": [
            "user_message",
            "state_update running",
            "agent_thought_chunk",
            "plan_update",
            "available_commands_update",
            "tool_call_update",
            "state_update requires_action",
            "tool_call_content_chunk",
            "terminal_update",
            "terminal_output_chunk",
            "session_info_update",
            "usage_update",
            "agent_message_chunk",
            "state_update idle",
        ],
        "calls": [asked, asked, "withdrawn"],
        "echoed": [["message", "work"], ["message", "wait"], ["message", "ask"]],
        "titles": ["Edit notes.txt", "pytest -q", "sleep 60", "Edit notes.txt"],
        "plan": ["main", "completed", "completed"],
        "commands": ["test"],
        "sessions": ["session"],
    }


def client_report(agent: Peer, version: int) -> dict[str, Any]:
    """Return the expected output of accord_client_any.py."""
    wire = after_v1(agent)
    v2 = version == 2
    untagged = v2 and agent.calls_itself == "python"  # see after_v2
    saw = wire["saw"] | {"echo": MISSING, "signal": "SIGTERM"}
    return {
        "version": version,
        "agent": agent.calls_itself,
        "embeddedContext": True,
        "modes": ["ask", "code"],
        "mode": "code",
        "echo": 1,
        "missing": MISSING,
        "stops": wire["stops"],
        "events": [
            *(
                "AgentTerminal",
                "CommandsChanged",
                "ContentChunk",
                "PermissionDecided",
                "Plan",
                "StateChanged",
            ),
            *("TerminalOutputChunk", "Text", "Thought", "TitleChanged", "ToolCall"),
            *("UsageChanged", "UserText"),
        ],
        "sentence": SENTENCE.strip(),
        "saw": {key: saw[key] for key in ("permission", "echo")} if v2 else saw,
        "said": "waiting",
        "asked": [f"edit-{number} reject_once,allow_once" for number in (1, 2)],
        "calls": {
            "edit-1": "edit completed",
            "run-1": "execute completed",
            # In v2 it occurs only in the permission request, and has no kind.
            "edit-2": "other cancelled" if v2 else "edit cancelled",
        },
        "thoughts": ["Let me look."],
        "prompts": ["work", "wait", "ask"],
        "plan": wire["plan"],
        "commands": [] if untagged else ["test"],
        "rawInput": wire["rawInput"],
        "diff": ["notes.txt"],
        "output": ["2 passed ✓\n"] if v2 else ["2 passed\n", ""],
        "title": wire["title"],
        "usage": [10, 100],
        "notes": NOTES if v2 else wire["notes"],
    }


@requirement("R-FS-01", "R-TERM-09", "R-CANCEL-05", "R-CANCEL-06")
@pytest.mark.parametrize("client", OFFICIAL[1])
def test_one_agent_runs_a_complete_turn_with_every_v1_client(client: str, tmp_path: Path):
    notes = tmp_path / "notes.txt"
    notes.write_text(NOTES)
    assert plain(run(PEERS[1][client], OURS, tmp_path)) == agent_v1()
    assert notes.read_text() == NOTES, "the client's files were offered"


@requirement("R-CANCEL-05", "R-CANCEL-06")
@pytest.mark.parametrize("client", OFFICIAL[2])
def test_the_same_agent_runs_a_complete_turn_with_every_v2_client(client: str, tmp_path: Path):
    notes = tmp_path / "notes.txt"
    notes.write_text(NOTES)
    peer = PEERS[2][client]
    assert plain(run(peer, OURS, tmp_path)) == agent_v2(peer)
    assert notes.read_text() == NOTES.replace("second", "SECOND")


AGENTS = [(version, name) for version in (1, 2) for name in OFFICIAL[version]]


@requirement("R-INIT-14", "R-INIT-15", "R-FS-01", "R-CANCEL-05")
@pytest.mark.parametrize(("version", "agent"), AGENTS)
def test_one_client_runs_a_complete_turn_with_every_agent(version: int, agent: str, tmp_path: Path):
    peer = PEERS[version][agent]
    assert run(OURS, peer, tmp_path) == client_report(peer, version)


@pytest.mark.parametrize("said", [1, 2])
def test_one_client_finds_the_version_of_an_agent(said: int, tmp_path: Path):
    """The agent with both versions uses v2; the one that repeats the version has v1 only."""
    both = replace(PEERS[2]["typescript"], agent="peers/ts_agent_both.mjs")
    echo = replace(PEERS[1]["python-1.0"], agent_options=("--echo-version",))
    peer = both if said == 2 else echo
    assert run(OURS, peer, tmp_path) == client_report(peer, said)
