"""The handshake: versions, unknown capabilities, requests that arrive too early."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from accord.rules.negotiation import is_false_v2
from accord.text.lenient_json import is_object
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.agent.scenario_client import (
    ALL_CAPABILITIES_V1,
    ALL_CAPABILITIES_V2,
    CLIENT_INFO,
    Json,
    ScenarioClient,
    SentPrompt,
)
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Request

# The methods that need capabilities of the client.
_GATED = ("fs/", "terminal/", "elicitation/")
_NO_VERSION = 99


@scenario("handshake/unknown", "R-INIT-18", "R-GEN-08", isolated=True)
async def _unknown(context: AgentContext) -> None:
    """The client sends unknown capabilities and keys in `initialize`."""
    client = await context.connect()
    capabilities = ALL_CAPABILITIES_V1 if context.version == 1 else ALL_CAPABILITIES_V2
    call = await client.initialize({**capabilities, "accordUnknown": {"deep": [1, None]}})
    context.judge(
        "R-INIT-18",
        call.ok,
        call,
        expected="a result: the unknown capability `accordUnknown` is ignored",
        got=describe_outcome(call),
    )
    client = await context.connect()
    call = await client.initialize(accordUnknown=True, _meta={"accord": 1})
    context.judge(
        "R-GEN-08",
        call.ok,
        call,
        expected="a result: the unknown key `accordUnknown` is ignored",
        got=describe_outcome(call),
    )


@scenario("handshake/versions", "R-INIT-06", "R-INIT-10", "R-INIT-30", isolated=True)
async def _versions(context: AgentContext) -> None:
    """The client requests invalid versions, and a future one."""
    client = await context.connect()
    odd: tuple[Any, ...] = ("latest", "2025-01-01", 1.5, -1, 70_000, None, [1])
    refused: Request | None = None  # on this connection
    for version in odd:
        call = _hello(client, version)
        if refused is not None and not await _stays(context, client, refused, call):
            client = await context.connect()
            call = _hello(client, version)
        if not await context.expect_response(
            "R-INIT-10", client, call, "-32602 for an invalid version"
        ):
            break
        refused = None if call.ok else call
    for version in (0, _NO_VERSION):
        client = await context.connect()
        call = client.connection.send_request("initialize", client.initialize_params(version))
        expected = "a result with the agent's own version"
        if not await context.expect_response("R-INIT-06", client, call, expected):
            continue
        answered = call.result.get("protocolVersion") if is_object(call.result) else None
        if answered == _NO_VERSION:
            got = f"version {answered}"
            context.judge("R-INIT-06", False, call, expected=expected, got=got)


def _hello(client: ScenarioClient, version: object) -> Request:
    return client.connection.send_request(
        "initialize", client.initialize_params() | {"protocolVersion": version}
    )


async def _stays(
    context: AgentContext, client: ScenarioClient, refused: Request, again: Request
) -> bool:
    """Judge that the connection survives a refused handshake; return whether it does."""
    with suppress(NoResponse):
        await client.connection.wait_for_response(again)
    gone = again.response is None and client.connection.is_closed
    context.judge(
        "R-INIT-30",
        not gone,
        refused,
        again,
        expected="an open connection, on which `initialize` may be sent again",
        got="a closed connection",
    )
    return not gone


@scenario("handshake/future-version", "R-INIT-37", versions=(2,), isolated=True)
async def _newer(context: AgentContext) -> None:
    """A client of a future version sends keys that version 2 does not define."""
    client = await context.connect()
    params = {"protocolVersion": 99, "info": "a client", "capabilities": "many"}
    call = client.connection.send_request("initialize", params)
    if not await context.expect_response(
        "R-INIT-37", client, call, "version 2, for a newer version"
    ):
        return
    answered = call.result.get("protocolVersion") if is_object(call.result) else None
    context.judge(
        "R-INIT-37",
        answered == 2,
        call,
        expected="version 2, for a newer version",
        got=f"version {answered}" if call.ok else describe_outcome(call),
    )


@scenario("handshake/version-2-params", "R-INIT-13", versions=(1,), isolated=True)
async def _version_2_params(context: AgentContext) -> None:
    """A client of version 2 connects to an agent that supports only version 1."""
    client = await context.connect()
    # A router may translate these keys to version 1, so the client advertises nothing.
    params: Json = {"protocolVersion": 2, "info": CLIENT_INFO, "capabilities": {}}
    call = client.connection.send_request("initialize", params)
    if not await context.expect_response("R-INIT-13", client, call, "version 1"):
        return
    client.result = call.result if is_object(call.result) else {}
    if client.result.get("protocolVersion") == 2:
        false = is_false_v2(client.result) or "capabilities" not in client.result
        how = "answers version 2 in the form of version 1" if false else "supports version 2"
        raise NotExercised(f"the agent {how}")
    answered = client.result.get("protocolVersion")
    context.judge(
        "R-INIT-13",
        call.ok and answered == 1,
        call,
        expected="version 1",
        got=f"version {answered}" if call.ok else describe_outcome(call),
    )
    if call.ok:
        for used in await _used(client):
            context.judge("R-INIT-13", False, used, expected=_UNUSED, got=used.method)


@scenario("handshake/no-capabilities", "R-INIT-16", "R-INIT-17", "R-ELIC-04", isolated=True)
async def _no_capabilities(context: AgentContext) -> None:
    """The client advertises no capabilities, so the agent must not request any of them."""
    client = await context.connect_initialized(capabilities={})
    (context.folder / "note.txt").write_text("The word is quince.\n", "utf-8")
    session = await client.new_session()
    for rule, purpose in (
        ("R-INIT-17", "file_read"),
        ("R-INIT-17", "terminal"),
        ("R-ELIC-04", "elicit"),
    ):
        if not context.settings.prompt(purpose):
            continue
        sent = client.prompt_for(session, purpose)
        await sent.wait_for_end()
        failed = _failed(sent)
        if failed:
            whole = await context.connect_initialized()
            other = whole.prompt_for(await whole.new_session(), purpose)
            await other.wait_for_end()
            if _failed(other):
                continue  # the capabilities are not the cause
        context.judge(
            rule,
            not failed,
            *sent.evidence,
            expected="a turn that does not need the missing capability",
            got="a failed turn",
        )
    used = _asked(client)
    context.judge("R-INIT-16", not used, *used, expected=_UNUSED, got=_names(used))


_UNUSED = "no request for a capability that the client does not advertise"


async def _used(client: ScenarioClient) -> list[Request]:
    """Send prompts that may need files, terminals and the user; return the agent's requests."""
    (client.folder / "note.txt").write_text("The word is quince.\n", "utf-8")
    session = await client.new_session()
    for purpose in ("file_read", "terminal", "elicit"):
        if client.settings.prompt(purpose):
            await client.prompt_for(session, purpose).wait_for_end()
    return _asked(client)


