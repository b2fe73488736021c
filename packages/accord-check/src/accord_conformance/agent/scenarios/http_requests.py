"""Requests by HTTP: what a server accepts and refuses, and with which status."""

from __future__ import annotations

import json
from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.http_probe import HttpProbe, initialize_message
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.network.raw_client import Reply
from accord_conformance.rules.authority import Authority

HTTP = ("http",)
BODY_BYTES = 17 * 1024 * 1024  # more than servers accept by default
_DECLARED_S = 1.0  # for a server to refuse a body by its length
_NOWHERE = "00000000-accord-check-nowhere"


def expect_status(
    context: AgentContext,
    rule: str,
    reply: Reply,
    statuses: tuple[int, ...],
    why: str,
    authority: Authority | None = None,
) -> bool:
    """Judge the status of a response; return whether it is one of these."""
    passed = reply.status in statuses
    named = " or ".join(map(str, statuses))
    context.judge(
        rule,
        passed,
        *reply.frames,
        expected=f"status {named} for {why}",
        got=reply.outcome,
        authority=authority,
    )
    return passed


@scenario(
    "http/initialize", "R-HTTP-05", "R-HTTP-23", "R-HTTP-24", "R-HTTP-45", media=HTTP, isolated=True
)
async def _initialize(context: AgentContext) -> None:
    """`initialize` is posted: alone, with an upgrade, with a null id, and a second time."""
    async with HttpProbe(context) as probe:
        message = initialize_message(context.version)
        # An upgrade that is no WebSocket, as some clients send it for HTTP/2.
        upgrade = {"Connection": "Upgrade", "Upgrade": "accord-check"}
        reply = await probe.post(message, headers=upgrade)
        expect_status(context, "R-HTTP-45", reply, (200,), "`initialize` with an unknown Upgrade")
        if (ident := reply.header("Acp-Connection-Id")) is not None:
            await probe.client.request("DELETE", {"Acp-Connection-Id": ident})
        reply = await probe.post(message)
        body, ident = reply.json(), reply.header("Acp-Connection-Id")
        is_answer = is_object(body) and body.get("id") == 0 and "result" in body
        passed = reply.status == 200 and is_answer and bool(ident)
        got = reply.outcome + ("" if ident else ", no id") + ("" if is_answer else ", no response")
        context.judge(
            "R-HTTP-05",
            passed,
            *reply.frames,
            expected="status 200, the response as body, and Acp-Connection-Id",
            got=got,
        )
        if not ident:
            raise NotExercised("no connection was created")
        probe.connection_id = ident
        again = await probe.post(initialize_message(context.version, 1))
        other = again.header("Acp-Connection-Id")
        is_new = again.status == 200 and other not in (None, ident)
        context.judge(
            "R-HTTP-23",
            again.status == 400 or is_new,
            *again.frames,
            expected="status 400, or another connection",
            got=again.outcome + (", the same connection" if other == ident else ""),
        )
        if is_new and other is not None:
            await probe.client.request("DELETE", {"Acp-Connection-Id": other})
        alone = {"Content-Type": "application/json", "Accept": "application/json"}
        null = json.dumps(initialize_message(context.version, None)).encode()
        reply = await probe.client.request("POST", alone, null)
        expect_status(context, "R-HTTP-24", reply, (400,), "`initialize` with a null id")


