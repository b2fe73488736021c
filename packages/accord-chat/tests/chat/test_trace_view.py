"""The messages of the protocol on the screen and in a file."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Turn
from accord.script_agent.agent import ScriptAgent
from accord_chat.chat import prepare
from accord_chat.model import traffic
from accord_chat.model.traffic import Observer, Traffic, matches
from accord_chat.sources import ChatOptions, OwnAgent, SourceSetup
from accord_chat.view.app import ChatApp
from accord_chat.view.text_views import ViewerScreen
from accord_chat.view.trace_screen import MessageList, TraceScreen
from accord_trace.reading import open_trace
from accord_trace.selection import Filter
from chat.chats import HandAgent, LocalAgent, Typist, open_chat, typing_at
from chat.forked import started_command
from requirement import requirement


def frame(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}, separators=(",", ":")).encode()


def update(text: str) -> bytes:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return frame(method="session/update", params={"sessionId": "s1", "update": chunk})


def methods(messages: Traffic) -> list[str]:
    return [message.row(message.record()).method for message in messages.since(0)]


def test_response_has_the_method_the_session_and_the_time_of_its_request() -> None:
    messages = Traffic()
    _, see = messages.observer()
    see("sent", frame(id=1, method="session/prompt", params={"sessionId": "s1", "prompt": []}))
    see("received", frame(id=1, method="fs/read_text_file", params={"sessionId": "s1"}))
    see("received", frame(id=1, result={"stopReason": "end_turn"}))
    see("sent", frame(id=1, error={"code": -32002, "message": "no"}))
    rows = [message.row(message.record()) for message in messages.since(0)]
    assert [(row.kind, row.method, row.session, row.pair, row.is_error) for row in rows] == [
        ("request", "session/prompt", "s1", None, False),
        ("request", "fs/read_text_file", "s1", None, False),
        ("response", "session/prompt", "s1", 0, False),
        ("response", "fs/read_text_file", "s1", 1, True),
    ]
    assert all((row.latency_s is not None) == (row.kind == "response") for row in rows)


def test_connections_with_the_same_ids_are_kept_apart() -> None:
    messages = Traffic()
    (first, see), (second, see_other) = messages.observer(), messages.observer()
    see("sent", frame(id=1, method="session/list"))
    see_other("sent", frame(id=1, method="session/new"))
    see("received", frame(id=1, result={}))
    rows = [message.row(message.record()) for message in messages.since(0)]
    assert [(row.conn, row.method) for row in rows] == [
        (first, "session/list"),
        (second, "session/new"),
        (first, "session/list"),
    ]


def test_only_the_last_messages_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MAX_MESSAGES", 10)
    messages = Traffic()
    _, see = messages.observer()
    for number in range(100):
        see("received", update(f"chunk {number}"))
    assert (messages.first, messages.total) == (90, 100)
    assert messages.get(89) is None
    kept = messages.get(90)
    assert kept is not None
    assert b"chunk 90" in kept.line


def test_memory_is_bounded_with_large_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MAX_BYTES", 100_000)
    monkeypatch.setattr(traffic, "MAX_LINE", 50_000)
    messages = Traffic()
    _, see = messages.observer()
    for _ in range(20):
        see("received", update("x" * 20_000))
    assert sum(len(one.line) for one in messages.since(0)) <= 100_000
    see("received", update("y" * 80_000))
    *_, last = messages.since(0)
    assert last.is_cut
    row = last.row(last.record())
    assert (row.method, row.bytes > 80_000, len(last.line) < 5000) == ("session/update", True, True)


def test_requests_that_nobody_answers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MAX_MESSAGES", 10)
    messages = Traffic()
    _, see = messages.observer()
    for number in range(105):
        see("received", frame(id=number, method="x/y"))
    see("sent", frame(id=104, result={}))
    *_, last = messages.since(0)
    assert last.pair == 104


@requirement("R-TRACE-05")
def test_file_has_what_was_kept_and_what_follows_without_secrets(tmp_path: Path) -> None:
    messages = Traffic(("accord", "chat"))
    _, see = messages.observer()
    env = [{"name": "TOKEN", "value": "very-secret"}]
    server = {"name": "a", "command": "/bin/a", "args": [], "env": env}
    see("sent", frame(id=1, method="session/new", params={"cwd": "/", "mcpServers": [server]}))
    path = tmp_path / "t.acp.jsonl"
    messages.write_to(path)
    see("received", frame(id=1, result={"sessionId": "s1"}))
    messages.close()
    see("received", update("not recorded any more"))
    text = path.read_text("utf-8")
    assert "very-secret" not in text
    assert "not recorded" not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    records = list(open_trace(path))
    assert [record.type for record in records] == ["request", "response"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_is_said_and_the_messages_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = Traffic()
    _, see = messages.observer()
    with pytest.raises(OSError, match="space"):
        messages.write_to(Path("/dev/full"))
    assert messages.path is None
    see("received", update("one"))
    assert methods(messages) == ["session/update"]


def fill(see: Observer) -> None:
    see("sent", frame(id=1, method="session/list", params={}))
    see("received", frame(id=1, error={"code": -32601, "message": "Method not found"}))
    see("received", update("Grüße"))
    see("received", b"no message")


SELECTED = (
    (Filter(), [0, 1, 2, 3]),
    (Filter(errors=True), [1, 3]),
    (Filter(text="GRÜSSE".replace("SS", "ß")), [2]),
    (Filter(text="session/LIST"), [0, 1]),
    (Filter(methods=("session/u*",)), [2]),
    (Filter(sessions=("s1",)), [2]),
)


def test_messages_are_selected() -> None:
    messages = Traffic()
    _, see = messages.observer()
    fill(see)
    rows = [(one, one.row(one.record())) for one in messages.since(0)]
    for wanted, expected in SELECTED:
        assert [one.number for one, row in rows if matches(one, row, wanted)] == expected, wanted


async def opened(user: Typist) -> MessageList:
    await user.press("alt+t")
    await user.until(lambda: isinstance(user.app.screen, TraceScreen))
    shown = user.app.screen.query_one(MessageList)
    await user.until(lambda: shown.has_focus and shown.shown)
    return shown


async def test_each_message_is_one_line(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(ScriptAgent()), folder=tmp_path, size=(80, 40)) as user:
        await user.send("echo the answer")
        await user.sees("  the answer")
        await user.until(lambda: not user.session.is_busy)
        await opened(user)
        await user.sees(
            "→ initialize", "← initialize                 ✓", "→ session/prompt", "answer"
        )


async def test_errors_and_the_messages_of_this_session_are_found(tmp_path: Path) -> None:
    source = HandAgent(1, {"session/new": {"sessionId": "a-session-1234"}})
    async with open_chat(source, folder=tmp_path) as user:
        await user.send("fails")  # the agent does not know session/prompt
        await user.sees("Method not found")
        shown = await opened(user)
        await user.press("e")
        await user.until(lambda: shown.shown == 1)
        await user.sees("only errors", "session/prompt", "✗", "-32601 Method not found")
        await user.press("enter")
        await user.sees("failed after", '"message": "Method not found"')
        await user.press("escape", "e")
        await user.until(lambda: shown.shown > 1)
        source.update("a-session-1234", sessionUpdate="session_info_update", title="Mine")
        source.update("other", sessionUpdate="session_info_update", title="Other")
        await user.sees("Mine", "Other")
        await user.press("s")
        await user.until(lambda: "Mine" in user.screen and "Other" not in user.screen)
        await user.pilot.resize_terminal(160, 50)  # has room for sizes and sessions
        await user.sees("on-1234")
        line = next(one for one in user.screen.split("\n") if "session_info" in one)
        assert "on-1234" in line
        assert " B " in line


async def test_messages_are_searched_and_one_is_shown_whole(tmp_path: Path) -> None:
    source = HandAgent(1, {"session/new": {"sessionId": "s1"}})
    async with open_chat(source, folder=tmp_path) as user:
        shown = await opened(user)
        source.update("s1", sessionUpdate="session_info_update", title="A \x1b[31mfine\u202e title")
        await user.press("slash")
        await user.type("FINE")
        await user.until(lambda: shown.shown == 1)
        await user.sees("with “FINE”", "session/update")
        await user.press("enter", "enter")
        await user.until(lambda: isinstance(user.app.screen, ViewerScreen))
        await user.sees("notification session/update", '"sessionUpdate": "session_info_update"')
        assert "\x1b" not in user.screen
        assert "\u202e" not in user.screen
        await user.press("escape")
        await user.until(lambda: isinstance(user.app.screen, TraceScreen))
        await user.press("escape")  # ends the search
        await user.until(lambda: shown.shown > 1)
        await user.press("escape")
        await user.until(lambda: user.composer.has_focus)


async def test_end_is_followed_until_the_user_goes_up(tmp_path: Path) -> None:
    source = HandAgent(1, {"session/new": {"sessionId": "s1"}})
    async with open_chat(source, folder=tmp_path) as user:

        def tell(first: int, end: int) -> None:
            for number in range(first, end):
                source.update("s1", sessionUpdate="session_info_update", title=f"T{number}.")

        tell(0, 50)
        await opened(user)
        await user.sees("T49.")
        await user.press("up", "up")
        await user.sees("End follows")
        tell(50, 100)
        await user.until(lambda: "104 messages" in user.screen or "103 messages" in user.screen)
        assert "T99." not in user.screen
        await user.press("end")
        await user.sees("T99.")
        tell(100, 101)
        await user.sees("T100.")


async def test_key_records_to_a_file(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(ScriptAgent()), folder=tmp_path) as user:
        await opened(user)
        await user.press("w")
        await user.sees("recording to chat-")
        await user.press("escape")
        await user.send("echo recorded")
        await user.sees("  recorded")
        await opened(user)
        await user.press("w")
        await user.until(lambda: user.chat.traffic.path is None)
        (path,) = tmp_path.glob("chat-*.acp.jsonl")  # noqa: ASYNC240
        recorded = [one.method for one in open_trace(path) if one.type == "request"]
        assert recorded == ["initialize", "session/new", "session/prompt"]


async def test_stderr_has_a_tab(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        "import sys\n"
        "from accord.script_agent.agent import ScriptAgent\n"
        "print('\\x1b[31ma warning\\x1b[0m in red', file=sys.stderr, flush=True)\n"
        "ScriptAgent().run()\n"
    )
    source = OwnAgent("noisy", started_command(str(program)), SourceSetup())
    async with open_chat(source, folder=tmp_path) as user:
        await opened(user)
        await user.sees("stderr: 1 line")
        await user.press("tab")
        await user.sees("a warning in red")
        await user.press("tab")
        await user.until(lambda: "a warning" not in user.screen and "initialize" in user.screen)


async def test_option_records_from_the_first_message_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "t.acp.jsonl.gz"
    start = prepare(ChatOptions(agent="script", cwd=tmp_path, trace=path))
    try:
        async with typing_at(ChatApp(start.make_chat)) as user:
            await user.send("echo recorded")
            await user.sees("  recorded")
    finally:
        start.saved.release()
    requests = [record.method for record in open_trace(path) if record.type == "request"]
    assert requests[:3] == ["initialize", "session/new", "session/prompt"]


async def test_streamed_messages_are_not_decoded_before_they_are_shown(tmp_path: Path) -> None:
    class Chatterbox(Agent):
        async def prompt(self, turn: Turn) -> None:
            for number in range(3000):
                await turn.say(f"{number} ")

    async with open_chat(LocalAgent(Chatterbox()), folder=tmp_path) as user:
        await user.send("go")
        shown = await opened(user)
        await user.until(lambda: user.chat.traffic.total > 100 and shown.shown)
        await user.press("escape")
        await user.until(lambda: not user.session.is_busy)
        assert len(list(user.chat.traffic.since(0))) <= traffic.MAX_MESSAGES


async def test_updates_of_an_unknown_session_are_said_once(tmp_path: Path) -> None:
    source = HandAgent(1, {"session/new": {"sessionId": "s1"}})
    async with open_chat(source, folder=tmp_path) as user:
        source.results["session/new"] = {"sessionId": "s2"}
        await user.press("f8")
        await user.until(lambda: [one.session_id for one in user.chat.sessions] == ["s1", "s2"])
        await user.press("f12")
        await user.until(lambda: len(user.chat.sessions) == 1)
        source.update("s2", sessionUpdate="session_info_update", title="Of a closed session")
        for number in range(3):
            source.update("another", sessionUpdate="session_info_update", title=f"T{number}")
        await user.sees("The agent sends updates of a session that is not open: another")
        source.update("another", sessionUpdate="session_info_update", title="T4")
        source.update("third", sessionUpdate="session_info_update", title="T5")
        await user.sees("a session that is not open: third")
        assert user.screen.count("not open: another") == 1
        assert "not open: s2" not in user.screen
