"""Recorded messages as the entries of a conversation."""

from __future__ import annotations

import re
from typing import Any

import pytest

from accord_inspector.talk.transcripts import Transcripts
from accord_terminal.conversation import SessionLog, entry_json, session_json
from accord_trace.line_builder import Hop
from accord_trace.records import decode_record
from sample_recordings import ESCAPES, Writer, one_turn


def read(*recordings: Writer) -> Transcripts:
    """Return the transcripts of recordings, one after the other."""
    transcripts = Transcripts()
    number = 0
    for recording in recordings:
        for line in recording.text.splitlines():
            record = decode_record(line)
            if record is not None:
                transcripts.add(number, record)
                number += 1
    return transcripts


def entries(log: SessionLog) -> list[dict[str, Any]]:
    return [entry_json(entry, -1, log.clock.now) for entry in log.entries]


def chunk(text: str, **more: Any) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "content": content, **more}


def opened(version: int = 1, conn: str = "1") -> Writer:
    talk = Writer(Hop(conn=conn))
    talk.to_agent(0.0, id=0, method="initialize", params={"protocolVersion": version})
    talk.to_client(0.1, id=0, result={"protocolVersion": version})
    talk.to_agent(0.2, id=1, method="session/new", params={"cwd": "/x", "mcpServers": []})
    talk.to_client(0.3, id=1, result={"sessionId": "s"})
    return talk


def prompt(talk: Writer, ts: float, number: int, text: str) -> None:
    blocks = [{"type": "text", "text": text}]
    talk.to_agent(
        ts, id=number, method="session/prompt", params={"sessionId": "s", "prompt": blocks}
    )


def test_turn_becomes_entries_that_name_their_messages() -> None:
    log = read(one_turn()).sessions["s"]
    user, agent, tool, end = entries(log)
    assert (user["role"], user["parts"][0]["text"], user["message"]) == ("user", "Fix it", 4)
    assert (agent["role"], agent["message"], agent["last"]) == ("agent", 5, 6)
    assert "Hello world" in agent["parts"][0]["html"]
    assert (tool["status"], tool["message"], tool["last"]) == ("completed", 7, 9)
    assert (end["stopReason"], end["took"], end["tokens"]["total"]) == ("end_turn", 2.0, 30)
    state = session_json(log)
    assert (state["usage"]["used"], state["cwd"], state["running"]) == (500, "/x", False)


def test_control_characters_are_escaped_in_every_entry() -> None:
    for version in (1, 2):
        for log in read(one_turn(version)).sessions.values():
            shown = repr(entries(log)) + repr(session_json(log))
            assert not set(ESCAPES) & set("\x1b\u202e") & set(shown)


def test_version_2_shows_echoed_prompts_and_ends_turns_by_state() -> None:
    talk = opened(2)
    prompt(talk, 1.0, 2, "Hi")
    talk.to_client(1.1, id=2, result={"messageId": "m"})
    text = [{"type": "text", "text": "Hi"}]
    talk.update(1.2, sessionUpdate="user_message", messageId="m", content=text)
    talk.update(1.3, sessionUpdate="state_update", state="running")
    talk.update(1.4, **chunk("Hello", messageId="a"))
    transcripts = read(talk)
    assert transcripts.sessions["s"].is_running
    talk.update(1.6, sessionUpdate="state_update", state="idle", stopReason="end_turn")
    log = read(talk).sessions["s"]
    assert [entry["kind"] for entry in entries(log)] == ["message", "message", "end"]
    assert entries(log)[2]["took"] == pytest.approx(0.6)
    assert not log.is_running


def test_only_changed_parts_of_a_growing_message_are_returned() -> None:
    talk = opened()
    for number in range(400):
        talk.update(1.0 + number, **chunk(f"Paragraph {number}\n\n"))
    transcripts = read(talk)
    log = transcripts.sessions["s"]
    (whole,) = entries(log)
    now = transcripts.clock.now
    assert not list(log.changes_since(now))
    more = Writer()
    more.update(500.0, **chunk("The end"))
    record = decode_record(more.text.splitlines()[1])
    assert record is not None
    transcripts.add(404, record)
    (entry,) = log.changes_since(now)
    shown = entry_json(entry, now, transcripts.clock.now)
    assert 0 < shown["from"] == len(whole["parts"]) - 1
    assert "The end" in shown["parts"][-1]["html"]
    assert shown["last"] == 404


def test_permission_is_an_entry_with_its_outcome() -> None:
    talk = opened()
    options = [
        {"optionId": "y", "name": "Allow", "kind": "allow_once"},
        {"optionId": "n", "name": "Reject", "kind": "reject_once"},
    ]
    call = {"toolCallId": "t", "title": "rm -r /", "kind": "execute", "status": "pending"}
    params = {"sessionId": "s", "toolCall": call, "options": options}
    talk.to_client(2.0, id=7, method="session/request_permission", params=params)
    waiting = entries(read(talk).sessions["s"])
    assert [entry["kind"] for entry in waiting] == ["tool", "permission"]
    assert (waiting[1]["title"], waiting[1]["outcome"]) == ("rm -r /", None)
    selected = {"outcome": "selected", "optionId": "n"}
    talk.to_agent(3.0, id=7, result={"outcome": selected})
    assert entries(read(talk).sessions["s"])[1]["outcome"]["name"] == "Reject"


