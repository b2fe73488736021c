"""Scenarios for a connection as such: handshake, login, unknown and malformed messages, its end."""

from __future__ import annotations

import json
import signal
import time
from contextlib import suppress
from typing import Any

from accord.errors import ConnectionLost
from accord.rules.negotiation import is_false_v2
from accord.rules.quirks import tolerates
from accord.text.lenient_json import is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import (
    ALL_CAPABILITIES_V1,
    ALL_CAPABILITIES_V2,
    CLIENT_INFO,
    Json,
    ScenarioClient,
    SentPrompt,
)
from accord_conformance.agent.scenarios.prompts import strays
from accord_conformance.harness import Advisory, NoResponse, NotExercised, scenario
from accord_conformance.traffic.message import Request

# The handshake: versions, unknown capabilities, requests that arrive too early.

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
        got=call.outcome,
    )
    client = await context.connect()
    call = await client.initialize(accordUnknown=True, _meta={"accord": 1})
    context.judge(
        "R-GEN-08",
        call.ok,
        call,
        expected="a result: the unknown key `accordUnknown` is ignored",
        got=call.outcome,
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
        got=f"version {answered}" if call.ok else call.outcome,
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
        got=f"version {answered}" if call.ok else call.outcome,
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


HANDSHAKE = (
    _unknown,
    _versions,
    _newer,
    _version_2_params,
    _no_capabilities,
    _early,
    _again,
)


# Login and logout: with an unknown method, and with that of the settings.

_NEEDED = -32000


@scenario("login/unknown")
async def _login_unknown(context: AgentContext) -> None:
    """The client uses an auth method that was not advertised."""
    client = context.client
    if not client.result.get("authMethods"):
        raise NotExercised("the agent has no auth methods")
    method = "authenticate" if context.version == 1 else "auth/login"
    await client.connection.call(method, {"methodId": "accord-unknown"})


@scenario("login/status")
async def _status(context: AgentContext) -> None:
    """The client requests the auth status."""
    context.client.require("login status")
    await context.client.connection.call("auth/status")


@scenario("login/logout", "R-AUTH-11", isolated=True)
async def _out(context: AgentContext) -> None:
    """A user logs out, and in again."""
    if not context.settings.login:
        raise NotExercised("the settings have no login that works without a user")
    client = await context.connect_initialized()
    client.require("logout")
    session = await client.new_session()
    method = "logout" if context.version == 1 else "auth/logout"
    call = await client.connection.call(method)
    if not call.ok:
        raise NotExercised(f"the agent did not log out: {call.outcome}")
    made = await client.open_session("session/new", client.setup_params())
    asked = client.prompt_for(session, "text")
    await client.wait_for_optional(
        lambda: asked.request.response is not None, "response to the prompt"
    )
    for refused in (made, asked.request):
        if refused.response is not None and not refused.ok:
            context.judge(
                "R-AUTH-11",
                refused.code == _NEEDED,
                call,
                refused,
                expected="-32000 until the user logs in",
                got=refused.outcome,
            )
    await client.log_in()
    await client.open_session("session/new", client.setup_params())
    await client.connection.call(method)
    await client.open_session("session/new", client.setup_params())
    await client.log_in()


LOGIN = (_login_unknown, _status, _out)


# Providers of models: listed, and invalid requests, which change nothing.


@scenario("providers/refused", "R-PROV-01", "R-PROV-07")
async def _refused(context: AgentContext) -> None:
    """Providers are listed; an unknown one is set, and one with invalid params."""
    client = context.client
    client.require("providers")
    call = client.connection.send_request("providers/list", {})
    await context.expect_success(
        "R-PROV-01",
        client,
        call,
        why="`providers/list`, which the agent advertises",
        authority="derived",  # the rule forbids the converse: to serve it without the capability
    )
    whole = {"providerId": "accord-unknown", "apiType": "openai", "baseUrl": "https://example.com"}
    odd: dict[str, dict[str, Any]] = {
        "an unknown provider": whole,
        "a provider without a URL": {"providerId": "accord-unknown"},
        "a URL that is a number": {**whole, "baseUrl": 5},
    }
    for why, params in odd.items():
        call = client.connection.send_request("providers/set", params)
        await context.expect_error("R-PROV-07", client, call, (-32602,), why=why)
    await client.connection.call("providers/disable", {"providerId": "accord-unknown"})  # observed


PROVIDERS = (_refused,)


# Unknown methods: with an underscore, without one, and with `$/`.


@scenario("extensions/request", "R-EXT-05", "R-EXT-06")
async def _request(context: AgentContext) -> None:
    """The client sends an unknown custom request."""
    client = context.client
    call = client.connection.send_request("_accord/unknown", {"some": [1]}, ident="accord-custom")
    if await context.expect_response("R-EXT-05", client, call, "a response to a custom request"):
        context.judge("R-EXT-05", True)
        context.judge(
            "R-EXT-06",
            call.code == -32601,
            call,
            expected="-32601 for an unknown custom request",
            got=call.outcome,
        )


@scenario("extensions/notification", "R-EXT-07", "R-REQCAN-10")
async def _notification(context: AgentContext) -> None:
    """The client sends unknown notifications."""
    client = context.client
    for rule, method in (
        ("R-EXT-07", "_accord/unknown"),
        ("R-EXT-07", "accord/unknown"),
        ("R-REQCAN-10", "$/accordUnknown"),
    ):
        began = len(client.connection.observer.state.frames)
        client.connection.send_notification(method, {"some": [1]})
        call = client.connection.send_request("_accord/after", {})
        sent = client.connection.observer.state.frames[began]
        try:
            await client.connection.wait_for_response(call)
        except NoResponse as silence:
            context.judge(
                rule, False, sent, call, expected="the notification ignored", got=str(silence)
            )
            raise
        answers = strays(client, began)
        context.judge(
            rule,
            not answers,
            sent,
            *answers,
            expected="the notification ignored",
            got="a response",
        )


EXTENSIONS = (_request, _notification)


# Malformed traffic: the agent responds with errors and keeps running.

_LARGE_BYTES = 1024 * 1024


@scenario("malformed/frames", "R-ERR-03", "R-BATCH-10", isolated=True, media=("stdio", "websocket"))
async def _frames(context: AgentContext) -> None:
    """The client sends frames that are not JSON, not a message, or a batch."""
    client = await context.connect_initialized()
    batch = [{"jsonrpc": "2.0", "id": 91, "method": "_accord/in-batch"}]
    for rule, frame in (
        ("R-ERR-03", b'{"jsonrpc": "2.0", "method": '),
        ("R-ERR-03", b'{"jsonrpc": "2.0", "accord": true}'),
        ("R-ERR-03", b"4711"),
        ("R-BATCH-10", json.dumps(batch).encode()),
        ("R-BATCH-10", b"[]"),
    ):
        began = len(client.connection.observer.state.frames)
        client.connection.send(frame)

        def is_answered(began: int = began) -> bool:
            return bool(strays(client, began))

        try:
            await client.connection.wait_soon(is_answered, "response")
        except NoResponse as silence:
            context.judge(
                rule,
                False,
                client.connection.observer.state.frames[began],
                expected="an error with a null id",
                got=str(silence),
            )
            if client.connection.is_closed:
                raise


@scenario("malformed/ids", isolated=True)
async def _ids(context: AgentContext) -> None:
    """The client sends requests with invalid ids."""
    client = await context.connect_initialized()
    if context.version == 1:
        raise NotExercised("version 1 allows a null id")
    odd: tuple[Any, ...] = (None, 1.5, True, {"a": 1})
    for ident in odd:
        client.connection.send_message(id=ident, method="_accord/unknown", params={})
        await client.connection.sync()


@scenario("malformed/responses", "R-ERR-04", isolated=True)
async def _answers(context: AgentContext) -> None:
    """The client sends responses that match no request."""
    client = await context.connect_initialized()
    began = len(client.connection.observer.state.frames)
    error = {"code": -32603, "message": "Internal error"}
    sent = {
        b"4711": client.connection.send_message(id=4711, result={}),
        b'"accord"': client.connection.send_message(id="accord", error=error),
        b"4712": client.connection.send_message(id=4712),
    }
    await _expect_alive(context, "R-ERR-04", client, "a request after responses without a request")
    stray = strays(client, began)
    agent_frames = {
        ident: frame
        for frame in client.connection.observer.state.frames[began:]
        for ident in sent
        if frame.sender == "agent" and ident in frame.text
    }
    # A response without an id may be for any of them.
    provoking = sent.values() if stray else [sent[ident] for ident in agent_frames]
    context.judge(
        "R-ERR-04",
        not stray and not agent_frames,
        *provoking,
        *stray,
        *agent_frames.values(),
        expected="nothing: a response without a request is ignored",
        got="a response to it",
    )


# By HTTP, the transport itself refuses these messages.
@scenario("malformed/params", "R-ERR-05", isolated=True, media=("stdio", "websocket"))
async def _params(context: AgentContext) -> None:
    """The client sends requests and notifications with invalid params."""
    client = await context.connect_initialized()
    odd: tuple[Any, ...] = ([], "text", 5, {"sessionId": 5}, {"sessionId": None})
    for value in odd:
        client.connection.send_message(method="session/cancel", params=value)
        client.connection.send_message(method="$/cancel_request", params=value)
        call = client.connection.send_request("session/prompt", value)
        await context.expect_error("R-ERR-05", client, call, (), why=f"the params {value!r}")
    await _expect_alive(context, "R-ERR-05", client, "a request after malformed params")


@scenario("malformed/lines", "R-STDIO-11", isolated=True, media=("stdio",))
async def _lines(context: AgentContext) -> None:
    """The client sends lines that are blank, end in CR LF, are not UTF-8, or are very long."""
    client = await context.connect_initialized()
    rule = "R-STDIO-11"
    began = len(client.connection.observer.state.frames)
    for blank in (b"", b"   ", b"\t"):
        client.connection.send(blank)
    await _expect_alive(context, rule, client, "a request after blank lines")
    stray = strays(client, began)
    context.judge(rule, not stray, *stray, expected="no response to a blank line", got="a response")
    body = {"jsonrpc": "2.0", "method": "_accord/unknown"}
    for number, (why, text) in enumerate(
        (
            ("a line that ends in CR LF", json.dumps({**body, "id": 9001}).encode() + b"\r"),
            ("a long line", _long({**body, "id": 9002})),
        )
    ):
        client.connection.send(text)
        call = client.connection.observer.state.find_request("client", 9001 + number)
        assert call is not None, "just sent"
        if await context.expect_response(rule, client, call, f"a response to {why}"):
            context.judge(rule, True)
    client.connection.send(
        b'{"jsonrpc": "2.0", "method": "_accord/unknown", "params": {"a": "\xff"}}'
    )
    await _expect_alive(context, rule, client, "a request after a line that is not UTF-8")


def _long(body: dict[str, Any]) -> bytes:
    return json.dumps({**body, "params": {"text": "long " * (_LARGE_BYTES // 5)}}).encode()


async def _expect_alive(
    context: AgentContext, rule: str, client: ScenarioClient, what: str
) -> None:
    """Judge that the connection still works."""
    call = client.connection.send_request("_accord/unknown", {})
    if await context.expect_response(rule, client, call, f"a response to {what}"):
        context.judge(rule, call.response is not None, call, expected="", got=call.outcome)


MALFORMED = (_frames, _ids, _answers, _params, _lines)


# The process of the agent: it exits when stdin is closed.

# A transport waits this long for the process to exit before it sends a signal.
_LEAVES_S = 2.0
_TERMINATED = -int(signal.SIGTERM)
_KILLED = -int(getattr(signal, "SIGKILL", 9))


@scenario("shutdown/stdin-closed", isolated=True, media=("stdio",))
@tolerates("stays-after-stdin")
async def _leaves(context: AgentContext) -> None:
    """Stdin is closed while the agent waits for a request; the process has to exit."""
    client = await context.connect_initialized()
    # A session, if it needs no login.
    await client.open_session("session/new", client.setup_params())
    began = time.monotonic()
    await client.connection.aclose()
    took = time.monotonic() - began
    exit_error = await client.connection.exit_error()
    status = exit_error.exit_status if isinstance(exit_error, ConnectionLost) else None
    if took < _LEAVES_S and status not in (_TERMINATED, _KILLED):
        return
    if status == _KILLED:
        how = "it ignored SIGTERM and was killed"
    else:
        how = "it exited on SIGTERM"
    raise Advisory(
        f"still running {_LEAVES_S:g} s after its stdin was closed; {how}",
        "Exit when stdin is closed: editors then kill the process (R-STDIO-07), and unsent "
        "output is lost.",
    )


SHUTDOWN = (_leaves,)
