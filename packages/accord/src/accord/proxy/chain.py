"""A chain of proxies and an agent, as one agent for `connect`.

`component` accepts programs, addresses and objects of this process, `chain` connects components,
`read_chain_file` reads them from `chain.toml`, and `explain` shows what each of them changes.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeGuard, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.agent.agent import Agent, serve
from accord.errors import (
    AccordError,
    ConnectionLost,
    RequestError,
    StartError,
    TransportError,
)
from accord.proxy.conductor import Component, conduct
from accord.proxy.handlers import DESCRIBE, NO_PROXIES, TypedStage, described_proxies
from accord.proxy.hop import DIALECTS, DialectName, HopObserver
from accord.proxy.stage import Params, RawRequest, RawResponse, Stage
from accord.roles.proxy import TypedProxy
from accord.text import lenient_json
from accord.text.excerpt import excerpt, one_line, visible
from accord.transports.base import Frame, Transport, TransportFactory
from accord.transports.command_line import argv_of
from accord.transports.memory import ServedTransport
from accord.transports.process import process
from accord.transports.registry import RemoteOptions, is_url, transport_for_url
from accord.types.steering import is_advertised
from accord.version import __version__

# The components of a chain: programs, remote ends, and objects of this process.


class HasStage(Protocol):
    """A proxy in this process."""

    def stage(self) -> Stage:
        """Return a new stage, for one chain."""
        ...


ComponentLike: TypeAlias = (
    str
    | os.PathLike[str]
    | Sequence[str]
    | HasStage
    | type[HasStage]
    | TypedProxy
    | type[TypedProxy]
    | Agent
    | type[Agent]
    | TransportFactory
    | Component
)


class _Start(Struct, frozen=True):
    """How to start a command."""

    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str | None] | None = None
    on_stderr: Callable[[str], None] | None = None


def component(
    command: ComponentLike,
    *,
    name: str | None = None,
    dialect: DialectName | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    token: str | None = None,
    insecure: bool = False,
    on_stderr: Callable[[str], None] | None = None,
) -> Component:
    """Return a component of a chain, with settings.

    `command` is a Python file, the words of a command or one string with them, an address
    (`ws://…`, `https://…`, `unix:PATH`), a `Proxy` or an `Agent` (of a class, each connection gets
    its own object), or a function that returns a transport. `dialect` is what a proxy that is a
    program expects: "acp" (the schema), "rust" or "thinkwell"; without it, the first two are found
    in the handshake. `cwd`, `env` and `on_stderr` are for a command, `token` and `insecure` for an
    address, as for `connect`; `on_stderr` also gets lines on stdout that are not JSON. Raise
    `ValueError` or `TypeError` for anything else.
    """
    if dialect is not None and dialect not in DIALECTS:
        raise ValueError(f"dialect: expected one of {', '.join(DIALECTS)}, got {dialect!r}")
    made = _component(
        command, _Start(cwd, env, on_stderr), RemoteOptions(token=token, insecure=insecure)
    )
    return Component(
        name or made.name,
        made.make_stage,
        made.open,
        DIALECTS[dialect] if dialect is not None else made.dialect,
        made.is_http,
    )


def component_of(command: ComponentLike) -> Component:
    """Return a component without settings."""
    return command if isinstance(command, Component) else component(command)


def _component(
    command: ComponentLike,
    start: _Start,
    remote: RemoteOptions,
) -> Component:
    if isinstance(command, Component):
        return command
    if isinstance(command, str) and is_url(command):
        if start != _Start():
            raise _only_for_a_command()
        is_http = command.lower().startswith(("http:", "https:"))
        return Component(command, open=transport_for_url(command, remote), is_http=is_http)
    if remote != RemoteOptions():
        raise TypeError("component(token=…, insecure=…): only for the address of a component")
    if isinstance(command, str | os.PathLike) or _is_words(command):
        words = argv_of(cast("str | Sequence[str]", command))
        name = os.path.basename(words[0])  # noqa: PTH119  # the text of a command
        if words[0].endswith(".py"):
            words = [sys.executable, *words]
        elif name.startswith("python") and len(words) > 1:
            name = " ".join([name, *words[1:3]])
        return Component(
            excerpt(name),
            open=process(
                *words,
                cwd=start.cwd,
                env=start.env,
                on_stderr=start.on_stderr,
                on_stdout_noise=_noise(start.on_stderr),
            ),
        )
    if start != _Start():
        raise _only_for_a_command()
    if (make_stage := _stage_maker(command)) is not None:
        return Component(_name_of(command), make_stage=make_stage)
    if _is_agent(command):
        return Component(
            _name_of(command), open=partial(ServedTransport, partial(_serve_agent, command))
        )
    if callable(command):
        factory = cast("TransportFactory", command)
        return Component(_name_of(factory), open=factory)
    raise TypeError(
        "A component is a command, an address, a Proxy, an Agent or a function that returns a "
        f"transport, got {excerpt(repr(command))}"
    )


def _noise(on_stderr: Callable[[str], None] | None) -> Callable[[str], None] | None:
    """Return what shows a line on stdout that is not a message: it belongs on stderr."""
    return on_stderr and (lambda line: on_stderr(f"not a message, on stdout: {line}"))


async def _serve_agent(agent: Agent | type[Agent], transport: Transport) -> None:
    await serve(agent() if isinstance(agent, type) else agent, transport)


def _only_for_a_command() -> TypeError:
    return TypeError("component(cwd=…, env=…, on_stderr=…): only for a command")


def _is_words(command: object) -> TypeGuard[Sequence[str]]:
    return isinstance(command, Sequence) and not isinstance(command, str | bytes)


def _is_agent(command: object) -> TypeGuard[Agent | type[Agent]]:
    return isinstance(command, Agent) or (isinstance(command, type) and issubclass(command, Agent))


def _stage_maker(command: object) -> Callable[[], Stage] | None:
    """Return what makes the stage of a proxy, None for anything else.

    A class gets a new object for each chain.
    """
    if isinstance(command, type):
        cls = cast("type[Any]", command)
        if issubclass(cls, TypedProxy):
            return lambda: TypedStage(cls())
        return (lambda: cls().stage()) if hasattr(cls, "stage") else None
    if isinstance(command, TypedProxy):
        return partial(TypedStage, command)
    if not hasattr(command, "stage"):
        return None
    return cast("HasStage", command).stage


def _name_of(value: object) -> str:
    cls = value if isinstance(value, type) else type(value)
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else cls.__name__


class Chain:
    """A chain, made by `chain`. Calling it returns a transport, so that `connect` accepts it."""

    def __init__(
        self, components: Sequence[Component], observers: Sequence[HopObserver] = ()
    ) -> None:
        self.components: tuple[Component, ...] = tuple(components)
        self._observers = observers

    def __repr__(self) -> str:
        return f"<Chain {' → '.join(part.name for part in self.components)}>"

    def __call__(self) -> Transport:
        """Return a transport to a new chain; its components start with `initialize`."""
        return ServedTransport(partial(conduct, self.components, observers=self._observers))

    def observed(self, *observers: HopObserver) -> Chain:
        """Return the chain with observers: `observer(hop, "received" or "sent", frame)`.

        `hop` is the name of the component at the other end of the connection, or "client".
        """
        return Chain(self.components, (*self._observers, *observers))


def chain(*components: ComponentLike | Chain) -> Chain:
    """Return the chain of these components, for `connect`: proxies, and an agent as the last.

    Requests of the client pass the proxies in this order, updates of the agent in the opposite one.
    A component is a Python file, a command (one string, or its words), an address (`ws://…`), a
    `Proxy` or an `Agent` of this process or its class, another chain, or what `component` returns.
    Objects run in this process, commands in their own. The components start when the client
    connects. The end of one ends the chain: pending requests fail with an error that names it.

    Raises `ValueError` without components.
    """
    parts: list[Component] = []
    for one in components:
        if isinstance(one, Chain):
            parts += one.components
        else:
            parts.append(component_of(one))
    if not parts:
        raise ValueError("chain(…): expected components, the last one is the agent")
    return Chain(parts)


# `chain.toml`: the components of a chain, with their settings.


class ChainFileError(AccordError):
    """The file cannot be read, or is invalid."""


class _Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """A table `[[component]]`."""

    command: str | list[str]
    name: str | None = None
    dialect: str | None = None  # one of DIALECTS; `component` checks it
    cwd: str | None = None
    env: dict[str, str] | None = None
    token_file: str | None = None
    insecure: bool = False


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    component: list[_Entry]


def read_chain_file(
    path: Path, on_stderr: Callable[[str, str], None] | None = None
) -> list[Component]:
    """Return the components in a file; raise `ChainFileError`.

    Paths in it are relative to its folder. `on_stderr` receives the name of a component and each
    line that it writes to stderr.
    """
    try:
        file = msgspec.toml.decode(path.read_text("utf-8"), type=_File)
    except (OSError, UnicodeDecodeError) as exc:
        raise ChainFileError(f"Cannot read {path}: {exc}") from None
    except msgspec.DecodeError as exc:
        hint = "; write [[component]]" if "`components`" in str(exc) else ""
        raise ChainFileError(f"{path} is invalid: {exc}{hint}") from None
    if not file.component:
        raise ChainFileError(f"{path} is invalid: expected a table [[component]]")
    parts: list[Component] = []
    for number, entry in enumerate(file.component):
        try:
            parts.append(_component_of_entry(entry, path.absolute().parent, on_stderr))
        except (ValueError, TypeError, OSError) as exc:
            raise ChainFileError(f"{path} is invalid: component[{number}]: {exc}") from None
    return parts


def _token(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ValueError(f"token_file: cannot read it: {exc}") from None


def _component_of_entry(
    entry: _Entry, folder: Path, on_stderr: Callable[[str, str], None] | None
) -> Component:
    command, dialect = entry.command, cast("DialectName | None", entry.dialect)
    if isinstance(command, str) and is_url(command):
        token = None
        if entry.token_file is not None:
            token = _token(folder / entry.token_file)
        return component(
            command,
            name=entry.name,
            dialect=dialect,
            cwd=entry.cwd,
            env=entry.env,
            token=token,
            insecure=entry.insecure,
        )
    if entry.token_file is not None or entry.insecure:
        raise ValueError("token_file and insecure are for an address")
    words = argv_of(command)
    if words[0].endswith(".py"):
        words[0] = os.fspath(folder / words[0])
    name = entry.name
    show = None if on_stderr is None else partial(on_stderr, name or words[0])
    return component(
        words,
        name=name,
        dialect=dialect,
        cwd=None if entry.cwd is None else folder / entry.cwd,
        env=entry.env,
        on_stderr=show,
    )


# What each component of a chain offers and changes, as text.
#
# One handshake shows what they change in it; proxies of Accord say what they do after it.

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


_TITLES = {
    "handles": "handles",
    "tools": "gives the agent the tools",
    "commands": "adds the slash commands",
}


def description_lines(response: RawResponse) -> Iterator[str]:
    """Describe the proxies of one component; nothing if they do not say what they do."""
    proxies = described_proxies(response)
    for proxy in proxies:
        lines = list(_lines(proxy))
        name = proxy.get("name")
        if len(proxies) > 1 and type(name) is str:  # a chain
            yield f"{one_line(name, 200)}:"
            lines = [f"  {line}" for line in lines]
        yield from lines


def _lines(proxy: dict[str, Any]) -> Iterator[str]:
    for key, title in _TITLES.items():
        names: Any = proxy.get(key)
        if type(names) is not list:
            continue
        if known := [name for name in cast("list[Any]", names) if type(name) is str]:
            yield f"{title}: {one_line(', '.join(known), 300)}"


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
    extensions = {"_meta": {"steering": {"supported": is_advertised(result.get("_meta"))}}}
    for path, value in sorted({**_leaves(capabilities), **_leaves(extensions)}.items()):
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
