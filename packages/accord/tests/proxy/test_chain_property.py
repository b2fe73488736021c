"""Random conversations through chains of one to five proxies: both ends see the same bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from accord.proxy.conductor import Component, conduct, serve_stages
from accord.proxy.handlers import NotificationHandler, OrderedStage, PassingRequest, RequestHandler
from accord.proxy.hop import DIALECTS
from accord.proxy.stage import Direction, Params, RawResponse, Stage
from accord.testing import Recorder
from accord.text.lenient_json import member_texts
from accord.transports.memory import MemoryTransport, ServedTransport, pair
from requirement import requirement


class _Waits(OrderedStage):
    """Passes everything on unchanged, by handlers that wait."""

    def notification_handler(self, to: Direction, method: str) -> NotificationHandler | None:
        async def handle(method: str, params: Params) -> None:
            await asyncio.sleep(0)
            self.port(to).notify(method, params)

        return handle

    def request_handler(self, to: Direction, method: str) -> RequestHandler | None:
        return self._pass_request

    async def _pass_request(self, request: PassingRequest) -> RawResponse:
        await asyncio.sleep(0)
        response = await request.forward()
        await asyncio.sleep(0)
        return response


class _Kind(NamedTuple):
    """How one proxy runs."""

    dialect: str | None  # of a connection of its own; None: a stage of the conductor
    waits: bool

    def component(self) -> Component:
        stage = _Waits if self.waits else Stage
        if self.dialect is None:
            return Component("stage", make_stage=stage)

        def opened() -> ServedTransport:
            return ServedTransport(lambda transport: serve_stages([stage()], transport))

        return Component("proxy", open=opened, dialect=DIALECTS[self.dialect])


class _Action(NamedTuple):
    """What one end does: `what` picks a request to answer or to cancel."""

    verb: str
    session: str | None
    text: str
    what: int


class _Sent(NamedTuple):
    """What one end has sent, and the other must receive."""

    verb: str
    session: str | None
    text: bytes
    number: int  # of the request


class _End:
    """One end: it sends actions, and compares what it receives with what the other has sent."""

    def __init__(self, name: str, transport: MemoryTransport) -> None:
        self.name = name
        self.transport = transport
        self.received = Recorder()
        self.sent: list[_Sent] = []
        self.requests: dict[int, str | None] = {}  # sent and unanswered: their sessions
        self.cancelled: set[int] = set()  # of them
        self.cancelling: set[int] = set()  # in this step, so the other end does not answer them
        self.ids: dict[int, Any] = {}  # of the received requests, by number
        self._ids_by_text: dict[bytes, Any] = {}

    def do(self, actions: Sequence[_Action], other: _End) -> None:
        frames = [self._frame(action, other) for action in actions]
        self.transport.write([frame for frame in frames if frame is not None])

    def _frame(self, action: _Action, other: _End) -> bytes | None:
        verb, session, text, what = action
        number = -1
        params = b'{"sessionId":"%b","v":%b}' % ((session or "").encode(), text.encode())
        if session is None:
            params = b'{"v":%b}' % text.encode()
        if verb == "notify":
            frame = b'"method":"n/x","params":%b' % params
        elif verb == "request":
            number = len(self.sent)
            self.requests[number] = session
            frame = b'"id":"%d","method":"_r","params":%b' % (number, params)
        elif verb == "cancel":
            # What the other end has not received yet would never arrive there.
            open_numbers = sorted((self.requests.keys() & other.ids.keys()) - self.cancelled)
            if not open_numbers:
                return None
            number = open_numbers[what % len(open_numbers)]
            self.cancelled.add(number)
            self.cancelling.add(number)
            frame = b'"method":"$/cancel_request","params":{"requestId":"%d"}' % number
            session, params = None, b"%d" % number
        else:
            open_numbers = sorted((other.requests.keys() & self.ids.keys()) - other.cancelling)
            if not open_numbers:
                return None
            number = open_numbers[what % len(open_numbers)]
            session = other.requests.pop(number)
            params = text.encode()
            if verb == "fail":
                params = b'{"code":-1,"message":"m","data":%b}' % params
            key = b"result" if verb == "answer" else b"error"
            frame = b'"id":%b,"%b":%b' % (json.dumps(self.ids[number]).encode(), key, params)
        self.sent.append(_Sent(verb, session, params, number))
        return b'{"jsonrpc":"2.0",%b}' % frame

    async def compare(self, other: _End, *, in_total_order: bool) -> None:
        """Wait for everything that the other end has sent, and compare."""
        count = len(other.sent)
        await self.received.until(lambda: len(self.received.frames) >= count)
        got: list[tuple[str, bytes]] = []
        for frame in self.received.frames:
            members = member_texts(frame)
            method = json.loads(members.get("method", b'""'))
            raw = next(members[name] for name in ("params", "result", "error") if name in members)
            if method == "$/cancel_request":
                cancelled = json.loads(raw)["requestId"]
                raw = b"%d" % next(n for n, ident in self.ids.items() if ident == cancelled)
            got.append((method, raw))
            if method == "_r":
                self._ids_by_text[raw] = json.loads(members["id"])
        names = {"notify": "n/x", "request": "_r", "cancel": "$/cancel_request"}
        expected = [(names.get(one.verb, ""), one.text) for one in other.sent]
        if in_total_order:
            assert got == expected
        assert sorted(got) == sorted(expected)
        # A cancellation may overtake messages that wait.
        in_lanes = [one for one in other.sent if one.verb != "cancel"]
        for session in {one.session for one in in_lanes}:
            # Texts are unique, so each can be found.
            own = [one.text for one in in_lanes if one.session == session]
            assert [text for _, text in got if text in set(own)] == own
        for one in other.sent:
            if one.verb == "request":
                self.ids[one.number] = self._ids_by_text[one.text]
        other.cancelling.clear()


async def _converse(kinds: Sequence[_Kind], steps: Sequence[Sequence[Sequence[_Action]]]) -> None:
    client_here, client_there = pair()
    agent_here, agent_there = pair()
    client, agent = _End("client", client_here), _End("agent", agent_here)
    await client_here.start(client.received)
    await agent_here.start(agent.received)
    components = [kind.component() for kind in kinds]
    running = asyncio.ensure_future(
        conduct([*components, Component("agent", open=lambda: agent_there)], client_there)
    )
    in_total_order = not any(kind.waits for kind in kinds)
    try:
        async with asyncio.timeout(10):
            await _initialize(client, agent)
            for of_client, of_agent in steps:
                client.do(of_client, agent)
                agent.do(of_agent, client)
                await client.compare(agent, in_total_order=in_total_order)
                await agent.compare(client, in_total_order=in_total_order)
    finally:
        await agent_here.aclose()
        await client.received.until(lambda: client.received.ended)
        await client_here.aclose()
        async with asyncio.timeout(10):
            await running


async def _initialize(client: _End, agent: _End) -> None:
    client.transport.write(
        [b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}']
    )
    await agent.received.until(lambda: len(agent.received.frames) == 1)
    agent.transport.write([b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'])
    await client.received.until(lambda: len(client.received.frames) == 1)
    client.received.frames.clear()
    agent.received.frames.clear()


_ODD = ["1.0", "1e400", '"\\ud800"', ' { "b":1,"a" :2}', "[ ]", "null", "0.10", '"\\u0041é"']
_actions = st.builds(
    _Action,
    st.sampled_from(["notify", "notify", "request", "answer", "fail", "cancel"]),
    st.sampled_from(["a", "b", None]),
    st.sampled_from(_ODD),
    st.integers(0, 9),
)
_steps = st.lists(st.tuples(*[st.lists(_actions, max_size=8)] * 2), min_size=1, max_size=4)
_kinds = st.builds(_Kind, st.sampled_from([None, "acp", "rust", "thinkwell"]), st.booleans())


def _unique(steps: Sequence[Sequence[Sequence[_Action]]]) -> list[list[list[_Action]]]:
    """Give each text a number, so that no two are equal."""
    count = 0
    result: list[list[list[_Action]]] = []
    for step in steps:
        sides: list[list[_Action]] = []
        for side in step:
            sides.append([])
            for action in side:
                count += 1
                sides[-1].append(action._replace(text=f'{{"n":{count}, "odd":{action.text}}}'))
        result.append(sides)
    return result


@settings(max_examples=25)
@given(kinds=st.lists(_kinds, min_size=1, max_size=5), steps=_steps)
@requirement("R-PROXY-18", "R-PROXY-20", "R-PROXY-21")
def test_both_ends_see_the_same_bytes_in_the_same_order(
    kinds: Sequence[_Kind], steps: Sequence[Sequence[Sequence[_Action]]]
) -> None:
    asyncio.run(_converse(kinds, _unique(steps)))
