"""Which turns are running, found out from the frames of a connection."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accord.remote import monitor as running_turns
from accord.remote.monitor import RunningTurns, Turn


class Watched:
    """A connection, with the turns that have started and ended."""

    def __init__(self, version: int = 1) -> None:
        self.started: list[Turn] = []
        self.ended: list[Turn] = []
        self.turns = RunningTurns(self.started.append, self.ended.append)
        self.client("initialize", 0, protocolVersion=version)
        self.agent(0, {"protocolVersion": version})

    def client(self, method: str, number: Any, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.turns.from_client(json.dumps(message).encode())

    def prompt(self, number: Any, session: str = "s") -> None:
        self.client("session/prompt", number, sessionId=session, prompt=[])

    def agent(self, number: Any, result: Any = None, error: Any = None) -> None:
        body = {"error": error} if error is not None else {"result": result}
        self.turns.from_agent([json.dumps({"jsonrpc": "2.0", "id": number, **body}).encode()])

    def update(self, session: str = "s", **update: Any) -> None:
        params = {"sessionId": session, "update": update}
        message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
        self.turns.from_agent([json.dumps(message, separators=(",", ":")).encode()])

    def state(self, state: str, session: str = "s", **more: Any) -> None:
        self.update(session, sessionUpdate="state_update", state=state, **more)

    @property
    def outcomes(self) -> list[str]:
        return [turn.outcome for turn in self.ended]


def test_turn_of_version_1_ends_with_its_response() -> None:
    watched = Watched()
    watched.prompt(1)
    watched.prompt("1", "other")
    assert len(watched.turns) == 2
    watched.update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "x"})
    watched.agent("1", {"stopReason": "cancelled"})
    assert (len(watched.turns), watched.outcomes) == (1, ["cancelled"])
    watched.agent(1, error={"code": -32000, "message": "x"})
    assert (len(watched.turns), watched.outcomes) == (0, ["cancelled", "error -32000"])


RUNNING, IDLE, RESPONSE = "running", "idle", "response"


def test_turn_of_version_2_ends_when_its_session_is_idle() -> None:
    for order in ((RUNNING, RESPONSE, IDLE), (RESPONSE, RUNNING, IDLE), (RUNNING, IDLE, RESPONSE)):
        watched = Watched(2)
        watched.prompt(1)
        for number, event in enumerate(order):
            assert len(watched.turns) == 1, order[:number]
            if event == RESPONSE:
                watched.agent(1, {"messageId": "m"})
            else:
                more = {"stopReason": "end_turn"} if event == IDLE else {}
                watched.state(event, **more)
        assert (len(watched.turns), watched.outcomes) == (0, ["end_turn"]), order


def test_prompt_that_waits_for_the_turn_before_it_is_running() -> None:
    watched = Watched(2)
    watched.prompt(1)
    watched.agent(1, {"messageId": "a"})
    watched.state("running")
    watched.prompt(2)
    watched.state("idle", stopReason="end_turn")
    assert (len(watched.turns), watched.outcomes) == (1, ["end_turn"])
    watched.state("running")
    watched.agent(2, {"messageId": "b"})
    assert len(watched.turns) == 1
    watched.state("requires_action")
    assert len(watched.turns) == 1
    watched.state("idle", stopReason="cancelled")
    assert (len(watched.turns), watched.outcomes) == (0, ["end_turn", "cancelled"])


def test_work_that_the_agent_starts_itself_is_running() -> None:
    watched = Watched(2)
    watched.state("running")
    assert len(watched.turns) == 1
    watched.state("idle")
    assert len(watched.turns) == 0
    assert not watched.started


def test_session_that_is_closed_has_no_turn() -> None:
    watched = Watched(2)
    watched.prompt(1)
    watched.agent(1, {"messageId": "a"})
    watched.state("running")
    watched.client("session/close", 2, sessionId="s")
    assert len(watched.turns) == 1
    watched.agent(2, {})
    assert (len(watched.turns), watched.outcomes) == (0, ["closed"])


def test_prompt_with_an_escaped_slash_is_a_prompt() -> None:
    watched = Watched()
    frame = b'{"method":"session\\/prompt","id":1,"params":{"sessionId":"s","prompt":[]}}'
    watched.turns.from_client(frame)
    assert len(watched.turns) == 1
    watched.agent(1, {"stopReason": "end_turn"})
    assert len(watched.turns) == 0


def test_turns_that_are_left_end_with_the_connection() -> None:
    watched = Watched()
    watched.prompt(1)
    watched.turns.end_all()
    assert (len(watched.turns), watched.outcomes) == (0, ["disconnected"])


STRANGE = [
    b"",
    b"{",
    b"[]",
    b'"session/prompt"',
    b'{"method":"session/prompt"}',
    b'{"method":"session/prompt","id":1,"params":[]}',
    b'{"method":"session/prompt","id":[[]],"params":{"sessionId":{}}}',
    b'{"method":{"a":"session/prompt"},"id":1}',
    b'{"id":' + b"[" * 3000 + b"]" * 3000 + b',"method":"session/prompt"}',
    b'{"method":"initialize","id":{}}',
    b'{"method":"session/close","id":null,"params":{"sessionId":[]}}',
    b'{"id":{},"result":[]}',
    b'{"method":"session/update","params":{"update":"state_update"}}',
    b'{"method":"session/update","params":{"update":{"sessionUpdate":"state_update"}}}',
    b'\xff{"method":"session/prompt"}',
]


def test_strange_frames_are_ignored() -> None:
    for frame in STRANGE:
        for version in (1, 2):
            watched = Watched(version)
            watched.prompt(1)
            for _ in range(2):
                watched.turns.from_client(frame)
                watched.turns.from_agent([frame])
            watched.turns.end_all()
            assert len(watched.turns) == 0, frame
            assert len(watched.started) == len(watched.ended), frame


def test_number_of_watched_turns_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_turns, "_MOST", 3)
    watched = Watched()
    for number in range(10):
        watched.prompt(number, f"s{number}")
    assert len(watched.turns) == 3
    for number in range(10):
        watched.agent(number, {"stopReason": "end_turn"})
    assert (len(watched.turns), len(watched.ended)) == (0, 3)
