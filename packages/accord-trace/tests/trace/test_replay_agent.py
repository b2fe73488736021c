"""Replays of recordings as agent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import accord
from accord.client.permissions import allow, deny
from accord.version import ProtocolVersion
from accord_trace import Recording
from accord_trace.diff import shape_differences
from accord_trace.exports import jsons_lines
from accord_trace.reading import open_trace
from accord_trace.replay import ReplayedAgent
from accord_trace.replay.agent import AgentReplay
from accord_trace.replay.script import read_scripts
from requirement import requirement
from sample_recordings import Writer

SCRIPT = [sys.executable, "-m", "accord", "agent", "script"]
PROMPTS = ("echo Hello", "plan", "permission", "tools")


async def turns(agent: accord.ConnectedAgent, cwd: Path, *prompts: str) -> list[str]:
    """Run turns in a new session; return the names of their events and their stop reasons."""
    session = await agent.new_session(cwd)
    found: list[str] = []
    for prompt in prompts:
        async with session.prompt(prompt) as turn:
            found += [type(event).__name__ async for event in turn]
        found += [turn.text, str(turn.stop_reason)]
    return found


async def record_script(
    path: Path, cwd: Path, version: ProtocolVersion, *prompts: str
) -> list[str]:
    with Recording(path) as recording:
        async with accord.connect(
            SCRIPT,
            permissions=allow("*"),
            versions=[version],
            observers=[recording.hop().observer("client")],
        ) as agent:
            return await turns(agent, cwd, *prompts)


class Replay:
    """A replay without I/O, to which a test sends messages."""

    def __init__(self, talk: Writer, tmp_path: Path, **options: Any) -> None:
        path = talk.save(tmp_path / "r.acp.jsonl")
        self.core = AgentReplay(read_scripts(open_trace(path))[0], **options)

    def send(self, now: float = 0.0, **message: Any) -> list[dict[str, Any]]:
        frame = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.core.receive(frame, now)
        return self.due(now)

    def due(self, now: float) -> list[dict[str, Any]]:
        return [json.loads(one) for one in self.core.take(now)]


def opened(cwd: str = "/project") -> Writer:
    """Return a recording with an open session."""
    talk = Writer()
    talk.to_agent(0.0, id=0, method="initialize", params={"protocolVersion": 1})
    talk.to_client(0.1, id=0, result={"protocolVersion": 1})
    talk.to_agent(0.2, id=1, method="session/new", params={"cwd": cwd, "mcpServers": []})
    talk.to_client(0.3, id=1, result={"sessionId": "s"})
    return talk


def prompt(talk: Writer, ts: float, number: int, text: str, session: str = "s") -> None:
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    talk.to_agent(ts, id=number, method="session/prompt", params=params)


def chunk(talk: Writer, ts: float, text: str, session: str = "s") -> None:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    talk.to_client(ts, method="session/update", params={"sessionId": session, "update": update})


def open_session(replay: Replay, cwd: str = "/project") -> None:
    replay.send(id="a", method="initialize", params={"protocolVersion": 1})
    replay.send(id="b", method="session/new", params={"cwd": cwd})


def live_prompt(replay: Replay, text: str, **more: Any) -> list[dict[str, Any]]:
    params = {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}
    return replay.send(id="p", method="session/prompt", params=params, **more)


@requirement("R-TRACE-04")
@pytest.mark.parametrize("version", [1, 2])
async def test_client_sees_the_same_turns_again_in_another_directory(
    tmp_path: Path, version: ProtocolVersion
) -> None:
    path = tmp_path / "r.acp.jsonl"
    recorded = await record_script(path, tmp_path, version, *PROMPTS)
    replayed = ReplayedAgent(path)
    (tmp_path / "b").mkdir()
    for _ in range(2):  # the recording begins again for the second connection
        async with accord.connect(replayed, permissions=allow("*")) as agent:
            assert agent.version == version
            assert await turns(agent, tmp_path / "b", *PROMPTS) == recorded
    replayed.assert_matched(completely=True)


@requirement("R-TRACE-04")
def test_nothing_is_changed_if_nothing_differs(tmp_path: Path) -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Go")
    talk.noise(1.1, b'{"not": "a message",}')
    chunk(talk, 1.2, "Hello")
    talk.to_client(1.3, id=2, result={"stopReason": "end_turn"})
    path = talk.save(tmp_path / "r.acp.jsonl")
    replay = AgentReplay(read_scripts(open_trace(path))[0])
    records = list(open_trace(path))
    for record in records:
        if record.dir == "to_agent":
            replay.receive(record.frame, 0.0)
    assert replay.take(0.0) == [record.frame for record in records if record.dir == "to_client"]
    assert replay.departures == []


@requirement("R-TRACE-04")
def test_ids_and_directories_are_those_of_the_client(tmp_path: Path) -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Read /project/a.py")
    talk.to_client(
        1.1, id=9, method="fs/read_text_file", params={"sessionId": "s", "path": "/project/a.py"}
    )
    talk.to_agent(1.2, id=9, result={"content": "text of /project/a.py"})
    chunk(talk, 1.3, "In /project/a.py, not /project-2/a.py or /my/project")
    talk.to_client(1.4, id=2, result={"stopReason": "end_turn"})
    replay = Replay(talk, tmp_path)
    open_session(replay, "/other/project")
    [asked] = live_prompt(replay, "Read /other/project/a.py")
    assert asked["params"]["path"] == "/other/project/a.py"
    update, answer = replay.send(id=asked["id"], result={"content": "text of /other/project/a.py"})
    assert update["params"]["update"]["content"]["text"] == (
        "In /other/project/a.py, not /project-2/a.py or /my/project"
    )
    assert answer == {"jsonrpc": "2.0", "id": "p", "result": {"stopReason": "end_turn"}}
    assert replay.core.departures == []


@requirement("R-TRACE-04")
def test_session_id_that_the_client_names_is_mapped_both_ways(tmp_path: Path) -> None:
    talk = Writer()
    params = {"sessionId": "old", "cwd": "/project", "mcpServers": []}
    talk.to_agent(0.0, id=1, method="session/load", params=params)
    chunk(talk, 0.1, "earlier", "old")
    talk.to_client(0.2, id=1, result={})
    prompt(talk, 0.3, 2, "Go", "old")
    talk.to_client(0.4, id=2, result={"stopReason": "end_turn"})
    replay = Replay(talk, tmp_path)
    update, answer = replay.send(
        id=7, method="session/load", params={"sessionId": "mine", "cwd": "/project"}
    )
    assert (update["params"]["sessionId"], answer["id"]) == ("mine", 7)
    params = {"sessionId": "mine", "prompt": [{"type": "text", "text": "Go"}]}
    assert replay.send(id=8, method="session/prompt", params=params)
    assert replay.core.departures == []


@requirement("R-TRACE-04")
def test_sessions_that_were_interleaved_are_replayed_one_after_the_other(tmp_path: Path) -> None:
    talk = Writer()
    for number, session in enumerate("st"):
        talk.to_agent(0.1, id=number, method="session/new", params={"cwd": f"/project/{session}"})
        talk.to_client(0.2, id=number, result={"sessionId": session})
    prompt(talk, 1.0, 2, "one", "s")
    prompt(talk, 1.1, 3, "two", "t")
    for number in range(3):
        chunk(talk, 1.2, f"s{number}", "s")
        chunk(talk, 1.2, f"t{number}", "t")
    talk.to_client(1.3, id=3, result={"stopReason": "end_turn"})
    talk.to_client(1.4, id=2, result={"stopReason": "max_tokens"})
    replay = Replay(talk, tmp_path)
    for session in "st":
        replay.send(id=session, method="session/new", params={"cwd": f"/project/{session}"})
    for session, text, reason in (("t", "two", "end_turn"), ("s", "one", "max_tokens")):
        params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        *updates, answer = replay.send(id=9, method="session/prompt", params=params)
        texts = [one["params"]["update"]["content"]["text"] for one in updates]
        assert texts == [f"{session}{number}" for number in range(3)]
        assert answer["result"]["stopReason"] == reason
    assert replay.core.departures == []


@requirement("R-TRACE-04")
def test_branch_uses_the_next_message_of_the_method_and_is_reported(tmp_path: Path) -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Fix it")
    chunk(talk, 1.1, "Fixed")
    talk.to_client(1.2, id=2, result={"stopReason": "end_turn"})
    replay = Replay(talk, tmp_path)
    open_session(replay)
    assert [one.get("method") for one in live_prompt(replay, "Break it")] == [
        "session/update",
        None,
    ]
    [departure] = replay.core.departures
    assert departure.kind == "changed"
    assert str(departure) == (
        "session/prompt (message 5, client message 3): "
        'prompt[0].text: expected "Fix it", got "Break it"'
    )


@requirement("R-TRACE-04")
def test_strict_answers_a_branch_with_an_error_that_names_both(tmp_path: Path) -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Fix it")
    talk.to_client(1.2, id=2, result={"stopReason": "end_turn"})
    replay = Replay(talk, tmp_path, strict=True)
    open_session(replay)
    [answer] = live_prompt(replay, "Break it")
    assert answer["error"]["code"] == -32602
    assert "message 5" in answer["error"]["message"]
    assert '"Fix it", got "Break it"' in answer["error"]["message"]
    [answer] = live_prompt(replay, "Fix it")  # it is still there
    assert answer["result"] == {"stopReason": "end_turn"}


@requirement("R-TRACE-04")
@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        ("session/list", -32601, "one of the recorded requests: initialize, session/new"),
        ("session/new", -32603, "at most 1, which the recording has"),
    ],
)
def test_request_without_a_match_gets_an_error(
    tmp_path: Path, method: str, code: int, text: str
) -> None:
    replay = Replay(opened(), tmp_path)
    open_session(replay)
    [answer] = replay.send(id=5, method=method, params={"cwd": "/x"})
    assert answer["id"] == 5
    assert answer["error"]["code"] == code
    assert text in answer["error"]["message"]
    assert [one.kind for one in replay.core.departures] == ["unknown"]


@requirement("R-TRACE-04")
async def test_other_answer_to_a_permission_request_is_a_departure(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    await record_script(path, tmp_path, 1, "permission")
    replayed = ReplayedAgent(path)
    async with accord.connect(replayed, permissions=deny("*")) as agent:
        await turns(agent, tmp_path, "permission")
    [departure] = replayed.departures
    assert (departure.kind, departure.method) == ("answer", "session/request_permission")
    assert departure.differences[0].path == "outcome.optionId"
    with pytest.raises(AssertionError, match=r"departed from r.acp.jsonl:\n.*\n.*optionId"):
        replayed.assert_matched()


@requirement("R-TRACE-04")
def test_recorded_cancel_is_awaited(tmp_path: Path) -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Go")
    chunk(talk, 1.1, "Working")
    talk.to_agent(1.2, method="session/cancel", params={"sessionId": "s"})
    talk.to_client(1.3, id=2, result={"stopReason": "cancelled"})
    replay = Replay(talk, tmp_path)
    open_session(replay)
    assert len(live_prompt(replay, "Go")) == 1
    [answer] = replay.send(method="session/cancel", params={"sessionId": "s"})
    assert answer["result"] == {"stopReason": "cancelled"}
    assert replay.core.report().unused == []


@requirement("R-TRACE-04")
def test_cancel_that_is_not_recorded_ends_the_turn(tmp_path: Path) -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Go")
    params = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": []}
    talk.to_client(1.1, id=9, method="session/request_permission", params=params)
    talk.to_agent(1.2, id=9, result={"outcome": {"outcome": "selected", "optionId": "y"}})
    chunk(talk, 1.3, "Done")
    talk.to_client(1.4, id=2, result={"stopReason": "end_turn"})
    replay = Replay(talk, tmp_path)
    open_session(replay)
    live_prompt(replay, "Go")
    [answer] = replay.send(method="session/cancel", params={"sessionId": "s"})
    assert answer == {"jsonrpc": "2.0", "id": "p", "result": {"stopReason": "cancelled"}}
    assert replay.send(id=9, result={"outcome": {"outcome": "cancelled"}}) == []
    assert [one.kind for one in replay.core.departures] == ["cancelled", "answer"]


@requirement("R-TRACE-04")
async def test_cancel_that_is_not_recorded_ends_a_turn_of_version_2(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    await record_script(path, tmp_path, 2, "permission")
    replayed = ReplayedAgent(path)

    async def never(request: accord.PermissionRequest) -> None:
        await turn.cancel()

    async with accord.connect(replayed, permissions=never) as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("permission") as turn:
            await turn.wait()
    assert turn.stop_reason == "cancelled"


@requirement("R-TRACE-04")
@pytest.mark.parametrize(("speed", "due"), [(1.0, 0.5), (2.0, 0.25)])
def test_speed_waits_as_the_agent_did(tmp_path: Path, speed: float, due: float) -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Go")
    chunk(talk, 1.5, "Hello")
    talk.to_client(1.5, id=2, result={"stopReason": "end_turn"})
    replay = Replay(talk, tmp_path)
    open_session(replay)
    replay.core = AgentReplay(read_scripts(open_trace(tmp_path / "r.acp.jsonl"))[0], speed=speed)
    assert live_prompt(replay, "Go", now=100.0) == []
    assert replay.core.next_due_s() == pytest.approx(100.0 + due)
    assert len(replay.due(100.0 + due + 0.01)) == 2
    assert replay.core.next_due_s() is None


@requirement("R-TRACE-04")
def test_redacted_values_equal_all_values(tmp_path: Path) -> None:
    talk = Writer()
    servers = [{"name": "x", "env": [{"name": "TOKEN", "value": "[redacted]"}]}]
    params = {"cwd": "/project", "mcpServers": servers}
    talk.to_agent(0.0, id=1, method="session/new", params=params)
    talk.to_client(0.1, id=1, result={"sessionId": "s"})
    replay = Replay(talk, tmp_path)
    servers[0]["env"] = [{"name": "TOKEN", "value": "secret"}]
    assert replay.send(id=1, method="session/new", params={**params, "mcpServers": servers})
    assert replay.core.departures == []


SECRET = "s3cr3t-V4lue.42"
SERVERS = [
    {"name": "a", "command": "npx", "args": ["--api-key", SECRET, "-k", SECRET], "env": []},
    {"name": "b", "command": "mysql", "args": [f"-p{SECRET}", f"--token={SECRET}"], "env": []},
    {"name": "c", "type": "sse", "url": f"https://me:{SECRET}@x.test/a?api_key={SECRET}&b=1"},
    {"name": "d", "type": "http", "url": "https://hooks.slack.com/services/T0/B0/" + SECRET},
    {"name": "e", "type": "http", "url": "https://x.test", "headers": [["X-A", SECRET]]},
]


@requirement("R-TRACE-04", "R-TRACE-05")
@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server["name"])
async def test_recording_with_secrets_in_command_lines_and_urls_is_replayed(
    tmp_path: Path, server: dict[str, Any]
) -> None:
    path = tmp_path / "r.acp.jsonl"
    params = {"cwd": str(tmp_path), "mcpServers": [server]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params}
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}}
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "a", "rawInput": server}
    shown = {"method": "session/update", "params": {"sessionId": "s", "update": update}}
    with Recording(path) as recording:
        hop = recording.hop()
        hop.frames("to_agent", [json.dumps(call).encode()])
        hop.frames("to_client", [json.dumps(answer).encode()])
        hop.frames("to_client", [json.dumps({"jsonrpc": "2.0", **shown}).encode()])
    assert SECRET not in path.read_text()
    core = AgentReplay(read_scripts(open_trace(path))[0])
    core.receive(json.dumps(call).encode(), 0.0)
    assert core.departures == []
    # As client, the agent's update has the secret where the recording has a mask.
    recorded = open_trace(path)
    [expected] = [json.loads(each.frame) for each in recorded if b"tool_call" in each.frame]
    got = {"jsonrpc": "2.0", **shown}
    assert list(shape_differences(expected, got, strict=True)) == []


@requirement("R-TRACE-04")
def test_recording_that_ends_in_a_turn_answers_with_an_error(tmp_path: Path) -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Go")
    replay = Replay(talk, tmp_path)
    open_session(replay)
    [answer] = live_prompt(replay, "Go")
    assert "The recording ends before the response to session/prompt" in answer["error"]["message"]


@requirement("R-TRACE-04")
def test_client_that_stays_where_the_recorded_one_left_gets_an_error(tmp_path: Path) -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Go")
    end = {"type": "end", "ts": 1.1, "from": "Client", "to": "Agent", "dir": "to_agent"}
    talk.text += json.dumps({**end, "conn": "0", "bytes": 0}).encode() + b"\n"
    replay = Replay(talk, tmp_path)
    open_session(replay)
    assert live_prompt(replay, "Go", now=10.0) == []
    due = replay.core.next_due_s()
    assert due is not None
    assert 11.0 < due < 20.0
    [answer] = replay.due(due)
    assert "The recorded client left before the response" in answer["error"]["message"]
    assert replay.core.next_due_s() is None


@requirement("R-TRACE-04")
@pytest.mark.parametrize("cancels", [False, True])
async def test_recording_that_ends_in_a_turn_of_version_2_ends_the_connection(
    tmp_path: Path, cancels: bool
) -> None:
    path = tmp_path / "r.acp.jsonl"
    await record_script(path, tmp_path, 2, "echo Hello")
    lines = path.read_bytes().splitlines(keepends=True)
    idle = next(n for n, line in enumerate(lines) if b'"idle"' in line and b"stopReason" in line)
    path.write_bytes(b"".join(lines[:idle]))
    async with accord.connect(ReplayedAgent(path)) as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("echo Hello") as turn:
            if cancels:
                await turn.cancel()
            with pytest.raises(accord.ConnectionLost):
                await turn.wait()


@pytest.mark.parametrize("frame", [b"nonsense", b"[]", b'{"jsonrpc":"2.0"}'])
def test_invalid_frame_is_a_departure(tmp_path: Path, frame: bytes) -> None:
    replay = Replay(opened(), tmp_path)
    replay.core.receive(frame, 0.0)
    [answer] = replay.due(0.0)
    assert (answer["id"], answer["error"]["code"]) in ((None, -32700), (None, -32600))
    assert [one.kind for one in replay.core.departures] == ["invalid"]


def test_agent_that_ended_first_ends_again(tmp_path: Path) -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Go")
    end = {"type": "end", "ts": 1.1, "from": "Agent", "to": "Client", "dir": "to_client"}
    talk.text += json.dumps({**end, "conn": "0", "bytes": 0}).encode() + b"\n"
    replay = Replay(talk, tmp_path)
    open_session(replay)
    assert not replay.core.is_ended
    live_prompt(replay, "Go")
    assert replay.core.is_ended


@requirement("R-TRACE-04")
@pytest.mark.parametrize("name", ["r.jsons", "r.stream.ndjson", "r.log"])
async def test_recordings_of_other_programs_are_replayed(tmp_path: Path, name: str) -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Go")
    chunk(talk, 1.1, "Hello")
    talk.to_client(1.2, id=2, result={"stopReason": "end_turn"})
    records = list(open_trace(talk.save(tmp_path / "ours.acp.jsonl")))
    path = tmp_path / name
    if name == "r.jsons":
        path.write_bytes(b"".join(jsons_lines(records)))
    else:
        sign = {"to_agent": b"12:00 sent ", "to_client": b"12:00 received "}
        head = sign if name == "r.log" else {"to_agent": b"", "to_client": b""}
        path.write_bytes(b"".join(head[one.dir] + one.frame + b"\n" for one in records))
    replayed = ReplayedAgent(path)
    async with accord.connect(replayed) as agent:
        assert (await turns(agent, tmp_path, "Go"))[-2:] == ["Hello", "end_turn"]
    replayed.assert_matched(completely=True)


@requirement("R-TRACE-04")
async def test_hop_next_to_the_client_is_replayed_and_each_connection_in_order(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path) as recording:
        for version in (1, 2):
            hop = recording.hop("Client", "Proxy(0)")
            inner = recording.hop("Proxy(0)", "Agent")
            call = {"jsonrpc": "2.0", "id": 0, "method": "initialize"}
            frame = json.dumps({**call, "params": {"protocolVersion": version}}).encode()
            answer = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":%d}}' % version
            for one in (hop, inner):
                one.frames("to_agent", [frame])
            inner.frames("to_client", [b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":9}}'])
            hop.frames("to_client", [answer])
    scripts = read_scripts(open_trace(path))
    assert [len(script.steps) for script in scripts] == [2, 2]
    assert [script.steps[1].value()["protocolVersion"] for script in scripts] == [1, 2]
