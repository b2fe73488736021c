"""An agent whose turns are run by a framework.

`BridgedAgent` is what every bridge derives from: it opens sessions with their options and
commands, gives each turn to `answer`, makes readable ends of exceptions, and keeps what a session
needs (servers, clients) open until the session closes.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from accord import (
    Agent,
    AvailableCommand,
    Implementation,
    McpServerAcp,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    MemoryStore,
    OptionChoice,
    SelectOption,
    Session,
    SessionStore,
    Turn,
)
from accord.errors import InvalidParams, RequestError, TransportError
from accord.types.session import StopReason
from accord_bridges.failures import explain
from accord_bridges.run import Run

log: logging.Logger = logging.getLogger("accord.bridges")

T = TypeVar("T")

McpServer: TypeAlias = McpServerStdio | McpServerHttp | McpServerSse

# A slash command: gets the turn's run and the text after the name; what it returns is said.
Command: TypeAlias = Callable[[Run, str], Awaitable[object]]


class Options(Struct, frozen=True, kw_only=True):
    """The options of a bridge, the same for all frameworks."""

    name: str | None = None
    """The name of the agent; by default that of the object."""
    version: str = "0"
    """The version of the agent."""
    store: SessionStore | None = msgspec.field(default_factory=MemoryStore)
    """Where sessions are kept; None: they end with the connection."""
    models: Sequence[str] = ()
    """The models to choose from, the first at first; in the words of the framework."""
    modes: Mapping[str, str] = {}
    """The modes to choose from, each with its description, the first at first; see `Run.mode`."""
    commands: Mapping[str, Command] = {}
    """Slash commands by name; the docstring of each is its description."""
    editor_tools: bool = False
    """Whether the model gets tools for the files and the terminals of the editor."""
    settings: Mapping[str, Any] = {}
    """What only this framework has, for example `deps` of pydantic-ai; see its page."""


class BridgedAgent(Agent):
    """An agent that a framework runs. Override `answer`, and set what the framework can do."""

    unstable = True
    knows_settings: ClassVar[frozenset[str]] = frozenset()
    """The names in `Options.settings` that the bridge has a use for."""
    takes_models: ClassVar[bool] = True
    """Whether the framework can use another model for a turn."""
    takes_editor_tools: ClassVar[bool] = True
    """Whether the framework can be given tools for a turn."""

    takes_factory: ClassVar[bool] = False
    """Whether the target may be a function with the parameters `tools` and `model`, or one of
    them, that makes the object."""

    def __init__(self, target: Any, options: Options | None = None) -> None:
        self.target = target
        """The object of the framework."""
        self.options: Options = options or Options()
        self.store: SessionStore | None = self.options.store
        self.info: Implementation | None = Implementation(
            self.options.name or self.default_name(), self.options.version
        )
        self._check_options()

    def default_name(self) -> str:
        """Return the name of the agent if no other is given."""
        name: Any = getattr(self.target, "name", None)
        return name if isinstance(name, str) and name else type(self.target).__name__

    async def answer(self, run: Run) -> StopReason | None:
        """Work on a prompt with the framework and report what it does to `run`.

        Return the stop reason, None for "end_turn". What it raises ends the turn with a readable
        reason; a cancel cancels it.
        """
        raise NotImplementedError

    async def begin_session(self, session: Session) -> None:
        """Set up a session that is new or reopened, for example options of your own."""

    async def end_session(self, session: Session) -> None:
        """Release what a session holds, beyond what `keep` has opened."""

    def _check_options(self) -> None:
        options = self.options
        unknown = sorted(set(options.settings) - self.knows_settings)
        if unknown:
            known = ", ".join(sorted(self.knows_settings)) or "none"
            raise TypeError(
                f"settings={{{unknown[0]!r}: …}}: {type(self).__name__} knows no such setting;"
                f" its settings: {known}"
            )
        for name, value, possible in (
            ("models", options.models, self.takes_models),
            ("editor_tools", options.editor_tools, self.takes_editor_tools),
        ):
            if value and not possible:
                raise TypeError(f"{name}=…: the framework of {type(self).__name__} cannot use it")

    # The hooks of `Agent`.

    async def open_session(self, session: Session) -> None:
        options: list[SelectOption] = []
        if self.options.models:
            choices = tuple(OptionChoice(model, model) for model in self.options.models)
            options.append(
                SelectOption(
                    id="model", name="Model", value=choices[0].value, choices=choices,
                    category="model",
                )
            )  # fmt: skip
        if self.options.modes:
            modes = tuple(
                OptionChoice(mode, mode.capitalize(), about or None)
                for mode, about in self.options.modes.items()
            )
            options.append(
                SelectOption(
                    id="mode", name="Mode", value=modes[0].value, choices=modes, category="mode"
                )
            )
        if options:
            await session.set_options(options)
        if self.options.commands:
            await session.set_commands(
                [
                    AvailableCommand(name, inspect.getdoc(run) or f"Run {name}")
                    for name, run in self.options.commands.items()
                ]
            )
        await self.begin_session(session)

    async def set_option(self, session: Session, option_id: str, value: str | bool) -> None:
        """Accept each choice: `Run.model` and `Run.mode` read it at the next prompt."""

    async def close_session(self, session: Session) -> None:
        try:
            await self.end_session(session)
        finally:
            kept: dict[object, _Kept] = session.data.pop("kept", {})
            await asyncio.gather(*(each.close() for each in kept.values()))

    async def prompt(self, turn: Turn) -> StopReason | None:
        run = Run(self, turn, turn)
        try:
            async with run.ending_calls():
                command = self._command(turn)
                if command is None:
                    return await self.answer(run)
                work, rest = command
                await run.show(await work(run, rest))
                return None
        except RequestError:
            raise
        except TransportError:
            if turn.cancelled:
                raise
            return await self._fail(run)
        except Exception:  # noqa: BLE001  # of any framework: the user gets its reason
            return await self._fail(run)

    async def _fail(self, run: Run) -> StopReason:
        import sys

        error = sys.exc_info()[1]
        assert error is not None, "called while an exception is handled"
        failure = explain(error)
        log.info("! a turn of %s has failed", type(self).__name__, exc_info=error)
        if failure.stop_reason is None:
            raise failure.error() from error
        await run.say(failure.text)
        return failure.stop_reason

    def _command(self, turn: Turn) -> tuple[Command, str] | None:
        text = turn.text
        if not text.startswith("/"):
            return None
        name, _, rest = text[1:].partition(" ")
        command = self.options.commands.get(name.strip())
        return None if command is None else (command, rest.strip())

    def mode_text(self, run: Run) -> str | None:
        """Return what the model is told of the mode: its name and its description."""
        if run.mode is None:
            return None
        about = self.options.modes.get(run.mode)
        return f"Mode: {run.mode}.{f' {about}' if about else ''}"

    # What a session keeps.

    async def open_mcp_servers(
        self, run: Run, make: Callable[[McpServer, str], AbstractAsyncContextManager[T]]
    ) -> list[T]:
        """Return what `make` opens for each MCP server of the client, once in a session.

        It gets the server and the name of it as an identifier, unique in the session. Servers are
        started at the same time. Of one that has not started after 30 s the user is told why; the
        turn goes on without it, and the next one uses it if it has started by then.
        """
        servers = [each for each in run.session.mcp_servers if not isinstance(each, McpServerAcp)]
        names: list[str] = []
        for server in servers:
            name = re.sub(r"\W", "_", server.name)
            while name in names:
                name += "_"
            names.append(name)

        async def start(server: McpServer, name: str) -> T:
            try:
                async with asyncio.timeout(_START_S):
                    return await self.keep(run.session, ("mcp", name), lambda: make(server, name))
            except TimeoutError as error:
                raise TimeoutError(str(error) or f"Not started after {_START_S:g} s") from error

        started = await asyncio.gather(*map(start, servers, names), return_exceptions=True)
        opened: list[T] = []
        for server, each in zip(servers, started, strict=True):
            if isinstance(each, Exception):
                await run.turn.show_notice(
                    f"The MCP server {server.name} is not used",
                    severity="warning",
                    description=str(each) or type(each).__name__,
                )
            elif isinstance(each, BaseException):
                raise each
            else:
                opened.append(each)
        return opened

    async def keep(
        self, session: Session, key: object, make: Callable[[], AbstractAsyncContextManager[T]]
    ) -> T:
        """Return what a context manager gives, which stays open until the session closes.

        It is made once for each key, and entered and left in a task of its own, as the clients of
        MCP and others that are built on anyio demand.
        """
        if session.closed:
            raise InvalidParams("The session is closed")
        kept: dict[object, _Kept] = session.data.setdefault("kept", {})
        each = kept.get(key)
        if each is None or each.has_failed:
            each = kept[key] = _Kept(make)
        return await each.value()

    async def drop(self, session: Session, key: object) -> None:
        """Close what `keep` has opened for a key."""
        each: _Kept | None = session.data.get("kept", {}).pop(key, None)
        if each is not None:
            await each.close()


_START_S = 30.0  # that an MCP server has to start
_CLOSE_S = 5.0  # that a context manager has to leave


class _Kept:
    """A context manager that a task of its own holds open."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._make = make
        self._opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._task = asyncio.create_task(self._hold(), name="accord bridge: kept for a session")

    @property
    def has_failed(self) -> bool:
        return self._task.done()

    async def value(self) -> Any:
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        self._closing.set()
        if not self._opened.done():
            self._task.cancel()
        _, late = await asyncio.wait([self._task], timeout=_CLOSE_S)
        for task in late:
            log.warning("! what a session has opened does not close; it is cancelled")
            task.cancel()
            await asyncio.wait([task], timeout=_CLOSE_S)

    async def _hold(self) -> None:
        try:
            async with self._make() as value:
                self._opened.set_result(value)
                await self._closing.wait()
        except BaseException as error:
            if self._opened.done():
                log.warning("! closing what a session has opened has failed", exc_info=error)
            else:
                self._opened.set_exception(error)
                self._opened.exception()  # retrieved: `value` may not be waiting any more
            if not isinstance(error, Exception) and not isinstance(error, asyncio.CancelledError):
                raise


@asynccontextmanager
async def stopping(task: asyncio.Task[Any]) -> AsyncGenerator[None, None]:
    """Cancel a task of a framework when the block ends, and wait for it."""
    try:
        yield
    finally:
        if not task.done():
            task.cancel()
        await asyncio.wait([task], timeout=_CLOSE_S)