def test_refused_permission_shows_the_error() -> None:
    talk = opened()
    params = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": []}
    talk.to_client(2.0, id=7, method="session/request_permission", params=params)
    talk.to_agent(3.0, id=7, error={"code": -32602, "message": "Invalid kind 'maybe'"})
    *_, permission = entries(read(talk).sessions["s"])
    assert permission["outcome"]["name"] == "refused: Invalid kind 'maybe'"


@pytest.mark.parametrize("version", [1, 2])
def test_message_id_of_an_earlier_turn_begins_a_new_entry(version: int) -> None:
    talk = opened(version)
    for number in (1, 2):
        prompt(talk, number, number + 1, f"Prompt {number}")
        if version == 2:
            talk.to_client(number + 0.1, id=number + 1, result={"messageId": f"u{number}"})
            talk.update(number + 0.2, sessionUpdate="state_update", state="running")
        talk.update(number + 0.3, **chunk(f"Answer {number}", messageId="m"))
        talk.update(number + 0.4, **chunk(" goes on", messageId="m"))
        if version == 2:
            idle = {"state": "idle", "stopReason": "end_turn"}
            talk.update(number + 0.5, sessionUpdate="state_update", **idle)
        else:
            talk.to_client(number + 0.5, id=number + 1, result={"stopReason": "end_turn"})
    shown = entries(read(talk).sessions["s"])
    answers = [one["parts"][0]["html"] for one in shown if one.get("role") == "agent"]
    assert [answer.count("goes on") for answer in answers] == [1, 1]
    assert "Answer 1" in answers[0]
    assert "Answer 2" in answers[1]


def test_replacement_of_version_2_changes_the_message_of_an_earlier_turn() -> None:
    talk = opened(2)
    for number in (1, 2):
        prompt(talk, number, number + 1, f"Prompt {number}")
        talk.to_client(number + 0.1, id=number + 1, result={"messageId": f"u{number}"})
        talk.update(number + 0.2, sessionUpdate="state_update", state="running")
        talk.update(number + 0.3, **chunk(f"Answer {number}", messageId=f"a{number}"))
        idle = {"state": "idle", "stopReason": "end_turn"}
        talk.update(number + 0.4, sessionUpdate="state_update", **idle)
    log = read(talk).sessions["s"]
    before, seen = entries(log), log.clock.now
    text = [{"type": "text", "text": part} for part in ("Answer 1", ", and more")]
    talk.update(4.0, sessionUpdate="agent_message", messageId="a1", content=text)
    log = read(talk).sessions["s"]
    after = entries(log)
    assert [entry["kind"] for entry in after] == [entry["kind"] for entry in before]
    first, second = (entry for entry in after if entry.get("role") == "agent")
    assert "Answer 1, and more" in re.sub("<[^>]+>", "", "".join(p["html"] for p in first["parts"]))
    assert "Answer 2" in second["parts"][0]["html"]
    assert (first["last"], first["message"]) == (after[-1]["message"] + 1, before[0]["message"])
    # Only this entry is sent again.
    assert [entry.id for entry in log.changes_since(seen)] == [first["id"]]


def test_end_of_the_connection_ends_turns_and_questions_with_the_reason() -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Hi")
    params = {
        "sessionId": "s",
        "toolCall": {"toolCallId": "t"},
        "options": [{"optionId": "y", "name": "Allow", "kind": "allow_once"}],
    }
    talk.to_client(2.0, id=7, method="session/request_permission", params=params)
    assert read(talk).sessions["s"].is_running
    talk.end(3.0, "to_client", "exit status 3")
    log = read(talk).sessions["s"]
    *_, permission, unanswered, end = entries(log)
    assert unanswered["kind"] == "unanswered"
    assert permission["outcome"]["kind"] == "unanswered"
    assert (end["kind"], end["reason"]) == ("connection", "exit status 3")
    assert log.is_closed
    assert not log.is_running


def test_replayed_turns_that_reuse_a_message_id_are_apart() -> None:
    again = Writer(Hop(conn="2"))
    again.to_agent(9.0, id=5, method="session/load", params={"sessionId": "s", "cwd": "/x"})
    for text in ("one", "two"):
        user = {"type": "text", "text": f"Say {text}"}
        again.update(9.1, sessionUpdate="user_message_chunk", messageId="u", content=user)
        again.update(9.2, **chunk(text), messageId="m")
        again.update(9.3, **chunk("!"), messageId="m")
    shown = [entry["parts"] for entry in entries(read(again).sessions["s"])]
    texts = [part.get("html", part.get("text")) for parts in shown for part in parts]
    assert [re.sub("<.*?>|\n", "", text) for text in texts] == [
        "Say one",
        "one!",
        "Say two",
        "two!",
    ]


