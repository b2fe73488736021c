"""The list of sessions: pages, filters, deletion, archiving."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.agent.scenario_client import UNKNOWN_SESSION, ScenarioClient
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Request

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
        raise NotExercised(f"the session was not archived: {describe_outcome(call)}")
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


SCENARIOS = (_pages, _delete, _archive, _archive_active, _title, _agent_title, _status)
