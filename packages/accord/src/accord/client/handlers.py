"""The sessions of a connection, and the handlers for the requests of its agent.

`ClientTools` are the tools that a client provides to the sessions of its agent.
"""

from __future__ import annotations

import logging
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from accord.client.agent_adapter import (
    AgentAdapter,
    OpenedSession,
    SessionEventStream,
    SessionSetup,
    UpdateReader,
)
from accord.client.elicitation import (
    ElicitationForm,
    FormValues,
    OnElicitForm,
    OnElicitUrl,
    OpenUrlElicitations,
    UrlElicitationRequest,
    form_error,
)
from accord.client.events import PermissionDecided, PermissionRequest, Subagent
from accord.client.files import ClientFiles, ClientTerminals, restrict_to_parent
from accord.client.permissions import Policy, chain, choose, policies_of
from accord.client.transcript import Transcript
from accord.connection.limits import FloodLog
from accord.errors import LocalProtocolError, McpServerUnavailable, MethodNotFound, ResourceNotFound
from accord.rules.quirks import tolerates
from accord.text.excerpt import excerpt
from accord.types.permission import PermissionOption
from accord.types.session import AuthStatus

if TYPE_CHECKING:
    from accord.client.budget import Budgets
    from accord.mcp.bridges import SessionTools
    from accord.mcp.provider import McpProvider

# The tools that a client provides to the sessions of its agent.

log: logging.Logger = logging.getLogger("accord.client")


class SessionOpening:
    """A session that is being opened: its setup, and what the agent has responded."""

    def __init__(self, setup: SessionSetup) -> None:
        self.setup = setup
        self.session: OpenedSession | None = None


class ClientTools:
    """The tools of the sessions of one connection, and those that are served over it."""

    def __init__(self) -> None:
        self.agent_url: str | None = None
        """The URL of a remote agent."""
        self._provider: McpProvider | None = None
        self._by_session: dict[str, SessionTools] = {}
        self._has_old_dialect = False

    @asynccontextmanager
    async def serve(
        self, setup: SessionSetup, tools: Iterable[object], adapter: AgentAdapter
    ) -> AsyncGenerator[SessionOpening, None]:
        """Serve tools from before their session is opened, which happens in the block (R-MOA-08).

        Tools that the session had before are stopped. Raises `LocalProtocolError` if the agent
        cannot use the tools.
        """
        opening, served, given = SessionOpening(setup), None, _given(tools)
        try:
            if given:
                taken = [server.name for server in setup.mcp_servers]
                served = await self._serve(given, adapter.mcp_transports, taken)
                servers = (*setup.mcp_servers, *served.declarations)
                opening.setup = replace(setup, mcp_servers=servers)
            yield opening
        except BaseException:
            if served is not None:
                await served.aclose()
            raise
        if opening.session is not None:
            await self._keep(opening.session.session_id, served)

    async def _serve(
        self, tools: Iterable[object], transports: Collection[str], taken: Iterable[str]
    ) -> SessionTools:
        from accord.mcp.provide import provide_tools
        from accord.mcp.provider import McpProvider
        from accord.transports.registry import is_loopback

        if self._provider is None:
            self._provider = McpProvider()
        usable = set(transports)
        if self._has_old_dialect and len(usable) > 1:
            usable.discard("acp")  # R-MOA-16
        host = None if self.agent_url is None else urlsplit(self.agent_url).hostname
        if host is not None and not is_loopback(host):  # it cannot connect to this machine
            if "acp" not in usable:
                raise LocalProtocolError(
                    f"tools=[…]: the agent on {host} does not support MCP over ACP"
                )
            usable = {"acp"}
        return await provide_tools(tools, self._provider, usable, taken)

    async def close(self, session_id: str) -> None:
        """Stop the tools of a session."""
        await self._keep(session_id, None)

    async def _keep(self, session_id: str, tools: SessionTools | None) -> None:
        previous = self._by_session.pop(session_id, None)
        if tools is not None:
            self._by_session[session_id] = tools
        if previous is not None:
            await previous.aclose()

    async def request(self, params: Any, notify: Callable[[Any], Awaitable[None]]) -> Any:
        """Serve `mcp/message`; `McpProvider.request` documents the errors."""
        if self._provider is None:
            raise McpServerUnavailable(data={"serverId": params.server_id})
        return await self._provider.request(params, notify)

    def unknown_method(self, method: str) -> None:
        """Note that the agent uses an older draft, which is logged once (R-MOA-16)."""
        is_old = method.startswith("_mcp/") or method in ("mcp/connect", "mcp/disconnect")
        if is_old and not self._has_old_dialect:
            self._has_old_dialect = True
            log.warning(
                "! %s was refused: the agent uses an older draft of MCP over ACP; sessions that "
                "are opened from now on provide their tools in another way",
                method[:60],
            )

    async def aclose(self) -> None:
        """Stop serving the tools of all sessions."""
        for session_id in list(self._by_session):
            await self.close(session_id)


