"""The handshake: versions, capabilities that nobody knows, requests that come too early."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from accord.rules.negotiation import is_false_v2
from accord.text.lenient_json import is_object
from accord_conformance.agent.client import ALL_1, ALL_2, INFO, Editor, Json, Prompted
from accord_conformance.agent.context import Stage, outcome_of
from accord_conformance.harness.raw_connection import Silence
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Call

__all__ = ("SCENARIOS",)

# What belongs to capabilities of the client.
_GATED = ("fs/", "terminal/", "elicitation/")
_NO_VERSION = 99


@scenario("handshake/unknown", "R-INIT-18", "R-GEN-08", own=True)
async def _unknown(stage: Stage) -> None:
    """Capabilities and keys that nobody knows come with the handshake."""
    editor = await stage.connect()
    known = ALL_1 if stage.version == 1 else ALL_2
    call = await editor.initialize({**known, "accordUnknown": {"deep": [1, None]}})
    stage.judge(
        "R-INIT-18",
        call.ok,
        call,
        expected="a result, whatever the capability `accordUnknown` is",
        got=outcome_of(call),
    )
    editor = await stage.connect()
    call = await editor.initialize(accordUnknown=True, _meta={"accord": 1})
    stage.judge(
        "R-GEN-08",
        call.ok,
        call,
        expected="a result, whatever the key `accordUnknown` is",
        got=outcome_of(call),
    )


@scenario("handshake/versions", "R-INIT-06", "R-INIT-10", "R-INIT-30", own=True)
async def _versions(stage: Stage) -> None:
    """Versions that are none, and one that is not there yet."""
    editor = await stage.connect()
    odd: tuple[Any, ...] = ("latest", "2025-01-01", 1.5, -1, 70_000, None, [1])
    refused: Call | None = None  # on this connection
    for version in odd:
        call = _hello(editor, version)
        if refused is not None and not await _stays(stage, editor, refused, call):
            editor = await stage.connect()
            call = _hello(editor, version)
        if not await stage.answered("R-INIT-10", editor, call, "-32602 for what is no version"):
            break
        refused = None if call.ok else call
    for version in (0, _NO_VERSION):
        editor = await stage.connect()
        call = editor.line.ask("initialize", editor.hello(version))
        expected = "an answer with the agent's own version"
        if not await stage.answered("R-INIT-06", editor, call, expected):
            continue
        answered = call.result.get("protocolVersion") if is_object(call.result) else None
        if answered == _NO_VERSION:
            got = f"version {answered}"
            stage.judge("R-INIT-06", False, call, expected=expected, got=got)


def _hello(editor: Editor, version: object) -> Call:
    return editor.line.ask("initialize", editor.hello() | {"protocolVersion": version})


async def _stays(stage: Stage, editor: Editor, refused: Call, again: Call) -> bool:
    """Judge that a refused handshake does not cost the connection; return whether it is there."""
    with suppress(Silence):
        await editor.line.reply(again)
    gone = again.reply is None and editor.line.hung_up
    stage.judge(
        "R-INIT-30",
        not gone,
        refused,
        again,
        expected="a connection on which `initialize` may be sent again, once it was refused",
        got="its end",
    )
    return not gone


@scenario("handshake/newer", "R-INIT-37", versions=(2,), own=True)
async def _newer(stage: Stage) -> None:
    """A client of a later version says what it is in words that version 2 does not know."""
    editor = await stage.connect()
    params = {"protocolVersion": 99, "info": "somebody", "capabilities": "many"}
    call = editor.line.ask("initialize", params)
    if not await stage.answered("R-INIT-37", editor, call, "version 2, for what is newer"):
        return
    answered = call.result.get("protocolVersion") if is_object(call.result) else None
    stage.judge(
        "R-INIT-37",
        answered == 2,
        call,
        expected="version 2, for what is newer",
        got=f"version {answered}" if call.ok else outcome_of(call),
    )


@scenario("handshake/words-of-version-2", "R-INIT-13", versions=(1,), own=True)
async def _words_of_version_2(stage: Stage) -> None:
    """A client of version 2 comes to an agent that has version 1 alone."""
    editor = await stage.connect()
    # A router may put these words into those of version 1, so nothing is offered in either.
    params: Json = {"protocolVersion": 2, "info": INFO, "capabilities": {}}
    call = editor.line.ask("initialize", params)
    if not await stage.answered("R-INIT-13", editor, call, "version 1"):
        return
    editor.result = call.result if is_object(call.result) else {}
    if editor.result.get("protocolVersion") == 2:
        false = is_false_v2(editor.result) or "capabilities" not in editor.result
        how = "says version 2 in the shape of version 1" if false else "speaks version 2"
        raise NotExercised(f"the agent {how}")
    answered = editor.result.get("protocolVersion")
    stage.judge(
        "R-INIT-13",
        call.ok and answered == 1,
        call,
        expected="version 1",
        got=f"version {answered}" if call.ok else outcome_of(call),
    )
    if call.ok:
        for used in await _used(editor):
            stage.judge("R-INIT-13", False, used, expected=_UNUSED, got=used.method)


@scenario("handshake/nothing-offered", "R-INIT-16", "R-INIT-17", "R-ELIC-04", own=True)
async def _nothing_offered(stage: Stage) -> None:
    """A client that offers nothing is asked for nothing."""
    editor = await stage.initialized(capabilities={})
    (stage.folder / "note.txt").write_text("The word is quince.\n", "utf-8")
    session = await editor.new_session()
    for rule, purpose in (
        ("R-INIT-17", "file_read"),
        ("R-INIT-17", "terminal"),
        ("R-ELIC-04", "elicit"),
    ):
        if not stage.settings.prompt(purpose):
            continue
        prompted = editor.ask_for(session, purpose)
        await prompted.end()
        failed = _failed(prompted)
        if failed:
            whole = await stage.initialized()
            other = whole.ask_for(await whole.new_session(), purpose)
            await other.end()
            if _failed(other):
                continue  # it is not the capabilities
        stage.judge(
            rule,
            not failed,
            *prompted.shows,
            expected="a way without what the client does not offer",
            got="a turn that fails",
        )
    used = _asked(editor)
    stage.judge("R-INIT-16", not used, *used, expected=_UNUSED, got=_names(used))


_UNUSED = "no request for what the client does not offer"


async def _used(editor: Editor) -> list[Call]:
    """Give the agent reasons to ask for files, terminals and the user; return what it asked for."""
    (editor.folder / "note.txt").write_text("The word is quince.\n", "utf-8")
    session = await editor.new_session()
    for purpose in ("file_read", "terminal", "elicit"):
        if editor.settings.prompt(purpose):
            await editor.ask_for(session, purpose).end()
    return _asked(editor)


def _failed(prompted: Prompted) -> bool:
    return prompted.call.code == -32603 or prompted.stop_reason == "error"


def _asked(editor: Editor) -> list[Call]:
    return [call for call in editor.line.calls if call.method.startswith(_GATED)]


def _names(calls: list[Call]) -> str:
    return ", ".join(dict.fromkeys(call.method for call in calls))


@scenario("handshake/early", "R-REQCAN-14", own=True)
async def _early(stage: Stage) -> None:
    """Something is cancelled, and something asked for, before the handshake."""
    editor = await stage.connect()
    editor.line.note("$/cancel_request", {"requestId": 4711})
    call = editor.line.ask("initialize", editor.hello())
    try:
        await editor.line.reply(call, within_s=stage.settings.timeout)
    except Silence:
        await stage.initialized()  # if that is not answered either, it is not for the cancel
    await stage.succeeds("R-REQCAN-14", editor, call, why="`initialize` after `$/cancel_request`")
    editor = await stage.connect()
    early = editor.line.ask("session/new", editor.setup())
    await editor.comes(lambda: early.reply is not None, "answer", within_s=stage.settings.answer)
    await editor.initialize()


@scenario("handshake/again", own=True)
async def _again(stage: Stage) -> None:
    """The handshake is made again, after something else was asked."""
    editor = await stage.initialized()
    await editor.line.call("_accord/unknown", {})
    call = editor.line.ask("initialize", editor.hello())
    await editor.line.reply(call, within_s=stage.settings.timeout)


SCENARIOS = (
    _unknown,
    _versions,
    _newer,
    _words_of_version_2,
    _nothing_offered,
    _early,
    _again,
)
