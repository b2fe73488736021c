"""The handshake: versions, capabilities that nobody knows, requests that come too early."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from accord.rules.negotiation import is_false_v2
from accord.text.lenient_json import is_object
from accord_conformance.agent.client import (
    ALL_CAPABILITIES_V1,
    ALL_CAPABILITIES_V2,
    CLIENT_INFO,
    Json,
    ScenarioClient,
    SentPrompt,
)
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Request

__all__ = ("SCENARIOS",)

# What belongs to capabilities of the client.
_GATED = ("fs/", "terminal/", "elicitation/")
_NO_VERSION = 99


@scenario("handshake/unknown", "R-INIT-18", "R-GEN-08", isolated=True)
async def _unknown(stage: AgentContext) -> None:
    """Capabilities and keys that nobody knows come with the handshake."""
    editor = await stage.connect()
    known = ALL_CAPABILITIES_V1 if stage.version == 1 else ALL_CAPABILITIES_V2
    call = await editor.initialize({**known, "accordUnknown": {"deep": [1, None]}})
    stage.judge(
        "R-INIT-18",
        call.ok,
        call,
        expected="a result, whatever the capability `accordUnknown` is",
        got=describe_outcome(call),
    )
    editor = await stage.connect()
    call = await editor.initialize(accordUnknown=True, _meta={"accord": 1})
    stage.judge(
        "R-GEN-08",
        call.ok,
        call,
        expected="a result, whatever the key `accordUnknown` is",
        got=describe_outcome(call),
    )


@scenario("handshake/versions", "R-INIT-06", "R-INIT-10", "R-INIT-30", isolated=True)
async def _versions(stage: AgentContext) -> None:
    """Versions that are none, and one that is not there yet."""
    editor = await stage.connect()
    odd: tuple[Any, ...] = ("latest", "2025-01-01", 1.5, -1, 70_000, None, [1])
    refused: Request | None = None  # on this connection
    for version in odd:
        call = _hello(editor, version)
        if refused is not None and not await _stays(stage, editor, refused, call):
            editor = await stage.connect()
            call = _hello(editor, version)
        if not await stage.expect_response(
            "R-INIT-10", editor, call, "-32602 for what is no version"
        ):
            break
        refused = None if call.ok else call
    for version in (0, _NO_VERSION):
        editor = await stage.connect()
        call = editor.connection.send_request("initialize", editor.initialize_params(version))
        expected = "an answer with the agent's own version"
        if not await stage.expect_response("R-INIT-06", editor, call, expected):
            continue
        answered = call.result.get("protocolVersion") if is_object(call.result) else None
        if answered == _NO_VERSION:
            got = f"version {answered}"
            stage.judge("R-INIT-06", False, call, expected=expected, got=got)


def _hello(editor: ScenarioClient, version: object) -> Request:
    return editor.connection.send_request(
        "initialize", editor.initialize_params() | {"protocolVersion": version}
    )


async def _stays(
    stage: AgentContext, editor: ScenarioClient, refused: Request, again: Request
) -> bool:
    """Judge that a refused handshake does not cost the connection; return whether it is there."""
    with suppress(NoResponse):
        await editor.connection.wait_for_response(again)
    gone = again.response is None and editor.connection.is_closed
    stage.judge(
        "R-INIT-30",
        not gone,
        refused,
        again,
        expected="a connection on which `initialize` may be sent again, once it was refused",
        got="its end",
    )
    return not gone


@scenario("handshake/newer", "R-INIT-37", versions=(2,), isolated=True)
async def _newer(stage: AgentContext) -> None:
    """A client of a later version says what it is in words that version 2 does not know."""
    editor = await stage.connect()
    params = {"protocolVersion": 99, "info": "somebody", "capabilities": "many"}
    call = editor.connection.send_request("initialize", params)
    if not await stage.expect_response("R-INIT-37", editor, call, "version 2, for what is newer"):
        return
    answered = call.result.get("protocolVersion") if is_object(call.result) else None
    stage.judge(
        "R-INIT-37",
        answered == 2,
        call,
        expected="version 2, for what is newer",
        got=f"version {answered}" if call.ok else describe_outcome(call),
    )


@scenario("handshake/words-of-version-2", "R-INIT-13", versions=(1,), isolated=True)
async def _words_of_version_2(stage: AgentContext) -> None:
    """A client of version 2 comes to an agent that has version 1 alone."""
    editor = await stage.connect()
    # A router may put these words into those of version 1, so nothing is offered in either.
    params: Json = {"protocolVersion": 2, "info": CLIENT_INFO, "capabilities": {}}
    call = editor.connection.send_request("initialize", params)
    if not await stage.expect_response("R-INIT-13", editor, call, "version 1"):
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
        got=f"version {answered}" if call.ok else describe_outcome(call),
    )
    if call.ok:
        for used in await _used(editor):
            stage.judge("R-INIT-13", False, used, expected=_UNUSED, got=used.method)


@scenario("handshake/nothing-offered", "R-INIT-16", "R-INIT-17", "R-ELIC-04", isolated=True)
async def _nothing_offered(stage: AgentContext) -> None:
    """A client that offers nothing is asked for nothing."""
    editor = await stage.connect_initialized(capabilities={})
    (stage.folder / "note.txt").write_text("The word is quince.\n", "utf-8")
    session = await editor.new_session()
    for rule, purpose in (
        ("R-INIT-17", "file_read"),
        ("R-INIT-17", "terminal"),
        ("R-ELIC-04", "elicit"),
    ):
        if not stage.settings.prompt(purpose):
            continue
        prompted = editor.prompt_for(session, purpose)
        await prompted.wait_for_end()
        failed = _failed(prompted)
        if failed:
            whole = await stage.connect_initialized()
            other = whole.prompt_for(await whole.new_session(), purpose)
            await other.wait_for_end()
            if _failed(other):
                continue  # it is not the capabilities
        stage.judge(
            rule,
            not failed,
            *prompted.evidence,
            expected="a way without what the client does not offer",
            got="a turn that fails",
        )
    used = _asked(editor)
    stage.judge("R-INIT-16", not used, *used, expected=_UNUSED, got=_names(used))


_UNUSED = "no request for what the client does not offer"


async def _used(editor: ScenarioClient) -> list[Request]:
    """Give the agent reasons to ask for files, terminals and the user; return what it asked for."""
    (editor.folder / "note.txt").write_text("The word is quince.\n", "utf-8")
    session = await editor.new_session()
    for purpose in ("file_read", "terminal", "elicit"):
        if editor.settings.prompt(purpose):
            await editor.prompt_for(session, purpose).wait_for_end()
    return _asked(editor)


def _failed(prompted: SentPrompt) -> bool:
    return prompted.request.code == -32603 or prompted.stop_reason == "error"


def _asked(editor: ScenarioClient) -> list[Request]:
    return [call for call in editor.connection.requests if call.method.startswith(_GATED)]


def _names(calls: list[Request]) -> str:
    return ", ".join(dict.fromkeys(call.method for call in calls))


@scenario("handshake/early", "R-REQCAN-14", isolated=True)
async def _early(stage: AgentContext) -> None:
    """Something is cancelled, and something asked for, before the handshake."""
    editor = await stage.connect()
    editor.connection.send_notification("$/cancel_request", {"requestId": 4711})
    call = editor.connection.send_request("initialize", editor.initialize_params())
    try:
        await editor.connection.wait_for_response(call, within_s=stage.settings.timeout)
    except NoResponse:
        await (
            stage.connect_initialized()
        )  # if that is not answered either, it is not for the cancel
    await stage.expect_success(
        "R-REQCAN-14", editor, call, why="`initialize` after `$/cancel_request`"
    )
    editor = await stage.connect()
    early = editor.connection.send_request("session/new", editor.setup_params())
    await editor.wait_for_optional(
        lambda: early.response is not None, "answer", within_s=stage.settings.answer
    )
    await editor.initialize()


@scenario("handshake/again", isolated=True)
async def _again(stage: AgentContext) -> None:
    """The handshake is made again, after something else was asked."""
    editor = await stage.connect_initialized()
    await editor.connection.call("_accord/unknown", {})
    call = editor.connection.send_request("initialize", editor.initialize_params())
    await editor.connection.wait_for_response(call, within_s=stage.settings.timeout)


SCENARIOS = (
    _unknown,
    _versions,
    _newer,
    _words_of_version_2,
    _nothing_offered,
    _early,
    _again,
)