def _given(tools: object) -> tuple[object, ...]:
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise TypeError(
            "tools=…: expected a list of functions, objects with methods marked by accord.tool, or"
            f" MCP servers, got {excerpt(repr(cast(object, tools)), 80)}"
        )
    return tuple(cast("Iterable[object]", tools))


# Receives the params and returns the result of a request, both JSON values.
Extension: TypeAlias = Callable[[Any], Any | Awaitable[Any]]

MAX_UNOPENED_SESSIONS = 256  # whose updates are kept although this client has not opened them
MAX_SUBAGENT_LEVELS = 64  # of nested subagents


class ClientHandlers:
    """The sessions of one connection, and the handlers for the agent's requests."""

    def __init__(
        self,
        permissions: Policy | Sequence[Policy] | None,
        *,
        files: ClientFiles | None = None,
        terminals: ClientTerminals | None = None,
        on_elicit_form: OnElicitForm | None = None,
        on_elicit_url: OnElicitUrl | None = None,
        on_auth_status: Callable[[AuthStatus], None] | None = None,
        extensions: Mapping[str, Extension] | None = None,
        unstable: bool = False,
        terminal_login: bool = False,
    ) -> None:
        self._decide = chain(*policies_of(permissions))
        self.event_streams: dict[str, SessionEventStream] = {}
        self.session_setups: dict[str, SessionSetup] = {}  # of the sessions that are open
        self._unopened: set[str] = set()  # event streams of sessions that are not open
        self._parents: dict[str, str] = {}  # the parent session of each subagent
        self.files: ClientFiles = files or ClientFiles(None)
        self.terminals = terminals
        self.tools: ClientTools = ClientTools()
        self.budgets: Budgets | None = None
        self.on_elicit_form = on_elicit_form
        self.on_elicit_url = on_elicit_url
        self.unstable = unstable
        self._log = FloodLog(log)
        self.terminal_login = terminal_login
        self._on_auth_status = on_auth_status
        self._extensions = dict(extensions or {})
        for name in self._extensions:
            if not name.startswith("_"):
                raise ValueError(
                    f"The name of an extension must begin with an underscore: {name!r}"
                )
        self._pages = OpenUrlElicitations()

    def open(
        self, session_id: str, setup: SessionSetup, read: UpdateReader, *, replaces: bool = False
    ) -> SessionEventStream:
        """Open a session; if `replaces` is true, its earlier updates are dropped."""
        stream = None if replaces else self.event_streams.get(session_id)
        if stream is None:
            before = self.event_streams.get(session_id)
            stream = self._new_stream(session_id, read)
            if before is not None:
                before.release()
        self.session_setups[session_id] = setup
        self._unopened.discard(session_id)
        return stream

    @property
    def unopened_sessions(self) -> frozenset[str]:
        """The sessions that have updates although this client has not opened them."""
        return frozenset(one for one in self._unopened if self._find_root(one) is None)

    @tolerates("updates-before-session")
    def event_stream(self, session_id: str, read: UpdateReader) -> SessionEventStream:
        """Return the event stream of a session, which may not be open yet."""
        stream = self.event_streams.get(session_id)
        if stream is not None:
            return stream
        if len(self._unopened) >= MAX_UNOPENED_SESSIONS and self._find_root(session_id) is None:
            self._log.log(
                logging.WARNING,
                "! dropped updates: too many sessions that this client has not opened",
            )
            return SessionEventStream(session_id, read)
        self._unopened.add(session_id)
        return self._new_stream(session_id, read)

    def _new_stream(self, session_id: str, read: UpdateReader) -> SessionEventStream:
        stream = self.event_streams[session_id] = SessionEventStream(session_id, read)
        stream.on_subagent = self._add_subagent
        return stream

    def _add_subagent(self, parent: str, child: str) -> None:
        self._parents[child] = parent

    def session_setup(self, session_id: str) -> SessionSetup:
        """Return the setup of a session; raise `ResourceNotFound` if it is not open."""
        setup = self.session_setups.get(session_id) or self.find_setup(session_id)
        if setup is None:
            raise ResourceNotFound("Unknown session", data={"sessionId": session_id})
        return setup

    def find_setup(self, session_id: str) -> SessionSetup | None:
        """Return the setup of a session; a subagent inherits missing values from its parent."""
        found = self._find_root(session_id)
        if found is None:
            return None
        setup, subagents = found
        for child in subagents:
            roots = (
                setup.additional_directories
                if child.additional_directories is None
                else child.additional_directories
            )  # missing values are inherited (R-SUBAG-09)
            setup = restrict_to_parent(
                SessionSetup(cwd=child.cwd or setup.cwd, additional_directories=roots), setup
            )
        return setup

    def _find_root(self, session_id: str) -> tuple[SessionSetup, list[Subagent]] | None:
        """Return the setup of the open session above a subagent, and the subagents down to it."""
        subagents: list[Subagent] = []
        while (setup := self.session_setups.get(session_id)) is None:
            parent = self.event_streams.get(self._parents.get(session_id, ""))
            child = None if parent is None else parent.transcript.subagents.get(session_id)
            if parent is None or child is None or len(subagents) >= MAX_SUBAGENT_LEVELS:
                return None
            subagents.append(child)
            session_id = parent.session_id
        return setup, subagents[::-1]

    def begin_replay(self, session_id: str, read: UpdateReader) -> dict[str, SessionEventStream]:
        """Keep the updates of a session and its subagents apart until `end_replay`.

        Return the event streams by session id.
        """
        held: dict[str, SessionEventStream] = {}
        replayed = [session_id]
        while replayed:
            key = replayed.pop()
            if key not in held and (stream := self.event_streams.get(key)) is not None:
                held[key] = stream
                self._new_stream(key, read)
                replayed += stream.transcript.subagents
        return held

    def end_replay(
        self, held: dict[str, SessionEventStream]
    ) -> list[tuple[SessionEventStream, Transcript]]:
        """Restore event streams; return each with what was replayed. A second call does nothing."""
        replayed = [(stream, self.event_streams[key].transcript) for key, stream in held.items()]
        self.event_streams.update(held)
        held.clear()
        return replayed

    async def close_session(self, session_id: str) -> None:
        """Stop the terminals and tools of a closed session, and drop the session."""
        await self.tools.close(session_id)
        if self.terminals is not None:
            await self.terminals.aclose(session_id)
        self.drop_session(session_id)

    def drop_session(self, session_id: str) -> None:
        """Drop a session that is no longer open, and its subagents."""
        if self.budgets is not None:
            self.budgets.drop(session_id)
        self.session_setups.pop(session_id, None)
        leaving = [session_id]
        while leaving:
            gone = leaving.pop()
            self._unopened.discard(gone)
            stream = self.event_streams.pop(gone, None)
            if stream is not None:
                stream.release()
            for child in () if stream is None else stream.transcript.subagents:
                if self._parents.get(child) == gone:
                    del self._parents[child]
                if child not in self.session_setups:
                    leaving.append(child)

    def reads_others(self, full: set[Any]) -> bool:
        """Return whether a consumer outside the congested sessions `full` keeps up."""
        return any(
            stream.session_id not in full or (stream.queue is not None and not stream.is_full)
            for stream in self.event_streams.values()
        )

    def end(self, error: BaseException) -> None:
        """Report the end of the connection to all sessions."""
        for stream in self.event_streams.values():
            stream.end(error)

    async def aclose(self) -> None:
        """Stop all terminals."""
        if self.terminals is not None:
            await self.terminals.aclose()

    def auth_status_changed(self, status: AuthStatus) -> None:
        """Report a change of the login status."""
        if self._on_auth_status is not None:
            self._on_auth_status(status)

    def call_extension(self, method: str, params: Any, *, is_request: bool) -> Any:
        """Call the handler of an extension method."""
        handle = self._extensions.get(method)
        if handle is not None:
            return handle(params)
        self.tools.unknown_method(method)
        if is_request:
            raise MethodNotFound(data={"method": method})
        return None

    async def elicit_form(self, form: ElicitationForm) -> tuple[str, FormValues | None]:
        """Ask the user to fill in a form; return `accept` and the values, `decline` or `cancel`."""
        assert self.on_elicit_form is not None, "the client does not support forms"
        try:
            values = await self.on_elicit_form(form)
        except Exception as exc:  # noqa: BLE001  # logged
            self._log.exception("! on_elicit_form failed", exc=exc)
            return "cancel", None
        if values is None:
            return "decline", None
        if (wrong := form_error(form, values)) is not None:
            self._log.log(
                logging.ERROR, "! the values of a form are invalid and were not sent: %s", wrong
            )
            return "cancel", None
        return "accept", values

    async def elicit_url(self, page: UrlElicitationRequest) -> str:
        """Ask the user to open a URL; return `accept`, `decline` or `cancel`."""
        assert self.on_elicit_url is not None, "the client does not support URL elicitation"
        if not self._pages.add(page):
            return "cancel"
        agreed = False
        try:
            agreed = await self.on_elicit_url(page)
            return "accept" if agreed else "decline"
        except Exception as exc:  # noqa: BLE001  # logged
            self._log.exception("! on_elicit_url failed", exc=exc)
            return "cancel"
        finally:
            self._pages.answered(page, agreed=agreed)

    def complete_url(self, page_id: str) -> None:
        """Complete a URL elicitation; an unknown id is ignored (R-ELIC-30)."""
        self._pages.complete(page_id)

    async def decide_permission(
        self, stream: SessionEventStream, request: PermissionRequest
    ) -> PermissionOption | None:
        """Return the chosen option, None if the request is cancelled."""
        option: PermissionOption | None = None
        try:
            option = choose(request.options, await self._decide(request) or "reject")
        except Exception as exc:  # noqa: BLE001  # logged
            self._log.exception(
                "! a permission policy failed; the request is rejected: %s", exc, exc=exc
            )
            option = choose(request.options, "reject")
        finally:
            self._publish(stream, PermissionDecided(request, option))
        return option

    @staticmethod
    def _publish(stream: SessionEventStream, event: Any) -> None:
        stream.publish(event)