def _failed(sent: SentPrompt) -> bool:
    return sent.request.code == -32603 or sent.stop_reason == "error"


def _asked(client: ScenarioClient) -> list[Request]:
    return [call for call in client.connection.requests if call.method.startswith(_GATED)]


def _names(calls: list[Request]) -> str:
    return ", ".join(dict.fromkeys(call.method for call in calls))


# Servers refuse such a connection: R-WS-02, R-HTTP-09.
@scenario("handshake/early", "R-REQCAN-14", isolated=True, media=("stdio",))
async def _early(context: AgentContext) -> None:
    """The client sends a cancel and a request before the handshake."""
    client = await context.connect()
    client.connection.send_notification("$/cancel_request", {"requestId": 4711})
    call = client.connection.send_request("initialize", client.initialize_params())
    try:
        await client.connection.wait_for_response(call, within_s=context.settings.timeout)
    except NoResponse:
        await (
            context.connect_initialized()
        )  # if that gets no response either, the cancel is not the cause
    await context.expect_success(
        "R-REQCAN-14", client, call, why="`initialize` after `$/cancel_request`"
    )
    client = await context.connect()
    early = client.connection.send_request("session/new", client.setup_params())
    await client.wait_for_optional(
        lambda: early.response is not None, "response", within_s=context.settings.answer
    )
    await client.initialize()


# R-WS-06 and R-HTTP-23 are about this.
@scenario("handshake/repeated", isolated=True, media=("stdio",))
async def _again(context: AgentContext) -> None:
    """The client initializes again, after another request."""
    client = await context.connect_initialized()
    await client.connection.call("_accord/unknown", {})
    call = client.connection.send_request("initialize", client.initialize_params())
    await client.connection.wait_for_response(call, within_s=context.settings.timeout)


SCENARIOS = (
    _unknown,
    _versions,
    _newer,
    _version_2_params,
    _no_capabilities,
    _early,
    _again,
)
