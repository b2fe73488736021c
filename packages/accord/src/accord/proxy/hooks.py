"""What a proxy can override: what it overrides decides what it sees and changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from inspect import iscoroutinefunction
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

from accord.agent.hooks import check_async, is_nearly
from accord.mcp.provider import is_tool

if TYPE_CHECKING:
    from accord import v1, v2
    from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
    from accord.client.events import Decision, Event, PermissionRequest
    from accord.proxy.requests import FileRead, FileWrite, OpeningSession, TerminalStart
    from accord.proxy.turn import ProxyTurn
    from accord.types.permission import PermissionOption
    from accord.types.session import AvailableCommand, StopReason


Pass: TypeAlias = Callable[[Any], Awaitable[Any]]


class ProxyHooks:
    """The methods and attributes that a proxy overrides; see `Proxy`."""

    commands: Sequence[AvailableCommand] = ()
    """Slash commands that the proxy adds to those of the agent; `prompt` handles them."""

    # Turns.

    async def prompt(
        self, turn: ProxyTurn, forward: Callable[[], Awaitable[StopReason]]
    ) -> StopReason | None:
        """Handle a prompt; return the stop reason, None for `end_turn`.

        `forward()` passes the prompt on, waits for the end of the turn, and returns its stop
        reason. Without it, the proxy answers the prompt itself. Another `forward()` repeats the
        prompt with its changes; the turn of the client ends when this returns.
        """
        return await forward()

    def update(self, event: Event) -> Event | None | Awaitable[Event | None]:
        """Handle one event of the agent; return it, a changed one, or None to drop it.

        If this raises, the update is dropped and its turn fails: nothing passes unchecked. A
        `StateChanged` is passed on, and not dropped: it ends turns.
        """
        return event

    def session_update(
        self, session_id: str, event: Event
    ) -> Event | None | Awaitable[Event | None]:
        """Handle one event of a session, like `update`, which this calls."""
        return self.update(event)

    # Sessions.

    async def open_session(
        self, session: OpeningSession, forward: Callable[[], Awaitable[str]]
    ) -> None:
        """Handle a new, loaded, resumed or forked session; `forward()` returns the session id."""
        await forward()

    async def close_session(self, session_id: str, forward: Callable[[], Awaitable[None]]) -> None:
        """Handle the end of a session."""
        await forward()

    # What the agent asks the client for.

    async def decide_permission(
        self,
        request: PermissionRequest,
        forward: Callable[[], Awaitable[PermissionOption | None]],
    ) -> Decision | None:
        """Decide a permission request; `forward()` returns the option that the user chose.

        None cancels the request. If this raises, the request is rejected.
        """
        return await forward()

    async def read_file(self, request: FileRead, forward: Callable[..., Awaitable[str]]) -> str:
        """Return the text of a file; `forward(request)` asks for another one (version 1)."""
        return await forward()

    async def write_file(self, request: FileWrite, forward: Callable[..., Awaitable[None]]) -> None:
        """Write a file; `forward(request)` writes another text or file (version 1)."""
        await forward()

    async def start_terminal(
        self, request: TerminalStart, forward: Callable[..., Awaitable[str]]
    ) -> str:
        """Return the id of a terminal; `forward(request)` starts another command (version 1)."""
        return await forward()

    async def elicit_form(
        self, form: ElicitationForm, forward: Callable[[], Awaitable[FormValues | None]]
    ) -> FormValues | None:
        """Return the values of a form, None to decline."""
        return await forward()

    async def elicit_url(
        self, request: UrlElicitationRequest, forward: Callable[[], Awaitable[bool]]
    ) -> bool:
        """Return whether the user opens a URL."""
        return await forward()

    # Capabilities: what the client and the agent learn about each other in `initialize`.

    def client_capabilities_v1(self, offered: v1.ClientCapabilities) -> v1.ClientCapabilities:
        """Return what the agent learns about the client in version 1."""
        return offered

    def client_capabilities_v2(self, offered: v2.ClientCapabilities) -> v2.ClientCapabilities:
        """Return what the agent learns about the client in version 2."""
        return offered

    def agent_capabilities_v1(self, offered: v1.AgentCapabilities) -> v1.AgentCapabilities:
        """Return what the client learns about the agent in version 1."""
        return offered

    def agent_capabilities_v2(self, offered: v2.AgentCapabilities) -> v2.AgentCapabilities:
        """Return what the client learns about the agent in version 2."""
        return offered

    # Extensions.

    async def extension_request(self, method: str, params: Any, forward: Pass) -> Any:
        """Handle an extension request of either side; `forward(params)` passes it on."""
        return await forward(params)

    def extension_notification(self, method: str, params: Any) -> Any:
        """Handle an extension notification of either side; return its params, None to drop it."""
        return params


def overrides_hook(proxy: ProxyHooks, name: str) -> bool:
    """Return whether a proxy overrides a method."""
    return getattr(type(proxy), name) is not getattr(ProxyHooks, name)


_HOOKS = {name: hook for name, hook in vars(ProxyHooks).items() if isinstance(hook, FunctionType)}


def check_proxy_hooks(cls: type[ProxyHooks]) -> None:
    """Raise `TypeError` for a hook that cannot be awaited, or with a name that is nearly a hook's.

    A filter that is never called would let everything pass. A method with a similar name is
    allowed if the class has that hook, too, or if it has other parameters.
    """
    for name, value in vars(cls).items():
        if not isinstance(value, FunctionType):
            continue
        hook = _HOOKS.get(name)
        if hook is not None and iscoroutinefunction(hook):
            check_async(cls, name, value, hook)
        if hook is not None or name.startswith("_") or is_tool(value):
            continue
        meant = next((hook for hook in _HOOKS if is_nearly(name, hook)), None)
        if meant is not None and getattr(cls, meant) is _HOOKS[meant] and _fits(value, meant):
            raise TypeError(f"{cls.__name__}.{name} is never called: did you mean `{meant}`?")


def _fits(function: FunctionType, name: str) -> bool:
    """Return whether a function has the number of parameters of a hook."""
    return function.__code__.co_argcount == _HOOKS[name].__code__.co_argcount
