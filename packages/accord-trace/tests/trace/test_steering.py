"""What the user says while a turn runs, in recordings: shown, exported, replayed and compared."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import accord
from accord.script_agent.agent import ScriptAgent
from accord.transports.memory import pair
from accord_trace import Recording
from accord_trace.diff import shape_differences
from accord_trace.exports import pytest_module, transcript
from accord_trace.reading import open_trace
from accord_trace.replay import ReplayedAgent
from accord_trace.replay.agent import AgentReplay
from accord_trace.replay.client import ClientReplay
from accord_trace.replay.script import read_scripts
from accord_trace.spans import spans_of
from accord_trace.summary import summary
from sample_recordings import Writer

both_versions = pytest.mark.parametrize("version", [1, 2])
STEERING = "_session/steering"


async def record(path: Path, version: Any, agent: Any = None) -> str:
    """Record a steered turn and another one, of the script agent unless there is another."""
    ours, theirs = pair()
    serving = None if agent else asyncio.create_task(accord.serve(ScriptAgent(), theirs))
    with Recording(path) as recording:
        observers = [recording.hop().observer("client")]
        async with accord.connect(
            agent or ours, versions=[version], observers=observers
        ) as connected:
            session = await connected.new_session("/project")
            async with session.prompt("listen") as turn:
                async for _ in turn:
                    if "listening" in turn.text:
                        break
                for message in ("leave the slow ones", "stop"):
                    assert await turn.steer(message) == accord.Steered("injected")
                await turn.wait()
            text = turn.text
            async with session.prompt("echo hi") as turn:
                await turn.wait()
    if serving is not None:
        await serving
    return text.replace("\n", "") + turn.text


SAID = "I am listening.I heard: leave the slow onesI have stopped.hi"


@both_versions
async def test_recorded_agent_is_steered_again(version: int, tmp_path: Path) -> None:
    first, again = tmp_path / "a.acp.jsonl", tmp_path / "b.acp.jsonl"
    assert await record(first, version) == SAID
    assert await record(again, version, ReplayedAgent(first)) == SAID
    lines = [[summary(one) for one in open_trace(path)] for path in (first, again)]
    shown = [line for line in lines[0] if line.startswith("steer") or line == "injected"]
    assert shown == ['steer "leave the slow ones"', "injected", 'steer "stop"', "injected"]
    kept = [[line for line in one if "session-" not in line] for one in lines]
    assert kept[0] == kept[1]


@both_versions
async def test_recorded_client_steers_at_its_place(version: int, tmp_path: Path) -> None:
    path = tmp_path / "a.acp.jsonl"
    await record(path, version)
    ours, theirs = pair()
    serving = asyncio.create_task(accord.serve(ScriptAgent(), theirs))
    replay = ClientReplay(read_scripts(open_trace(path))[0], ours, cwd="/project", timeout_s=20)
    assert await replay.run() == []
    await serving


def block(text: str) -> dict[str, Any]:
    return {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}


def talk_of_turn(*, steered: bool) -> Writer:
    """Return a recording of a turn, which goes on after a message if it is steered."""
    talk = Writer()
    talk.to_agent(0.0, id=0, method="initialize", params={"protocolVersion": 1})
    talk.to_client(0.1, id=0, result={"protocolVersion": 1})
    talk.to_agent(0.2, id=1, method="session/new", params={"cwd": "/project", "mcpServers": []})
    talk.to_client(0.3, id=1, result={"sessionId": "s"})
    talk.to_agent(0.4, id=2, method="session/prompt", params=block("go"))
    chunk(talk, 0.5, "one")
    if steered:
        talk.to_agent(0.6, id=3, method=STEERING, params=block("faster"))
        talk.to_client(0.7, id=3, result={"outcome": "injected"})
        chunk(talk, 0.8, "two")
    talk.to_client(0.9, id=2, result={"stopReason": "end_turn"})
    return talk


def chunk(talk: Writer, ts: float, text: str) -> None:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    talk.to_client(ts, method="session/update", params={"sessionId": "s", "update": update})


class Replay:
    """A replay without I/O, in which a session is open."""

    def __init__(self, talk: Writer, tmp_path: Path) -> None:
        path = talk.save(tmp_path / "r.acp.jsonl")
        self.core = AgentReplay(read_scripts(open_trace(path))[0])
        self.send(id=0, method="initialize", params={"protocolVersion": 1})
        self.send(id=1, method="session/new", params={"cwd": "/project", "mcpServers": []})

    def send(self, now: float = 0.0, **message: Any) -> list[dict[str, Any]]:
        self.core.receive(json.dumps({"jsonrpc": "2.0", **message}).encode(), now)
        return self.due(now)

    def due(self, now: float) -> list[dict[str, Any]]:
        return [json.loads(one) for one in self.core.take(now)]


def test_replayed_turn_waits_for_the_message_but_not_for_ever(tmp_path: Path) -> None:
    for says in (True, False):
        replay = Replay(talk_of_turn(steered=True), tmp_path)
        sent = replay.send(1.0, id=7, method="session/prompt", params=block("go"))
        assert [one["params"]["update"]["content"]["text"] for one in sent] == ["one"]
        assert replay.due(1.5) == []
        if says:
            later = replay.send(1.5, id=8, method=STEERING, params=block("faster"))
            assert later[0] == {"jsonrpc": "2.0", "id": 8, "result": {"outcome": "injected"}}
        else:
            due = replay.core.next_due_s()
            assert due is not None
            later = replay.due(due)
        assert [one.get("result") for one in later[-1:]] == [{"stopReason": "end_turn"}]
        unused = [one.method for one in replay.core.report().unused]
        assert unused == ([] if says else [STEERING])


def test_message_that_was_not_recorded_is_answered_with_an_error(tmp_path: Path) -> None:
    replay = Replay(talk_of_turn(steered=False), tmp_path)
    (answer,) = replay.send(1.0, id=7, method=STEERING, params=block("faster"))
    assert STEERING in answer["error"]["message"]


def test_exports_show_the_message_at_its_place(tmp_path: Path) -> None:
    path = talk_of_turn(steered=True).save(tmp_path / "r.acp.jsonl")
    text = "".join(transcript(open_trace(path), "r"))
    assert text.index("> go") < text.index("**Agent:** one") < text.index("> faster")
    assert text.index("> faster") < text.index("**Steer:** injected") < text.index("two")
    module = "".join(pytest_module(open_trace(path), "r.acp.jsonl"))
    assert "('go', 'end_turn', 'faster')," in module
    assert "await turn.steer(message)" in module
    spans = {span.name: span for span in spans_of(open_trace(path), "r")}
    assert spans[STEERING].parent_id == spans["invoke_agent"].span_id
    assert spans[STEERING].attributes["acp.steering.outcome"] == "injected"


def test_two_outcomes_are_different() -> None:
    for strict in (True, False):
        found = shape_differences(
            {"outcome": "injected"}, {"outcome": "promptRequired"}, strict=strict
        )
        assert [one.path for one in found] == ["outcome"]
