"""What a proxy does not change passes through it unchanged, in both directions."""

from __future__ import annotations

from accord_conformance.chain.line import ChainLine, End
from accord_conformance.chain.odd_messages import (
    CUSTOM,
    EXITED,
    ODD,
    ODD_ERROR,
    ODD_RESULT,
    UNKNOWN,
)
from accord_conformance.chain.proxy_context import ProxyContext
from accord_conformance.harness.scenario import scenario

_PASSING = ("R-PROXY-04", "R-PROXY-05", "R-PROXY-15", "R-PROXY-20")


def _directions(line: ChainLine) -> tuple[End, End]:
    return line.plain, line.wrapped


@scenario("forward/requests", *_PASSING, "R-PROXY-08")
async def _requests(context: ProxyContext) -> None:
    """Requests of unknown methods pass in both directions, and so do their results."""
    line = await context.start()
    for origin in _directions(line):
        for method in (CUSTOM, UNKNOWN):
            sent, arrival = await context.forwarded(origin, method, ODD)
            if sent is not None and arrival is not None and arrival.is_request:
                answer = arrival.reply(ODD_RESULT)
                if await context.answered("R-PROXY-08", sent, answer):
                    context.compare_response(sent, ODD_RESULT, answer)


@scenario("forward/notifications", *_PASSING)
async def _notifications(context: ProxyContext) -> None:
    """Notifications of unknown methods pass in both directions."""
    line = await context.start()
    for origin in _directions(line):
        for method in (CUSTOM, UNKNOWN):
            await context.forwarded(origin, method, ODD, is_request=False)


@scenario("forward/params", "R-PROXY-04", "R-PROXY-05", "R-PROXY-15")
async def _params(context: ProxyContext) -> None:
    """Params may be absent, null, or an array."""
    line = await context.start()
    for origin in _directions(line):
        for params in (None, b"null", b"[1,{},null]", b"{}"):
            await context.forwarded(origin, CUSTOM, params, is_request=False)


@scenario("forward/envelope", "R-PROXY-04", "R-PROXY-05", "R-PROXY-15", "R-PROXY-16")
async def _envelope(context: ProxyContext) -> None:
    """`_meta` of an envelope belongs to that hop, and that of the message inside does not."""
    line = await context.start()
    for params in (b'{"a":1}', b'{"a":1,"_meta":{"inner":1}}'):
        for is_request in (True, False):
            _, arrival = await context.forwarded(
                line.wrapped, CUSTOM, params, meta=b'{"accord-check/hop":1}', is_request=is_request
            )
            if arrival is not None:
                context.add(
                    "R-PROXY-16",
                    b"accord-check/hop" not in arrival.frame.text,
                    arrival.frame,
                    expected="a message without the `_meta` of the envelope",
                    got="a message that has it",
                )


@scenario("forward/errors", "R-PROXY-04", "R-PROXY-05", "R-PROXY-15", "R-PROXY-08", "R-PROXY-20")
async def _errors(context: ProxyContext) -> None:
    """Errors of both ends pass unchanged, and so does that of a successor that has exited."""
    line = await context.start()
    for origin in _directions(line):
        for error in (ODD_ERROR, EXITED):
            sent, arrival = await context.forwarded(origin, CUSTOM, b'{"a":1}')
            if sent is not None and arrival is not None and arrival.is_request:
                answer = arrival.fail(error)
                if await context.answered("R-PROXY-08", sent, answer):
                    context.compare_response(sent, error, answer)


_SESSION = b'"sessionId":"accord-check"'
_TEXT = b'[{"type":"text","text":"hello","_meta":{"n":1.0}}]'
_OPTIONS = b'[{"optionId":"yes","name":"Yes","kind":"allow_once"}]'
_TOOL = b'{"toolCallId":"t1","title":"Edit","later":1.0}'
# A conversation: which end sends, the method, its params, and the result; None for a notification.
_Step = tuple[str, str, bytes, bytes | None]
_CONVERSATION_V1: tuple[_Step, ...] = (
    ("client", "session/new", b'{"cwd":"/","mcpServers":[],"later":1.0}', b"{%s}" % _SESSION),
    (
        "client",
        "session/prompt",
        b'{%s,"prompt":%s}' % (_SESSION, _TEXT),
        b'{"stopReason":"end_turn"}',
    ),
    (
        "agent",
        "session/update",
        b'{%s,"update":{"sessionUpdate":"agent_message_chunk","content":'
        b'{"type":"text","text":"hi"},"later":1.0}}' % _SESSION,
        None,
    ),
    (
        "agent",
        "session/request_permission",
        b'{%s,"toolCall":%s,"options":%s}' % (_SESSION, _TOOL, _OPTIONS),
        b'{"outcome":{"outcome":"selected","optionId":"yes","later":1.0}}',
    ),
    ("agent", "fs/read_text_file", b'{%s,"path":"/a","line":1}' % _SESSION, b'{"content":"a"}'),
    (
        "agent",
        "terminal/create",
        b'{%s,"command":"true","args":[]}' % _SESSION,
        b'{"terminalId":"1"}',
    ),
    ("client", "session/list", b'{"cwd":"/"}', b'{"sessions":[]}'),
    ("client", "session/cancel", b'{%s,"later":1.0}' % _SESSION, None),
)
_CONVERSATION_V2: tuple[_Step, ...] = (
    ("client", "session/new", b'{"cwd":"/","later":1.0}', b"{%s}" % _SESSION),
    ("client", "session/prompt", b'{%s,"prompt":%s}' % (_SESSION, _TEXT), b'{"messageId":"m1"}'),
    (
        "agent",
        "session/update",
        b'{%s,"update":{"sessionUpdate":"state_update","state":"running","later":1.0}}' % _SESSION,
        None,
    ),
    (
        "agent",
        "session/request_permission",
        b'{%s,"title":"May I?","subject":{"type":"tool_call","toolCall":%s},"options":%s}'
        % (_SESSION, _TOOL, _OPTIONS),
        b'{"outcome":{"outcome":"selected","optionId":"yes","later":1.0}}',
    ),
    ("client", "session/list", b'{"cwd":"/"}', b'{"sessions":[]}'),
    ("client", "session/cancel", b'{%s,"later":1.0}' % _SESSION, None),
)


@scenario("forward/protocol", *_PASSING, "R-PROXY-08")
async def _protocol(context: ProxyContext) -> None:
    """A session with a turn: every method passes that the proxy does not change on purpose."""
    line = await context.start()
    steps = _CONVERSATION_V1 if context.version == 1 else _CONVERSATION_V2
    for side, method, params, result in steps:
        origin = line.plain if side == "client" else line.wrapped
        sent, arrival = await context.forwarded(
            origin, method, params, is_request=result is not None
        )
        if sent is None or arrival is None or result is None or not arrival.is_request:
            continue
        answer = arrival.reply(result)
        if method in context.settings.changes:
            await sent.wait(context.settings.answer_s)
        elif await context.answered("R-PROXY-08", sent, answer):
            context.compare_response(sent, result, answer)


SCENARIOS = (_requests, _notifications, _params, _envelope, _errors, _protocol)
