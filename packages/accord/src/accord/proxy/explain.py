"""What each component of a chain offers and changes, as text.

One handshake shows what they change in it; proxies of Accord say what they do after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import UNSET, Raw

from accord.errors import ConnectionLost, RequestError, StartError, TransportError
from accord.proxy.conductor import conduct
from accord.proxy.described import DESCRIBE, NO_PROXIES, description_lines
from accord.proxy.parts import Component
from accord.proxy.served import ServedTransport
from accord.proxy.stage import Params, RawRequest, RawResponse, Stage
from accord.text import lenient_json
from accord.text.excerpt import excerpt, one_line, visible
from accord.transports.base import Frame
from accord.version import __version__

_TIMEOUT_S = 60.0
_DESCRIBE_S = 5.0  # for each proxy
_ABSENT = object()
# Of a client that supports what both versions have, so that changes of it are visible.
_PARAMS: dict[str, Any] = {
    "protocolVersion": 2,
    "info": {"name": "accord chain", "version": __version__},
    "capabilities": {},
}
_PARAMS_V1: dict[str, Any] = {
    "protocolVersion": 1,
    "clientInfo": {"name": "accord chain", "version": __version__},
    "clientCapabilities": {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
    },
}


async def explain(components: Sequence[Component]) -> str:
    """Start a chain, and return a picture of what `initialize` passes and gets on its way.

    Raise `RequestError` if it fails, `StartError` if a component cannot be started,
    `TransportError` if one ends, and `TimeoutError` that names the one that did not respond.
    """
    taps = [_Tap() for _ in components]
    parts: list[Component] = []
    for tap, component in zip(taps, components, strict=True):
        parts += [Component("tap", make_stage=lambda tap=tap: tap), component]
    transport = ServedTransport(lambda there: conduct(parts, there))
    client = _Client(transport)
    await transport.start(client)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await client.initialize()
        described = [await tap.describe() for tap in taps[:-1]]
    except TimeoutError:
        name = _silent(taps, components)
        text = f"component {name!r}: no response to initialize for {_TIMEOUT_S:g} s"
        raise TimeoutError(text) from None
    except (RequestError, TransportError) as exc:
        await transport.aclose()
        failure = await transport.exit_error()
        if isinstance(failure, StartError):
            raise failure from exc  # with what is not in answers, such as the PATH
        raise
    finally:
        await transport.aclose()
    return "\n".join(_picture(taps, components, described)) + "\n"


def _silent(taps: Sequence[_Tap], components: Sequence[Component]) -> str:
    """Return the name of the last component that has `initialize` and did not respond."""
    pairs = list(zip(taps, components, strict=True))
    return next((one.name for tap, one in reversed(pairs) if tap.is_waiting), pairs[0][1].name)


class _Tap(Stage):
    """Keeps the params and the result of `initialize` between two components."""

    def __init__(self) -> None:
        self.params: Any = {}
        self.result: Any = {}
        self.is_waiting: bool = False

    def request_from_client(self, request: RawRequest) -> None:
        if request.method == DESCRIBE:
            request.answer(NO_PROXIES)
            return
        if request.method != "initialize":
            self.agent.request(request)
            return
        self.params = _value(request.params)
        self.is_waiting = True

        def answered(response: RawResponse) -> None:
            self.is_waiting = False
            self.result = {} if response.result is None else _value(response.result)
            request.answer(response)

        self.agent.request(request.derive(answered))

    async def describe(self) -> RawResponse:
        """Ask the component that follows what it does."""
        answered: asyncio.Future[RawResponse] = asyncio.get_running_loop().create_future()

        def keep(response: RawResponse) -> None:
            if not answered.done():
                answered.set_result(response)

        self.agent.request(RawRequest(DESCRIBE, Raw(b"{}"), keep))
        try:
            async with asyncio.timeout(_DESCRIBE_S):
                return await answered
        except TimeoutError:
            return NO_PROXIES


class _Client:
    """Sends `initialize` and waits for the response."""

    def __init__(self, transport: ServedTransport) -> None:
        self._transport = transport
        self._answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    async def initialize(self) -> None:
        """Try version 2, and version 1 if that is refused."""
        answer = await self._send(0, _PARAMS)
        if "error" in answer:
            refused = answer
            self._answer = asyncio.get_running_loop().create_future()
            answer = await self._send(1, _PARAMS_V1)
            if "error" in answer:
                error = RawResponse(error=Raw(lenient_json.dumps(refused["error"])))
                raise error.request_error() or RequestError()

    async def _send(self, number: int, params: dict[str, Any]) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": number, "method": "initialize", "params": params}
        self._transport.write([lenient_json.dumps(message)])
        return await self._answer

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            message = lenient_json.loads(frame)
            if "method" not in message and not self._answer.done():
                self._answer.set_result(message)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        """Nothing that large is expected."""

    def eof_received(self, error: Exception | None) -> None:
        if not self._answer.done():
            is_known = isinstance(error, TransportError)
            self._answer.set_exception(error if is_known else ConnectionLost("The chain ended"))

    def writable(self) -> None:
        """Nothing waits."""


def _value(text: Params) -> Any:
    return {} if text is UNSET else lenient_json.loads(bytes(text))


def _picture(
    taps: Sequence[_Tap], components: Sequence[Component], described: Sequence[RawResponse]
) -> Iterator[str]:
    result = taps[0].result
    yield "client"
    for number, (tap, component) in enumerate(zip(taps, components, strict=True)):
        yield "  │"
        yield "  ▼"
        if number + 1 == len(components):
            yield f"{component.name}    the agent{_named(tap.result)}"
            break
        place = "in this process" if component.make_stage is not None else "a program"
        if component.open is not None and "://" in component.name:
            place = "remote"
        yield f"{component.name}    a proxy, {place}"
        yield from (f"  │    {line}" for line in description_lines(described[number]))
        following = taps[number + 1]
        to_agent = list(_changes(tap.params, following.params))
        to_client = list(_changes(following.result, tap.result))
        for title, changes in (("to the agent", to_agent), ("to the client", to_client)):
            if changes:
                yield f"  │    changes {title}:"
                yield from (f"  │      {change}" for change in changes)
        if not to_agent and not to_client:
            yield "  │    changes nothing in the handshake"
    yield ""
    yield f"The client sees an agent of protocol version {result.get('protocolVersion')}:"
    capabilities = result.get("capabilities", result.get("agentCapabilities", {}))
    for path, value in sorted(_leaves(capabilities).items()):
        if value is not False and value is not None:
            yield f"  {path}" if value in (True, {}) else f"  {path} = {_shown(value)}"


def _named(result: Any) -> str:
    info: Any = result.get("info") or result.get("agentInfo")
    if not lenient_json.is_object(info) or not info.get("name"):
        return ""
    return f": {_shown(info['name'])} {one_line(str(info.get('version', '')), 200)}".rstrip()


def _changes(before: Any, after: Any) -> Iterator[str]:
    """Describe the differences between two values by paths."""
    was, now = _leaves(before), _leaves(after)
    for path in sorted({*was, *now}):
        old, new = was.get(path, _ABSENT), now.get(path, _ABSENT)
        if old is _ABSENT:
            yield f"+ {path} = {_shown(new)}"
        elif new is _ABSENT:
            yield f"- {path}"
        elif old != new:
            yield f"~ {path} = {_shown(new)}, was {_shown(old)}"


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Return the values in objects by their paths, such as `capabilities.session.mcp`."""
    if not lenient_json.is_object(value) or not value:
        return {path: value} if path else {}
    leaves: dict[str, Any] = {}
    for key, item in value.items():
        name = one_line(key, 200)
        leaves |= _leaves(item, f"{path}.{name}" if path else name)
    return leaves


def _shown(value: Any) -> str:
    return visible(excerpt(lenient_json.dumps(value).decode("utf-8", "replace"), 60))
