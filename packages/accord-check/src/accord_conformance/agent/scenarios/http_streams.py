"""Streams by HTTP: where messages go, and how streams begin and end."""

from __future__ import annotations

import time
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.http_probe import HttpProbe, Json
from accord_conformance.agent.scenarios.http_requests import HTTP, expect_status
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.network.raw_client import OpenStream

KEEPALIVE_S = 16.0
_OPENING_S = 1.0  # for a comment that is sent at once


@scenario(
    "http/streams", "R-HTTP-11", "R-HTTP-17", "R-HTTP-22", "R-HTTP-40", media=HTTP, isolated=True
)
async def _streams(context: AgentContext) -> None:
    """Streams of the connection and of a session are opened, read twice, and opened again."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        session = await _new_session(context, probe)
        for which in (None, session):
            stream = probe.streams[which]
            kind = stream.reply.header("Content-Type") or ""
            context.judge(
                "R-HTTP-11",
                kind.startswith("text/event-stream"),
                *stream.reply.frames,
                expected="Content-Type text/event-stream",
                got=kind or "no Content-Type",
            )
            await _judge_opening(context, probe, stream, which)
        first = probe.streams[session]
        second = await probe.client.open_stream(probe.headers(session))
        replaced = second.status == 200 and await probe.client.wait(lambda: first.is_over, 2)
        context.judge(
            "R-HTTP-22",
            second.status == 409 or replaced,
            *second.reply.frames,
            expected="status 409 for a second reader, or the end of the first one",
            got="two readers" if second.status == 200 else second.reply.outcome,
        )
        await first.aclose()
        await second.aclose()
        again = await probe.open_stream(session)
        for _ in range(20):
            # The server may not know yet that the readers are gone.
            if again.status != 409:
                break
            await probe.client.wait(lambda: False, 0.1)
            again = await probe.open_stream(session)
        expect_status(context, "R-HTTP-17", again.reply, (200,), "a stream that is opened again")


async def _new_session(context: AgentContext, probe: HttpProbe) -> str:
    """Create a session whose stream has to exist."""
    try:
        return await probe.new_session()
    except NotExercised:
        refused = probe.client.frames[-2:]
        if refused and refused[-1].text.startswith(b"status 40"):
            context.judge(
                "R-HTTP-11",
                False,
                *refused,
                expected="a stream for a session that was created",
                got=refused[-1].text.split(b"\n")[0].decode(),
            )
        raise


async def _judge_opening(
    context: AgentContext, probe: HttpProbe, stream: OpenStream, session: str | None
) -> None:
    """Judge the headers of a stream, and the comment at its beginning."""
    headers = stream.reply.headers
    cache = headers.get("Cache-Control") or ""
    lacking = [
        *(["Acp-Connection-Id"] if headers.get("Acp-Connection-Id") is None else []),
        *(["Acp-Session-Id"] if session and headers.get("Acp-Session-Id") is None else []),
        *(["Cache-Control: no-cache, no-transform"] if "no-transform" not in cache else []),
        *(["X-Accel-Buffering: no"] if headers.get("X-Accel-Buffering") != "no" else []),
    ]
    if headers.get("Content-Encoding") is not None:
        lacking.append("an uncompressed body")
    if not await probe.client.wait(lambda: bool(stream.comments), _OPENING_S):
        lacking.append("a comment at once")
    context.judge(
        "R-HTTP-40",
        not lacking,
        *stream.reply.frames,
        expected="the headers of a stream, and a comment at once",
        got="without " + ", ".join(lacking),
    )


@scenario(
    "http/turn", "R-HTTP-06", "R-HTTP-12", "R-HTTP-20", "R-HTTP-28", media=HTTP, isolated=True
)
async def _turn(context: AgentContext) -> None:
    """A prompt is posted; the responses and updates come on their streams."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        session = await probe.new_session()
        new = next(one for one in probe.messages() if _is_new_session(one[1]))
        _judge_stream(context, probe, new[0] is None, "session/new", "the connection's stream")
        message = probe.request("_accord/unknown")
        reply = await probe.post(message)
        expect_status(context, "R-HTTP-06", reply, (202,), "an accepted request")
        passed = not reply.body.strip()
        context.judge("R-HTTP-06", passed, *reply.frames, expected="an empty body", got="a body")
        cancel: Json = {"requestId": message["id"]}
        note = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": cancel}
        reply = await probe.post(note)
        why = "`$/cancel_request` without a session header"
        expect_status(context, "R-HTTP-20", reply, (200, 202, 204), why)
        stream, _ = await probe.prompt(session, "text")
        where = "the session's stream"
        _judge_stream(context, probe, stream == session, "session/prompt", where)
        strays = [
            one
            for found, one in probe.messages()
            if one.get("method") == "session/update" and found != _session_of(one)
        ]
        _judge_stream(context, probe, not strays, "session/update", where)
        for which in (None, session):
            for event in probe.streams[which].events:
                fields = {line.partition(b":")[0] for line in event.lines}
                context.judge(
                    "R-HTTP-28",
                    event.message is not None and fields <= {b"data", b"id", b"retry"},
                    event.frame,
                    expected="one JSON object as `data`",
                    got=", ".join(sorted(field.decode("utf-8", "replace") for field in fields)),
                )


