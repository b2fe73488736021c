"""Whatever an agent sends, the client answers or ignores it: no traceback is logged."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from accord.client.permissions import allow
from accord.errors import AccordError, RequestError
from client.wire_agents import BOTH, agent_by_hand, opened
from requirement import requirement

DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    "",
    "\0",
    "\ud800",
    "x" * 5000,
    [],
    [None],
    [[]],
    {},
    {"a": None},
    DEEP,
)
OPTIONS = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
TEXT = {"type": "text", "text": "hi"}
CALL = {
    "toolCallId": "t",
    "title": "T",
    "kind": "edit",
    "status": "pending",
    "content": [
        {"type": "content", "content": TEXT},
        {"type": "diff", "path": "/a", "oldText": "a", "newText": "b"},
        {"type": "terminal", "terminalId": "t1"},
    ],
    "locations": [{"path": "/a", "line": 1}],
    "rawInput": {"command": ["a", "b"]},
}
FORM = {
    "mode": "form",
    "message": "m",
    "sessionId": "s1",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "a": {"type": "string", "enum": ["x"], "title": "A"},
            "b": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
            "c": {"type": "number", "minimum": 1},
        },
        "required": ["a"],
    },
}
PAGE = {
    "mode": "url",
    "message": "m",
    "sessionId": "s1",
    "elicitationId": "e",
    "url": "https://a.example",
}
UPDATES: dict[int, list[dict[str, Any]]] = {
    1: [
        {"sessionUpdate": "tool_call", **CALL},
        {"sessionUpdate": "current_mode_update", "currentModeId": "m"},
        {"sessionUpdate": "agent_message_chunk", "content": TEXT},
    ],
    2: [
        {"sessionUpdate": "agent_message", "messageId": "m", "content": [TEXT]},
        {
            "sessionUpdate": "tool_call_content_chunk",
            "toolCallId": "t",
            "content": CALL["content"][0],
        },
        {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": TEXT},
        {"sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": "aGk="}},
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "aGk="},
        {
            "sessionUpdate": "state_update",
            "state": "idle",
            "stopReason": "error",
            "error": {"code": 1, "message": "m", "data": {"details": "d"}},
            "background": [{"type": "terminal", "terminalId": "t"}],
        },
    ],
}
ALWAYS: list[dict[str, Any]] = [
    {"sessionUpdate": "tool_call_update", **CALL},
    {"sessionUpdate": "plan", "entries": [{"content": "c", "status": "x", "priority": "high"}]},
    {"sessionUpdate": "plan_update", "plan": {"type": "file", "planId": "p", "uri": "u"}},
    {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "n", "description": "d", "input": {"hint": "h"}}],
    },
    {
        "sessionUpdate": "config_option_update",
        "configOptions": [
            {
                "id": "o",
                "configId": "o",
                "name": "O",
                "type": "select",
                "category": "mode",
                "currentValue": "a",
                "options": [{"value": "a", "name": "A"}],
            }
        ],
    },
    {"sessionUpdate": "session_info_update", "title": "t", "updatedAt": "2026-01-01"},
    {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 1, "currency": "x"}},
    {"sessionUpdate": "notice", "severity": "info", "title": "t"},
    {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "x", "summary": [TEXT]},
    {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": TEXT},
    {
        "sessionUpdate": "subagent_update",
        "sessionId": "sub",
        "title": "t",
        "state": {"state": "idle"},
        "cwd": "/x",
        "additionalDirectories": ["/y"],
    },
    {
        "sessionUpdate": "session_message",
        "messageId": "m",
        "senderSessionId": "s1",
        "content": [TEXT],
    },
]
ACCOUNT = {"state": "authenticated", "accounts": [{"label": "l", "active": True}]}


def notifications(version: int) -> list[tuple[str, Any]]:
    updates = [*UPDATES[version], *ALWAYS]
    return [
        *(("session/update", {"sessionId": "s1", "update": update}) for update in updates),
        ("elicitation/complete", {"elicitationId": "e"}),
        ("auth/status_update", ACCOUNT),
        ("_mine/note", {"sessionId": "s1", "a": [1]}),
        ("_mine/async", {"a": 1}),
        ("_unknown/note", {"a": 1}),
        ("$/cancel_request", {"requestId": 1}),
        ("no/method", {}),
    ]


def requests(version: int, folder: str) -> list[tuple[str, Any]]:
    call = {"title": "May I?", "subject": {"type": "tool_call", "toolCall": CALL}}
    permission = {"toolCall": CALL} if version == 1 else call
    found: list[tuple[str, Any]] = [
        ("session/request_permission", {"sessionId": "s1", "options": OPTIONS, **permission}),
        ("elicitation/create", FORM),
        ("elicitation/create", PAGE),
        ("_mine/ask", {"sessionId": "s1", "a": [1]}),
        ("_mine/async", {"a": 1}),
        ("no/method", {}),
    ]
    if version == 1:
        file = f"{folder}/file"
        terminal = {"sessionId": "s1", "terminalId": "t1"}
        found += [
            ("fs/read_text_file", {"sessionId": "s1", "path": file, "line": 1, "limit": 1}),
            ("fs/write_text_file", {"sessionId": "s1", "path": file, "content": "c"}),
            (
                "terminal/create",
                {
                    "sessionId": "s1",
                    "command": "no-such-program",
                    "args": ["a"],
                    "cwd": folder,
                    "env": [{"name": "A", "value": "b"}],
                    "outputByteLimit": 10,
                },
            ),
            *((f"terminal/{verb}", terminal) for verb in ("output", "kill", "release")),
            ("terminal/wait_for_exit", terminal),
        ]
    return found


def mutations(value: Any) -> Iterator[Any]:
    """Yield the value with each part replaced by an invalid one, or removed."""
    for place in places(value):
        for odd in ODD:
            changed = copy.deepcopy(value)
            parent = changed
            for step in place[:-1]:
                parent = parent[step]
            if place:
                parent[place[-1]] = odd
            else:
                changed = odd
            yield changed
        if place:
            changed = copy.deepcopy(value)
            parent = changed
            for step in place[:-1]:
                parent = parent[step]
            del parent[place[-1]]
            yield changed


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    yield ()
    parts: Any = ()
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
    for step, part in parts:
        yield from ((step, *rest) for rest in places(part))


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{r.getMessage()}: {r.exc_info[1]!r}" for r in caplog.records if r.exc_info]


async def never(_value: Any) -> None:
    """Decline the request."""


async def later(params: Any) -> Any:
    await asyncio.sleep(0)
    return params


def options(folder: Path) -> dict[str, Any]:
    return {
        "permissions": allow("edit:src/*", "execute:make *"),
        "files": "rw",
        "terminals": True,
        "on_elicit_form": never,
        "on_elicit_url": never,
        "on_auth_status": lambda status: None,
        "unstable": True,
        "extensions": {
            "_mine/note": lambda params: {"an": "answer"},
            "_mine/ask": lambda params: params,
            "_mine/async": later,
        },
    }


@requirement("R-ERR-05")
@BOTH
async def test_any_notification_leaves_no_traceback(
    version: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with agent_by_hand(version, **options(tmp_path)) as (agent, raw):
        session = await opened(agent, raw, str(tmp_path))
        async with session.prompt("Hi") as turn:
            prompt = await raw.get()
            for method, params in notifications(version):
                for odd in mutations(params):
                    raw.tell(method, odd)
                    await asyncio.sleep(0)
                assert await raw.result_of("ping", "_mine/ask", "ok") == "ok"
                assert not tracebacks(caplog), method
            raw.answer(prompt["id"], {"stopReason": "end_turn", "messageId": "u"})
            raw.tell(
                "session/update",
                {"sessionId": "s1", "update": {"sessionUpdate": "state_update", "state": "idle"}},
            )
            with contextlib.suppress(RequestError):
                await turn.wait()
        assert session.transcript.text is not None


@BOTH
async def test_any_request_is_answered_and_leaves_no_traceback(
    version: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent_by_hand(version, **options(tmp_path)) as (agent, raw):
        await opened(agent, raw, str(tmp_path))
        for method, params in requests(version, str(tmp_path)):
            for number, odd in enumerate(mutations(params)):
                raw.ask(number, method, odd)
                answer = await raw.get()
                assert answer["id"] == number
            assert not tracebacks(caplog), method


RESULTS: dict[int, dict[str, Any]] = {
    1: {
        "sessionId": "s1",
        "modes": {"currentModeId": "m", "availableModes": [{"id": "m", "name": "M"}]},
        "models": {"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "M"}]},
        "configOptions": ALWAYS[4]["configOptions"],
    },
    2: {
        "sessionId": "s1",
        "configOptions": ALWAYS[4]["configOptions"],
        "availableCommands": [{"type": "command", "name": "n", "description": "d"}],
    },
}


@BOTH
async def test_any_response_is_accepted_or_an_error_and_leaves_no_traceback(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent_by_hand(version) as (agent, raw):
        for odd in mutations(RESULTS[version]):
            opening = asyncio.ensure_future(agent.new_session("/"))
            raw.answer((await raw.get())["id"], odd)
            with contextlib.suppress(AccordError):
                await opening
        assert not tracebacks(caplog)


@BOTH
async def test_chain_of_subagents_is_followed_without_recursion(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent_by_hand(version, permissions=allow("*"), unstable=True) as (agent, raw):
        session = await opened(agent, raw)
        names = ["s1", *(f"sub{number}" for number in range(3000)), "s1"]
        for parent, child in pairwise(names):
            subagent = {"sessionUpdate": "subagent_update", "sessionId": child}
            raw.tell("session/update", {"sessionId": parent, "update": subagent})
            await asyncio.sleep(0)
        subject = {"title": "May I?"} if version == 2 else {"toolCall": {"toolCallId": "t"}}
        asked = {"sessionId": names[-2], "options": OPTIONS, **subject}
        answer = await raw.result_of("q", "session/request_permission", asked)
        assert answer["outcome"]["outcome"] in ("selected", "cancelled")
        closing = asyncio.ensure_future(agent.remote.connection.call("_x", {}, bytes))
        raw.answer((await raw.get())["id"], {})
        await closing
        session._handlers.drop_session("s1")
        assert not tracebacks(caplog)