@scenario(
    "http/headers",
    "R-HTTP-07",
    "R-HTTP-08",
    "R-HTTP-09",
    "R-HTTP-26",
    "R-BATCH-11",
    "R-HTTP-50",
    media=HTTP,
    isolated=True,
)
async def _headers(context: AgentContext) -> None:
    """Requests have wrong headers, unknown connections, and bodies that are not messages."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        refused: list[Reply] = []

        def judge(rule: str, reply: Reply, status: int, why: str) -> None:
            if expect_status(context, rule, reply, (status,), why):
                refused.append(reply)

        note: Any = {"jsonrpc": "2.0", "method": "_accord/unheard", "params": {}}
        plain = {"Content-Type": "text/plain"}
        judge("R-HTTP-07", await probe.post(note, headers=plain), 415, "text/plain")
        stream = await probe.client.open_stream({**probe.headers(), "Accept": "application/json"})
        judge("R-HTTP-08", stream.reply, 406, "a GET that does not accept an event stream")
        await stream.aclose()
        kind = {"Content-Type": "application/json", "Accept": "application/json"}
        body = json.dumps(note).encode()
        for method in ("POST", "GET", "DELETE"):
            fields = {"Accept": "text/event-stream"} if method == "GET" else kind
            sent = body if method == "POST" else b""
            without = await probe.client.request(method, fields, sent)
            rule = "R-HTTP-09"
            judge(rule, without, 400, f"a {method} without Acp-Connection-Id")
            fields = {**fields, "Acp-Connection-Id": _NOWHERE}
            unknown = await probe.client.request(method, fields, sent)
            if method != "DELETE":  # R-HTTP-13 is about that
                judge(rule, unknown, 404, f"a {method} with an unknown connection")
        judge("R-HTTP-26", await probe.post(b'{"jsonrpc": "2.0", '), 400, "a body that is no JSON")
        judge("R-HTTP-26", await probe.post(b"4711"), 400, "a number as body")
        with_charset = {"Content-Type": "Application/JSON; charset=utf-8"}
        reply = await probe.post(note, headers=with_charset)
        expect_status(context, "R-HTTP-26", reply, (202,), "a content type with parameters")
        reply = await probe.post(b'[{"jsonrpc": "2.0", "id": 91, "method": "_accord/in-batch"}]')
        body = reply.json()
        error = body.get("error") if is_object(body) else None
        code = error.get("code") if is_object(error) else None
        context.judge(
            "R-BATCH-11",
            reply.status == 400 and code == -32600,
            *reply.frames,
            expected="status 400 with error -32600 as the body, for an array",
            got=f"{reply.outcome}, error {code}",
        )
        for one in refused:
            _judge_error_body(context, one)


def _judge_error_body(context: AgentContext, reply: Reply) -> None:
    """Judge the body of a refusal: a JSON-RPC error, or one line of text."""
    text = reply.body.decode("utf-8", "replace").strip()
    found = reply.json()
    is_error = is_object(found) and is_object(found.get("error"))
    passed = not text or is_error or "\n" not in text
    reveals = "Traceback" in text or 'File "' in text or "    at " in text
    context.judge(
        "R-HTTP-50",
        passed and not reveals,
        *reply.frames,
        expected="a JSON-RPC error, or one line of text",
        got="a traceback" if reveals else "several lines",
    )


@scenario("http/methods", "R-HTTP-02", "R-HTTP-22", "R-HTTP-46", media=HTTP, isolated=True)
async def _methods(context: AgentContext) -> None:
    """The endpoint gets the methods of the protocol, and others."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        request = probe.client.request
        reply, socket = await probe.client.upgrade()
        if socket is not None:
            await socket.aclose()
        expect_status(context, "R-HTTP-02", reply, (101, 426), "a WebSocket upgrade")
        reply = await request("PUT", {**probe.headers(), "Content-Type": "application/json"}, b"{}")
        expect_status(context, "R-HTTP-22", reply, (405,), "PUT")
        reply = await request("HEAD", {**probe.headers(), "Accept": "text/event-stream"})
        expect_status(context, "R-HTTP-46", reply, (405,), "HEAD")
        reply = await request("OPTIONS", probe.headers())
        is_preflight = reply.header("Access-Control-Allow-Methods") is not None
        statuses = (200, 204, 405) if is_preflight else (405,)
        expect_status(context, "R-HTTP-46", reply, statuses, "OPTIONS")
        reply = await request("DELETE", probe.headers())
        passed = reply.status not in (405, 501)
        context.judge(
            "R-HTTP-02", passed, *reply.frames, expected="DELETE is served", got=reply.outcome
        )


@scenario("http/large-body", "R-HTTP-22", media=HTTP, isolated=True)
async def _large_body(context: AgentContext) -> None:
    """A POST is larger than servers accept."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        fields = {**probe.headers(), "Content-Type": "application/json"}
        declared = {**fields, "Content-Length": str(1 << 40)}
        reply = await probe.client.request("POST", declared, b"{", within_s=_DECLARED_S)
        if reply.status == 0:
            text = b'{"jsonrpc": "2.0", "method": "_accord/unheard", "params": {"text": "'
            body = text + b"long " * (BODY_BYTES // 5) + b'"}}'
            reply = await probe.client.request("POST", fields, body)
        expect_status(context, "R-HTTP-22", reply, (413,), "a body of 17 MiB")


@scenario("http/delete", "R-HTTP-13", media=HTTP, isolated=True)
async def _delete(context: AgentContext) -> None:
    """The connection is deleted: its streams end, and its id is unknown."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        stream = probe.streams[None]
        reply = await probe.client.request("DELETE", probe.headers())
        expect_status(context, "R-HTTP-13", reply, (202,), "DELETE")
        ended = await probe.client.wait(lambda: stream.is_over)
        context.judge(
            "R-HTTP-13", ended, *reply.frames, expected="the stream ends", got="it is still open"
        )
        reply = await probe.client.request("DELETE", probe.headers())
        why = "DELETE of an unknown connection"
        expect_status(context, "R-HTTP-13", reply, (404,), why, authority="derived")
        probe.connection_id = None
        reply = await probe.client.request("DELETE", {})
        expect_status(context, "R-HTTP-13", reply, (400,), "DELETE without Acp-Connection-Id")


@scenario("http/login", "R-HTTP-19", media=HTTP, isolated=True)
async def _login(context: AgentContext) -> None:
    """Requests have the ids of a connection, but no token."""
    if context.remote.options.token is None:
        raise NotExercised("the server needs no token")
    async with HttpProbe(context) as probe:
        await probe.initialize()
        note = json.dumps({"jsonrpc": "2.0", "method": "_accord/unheard"}).encode()
        fields = {**probe.headers(), "Content-Type": "application/json"}
        reply = await probe.client.request("POST", fields, note, login=False)
        expect_status(context, "R-HTTP-19", reply, (401, 403), "a connection id without a token")


@scenario("http/version-2-of-http", "R-HTTP-03", "R-HTTP-39", media=HTTP, isolated=True)
async def _http2(context: AgentContext) -> None:
    """The client begins with HTTP/2, which most servers of the protocol do not have yet."""
    async with HttpProbe(context) as probe:
        reply = await probe.post(initialize_message(context.version))
        probe.connection_id = reply.header("Acp-Connection-Id")
        has_it, streams = await probe.client.max_streams()
        context.judge(
            "R-HTTP-03",
            has_it,
            *reply.frames,
            expected="a connection by HTTP/2",
            got="none",
            authority="derived",  # of the reference servers, one has it
        )
        if has_it:
            context.judge(
                "R-HTTP-39",
                streams is None or streams >= 1024,
                *reply.frames,
                expected="at least 1024 streams on one connection",
                got=str(streams),
            )


SCENARIOS = (_initialize, _headers, _methods, _large_body, _delete, _login, _http2)