def _judge_stream(
    context: AgentContext, probe: HttpProbe, passed: bool, what: str, where: str
) -> None:
    frames = [frame for frame in probe.client.frames if what.encode() in frame.text][-2:]
    context.judge(
        "R-HTTP-12", passed, *frames, expected=f"{what} on {where}", got="it is on another stream"
    )


def _is_new_session(message: Json) -> bool:
    result = message.get("result")
    return is_object(result) and "sessionId" in result


def _session_of(message: Json) -> Any:
    params = message.get("params")
    return params.get("sessionId") if is_object(params) else None


@scenario("http/session-headers", "R-HTTP-21", "R-HTTP-34", media=HTTP, isolated=True)
async def _session_headers(context: AgentContext) -> None:
    """Requests name their session in the header, in the params, in both, or not at all."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        session = await probe.new_session()
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        reply = await probe.post(cancel)
        expect_status(context, "R-HTTP-34", reply, (202,), "a session in the params only")
        reply = await probe.post({"jsonrpc": "2.0", "method": "session/cancel", "params": {}})
        expect_status(context, "R-HTTP-34", reply, (400,), "a session method without a session")
        reply = await probe.post(cancel, "another-session")
        expect_status(context, "R-HTTP-21", reply, (400,), "a header that contradicts the params")


@scenario("http/answers", "R-HTTP-35", media=HTTP, isolated=True)
async def _answers(context: AgentContext) -> None:
    """A permission request is answered with a wrong session header, then with none."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        session = await probe.new_session()
        asked: list[Json] = []

        async def answer(stream: str | None, call: Json) -> None:
            if call["method"] != "session/request_permission":
                await probe.refuse(stream, call)
                return
            asked.append(call)
            options = call.get("params", {}).get("options")
            first = options[0] if is_array(options) and options else None
            chosen: Any = first.get("optionId") if is_object(first) else None
            outcome: Json = {"outcome": "selected", "optionId": chosen}
            body: Json = {"jsonrpc": "2.0", "id": call["id"], "result": {"outcome": outcome}}
            reply = await probe.post(body, "another-session")
            wrong = "a response with the header of another session"
            expect_status(context, "R-HTTP-35", reply, (400,), wrong)
            if reply.status == 202:
                return
            reply = await probe.post(body)
            if not expect_status(
                context, "R-HTTP-35", reply, (202,), "a response without a session header"
            ):
                await probe.post(body, stream)

        await probe.prompt(session, "permission", answer)
        if not asked:
            raise NotExercised("the agent requested no permission")


@scenario("http/event-ids", "R-HTTP-44", media=HTTP, isolated=True)
async def _event_ids(context: AgentContext) -> None:
    """A stream with event ids is opened again with the first id: later events come again."""
    async with HttpProbe(context) as probe:
        await probe.initialize()
        session = await probe.new_session()
        await probe.prompt(session, "text")
        events = [
            event for event in probe.streams[session].events if _event_id(event.lines) is not None
        ]
        if len(events) < 2:
            raise NotExercised("the server sends no event ids")
        await probe.streams[session].aclose()
        first = _event_id(events[0].lines) or ""
        again = await probe.client.open_stream(probe.headers(session, Last_Event_ID=first))
        for _ in range(20):
            if again.status != 409:
                break
            await probe.client.wait(lambda: False, 0.1)
            again = await probe.client.open_stream(probe.headers(session, Last_Event_ID=first))
        came = await probe.client.wait(lambda: bool(again.events))
        same = came and again.events[0].message == events[1].message
        context.judge(
            "R-HTTP-44",
            same or again.status == 409,
            *again.reply.frames,
            expected="the event after the last one, or status 409",
            got="another event" if came else f"no event, {again.reply.outcome}",
        )
        await again.aclose()


def _event_id(lines: list[bytes]) -> str | None:
    for line in lines:
        if line.startswith(b"id:"):
            return line[3:].strip().decode("utf-8", "replace")
    return None


@scenario("http/keepalive", "R-HTTP-17", media=HTTP, isolated=True)
async def _keepalive(context: AgentContext) -> None:
    """A stream is idle: the server sends a comment every 15 seconds."""
    context.wait_once()
    async with HttpProbe(context) as probe:
        await probe.initialize(log_in=False)
        stream = probe.streams[None]
        began = time.monotonic()
        await probe.client.wait(lambda: bool(stream.comments), 0.5)
        seen = len(stream.comments)
        left = KEEPALIVE_S - (time.monotonic() - began)
        came = await probe.client.wait(lambda: len(stream.comments) > seen, left)
        context.judge(
            "R-HTTP-17",
            came,
            *stream.reply.frames,
            expected=f"a comment within {KEEPALIVE_S:g} s on an idle stream",
            got="none",
        )


SCENARIOS = (_keepalive, _streams, _turn, _session_headers, _answers, _event_ids)
