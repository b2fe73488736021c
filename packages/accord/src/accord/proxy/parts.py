"""The components of a chain: programs, remote ends, and objects of this process."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeGuard, cast

from msgspec import Struct, structs

from accord.agent.agent import Agent, serve
from accord.proxy.dialects import DIALECTS, Dialect, DialectName
from accord.proxy.served import ServedTransport
from accord.proxy.stage import Stage
from accord.proxy.typed_proxy import typed_stage
from accord.roles.proxy import TypedProxy
from accord.text.excerpt import excerpt
from accord.transports.base import Transport, TransportFactory
from accord.transports.process import argv_of, process
from accord.transports.registry import RemoteOptions, is_url, transport_for_url

_CLIENT = "client"  # the name of the connection to the client


class HasStage(Protocol):
    """A proxy in this process."""

    def stage(self) -> Stage:
        """Return a new stage, for one chain."""
        ...


class Component(Struct, frozen=True):
    """One component of a chain: a stage in this process, or a transport to it.

    `name` is for error messages and traces.
    """

    name: str
    make_stage: Callable[[], Stage] | None = None
    open: TransportFactory | None = None
    dialect: Dialect | None = None  # of a transport; None: found in the handshake
    is_http: bool = False  # then it can only be the agent


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


def with_unique_names(components: Sequence[Component]) -> list[Component]:
    """Return the components; those with the same name are numbered."""
    counts = Counter(component.name for component in components)
    seen: Counter[str] = Counter()
    found: list[Component] = []
    for component in components:
        name = component.name
        if counts[name] > 1 or name == _CLIENT:
            seen[name] += 1
            name = f"{name} ({seen[name]})"
        found.append(structs.replace(component, name=name))
    return found


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
            return lambda: typed_stage(cls())
        return (lambda: cls().stage()) if hasattr(cls, "stage") else None
    if isinstance(command, TypedProxy):
        return partial(typed_stage, command)
    if not hasattr(command, "stage"):
        return None
    return cast("HasStage", command).stage


def _name_of(value: object) -> str:
    cls = value if isinstance(value, type) else type(value)
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else cls.__name__
