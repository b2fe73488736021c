"""Scenarios for sessions: new ones, their MCP servers, reopening, the list, modes and options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import (
    UNKNOWN_SESSION,
    Json,
    ScenarioClient,
    SentPrompt,
    text_block,
)
from accord_conformance.harness import NoResponse, NotExercised, scenario
from accord_conformance.traffic.message import Notification, Request, format_value

_BAD = (-32602,)


@scenario("sessions/new", "R-GEN-08")
async def _new(context: AgentContext) -> None:
    """Sessions are created, one with an unknown key."""
    client = context.client
    await client.new_session()
    params = client.setup_params(accordUnknown={"deep": [1]}, _meta={"accord": 1})
    call = client.connection.send_request("session/new", params)
    await context.expect_success("R-GEN-08", client, call, why="a session with an unknown key")


@scenario("sessions/malformed", "R-GEN-11", "R-ERR-05")
async def _malformed(context: AgentContext) -> None:
    """Sessions are requested with malformed params."""
    client = context.client
    await client.new_session()
    no_cwd = client.setup_params()
    del no_cwd["cwd"]
    odd: dict[str, Any] = {
        "a session without `cwd`": no_cwd,
        "a `cwd` that is a number": client.setup_params(cwd=5),
        "a `cwd` that is null": client.setup_params(cwd=None),
    }
    for why, params in odd.items():
        call = client.connection.send_request("session/new", params)
        # Neither the schema nor JSON-RPC demands that invalid params are refused with this code.
        await context.expect_error("R-GEN-11", client, call, _BAD, why=why, authority="derived")
    call = client.connection.send_request("session/new", client.setup_params())
    await context.expect_success("R-ERR-05", client, call, why="a request after malformed ones")


@scenario("sessions/directories")
async def _directories(context: AgentContext) -> None:
    """Sessions are created with additional directories, also invalid ones."""
    client = context.client
    client.require("additional directories")
    more = context.folder / "more"
    more.mkdir()
    await client.new_session(additionalDirectories=[str(more)])
    await client.new_session(additionalDirectories=[])
    for odd in (["more"], [""], [5], "more", [str(more), "more"]):
        await client.open_session("session/new", client.setup_params(additionalDirectories=odd))


@scenario("sessions/unknown", "R-SESS-37", "R-SESS-32", versions=(2,))
async def _unknown(context: AgentContext) -> None:
    """Requests name an unknown session."""
    client = context.client
    await client.new_session()
    ident = UNKNOWN_SESSION
    sent = client.prompt(ident, "Hello")
    expected = "-32002 with the session's id in `data`"
    if await context.expect_response("R-SESS-37", client, sent.request, expected):
        error = sent.request.response.error if sent.request.response else None
        data = error.get("data") if is_object(error) else None
        named = is_object(data) and data.get("sessionId") == ident
        context.judge(
            "R-SESS-37",
            sent.request.code == -32002 and named,
            sent.request,
            expected=expected,
            got=f"code {sent.request.code}, data {data}",
        )
    call = client.connection.send_request("session/close", {"sessionId": ident})
    await context.expect_success("R-SESS-32", client, call, why="closing an unknown session")


@scenario("sessions/system-prompt", "R-SYSP-02", "R-SYSP-03", "R-SYSP-04")
async def _system_prompt(context: AgentContext) -> None:
    """Sessions are created with system prompts, also invalid ones."""
    client = context.client
    client.require("system prompts")
    await client.new_session()

    def given(**prompt: Any) -> Any:
        prompt.setdefault("content", [text_block("Be brief.")])
        return client.connection.send_request(
            "session/new", client.setup_params(systemPrompt=prompt)
        )

    call = given(mode="append")
    await client.connection.wait_for_response(call)
    override = None
    if not call.ok and client.supports("system prompts with mode override"):
        override = given(mode="override")
        await client.connection.wait_for_response(override)
    # If the agent accepts the text in another mode, the mode is the cause, else the text.
    rule = "R-SYSP-02" if override is None or override.ok else "R-SYSP-04"
    await context.expect_success(rule, client, call, why="text to append")
    if call.ok:
        context.judge("R-SYSP-04", True)
    await context.expect_error(
        "R-SYSP-03", client, given(mode="_accord"), (), why="an unknown mode"
    )
    odd = given(content=[{"type": "_accord"}])
    await context.expect_error("R-SYSP-03", client, odd, (), why="content of an unknown type")
    if not client.supports("system prompts with mode override"):
        call = given(mode="override")
        await context.expect_error("R-SYSP-03", client, call, (), why="a mode that is not offered")


@scenario("sessions/two")
async def _two(context: AgentContext) -> None:
    """Two sessions work at the same time."""
    client = context.client
    one, other = await client.new_session(), await client.new_session()
    first, second = client.prompt_for(one, "text"), client.prompt_for(other, "text")
    await first.wait_for_end()
    await second.wait_for_end()


SESSIONS = (_new, _malformed, _directories, _unknown, _system_prompt, _two)


# MCP servers of a session: valid and invalid lists.

_SERVER = Path(__file__).with_name("mcp_server.py")


def _server(version: int, name: str = "accord-check") -> Json:
    """Return an entry for a server without tools."""
    entry: Json = {"name": name, "command": sys.executable, "args": [str(_SERVER)], "env": []}
    return entry if version == 1 else {"type": "stdio", **entry}


# Servers start no commands for remote clients (R-SEC-09).
@scenario("mcp/stdio", "R-MCP-01", media=("stdio",))
async def _stdio(context: AgentContext) -> None:
    """A session has an MCP server on stdio."""
    client = context.client
    client.require("MCP over stdio")
    await client.new_session()
    call = client.connection.send_request(
        "session/new", client.setup_params(mcpServers=[_server(context.version)])
    )
    await client.connection.wait_for_response(call, within_s=context.settings.timeout)
    await context.expect_success(
        "R-MCP-01", client, call, why="a session with an MCP server on stdio"
    )


@scenario("mcp/malformed", "R-MCP-12")
async def _mcp_malformed(context: AgentContext) -> None:
    """One of the servers is malformed, so the agent must refuse the session."""
    client = context.client
    await client.new_session()
    odd: dict[str, Json] = {
        "an MCP server whose name is a number": _server(context.version) | {"name": 5},
        "an MCP server without command and URL": {"name": "nowhere", "type": "stdio"},
    }
    for why, entry in odd.items():
        servers = (
            [_server(context.version), entry] if client.supports("MCP over stdio") else [entry]
        )
        call = client.connection.send_request(
            "session/new", client.setup_params(mcpServers=servers)
        )
        await client.connection.wait_for_response(call, within_s=context.settings.timeout)
        await context.expect_error("R-MCP-12", client, call, (), why=why)


@scenario("mcp/duplicates", "R-MCP-15", versions=(2,), media=("stdio",))
async def _duplicates(context: AgentContext) -> None:
    """Two servers have one name, and one uses a transport that is not advertised."""
    client = context.client
    await client.new_session()
    if client.supports("MCP over stdio"):
        entries = [_server(2), _server(2)]
        await _refused(context, entries, "name", "accord-check", "two servers with the same name")
    if not client.supports("MCP over HTTP"):
        web: Json = {"type": "http", "name": "web", "url": "https://example.com/mcp", "headers": []}
        await _refused(context, [web], "type", "http", "a transport that is not advertised")


async def _refused(
    context: AgentContext, servers: list[Json], key: str, value: str, why: str
) -> None:
    client = context.client
    call = client.connection.send_request("session/new", client.setup_params(mcpServers=servers))
    await client.connection.wait_for_response(call, within_s=context.settings.timeout)
    error: Any = call.response.error if call.response else None
    data = error.get("data") if is_object(error) else None
    context.judge(
        "R-MCP-15",
        call.code == -32602 and is_object(data) and data.get(key) == value,
        call,
        expected=f"-32602 with the {key} in `data` for {why}",
        got=f"code {call.code}, data {format_value(data)}",
    )


_CARRY = "mcp/message"
_SERVER_ID = "accord-check-server"


@scenario("mcp/old-dialect", "R-MOA-16")
async def _old_dialect(context: AgentContext) -> None:
    """Requests that older drafts of MCP over ACP had."""
    client = context.client
    for method in ("mcp/connect", "_mcp/connect"):
        call = client.connection.send_request(method, {"acpId": "accord-check"})
        await context.expect_error("R-MOA-16", client, call, (-32601,), why=method)


@scenario("mcp/over-acp", "R-MOA-07", "R-MOA-15")
async def _over_acp(context: AgentContext) -> None:
    """The client has an MCP server, and sends notifications that belong to no active request."""
    client = context.client
    client.require("MCP over ACP")
    calls: list[Request] = []

    def serve(call: Request) -> None:
        calls.append(call)
        if len(calls) > 1:
            client.connection.respond(call, _outcome(call))

    client.mcp_policy = serve
    entry: Json = {"type": "acp", "name": "accord-check", "serverId": _SERVER_ID}
    opening = client.connection.send_request("session/new", client.setup_params(mcpServers=[entry]))
    await client.wait_for_optional(lambda: bool(calls or opening.response), "MCP request")
    if not calls and is_object(opening.result):
        # It may connect to its servers when a turn begins.
        client.prompt_for(str(opening.result.get("sessionId")), "text")
        await client.wait_for_optional(lambda: bool(calls), "MCP request")
    if not calls:
        raise NotExercised("the agent sent no request to the MCP server of the client")
    first = calls[0]
    unknown = "accord-check-none"
    if not await _drops(context, "R-MOA-07", unknown, "a request that it never made"):
        return
    client.connection.respond(first, _outcome(first))
    request = first.params.get("requestId") if is_object(first.params) else None
    await _drops(context, "R-MOA-15", request, "a request that was answered")


async def _drops(context: AgentContext, rule: str, request: Any, why: str) -> bool:
    """Send a notification; judge that the agent still responds, and return whether it does."""
    connection = context.client.connection
    inner: Json = {"progressToken": "accord-check", "progress": 1}
    params: Json = {"serverId": _SERVER_ID, "requestId": request, "params": inner}
    sent = connection.send_notification(_CARRY, {**params, "method": "notifications/progress"})
    try:
        await connection.call("_accord/settle", {})
        got = ""
    except NoResponse as silence:
        got = str(silence)
    expected = f"a notification for {why} is dropped"
    context.judge(rule, not got, sent, expected=expected, got=got)
    return not got


def _outcome(call: Request) -> Json:
    """Return the outcome of an MCP request: a server with one tool."""
    method = call.params.get("method") if is_object(call.params) else None
    shared: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    tool: Json = {"name": "accord_check_echo", "inputSchema": {"type": "object"}}
    match method:
        case "server/discover":
            info: Json = {"name": "accord-check", "version": "1"}
            about: Json = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            return {"result": {**shared, **about, "serverInfo": info}}
        case "tools/list":
            return {"result": {**shared, "tools": [tool]}}
        case "tools/call":
            return {"result": {**shared, "content": [{"type": "text", "text": "hello"}]}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


MCP = (_stdio, _mcp_malformed, _duplicates, _old_dialect, _over_acp)


# Loading, resuming and forking of sessions.

_USER_KINDS = ("user_message", "user_message_chunk")
_AGENT_KINDS = ("agent_message", "agent_message_chunk")


@scenario("reopening/replay", "R-SESS-08", "R-SESS-10", "R-SESS-14", "R-SESS-15")
async def _replay(context: AgentContext) -> None:
    """A session with a turn is loaded with its history."""
    client = context.client
    if context.version == 1:
        client.require("load")
    session, sent = await _closed_session(client)
    before = len(client.connection.notifications)
    call = await client.reopen_session(session, replay=True)
    if not call.ok:
        raise NotExercised(f"the session could not be opened again: error {call.code}")
    replayed = _replayed(
        client, session, before, call.response.frame.number if call.response else 0
    )
    user_updates = [item for item in replayed if item[1].get("sessionUpdate") in _USER_KINDS]
    asked = context.settings.prompt("text")
    whole = asked in _text_of(user_updates) and (
        not _text_of(sent.updates(*_AGENT_KINDS))
        or bool(
            _text_of([item for item in replayed if item[1].get("sessionUpdate") in _AGENT_KINDS])
        )
    )
    context.judge(
        "R-SESS-08" if context.version == 1 else "R-SESS-14",
        whole,
        sent.request,
        call,
        expected="the prompt and the agent's messages, before the response",
        got=f"{len(replayed)} updates, user text {format_value(_text_of(user_updates))}",
    )
    if context.version == 1:
        _unique(context, replayed)
        return
    ident = sent.request.result.get("messageId") if is_object(sent.request.result) else None
    if user_updates:
        ids = [update.get("messageId") for _, update in user_updates]
        context.judge(
            "R-SESS-15",
            ident in ids,
            sent.request,
            *(note for note, _ in user_updates),
            expected=f"the message id {ident!r} of the original message",
            got=f"{ids!r}",
        )


def _unique(context: AgentContext, replayed: list[tuple[Notification, Json]]) -> None:
    """Judge that messages of both sides have different ids."""
    kind_by_id: dict[str, str] = {}
    last = None
    for note, update in replayed:
        ident, kind = update.get("messageId"), str(update.get("sessionUpdate"))
        if not isinstance(ident, str) or kind not in (
            *_USER_KINDS,
            *_AGENT_KINDS,
            "agent_thought_chunk",
        ):
            continue
        context.judge(
            "R-SESS-10",
            kind_by_id.get(ident) in (None, kind) and (ident not in kind_by_id or last == ident),
            note,
            expected="a different id for each message",
            got=f"{ident!r} of another message",
        )
        kind_by_id[ident], last = kind, ident


@scenario("reopening/resume")
async def _resume(context: AgentContext) -> None:
    """A session with a turn is resumed without its history, and continues."""
    client = context.client
    if context.version == 1:
        client.require("resume")
    session, _ = await _closed_session(client)
    call = await client.reopen_session(session, replay=False)
    if call.ok:
        await client.run_turn(session, "text")


@scenario("reopening/cursor", versions=(2,))
async def _cursor(context: AgentContext) -> None:
    """The client resumes a session from an unknown position, which the agent must refuse."""
    session, _ = await _closed_session(context.client)
    for cursor in ({"type": "_accord_nowhere"}, "start"):
        await context.client.reopen_session(session, replay=False, replayFrom=cursor)


@scenario("reopening/fork", "R-SESS-25")
async def _fork(context: AgentContext) -> None:
    """A session with a turn is forked; the fork continues, and the session is unchanged."""
    client = context.client
    client.require("fork")
    session = await client.new_session()
    await client.run_turn(session, "text")
    call = await client.open_session("session/fork", client.setup_params(sessionId=session))
    if not call.ok or not is_object(call.result):
        raise NotExercised(f"the agent did not fork the session: error {call.code}")
    ident = call.result.get("sessionId")
    context.judge(
        "R-SESS-25",
        isinstance(ident, str) and ident != session,
        call,
        expected="a new id for the fork",
        got="the id of the source session" if ident == session else format_value(ident),
    )
    if not isinstance(ident, str) or ident == session:
        return
    await client.run_turn(ident, "text")
    before = len(client.connection.notifications)
    again = await client.reopen_session(session, replay=True)
    replayed = _replayed(
        client, session, before, again.response.frame.number if again.response else 0
    )
    user_updates = [item for item in replayed if item[1].get("sessionUpdate") in _USER_KINDS]
    times = _text_of(user_updates).count(context.settings.prompt("text"))
    if again.ok and times:
        context.judge(
            "R-SESS-25",
            times == 1,
            call,
            again,
            expected="an unchanged history of the source session",
            got=f"{times} prompts",
        )


@scenario("reopening/unknown", "R-SESS-37")
async def _reopening_unknown(context: AgentContext) -> None:
    """An unknown session is loaded or resumed."""
    client = context.client
    if context.version == 1:
        client.require("load")
    await client.new_session()
    call = await client.reopen_session(UNKNOWN_SESSION, replay=True)
    context.judge(
        "R-SESS-37",
        call.code == -32002,
        call,
        expected="-32002 for an unknown session",
        got="a result" if call.ok else f"error {call.code}",
    )


async def _closed_session(client: ScenarioClient) -> tuple[str, SentPrompt]:
    """Return a session with a turn, closed if the agent supports that."""
    session = await client.new_session()
    sent = await client.run_turn(session, "text")
    if client.supports("close"):
        await client.close_session(session)
    return session, sent


def _replayed(
    client: ScenarioClient, session: str, before: int, answered: int
) -> list[tuple[Notification, Json]]:
    """Return the updates between two frames."""
    late = {id(note) for note in client.connection.notifications[before:]}
    return [
        (note, update)
        for note, update in client.updates(session)
        if id(note) in late and note.frame.number < answered
    ]


def _text_of(updates: list[tuple[Notification, Json]]) -> str:
    """Return the text of messages and chunks."""
    texts: list[str] = []
    for _, update in updates:
        content = update.get("content")
        blocks: list[Any] = content if is_array(content) else [content]
        block_texts = [block.get("text") for block in blocks if is_object(block)]
        texts += [text for text in block_texts if isinstance(text, str)]
    return "".join(texts)


REOPENING = (_replay, _resume, _cursor, _fork, _reopening_unknown)


# The list of sessions: pages, filters, deletion, archiving.

_MAX_PAGES = 20


@scenario("session-list/pages", "R-LIST-06", "R-GEN-09")
async def _pages(context: AgentContext) -> None:
    """Sessions are listed to the end, with a filter, and with an invalid cursor."""
    client = context.client
    client.require("list")
    await client.new_session()
    await client.new_session()
    call = client.connection.send_request("session/list")
    await context.expect_success("R-GEN-09", client, call, why="`session/list` without params")
    await _listed(client)
    await _listed(client, cwd=str(context.folder))
    await _listed(client, cwd=str(context.folder / "nowhere"))
    call = client.connection.send_request("session/list", {"cursor": "accord-no-cursor"})
    await context.expect_error("R-LIST-06", client, call, (), why="an invalid cursor")


@scenario("session-list/delete", "R-LIST-14")
async def _delete(context: AgentContext) -> None:
    """A session is deleted twice, and an unknown session once."""
    client = context.client
    client.require("delete")
    session = await client.new_session()
    await client.connection.call("session/delete", {"sessionId": session})
    if client.supports("list"):
        await _listed(client)
    for ident, why in ((session, "a deleted session"), (UNKNOWN_SESSION, "an unknown session")):
        call = client.connection.send_request("session/delete", {"sessionId": ident})
        await context.expect_success("R-LIST-14", client, call, why=f"deleting {why}")


@scenario("session-list/archive", "R-ARCH-05", "R-ARCH-06", "R-ARCH-08")
async def _archive(context: AgentContext) -> None:
    """A session is archived, listed, and unarchived."""
    client = context.client
    client.require("archive", "list")
    kept, session = await client.new_session(), await client.new_session()
    for sent in (kept, session):
        await client.run_turn(sent, "text")
    for why in ("", " that is archived already"):
        call = client.connection.send_request("session/archive", {"sessionId": session})
        await context.expect_success("R-ARCH-05", client, call, why=f"archiving a session{why}")
    here = {"cwd": str(context.folder)}
    for archived, wanted in (
        (None, {kept}),
        ("exclude", {kept}),
        ("include", {kept, session}),
        ("only", {session}),
    ):
        call, listed = await _listed(client, **here, archived=archived)
        context.judge(
            "R-ARCH-08",
            listed & {kept, session} == wanted,
            call,
            expected=f"{_which(wanted, session)} for {archived or 'null'}",
            got=_which(listed & {kept, session}, session),
        )
    for why in ("", " that is not archived"):
        call = client.connection.send_request("session/unarchive", {"sessionId": session})
        await context.expect_success("R-ARCH-05", client, call, why=f"unarchiving a session{why}")
    if client.supports("status"):
        call = await client.connection.call("session/status", {"sessionId": session})
        status = call.result.get("status") if is_object(call.result) else None
        context.judge(
            "R-ARCH-06",
            status != "open",
            call,
            expected="a status other than open",
            got=f"the status {status}",
        )
    for method in ("session/archive", "session/unarchive"):
        call = client.connection.send_request(method, {"sessionId": UNKNOWN_SESSION})
        await context.expect_error("R-ARCH-05", client, call, (-32002,), why="an unknown session")


def _which(found: set[str], archived: str) -> str:
    names = ["the archived" if ident == archived else "the other" for ident in sorted(found)]
    return " and ".join(sorted(names)) or "neither"


@scenario("session-list/archive-active", "R-ARCH-04")
async def _archive_active(context: AgentContext) -> None:
    """A session is archived during a turn."""
    client = context.client
    client.require("archive")
    session = await client.new_session()
    sent = client.prompt_for(session, "long")
    await client.connection.sync()
    if sent.is_over:
        raise NotExercised("the turn ended before the session could be archived")
    call = await client.open_session("session/archive", {"sessionId": session})
    if not call.ok:
        raise NotExercised(f"the session was not archived: {call.outcome}")
    ended = sent.evidence[-1].frame.number if sent.is_over and context.version == 2 else 0
    if context.version == 1 and sent.request.response is not None:
        ended = sent.request.response.frame.number
    archived = call.response.frame.number if call.response else 0
    context.judge(
        "R-ARCH-04",
        0 < ended < archived,
        *sent.evidence,
        call,
        expected="the end of the turn, and then the response",
        got="the response before the end of the turn",
    )


@scenario("session-list/set-title", "R-TITLE-02", "R-TITLE-03")
async def _title(context: AgentContext) -> None:
    """Titles of open and closed sessions are set, also to invalid values."""
    client = context.client
    client.require("title")
    session = await client.new_session()
    await client.run_turn(session, "text")

    def rename(ident: str, **more: Any) -> Request:
        return client.connection.send_request("session/set_title", {"sessionId": ident, **more})

    call = rename(session, title="Apples")
    await context.expect_success("R-TITLE-02", client, call, why="a title for an open session")
    odd: dict[str, dict[str, Any]] = {
        "no title": {},
        "a title that is null": {"title": None},
        "a title that is a number": {"title": 5},
        "an empty title": {"title": ""},
    }
    for why, more in odd.items():
        await context.expect_error(
            "R-TITLE-03", client, rename(session, **more), (-32602,), why=why
        )
    if client.supports("close") and client.supports("list"):
        await client.close_session(session)
        _, listed = await _listed(client, cwd=str(context.folder))
        if session in listed:
            call = rename(session, title="Pears")
            await context.expect_success(
                "R-TITLE-02", client, call, why="a title for a listed session"
            )
    call = rename(UNKNOWN_SESSION, title="Plums")
    await context.expect_error("R-TITLE-02", client, call, (-32002,), why="an unknown session")


@scenario("session-list/agent-title", "R-LIST-16")
async def _agent_title(context: AgentContext) -> None:
    """The agent sets the title of a session; the list has that title."""
    client = context.client
    client.require("list")
    session = await client.new_session()
    await client.run_turn(session, "title")
    titles_sent = [
        (note, update["title"])
        for note, update in client.updates(session, "session_info_update")
        if isinstance(update.get("title"), str)
    ]
    if not titles_sent:
        raise NotExercised("the agent sent no title")
    note, name = titles_sent[-1]
    call, _ = await _listed(client, cwd=str(context.folder))
    titles = [entry.get("title") for entry in _entries(call) if entry.get("sessionId") == session]
    if not titles:
        raise NotExercised("the session is not listed")
    context.judge(
        "R-LIST-16",
        titles[0] == name,
        note,
        call,
        expected=f"the title {name!r}",
        got=f"{titles[0]!r}",
    )


@scenario("session-list/status", "R-STATUS-02", "R-STATUS-06", "R-LIST-11")
async def _status(context: AgentContext) -> None:
    """The client requests the status of a session; neither that nor a list opens it."""
    client = context.client
    client.require("status")
    session = await client.new_session()
    await client.run_turn(session, "text")
    call = await client.connection.call("session/status", {"sessionId": session})
    if is_object(call.result) and call.result.get("status") == "open":
        context.judge(
            "R-STATUS-06",
            is_object(call.result.get("state")),
            call,
            expected="`state` of an open session",
            got=f"{call.result.get('state')!r}",
        )
    if not client.supports("close"):
        return
    await client.close_session(session)
    first = await client.connection.call("session/status", {"sessionId": session})
    second = await client.connection.call("session/status", {"sessionId": session})
    if not first.ok or not second.ok:
        raise NotExercised("a closed session has no status")
    context.judge(
        "R-STATUS-02",
        first.result == second.result,
        first,
        second,
        expected="the same result again",
        got=f"{second.result}",
    )
    if client.supports("list"):
        await _listed(client)
        third = await client.connection.call("session/status", {"sessionId": session})
        context.judge(
            "R-LIST-11",
            third.result == second.result,
            second,
            third,
            expected="the same status after a list",
            got=f"{third.result}",
        )


async def _listed(client: ScenarioClient, **params: Any) -> tuple[Request, set[str]]:
    """Return the last request, and the ids on all pages."""
    session_ids: set[str] = set()
    call = await client.connection.call("session/list", params)
    for _ in range(_MAX_PAGES):
        session_ids |= {str(entry.get("sessionId")) for entry in _entries(call)}
        cursor = call.result.get("nextCursor") if is_object(call.result) else None
        if cursor is None:
            break
        call = await client.connection.call("session/list", {**params, "cursor": cursor})
    return call, session_ids


def _entries(call: Request) -> list[dict[str, Any]]:
    entries = call.result.get("sessions") if is_object(call.result) else None
    return [entry for entry in entries if is_object(entry)] if is_array(entries) else []


SESSION_LIST = (_pages, _delete, _archive, _archive_active, _title, _agent_title, _status)


# Modes and options: set to all their values, and to unknown ones.

_SET = "session/set_config_option"


@scenario("options/set")
async def _each_value(context: AgentContext) -> None:
    """Each option is set to all its values, and back."""
    client = context.client
    session, setup = await _session(client)
    options = _options(setup)
    if not options:
        raise NotExercised("the agent has no config options")
    calls: list[Request] = []
    for option in options:
        current = option.get("currentValue")
        others = [value for value in _values(option) if value != current]
        for value in (*others[:2], current):
            params = _params(context.version, session, option, value)
            calls.append(await client.open_session(_SET, params))
    if not any(call.ok for call in calls):
        raise NotExercised(f"no option was set: {calls[-1].outcome}")


@scenario("options/unknown")
async def _options_unknown(context: AgentContext) -> None:
    """An unknown option is set, and a known one to an unknown value."""
    client = context.client
    session, setup = await _session(client)
    options = _options(setup)
    if not options:
        raise NotExercised("the agent has no config options")
    selects = [option for option in options if option.get("type") == "select"]
    odd: list[tuple[Json, Any]] = [({"id": "accord-unknown", "configId": "accord-unknown"}, "a")]
    odd += [(option, "accord-unknown") for option in selects[:1]]
    for option, value in odd:
        await client.connection.call(_SET, _params(context.version, session, option, value))


@scenario("options/modes", "R-MODE-05", versions=(1,))
async def _modes(context: AgentContext) -> None:
    """The mode is set, and the config option of category mode has to follow."""
    client = context.client
    session, setup = await _session(client)
    offered = setup.get("modes")
    if not is_object(offered) or not is_array(offered.get("availableModes")):
        raise NotExercised("the agent has no modes")
    option = next((one for one in _options(setup) if one.get("category") == "mode"), None)
    context.judge(
        "R-MODE-05",
        option is not None,
        client.connection.observer.state.sessions[session].setup,
        expected="a config option of category mode in addition to `modes`",
        got="none",
    )
    current = offered.get("currentModeId")
    ids = [mode.get("id") for mode in offered["availableModes"] if is_object(mode)]
    others = [ident for ident in ids if isinstance(ident, str) and ident != current]
    if option is None or not others:
        return
    call = await client.open_session(
        "session/set_mode", {"sessionId": session, "modeId": others[0]}
    )
    if not call.ok:
        raise NotExercised(f"the mode was not set: error {call.code}")
    observed = client.connection.observer.state.sessions[session]

    def now() -> Any:
        return (observed.option(option.get("id")) or {}).get("currentValue")

    await client.wait_for_optional(
        lambda: now() == others[0], "option update", within_s=min(2.0, context.settings.answer)
    )
    context.judge(
        "R-MODE-05",
        now() == others[0],
        call,
        expected=f"the option {option.get('id')!r} to follow the mode {others[0]!r}",
        got=f"{now()!r}",
    )
    await client.open_session("session/set_mode", {"sessionId": session, "modeId": current})


async def _session(client: ScenarioClient) -> tuple[str, Json]:
    """Return a new session with its result."""
    session = await client.new_session()
    setup = client.connection.observer.state.sessions[session].setup
    assert setup is not None, "just made"
    return session, setup.result


def _options(setup: Json) -> list[Json]:
    options = setup.get("configOptions")
    return [option for option in options if is_object(option)] if is_array(options) else []


def _values(option: Json) -> list[Any]:
    if option.get("type") == "boolean":
        return [True, False]
    values: list[Any] = []
    options: list[Any] = option.get("options") or []
    for entry in options:
        if is_object(entry):
            group: list[Any] = entry.get("options") or [entry]
            values += [one.get("value") for one in group if is_object(one)]
    return values


def _params(version: int, session: str, option: Json, value: Any) -> Json:
    ident = option.get("id" if version == 1 else "configId")
    params: Json = {"sessionId": session, "configId": ident, "value": value}
    if isinstance(value, bool):
        return {**params, "type": "boolean"}
    return params if version == 1 else {**params, "type": "id"}


OPTIONS = (_each_value, _options_unknown, _modes)
