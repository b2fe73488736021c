"""The programs of all implementations, and the output of a client after its turn."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
LIMIT_S = 40
VENV_BIN = "Scripts" if os.name == "nt" else "bin"


@dataclass(frozen=True)
class Peer:
    """One implementation: the commands of its programs, and its name."""

    calls_itself: str
    runner: tuple[str, ...]
    agent: str
    client: str
    needs: tuple[Path, ...] = ()
    agent_options: tuple[str, ...] = ()
    client_options: tuple[str, ...] = ()

    def start_agent(self) -> list[str]:
        return [*self.runner, str(HERE / self.agent), *self.agent_options]

    def start_client(self) -> list[str]:
        return [*self.runner, str(HERE / self.client), *self.client_options]


def python(name: str) -> Path:
    return HERE / ".venvs" / name / VENV_BIN / "python"


def official(suffix: str) -> dict[str, Peer]:
    typescript = Peer(
        "typescript",
        (shutil.which("node") or "node",),
        f"peers/ts_agent{suffix}.mjs",
        f"peers/ts_client{suffix}.mjs",
        (
            HERE / "node_modules/@agentclientprotocol/sdk/package.json",
            Path(shutil.which("node") or "node"),
        ),
    )
    peers = {"typescript": typescript}
    for name in ("python-0.12", "python-1.0"):
        interpreter = python(name)
        peers[name] = Peer(
            "python",
            (str(interpreter),),
            f"peers/py_agent{suffix}.py",
            f"peers/py_client{suffix}.py",
            (interpreter,),
        )
    if suffix:
        del peers["python-0.12"]  # it has no v2
    return peers


OURS = (sys.executable, "-W", "error")
PEERS = {
    1: official("") | {"accord": Peer("accord", OURS, "accord_agent.py", "accord_client.py")},
    2: official("_v2") | {"accord": Peer("accord", OURS, "accord_agent.py", "accord_client_v2.py")},
}


def require(*peers: Peer) -> None:
    """Skip a test whose peers are not installed, or fail if they are required."""
    for path in (path for peer in peers for path in peer.needs):
        if path.exists():
            continue
        why = f"{path} is missing: run tests/interop/install.sh"
        if os.environ.get("ACCORD_REQUIRE_INTEROP") == "1":
            pytest.fail(why)
        pytest.skip(why)


def tapped(frames: Path, command: Sequence[str]) -> list[str]:
    """Return the command that runs a program and records its frames in a file."""
    return [sys.executable, str(HERE / "tap.py"), str(frames), *command]


def start(
    client: Peer, agent: Peer, cwd: Path, command: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the client's turn with the agent, and record the frames in a file.

    The client starts the agent by the `command`, if one is given, as by that of a chain.
    """
    require(client, agent)
    frames = cwd / "frames.log"
    command = [*client.start_client(), *tapped(frames, command or agent.start_agent())]
    try:
        return subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, encoding="utf-8", timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"not done after {LIMIT_S} s\n{late.stderr}\n{tail(frames)}")


def run(client: Peer, agent: Peer, cwd: Path, command: Sequence[str] = ()) -> dict[str, Any]:
    """Return the client's output after its turn with the agent; a failure shows the frames."""
    done = start(client, agent, cwd, command)
    if done.returncode != 0:
        pytest.fail(f"exit status {done.returncode}\n{done.stderr}\n{tail(cwd / 'frames.log')}")
    # A peer can write warnings there, as Python 0.12 does at `$/cancel_request`; Accord must not.
    assert "accord" not in done.stderr.replace(str(HERE), "")
    return json.loads(done.stdout)


def tail(frames: Path) -> str:
    text = frames.read_text(encoding="utf-8", errors="replace") if frames.exists() else ""
    return "\n".join(text.split("\n")[-30:])


PERMISSION = "permission {} reject_once,allow_once"
SENTENCE = 'Grüße 👋 "quoted" \\ back\u2028slash\n'