def test_loaded_session_starts_anew_and_a_refused_load_keeps_its_entries() -> None:
    again = Writer(Hop(conn="2"))
    again.to_agent(9.0, id=5, method="session/load", params={"sessionId": "s", "cwd": "/x"})
    again.update(9.1, **chunk("replayed"))
    log = read(one_turn(), again).sessions["s"]
    assert (log.epoch, len(log.entries)) == (1, 1)
    again.to_client(9.2, id=5, error={"code": -32602, "message": "No such session"})
    log = read(one_turn(), again).sessions["s"]
    assert [entry["kind"] for entry in entries(log)] == [
        "message",
        "message",
        "tool",
        "end",
        "error",
    ]
    assert log.epoch == 2


def test_terminal_of_version_1_is_read_from_the_responses() -> None:
    talk = opened()
    where = {"sessionId": "s", "terminalId": "t1"}
    command = {"sessionId": "s", "command": "ls", "args": ["-l"]}
    talk.to_client(1.0, id=1, method="terminal/create", params=command)
    talk.to_agent(1.1, id=1, result={"terminalId": "t1"})
    talk.to_client(1.2, id=2, method="terminal/output", params=where)
    talk.to_agent(1.3, id=2, result={"output": "a\n", "truncated": False})
    talk.to_client(1.4, id=3, method="terminal/wait_for_exit", params=where)
    talk.to_agent(1.5, id=3, result={"exitCode": 2})
    shell = read(talk).sessions["s"].transcript.terminals["t1"]
    assert (shell.terminal.command, shell.text) == ("ls -l", "a\n")
    assert (shell.terminal.exited, shell.terminal.exit_code) == (True, 2)


def test_message_that_cannot_be_read_is_shown_as_such() -> None:
    talk = opened()
    talk.update(1.0, sessionUpdate="agent_message_chunk", content=7)
    (entry,) = entries(read(talk).sessions["s"])
    assert (entry["kind"], entry["message"]) == ("unreadable", 4)


def test_hops_behind_a_proxy_do_not_repeat_the_conversation() -> None:
    behind = Writer(Hop("Proxy(0)", "Agent", "2"))
    behind.update(1.0, **chunk("twice"))
    transcripts = read(one_turn(), behind)
    assert len(transcripts.sessions["s"].entries) == 4


def test_v1_tool_call_that_its_turn_has_left_open_is_shown_as_not_finished() -> None:
    talk = opened()
    prompt(talk, 1.0, 2, "Edit it")
    talk.update(1.1, sessionUpdate="tool_call", toolCallId="a", title="Edit", status="pending")
    talk.to_client(1.2, id=2, result={"stopReason": "end_turn"})
    log = read(talk).sessions["s"]
    assert entries(log)[1]["status"] == "not finished by the agent"
    assert [entry["kind"] for entry in entries(log)][-1] == "end"
    talk.update(2.0, sessionUpdate="tool_call_update", toolCallId="a", status="completed")
    assert entries(read(talk).sessions["s"])[1]["status"] == "completed"


STEERING = "_session/steering"


def steer(talk: Writer, ts: float, number: int, text: str) -> None:
    params = {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}
    talk.to_agent(ts, id=number, method=STEERING, params=params)


def test_message_during_a_turn_is_at_its_place_with_its_outcome() -> None:
    for version in (1, 2):
        talk = opened(version)
        prompt(talk, 1.0, 2, "Go")
        if version == 2:
            talk.to_client(1.1, id=2, result={"messageId": "m"})
            talk.update(1.2, sessionUpdate="state_update", state="running")
        more = {"messageId": "a"} if version == 2 else {}
        talk.update(1.3, **chunk("one", **more))
        steer(talk, 1.4, 3, "Faster")
        waits = entries(read(talk).sessions["s"])[-1]
        assert (waits["kind"], waits["outcome"]) == ("steer", "waiting")
        assert "Faster" in repr(waits["parts"])
        if version == 2:
            text = [{"type": "text", "text": "Faster"}]
            talk.update(1.5, sessionUpdate="user_message", messageId="n", content=text)
            more = {"messageId": "b"}
        talk.to_client(1.5, id=3, result={"outcome": "injected"})
        talk.update(1.6, **chunk("two", **more))
        log = read(talk).sessions["s"]
        shown = [(one["kind"], one.get("role", one.get("outcome"))) for one in entries(log)][-4:]
        assert shown == [
            ("message", "agent"),
            ("steer", "injected"),
            ("message", "user"),
            ("message", "agent"),
        ]
        assert log.is_running


def test_message_that_the_agent_has_not_taken_keeps_its_text() -> None:
    refused = {"code": -32602, "message": "Not now"}
    for result, outcome in (
        ({"result": {"outcome": "promptRequired"}}, "promptRequired"),
        ({"result": {"outcome": "startedNewTurn"}}, "startedNewTurn"),
        ({"result": {}}, "unanswered"),
        ({"error": refused}, "refused: Not now"),
    ):
        talk = opened()
        prompt(talk, 1.0, 2, "Go")
        steer(talk, 1.4, 3, "Faster")
        talk.to_client(1.5, id=3, **result)
        last = entries(read(talk).sessions["s"])[-1]
        assert (last["kind"], last["outcome"]) == ("steer", outcome)
        assert "Faster" in repr(last["parts"])
