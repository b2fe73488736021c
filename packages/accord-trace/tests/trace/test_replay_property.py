"""Property: a replay of a recording of itself has no differences."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord_trace.reading import open_trace
from accord_trace.replay import ReplayedAgent
from accord_trace.replay.client import ClientReplay
from accord_trace.replay.script import read_scripts
from requirement import requirement
from sample_recordings import Writer

KINDS = ("chunk", "call", "permission", "late permission", "read", "mode", "noise", "notice")
Act = Callable[[Writer, float], None]

turn = st.tuples(
    st.lists(st.sampled_from(KINDS), max_size=6),
    st.sampled_from(["end", "end", "cancel", "error", "cancel while asked"]),
)
session = st.lists(turn, max_size=3)
conversation = st.lists(session, min_size=1, max_size=3)


class Talk:
    """Makes the messages of one session as functions that write them."""

    def __init__(self, number: int, version: int, ids: Iterator[int]) -> None:
        self.session = f"s-{number}"
        self.cwd = f"/project/{number}"
        self.version = version
        self.ids = ids
        self.acts: list[Act] = []

    def client(self, **message: Any) -> None:
        self.acts.append(lambda talk, ts: talk.to_agent(ts, **message))

    def agent(self, **message: Any) -> None:
        self.acts.append(lambda talk, ts: talk.to_client(ts, **message))

    def update(self, kind: str, **fields: Any) -> None:
        update = {"sessionUpdate": kind, **fields}
        self.agent(method="session/update", params={"sessionId": self.session, "update": update})

    def open(self) -> None:
        number = next(self.ids)
        self.client(id=number, method="session/new", params={"cwd": self.cwd, "mcpServers": []})
        self.update("available_commands_update", availableCommands=[])
        self.agent(id=number, result={"sessionId": self.session})

    def turn(self, kinds: list[str], end: str, text: str) -> None:
        number = next(self.ids)
        prompt = {"sessionId": self.session, "prompt": [{"type": "text", "text": text}]}
        self.client(id=number, method="session/prompt", params=prompt)
        if self.version == 2:
            self.agent(id=number, result={"messageId": f"m-{number}"})
        late: list[int] = []
        for kind in kinds:
            self.step(kind, late)
        for asked in late:
            self.client(id=asked, result={"outcome": {"outcome": "selected", "optionId": "y"}})
        reason = "end_turn"
        if end.startswith("cancel"):
            reason = "cancelled"
            asked = self.ask() if end == "cancel while asked" else None
            self.client(method="session/cancel", params={"sessionId": self.session})
            if asked is not None:
                self.client(id=asked, result={"outcome": {"outcome": "cancelled"}})
        if self.version == 2:
            self.update("state_update", state="idle", stopReason=reason)
        elif end == "error":
            self.agent(id=number, error={"code": -32603, "message": "broken"})
        else:
            self.agent(id=number, result={"stopReason": reason})

    def step(self, kind: str, late: list[int]) -> None:
        match kind:
            case "chunk" | "notice":
                content = {"type": "text", "text": f"{kind} in {self.cwd}/a.py"}
                self.update("agent_message_chunk", content=content)
            case "call":
                self.update("tool_call", toolCallId="t", title="x", status="pending")
            case "permission":
                answer = {"outcome": {"outcome": "selected", "optionId": "y"}}
                self.client(id=self.ask(), result=answer)
            case "late permission":
                late.append(self.ask())
            case "read":
                number = next(self.ids)
                params = {"sessionId": self.session, "path": f"{self.cwd}/a.py"}
                self.agent(id=number, method="fs/read_text_file", params=params)
                self.client(id=number, result={"content": "text"})
            case "mode":
                number = next(self.ids)
                params = {"sessionId": self.session, "modeId": f"mode {number}"}
                self.client(id=number, method="session/set_mode", params=params)
                self.agent(id=number, result={})
            case _:
                self.acts.append(lambda talk, ts: talk.noise(ts, b"npm warn"))

    def ask(self) -> int:
        number = next(self.ids)
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": self.session, "toolCall": {"toolCallId": "t"}, "options": options}
        self.agent(id=number, method="session/request_permission", params=params)
        return number


def recording(sessions: list[Any], version: int, order: list[int]) -> Writer:
    """Return the recording of sessions whose messages are interleaved."""
    ids = iter(range(1, 10_000))
    talk = Writer()
    talk.to_agent(0.0, id=0, method="initialize", params={"protocolVersion": version})
    talk.to_client(0.0, id=0, result={"protocolVersion": version})
    talks: list[Talk] = []
    for number, turns in enumerate(sessions):
        one = Talk(number, version, ids)
        one.open()
        for place, (kinds, end) in enumerate(turns):
            one.turn(kinds, end, f"prompt {place}")
        talks.append(one)
    left = [iter(one.acts) for one in talks]
    ts, chosen = 0.0, iter(order)
    while left:
        acts = left[next(chosen, 0) % len(left)]
        act = next(acts, None)
        if act is None:
            left.remove(acts)
        else:
            ts += 0.001
            act(talk, ts)
    return talk


async def replay(path: Path, cwd: str) -> None:
    agent = ReplayedAgent(path, strict=True)
    client = ClientReplay(read_scripts(open_trace(path))[0], agent(), cwd=cwd, timeout_s=5)
    assert [str(one) for one in await client.run(strict=True)] == []
    agent.assert_matched(completely=True)


@requirement("R-TRACE-04")
@given(conversation, st.sampled_from([1, 2]), st.lists(st.integers(0, 2), max_size=60))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_replay_of_a_recording_of_itself_has_no_differences(
    sessions: list[Any], version: int, order: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = recording(sessions, version, order).save(Path(folder) / "r.acp.jsonl")
        asyncio.run(replay(path, "/elsewhere/work"))
