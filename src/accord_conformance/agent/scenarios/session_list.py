"""The list of sessions: pages, filters, what is deleted and archived."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.client import ScenarioClient
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Request

__all__ = ("SCENARIOS",)

_UNKNOWN = "accord-unknown-session"
_MOST_PAGES = 20


@scenario("listing/pages", "R-LIST-06", "R-GEN-09")
async def _pages(stage: AgentContext) -> None:
    """Sessions are listed to the end, with a filter, and with a cursor that is none."""
    editor = stage.client
    editor.require("list")
    await editor.new_session()
    await editor.new_session()
    call = editor.connection.send_request("session/list")
    await stage.expect_success("R-GEN-09", editor, call, why="`session/list` without params")
    await _listed(editor)
    await _listed(editor, cwd=str(stage.folder))
    await _listed(editor, cwd=str(stage.folder / "nowhere"))
    call = editor.connection.send_request("session/list", {"cursor": "accord-no-cursor"})
    await stage.expect_error("R-LIST-06", editor, call, (), why="a cursor that is none")


@scenario("listing/delete", "R-LIST-14")
async def _delete(stage: AgentContext) -> None:
    """A session is deleted twice, and one that there is not."""
    editor = stage.client
    editor.require("delete")
    session = await editor.new_session()
    await editor.connection.call("session/delete", {"sessionId": session})
    if editor.supports("list"):
        await _listed(editor)
    for ident, why in ((session, "deleted already"), (_UNKNOWN, "not there")):
        call = editor.connection.send_request("session/delete", {"sessionId": ident})
        await stage.expect_success("R-LIST-14", editor, call, why=f"deleting what is {why}")


@scenario("listing/archive", "R-ARCH-05", "R-ARCH-06", "R-ARCH-08")
async def _archive(stage: AgentContext) -> None:
    """A session is archived, looked for, and taken back."""
    editor = stage.client
    editor.require("archive", "list")
    kept, session = await editor.new_session(), await editor.new_session()
    for prompted in (kept, session):
        await editor.run_turn(prompted, "text")
    for why in ("", " that is archived already"):
        call = editor.connection.send_request("session/archive", {"sessionId": session})
        await stage.expect_success("R-ARCH-05", editor, call, why=f"archiving a session{why}")
    here = {"cwd": str(stage.folder)}
    for archived, wanted in (
        (None, {kept}),
        ("exclude", {kept}),
        ("include", {kept, session}),
        ("only", {session}),
    ):
        call, found = await _listed(editor, **here, archived=archived)
        stage.judge(
            "R-ARCH-08",
            found & {kept, session} == wanted,
            call,
            expected=f"{_which(wanted, session)} for {archived or 'null'}",
            got=_which(found & {kept, session}, session),
        )
    for why in ("", " that is not archived"):
        call = editor.connection.send_request("session/unarchive", {"sessionId": session})
        await stage.expect_success("R-ARCH-05", editor, call, why=f"taking back a session{why}")
    if editor.supports("status"):
        call = await editor.connection.call("session/status", {"sessionId": session})
        status = call.result.get("status") if is_object(call.result) else None
        stage.judge(
            "R-ARCH-06",
            status != "open",
            call,
            expected="the session not open",
            got=f"the status {status}",
        )
    for method in ("session/archive", "session/unarchive"):
        call = editor.connection.send_request(method, {"sessionId": _UNKNOWN})
        await stage.expect_error("R-ARCH-05", editor, call, (-32002,), why="an unknown session")


def _which(found: set[str], archived: str) -> str:
    names = ["the archived" if ident == archived else "the other" for ident in sorted(found)]
    return " and ".join(sorted(names)) or "neither"


@scenario("listing/archive-active", "R-ARCH-04")
async def _archive_active(stage: AgentContext) -> None:
    """A session is archived in the middle of a turn."""
    editor = stage.client
    editor.require("archive")
    session = await editor.new_session()
    prompted = editor.prompt_for(session, "long")
    await editor.connection.sync()
    if prompted.is_over:
        raise NotExercised("the turn was over before it could be archived")
    call = await editor.open_session("session/archive", {"sessionId": session})
    if not call.ok:
        raise NotExercised(f"the session was not archived: {describe_outcome(call)}")
    ended = prompted.evidence[-1].frame.number if prompted.is_over and stage.version == 2 else 0
    if stage.version == 1 and prompted.request.response is not None:
        ended = prompted.request.response.frame.number
    archived = call.response.frame.number if call.response else 0
    stage.judge(
        "R-ARCH-04",
        0 < ended < archived,
        *prompted.evidence,
        call,
        expected="the end of the turn, and then the answer",
        got="no end of the turn before the answer",
    )


@scenario("listing/title", "R-TITLE-02", "R-TITLE-03")
async def _title(stage: AgentContext) -> None:
    """Sessions are renamed, open or not, and to what is no title."""
    editor = stage.client
    editor.require("title")
    session = await editor.new_session()
    await editor.run_turn(session, "text")

    def rename(ident: str, **more: Any) -> Request:
        return editor.connection.send_request("session/set_title", {"sessionId": ident, **more})

    call = rename(session, title="Apples")
    await stage.expect_success("R-TITLE-02", editor, call, why="a title for an open session")
    odd: dict[str, dict[str, Any]] = {
        "no title": {},
        "a title that is null": {"title": None},
        "a title that is a number": {"title": 5},
        "an empty title": {"title": ""},
    }
    for why, more in odd.items():
        await stage.expect_error("R-TITLE-03", editor, rename(session, **more), (-32602,), why=why)
    if editor.supports("close") and editor.supports("list"):
        await editor.close_session(session)
        _, found = await _listed(editor, cwd=str(stage.folder))
        if session in found:
            call = rename(session, title="Pears")
            await stage.expect_success(
                "R-TITLE-02", editor, call, why="a title for a listed session"
            )
    call = rename(_UNKNOWN, title="Plums")
    await stage.expect_error("R-TITLE-02", editor, call, (-32002,), why="an unknown session")


@scenario("listing/title-told", "R-LIST-16")
async def _title_told(stage: AgentContext) -> None:
    """The agent gives a session a title, which is listed."""
    editor = stage.client
    editor.require("list")
    session = await editor.new_session()
    await editor.run_turn(session, "title")
    told = [
        (note, update["title"])
        for note, update in editor.updates(session, "session_info_update")
        if isinstance(update.get("title"), str)
    ]
    if not told:
        raise NotExercised("the agent told no title")
    note, name = told[-1]
    call, _ = await _listed(editor, cwd=str(stage.folder))
    titles = [entry.get("title") for entry in _entries(call) if entry.get("sessionId") == session]
    if not titles:
        raise NotExercised("the session is not listed")
    stage.judge(
        "R-LIST-16",
        titles[0] == name,
        note,
        call,
        expected=f"the title {name!r}",
        got=f"{titles[0]!r}",
    )


@scenario("listing/status", "R-STATUS-02", "R-STATUS-06", "R-LIST-11")
async def _status(stage: AgentContext) -> None:
    """Whether a session is open is asked, which does not open it; nor does a list."""
    editor = stage.client
    editor.require("status")
    session = await editor.new_session()
    await editor.run_turn(session, "text")
    call = await editor.connection.call("session/status", {"sessionId": session})
    if is_object(call.result) and call.result.get("status") == "open":
        stage.judge(
            "R-STATUS-06",
            is_object(call.result.get("state")),
            call,
            expected="`state` of an open session",
            got=f"{call.result.get('state')!r}",
        )
    if not editor.supports("close"):
        return
    await editor.close_session(session)
    first = await editor.connection.call("session/status", {"sessionId": session})
    second = await editor.connection.call("session/status", {"sessionId": session})
    if not first.ok or not second.ok:
        raise NotExercised("a closed session has no status")
    stage.judge(
        "R-STATUS-02",
        first.result == second.result,
        first,
        second,
        expected="the same answer again",
        got=f"{second.result}",
    )
    if editor.supports("list"):
        await _listed(editor)
        third = await editor.connection.call("session/status", {"sessionId": session})
        stage.judge(
            "R-LIST-11",
            third.result == second.result,
            second,
            third,
            expected="the same status after a list",
            got=f"{third.result}",
        )


async def _listed(editor: ScenarioClient, **params: Any) -> tuple[Request, set[str]]:
    """Return the last answered call, and the ids on all pages."""
    found: set[str] = set()
    call = await editor.connection.call("session/list", params)
    for _ in range(_MOST_PAGES):
        found |= {str(entry.get("sessionId")) for entry in _entries(call)}
        cursor = call.result.get("nextCursor") if is_object(call.result) else None
        if cursor is None:
            break
        call = await editor.connection.call("session/list", {**params, "cursor": cursor})
    return call, found


def _entries(call: Request) -> list[dict[str, Any]]:
    entries = call.result.get("sessions") if is_object(call.result) else None
    return [entry for entry in entries if is_object(entry)] if is_array(entries) else []


SCENARIOS = (_pages, _delete, _archive, _archive_active, _title, _title_told, _status)