def after_v1(agent: Peer) -> dict[str, Any]:
    """Return the output of every v1 client after the turn of README.md."""
    return {
        "protocolVersion": 1,
        "agent": agent.calls_itself,
        "embeddedContext": True,
        "modes": ["ask", "code"],
        "modeAtAnswer": "code",
        "echo": 1,
        "missing": -32601,
        "stops": ["end_turn", "cancelled", "cancelled"],
        "sentence": SENTENCE,
        "saw": {
            "permission": "yes",
            "read": "second\n",
            "runningAtFirst": True,
            "exitCode": 0,
            "output": "2 passed\n",
            "exitStatus": 0,
            "signal": "SIGKILL",
            "echo": 2,
        },
        "updates": [
            "current_mode_update",
            "agent_thought_chunk",
            "plan",
            "available_commands_update",
            "tool_call",
            "tool_call_update",
            "tool_call_update",
            "tool_call",
            "tool_call_update",
            "plan",
            "session_info_update",
            "usage_update",
            "agent_message_chunk",
            "agent_message_chunk",
            "agent_message_chunk",
        ],
        "calls": [
            PERMISSION.format("edit-1"),
            "read",
            "read",
            "write",
            *("create", "output", "wait", "output", "release"),
            *("create", "kill", "wait", "release"),
            PERMISSION.format("edit-2"),
        ],
        "plan": ["completed", "completed"],
        "rawInput": [1, None, {"deep": True}],
        "diff": ["notes.txt", "first\nsecond\nthird\n", "first\nSECOND\nthird\n"],
        "terminal": "terminal-1",
        "title": "Edit the notes",
        "notes": "first\nSECOND\nthird\n",
        "leftTerminals": 0,
    }


def after_v2(agent: Peer, client: Peer) -> dict[str, Any]:
    """Return the output of every v2 client after the turn of README.md."""
    # Python 1.0.0rc3 sends commands without their tag, which the schema skips as invalid items.
    untagged = agent.calls_itself == "python" != client.calls_itself
    asked = "Edit notes.txt?,tool_call,{},reject_once,allow_once"
    turn = ["user_message", "state_update running", "agent_message_chunk", "state_update idle"]
    return {
        "protocolVersion": 2,
        "agent": agent.calls_itself,
        "embeddedContext": True,
        "modes": ["ask", "code"],
        "mode": "code",
        "echo": 1,
        "missing": -32601,
        "messages": ["user-1", "user-2", "user-3"],
        "stops": ["end_turn", "cancelled", "cancelled"],
        "saw": {"permission": "yes", "echo": 2},
        "said": {"message-1": SENTENCE, "message-3": "waiting", "message-4": "cancelled"},
        "terminal": {
            "command": "pytest -q",
            "id": "terminal-1",
            "exitCode": 0,
            "output": "2 passed ✓\n",
        },
        "updates": [
            "user_message",
            "state_update running",
            "agent_thought_chunk",
            "plan_update",
            "available_commands_update",
            "tool_call_update",
            "tool_call_update",
            "tool_call_content_chunk",
            "tool_call_update",
            "terminal_update",
            "tool_call_update",
            "terminal_output_chunk",
            "terminal_output_chunk",
            "terminal_update",
            "tool_call_update",
            "plan_update",
            "session_info_update",
            "usage_update",
            "agent_message_chunk",
            "agent_message_chunk",
            "agent_message",
            "state_update idle",
            *turn,
            *turn,
        ],
        "calls": [asked.format("edit-1"), asked.format("edit-2"), "withdrawn"],
        "echoed": [["user-1", "work"], ["user-2", "wait"], ["user-3", "ask"]],
        "titles": {"edit-1": "Edit notes.txt", "run-1": None},
        "plan": ["plan-1", "completed", "completed"],
        "commands": [] if untagged else ["test"],
        "rawInput": [1, None, {"deep": True}],
        "diff": ["modify notes.txt", "git_patch"],
        "title": "Edit the notes",
        "sessions": ["session-1"],
    }
