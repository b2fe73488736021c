"""What a proxy can override, and the calls of `prompt` and `update`.

`ProxyHooks` has all hooks: what a proxy overrides decides what it sees and changes. After their
values, `Turns` calls `prompt` for a turn and `steer` for what the user says during it, and
`UpdateHook` calls `update` for each event of the agent and applies what it changes. The other hooks
are for requests, and are called in `proxy.py`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from itertools import accumulate
from types import FunctionType, NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.agent.hooks import check_async, is_nearly
from accord.client.events import (
    Event,
    StateChanged,
    Text,
    Thought,
    ToolCall,
    UnknownUpdate,
    UserText,
    redacted_streams,
)
from accord.client.shared import token_usage_from_wire as token_usage_of
from accord.client.turn import PromptCompletion
from accord.connection.limits import FloodLog
from accord.connection.tasks import Owning
from accord.errors import DecodeError, InternalError, RequestCancelled, RequestError
from accord.mcp.provider import is_tool
from accord.proxy.handlers import Overrides, ProxyStage, edited_json, raw_of
from accord.proxy.stage import Direction, Params, Run, session_id_of
from accord.proxy.updates import ProxiedSession, ProxiedSessions, ProxiedVersion, SessionRedaction
from accord.text import lenient_json
from accord.text.excerpt import excerpt
from accord.transports.base import Frame
from accord.types.content import ContentBlock, require_content, require_contents, text_of
from accord.types.mcp import McpServer
from accord.types.steering import OUTCOMES, STEERING, SteeringOutcome, outcome_of
from accord.types.steering import result as steering_result
from accord.types.validation import require_type
from accord.wire.base import replace
from accord.wire.codec import decoder

if TYPE_CHECKING:
    from accord import v1, v2
    from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
    from accord.client.events import Decision, Event, PermissionRequest
    from accord.types.permission import PermissionOption
    from accord.types.session import AvailableCommand, StopReason, TokenUsage

Pass: TypeAlias = Callable[[Any], Awaitable[Any]]


class GlancedCost(Struct, gc=False):
    """The cost of a session, as in the text of an update."""

    amount: float
    currency: str


class Glance(Struct, gc=False):
    """What is read of an update without its types; other members of its text are skipped."""

    kind: str = msgspec.field(name="sessionUpdate")
    tool_call_id: str = msgspec.field(name="toolCallId", default="")
    status: str | None = None
    used: int | None = None
    cost: GlancedCost | None = None


class _GlancedNote(Struct, gc=False):
    update: Glance
    session_id: str = msgspec.field(name="sessionId")


class ProxyHooks:
    """The methods and attributes that a proxy overrides; see `Proxy`."""

    commands: Sequence[AvailableCommand] = ()
    """Slash commands that the proxy adds to those of the agent; `prompt` handles them."""
    _seen: frozenset[str] = frozenset()
    """The kinds of updates that `_glance` or `update` get; empty: `update` gets all of them."""

    def _glance(self, session_id: str, update: Glance, text: Frame) -> bool:
        """Handle an update of `_seen` at a glance; False, and nothing done: `update` gets it."""
        return False

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

    async def steer(
        self, turn: ProxyTurn, forward: Callable[[], Awaitable[SteeringOutcome | None]]
    ) -> SteeringOutcome | None:
        """Handle what the user says while a turn runs; return its outcome, None for `forward`'s.

        `forward()` passes the message on, and returns what the agent has done with it: `injected`,
        `startedNewTurn`, `promptRequired`, or None if it does not say it. Without it, the proxy
        has taken the message (`injected`), or makes it the prompt after the running one
        (`promptRequired`). Raise `RequestError` to refuse it.

        A proxy that overrides `prompt` and not this is not bypassed: the client learns that the
        agent cannot be steered, and what the user says is the next prompt.
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


# What a proxy sees of the requests that pass it, the same in both versions.


class OpeningSession(Struct, kw_only=True):
    """A session that the client opens; changes before `forward()` reach the agent.

    `mcp_servers` also has servers of kinds that only the version knows, as its wire values.
    """

    action: Literal["new", "load", "resume", "fork"]
    session_id: str | None  # of the stored session; None for a new one
    cwd: str
    additional_directories: tuple[str, ...] = ()
    mcp_servers: list[McpServer | Any]
    meta: dict[str, Any] | None = None


class FileRead(Struct, frozen=True, kw_only=True):
    """The agent reads a text file of the client (version 1); the first line is 1."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class FileWrite(Struct, frozen=True, kw_only=True):
    """The agent writes a text file of the client (version 1)."""

    session_id: str
    path: str
    text: str


class TerminalStart(Struct, frozen=True, kw_only=True):
    """The agent starts a command in a terminal of the client (version 1)."""

    session_id: str
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str]
    cwd: str | None = None
    output_byte_limit: int | None = None


# A prompt on its way through a proxy.


class ProxyTurn:
    """A prompt that a proxy can change, answer, or pass on, and the turn that follows.

    For `Proxy.steer` it is what the user says while a turn runs.
    """

    def __init__(
        self,
        session_id: str,
        cwd: str,
        content: tuple[ContentBlock, ...],
        meta: dict[str, Any] | None,
        say: Callable[[ContentBlock], Awaitable[None]],
        cancel: Callable[[], None],
        abandon: Callable[[str], None] | None = None,
    ) -> None:
        self.session_id = session_id
        """The session of the turn."""
        self.cwd = cwd
        """The working directory of the session; empty if the proxy has not seen its start."""
        self.content: tuple[ContentBlock, ...] = content
        """The prompt, with the changes of this proxy."""
        self.meta = meta
        """The `_meta` of the prompt."""
        self.token_usage: TokenUsage | None = None
        """The tokens that the agent has reported at the end of the last `forward()`."""
        self._say = say
        self._cancel = cancel
        self._abandon = abandon

    def __repr__(self) -> str:
        session = excerpt(self.session_id, 60)
        return f"<ProxyTurn of session {session!r}: {excerpt(self.text, 60)!r}>"

    @property
    def text(self) -> str:
        """The text of the prompt; links and resources become Markdown links."""
        return text_of(self.content)

    @property
    def command(self) -> str | None:
        """The name of the slash command that the prompt calls, without the slash, or None."""
        first = self.content[0] if self.content else None
        if not isinstance(first, str) or not first.startswith("/") or first[1:2].isspace():
            return None
        return first[1:].split(maxsplit=1)[0] if len(first) > 1 else None

    @property
    def argument(self) -> str:
        """The text after the slash command; empty if there is none."""
        name = self.command
        return "" if name is None else self.text[len(name) + 1 :].strip()

    def prepend(self, *content: ContentBlock) -> None:
        """Insert content before the prompt.

        An agent finds a slash command only at the beginning: check `command` before.
        """
        require_contents("turn.prepend(…)", content)
        self.content = (*content, *self.content)

    def append(self, *content: ContentBlock) -> None:
        """Add content after the prompt."""
        require_contents("turn.append(…)", content)
        self.content = (*self.content, *content)

    def replace(self, *content: ContentBlock) -> None:
        """Replace the whole prompt."""
        require_contents("turn.replace(…)", content)
        self.content = content

    def cancel(self) -> None:
        """Ask the agent to cancel the turn: `forward()` then returns, most likely `cancelled`.

        A permission request that the client has not answered is not withdrawn by it.
        """
        self._cancel()

    def stop_agent(self, reason: str) -> None:
        """End the connection to an agent that does not end a turn; not for `Proxy.steer`.

        The turn ends when `Proxy.prompt` returns, as that says. Then the chain ends, and other
        requests fail with the reason.
        """
        if self._abandon is not None:
            self._abandon(reason)

    async def say(self, content: ContentBlock) -> None:
        """Send text or other content to the client, as a message of the agent."""
        require_content("turn.say(…)", content)
        await self._say(content)


# What the parts of a `Proxy` in one chain share.


class ProxyInChain(Struct, frozen=True):
    """A proxy, the version of its chain, and what it knows about the sessions."""

    proxy: ProxyHooks
    version: ProxiedVersion
    sessions: ProxiedSessions
    stage: ProxyStage


class ChainPart:
    """The base of what calls the hooks of a proxy."""

    def __init__(self, chain: ProxyInChain) -> None:
        self._proxy: ProxyHooks = chain.proxy
        self._version: ProxiedVersion = chain.version
        self._sessions: ProxiedSessions = chain.sessions
        self._stage: ProxyStage = chain.stage


# Calls `Proxy.prompt`: one turn, in both versions; and `Proxy.steer`, for what is said during it.
#
# In version 1 the response to the prompt is the end of the turn. In version 2 it comes when the
# prompt is inserted, and an idle state ends the turn: that state waits until `Proxy.prompt` has
# returned.

log: logging.Logger = logging.getLogger("accord.proxy")


class RunningTurn:
    """A prompt that `Proxy.prompt` handles."""

    def __init__(self, session: ProxiedSession, params: Any) -> None:
        loop = asyncio.get_running_loop()
        self.session = session
        self.params = params
        self.hook: asyncio.Task[None] | None = None
        self.forwards: int = 0  # calls of `forward` that have not returned
        self.is_cancelled: bool = False
        self.is_abandoned: bool = False  # the agent is stopped, and will not end the turn
        self.failure: RequestError | None = None  # of `Proxy.update`
        self.result: Any = None  # of the last `forward` in version 1
        # In version 2:
        self.answered: asyncio.Future[Any] = loop.create_future()  # the response
        self.is_own: bool = False  # the proxy shows the prompt and its states
        self.echo_id: str | None = None  # of that prompt, as the agent shows it
        self.message_id: str = ""  # of what the proxy says
        self.completion: PromptCompletion | None = None
        self.ended: asyncio.Future[Any] | None = None  # the end of the agent's turn
        # Set when it is known whether the last state passes, or the prompt is repeated.
        self.settled: asyncio.Future[bool] | None = None
        self.holds: bool = False  # the last state waits for `Proxy.prompt`
        self.is_over: bool = False  # `Proxy.prompt` has returned or raised
        self.stop_reason: str | None = None  # that it returned
        self.error: RequestError | None = None  # that it raised

    def settle(self, *, passes: bool) -> None:
        """Let the last state pass, or drop it because the prompt is repeated."""
        if self.settled is not None and not self.settled.done():
            self.settled.set_result(passes)


class Turns(ChainPart):
    """The turns of one chain."""

    def __init__(self, chain: ProxyInChain) -> None:
        super().__init__(chain)
        self._label = f"{self._stage.name}.prompt"

    def add_to(self, to_agent: Overrides) -> None:
        """Handle prompts, and cancel those that the proxy answers itself."""
        handler = self._prompt_v1 if self._version.number == 1 else self._prompt_v2
        to_agent.add(self._version.methods["prompt"], handler, self._label)
        self._stage.on_session_cancel = self._cancel

    def add_steering_to(self, to_agent: Overrides) -> None:
        """Handle what the user says while a turn runs."""
        params_type = self._version.methods["prompt"].params
        to_agent.add_extension(STEERING, params_type, self._steer, f"{self._stage.name}.steer")

    def _cancel(self, params: Params) -> None:
        session_id = session_id_of(params)
        turns: list[RunningTurn] = [] if session_id is None else self._sessions[session_id].turns
        for turn in turns:
            if not turn.forwards and turn.hook is not None:
                turn.is_cancelled = True
                turn.hook.cancel()

    def fail(self, session: ProxiedSession, label: str) -> None:
        """Fail the running turn of a session, because its updates cannot be checked."""
        failing: list[RunningTurn] = [turn for turn in session.turns if turn.failure is None]
        if not failing:
            return
        for turn in failing:
            turn.failure = InternalError(f"The proxy failed: {label} raised an exception")
        self._cancel_agent(session)

    # Both versions.

    def _start(self, params: Any) -> tuple[RunningTurn, ProxyTurn]:
        version = self._version
        session = self._sessions[params.session_id]
        running = RunningTurn(session, params)
        session.turns.append(running)
        content = version.editor.content_blocks(params.prompt)

        async def say(block: ContentBlock) -> None:
            await self._say(running, block)

        def abandon(reason: str) -> None:
            running.is_abandoned = True
            self._stage.end_chain(reason)

        cancel = partial(self._cancel_agent, session)
        return running, ProxyTurn(
            session.id, session.cwd, content, params.meta, say, cancel, abandon
        )

    def _cancel_agent(self, session: ProxiedSession) -> None:
        self._stage.agent.notify("session/cancel", raw_of({"sessionId": session.id}))

    async def _steer(self, params: Any, forward: Any) -> Any:
        session = self._sessions[params.session_id]
        content = self._version.editor.content_blocks(params.prompt)
        answer: Any = None

        async def say(block: ContentBlock) -> None:
            await self._send_text(session, uuid.uuid4().hex, block)

        async def forward_message() -> SteeringOutcome | None:
            nonlocal answer
            answer = await forward(self._params(params, message))
            return outcome_of(answer)

        cancel = partial(self._cancel_agent, session)
        message = ProxyTurn(session.id, session.cwd, content, params.meta, say, cancel)
        outcome = await self._proxy.steer(message, forward_message)
        if outcome is None or (answer is not None and outcome == outcome_of(answer)):
            return steering_result("injected") if answer is None else answer
        if outcome not in OUTCOMES:
            expected = f"{', '.join(OUTCOMES)} or None"
            raise ValueError(
                f"the result of {self._stage.name}.steer: expected {expected}, got {outcome!r}"
            )
        return steering_result(outcome)

    def _params(self, params: Any, turn: ProxyTurn) -> Any:
        """Return the prompt with the changes of the proxy."""
        editor = self._version.editor
        before = editor.content_blocks(params.prompt)
        if turn.content != before:
            prompt = editor.contents(params.prompt, before, turn.content)
            params = replace(params, prompt=prompt)
        if turn.meta != params.meta:
            params = replace(params, meta=turn.meta)
        return params

    async def _say(self, running: RunningTurn, content: ContentBlock) -> None:
        version = self._version
        if version.number == 2 and not running.answered.done() and not running.forwards:
            self._answer_itself(running)
        running.message_id = running.message_id or uuid.uuid4().hex
        await self._send_text(running.session, running.message_id, content)

    async def _send_text(
        self, session: ProxiedSession, message_id: str, content: ContentBlock
    ) -> None:
        version = self._version
        fields = {"message_id": message_id} if version.number == 2 else {}
        block = version.adapter.content_to_wire(content)
        self.send(session, version.types.AgentMessageChunk(content=block, **fields))
        await self._stage.client.wait_for_room()

    def send(self, session: ProxiedSession, update: Any) -> None:
        """Send an update of this proxy to the client."""
        method = self._version.methods["session_update"]
        note = method.params(session_id=session.id, update=update)
        self._stage.client.notify(method.name, raw_of(note))

    def flush(self, session: ProxiedSession) -> None:
        """Send what was held back, at the end of a turn or a replay."""
        for event in session.redaction.end_turn():
            self.send(session, self._version.editor.chunk(event))

    # Version 1.

    async def _prompt_v1(self, params: Any, forward: Any) -> Any:
        running, turn = self._start(params)
        session = running.session
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def forward_turn() -> Any:
            running.forwards += 1
            try:
                running.result = result = await forward(self._params(params, turn))
                turn.token_usage = None if result.usage is None else token_usage_of(result.usage)
            finally:
                running.forwards -= 1
                self.flush(session)
            if running.failure is not None:
                raise running.failure
            return result.stop_reason

        async def call() -> None:
            try:
                reason = await self._proxy.prompt(turn, forward_turn)
                require_type(f"the result of {self._label}", reason, str, NoneType)
            except asyncio.CancelledError:
                outcome.cancel()
                raise
            except Exception as exc:  # noqa: BLE001  # raised below
                outcome.set_exception(exc)
            else:
                outcome.set_result(reason)

        running.hook = self._stage.spawn(call(), f"accord {self._label}")
        try:
            reason = await outcome
        except asyncio.CancelledError:
            if not running.is_cancelled:
                raise
            reason = "cancelled"
        finally:
            running.hook.cancel()
            _forget(running)
            session.end_turn()
        if running.failure is not None:
            raise running.failure
        result = running.result
        if result is None:
            return self._version.types.PromptResponse(stop_reason=reason or "end_turn")
        if reason is None or reason == result.stop_reason:
            return result
        return replace(result, stop_reason=reason)

    # Version 2.

    async def _prompt_v2(self, params: Any, forward: Any) -> Any:
        running, turn = self._start(params)

        async def forward_turn() -> Any:
            running.forwards += 1
            try:
                ended = await self._forward_v2(running, self._params(params, turn), forward)
                turn.token_usage = ended.token_usage
                return ended.stop_reason
            finally:
                running.forwards -= 1

        running.hook = self._stage.spawn(
            self._call_v2(running, turn, forward_turn), f"accord {self._label}"
        )
        try:
            return await running.answered
        except asyncio.CancelledError:
            running.hook.cancel()
            raise

    async def _forward_v2(self, running: RunningTurn, params: Any, forward: Any) -> Any:
        running.completion = completion = PromptCompletion(running.session.state)
        running.ended = ended = asyncio.get_running_loop().create_future()
        running.settle(passes=False)
        running.settled = asyncio.get_running_loop().create_future()
        running.holds = False
        running.message_id, running.echo_id = "", None
        if running.answered.done():
            try:
                response = await self._repeat(params)
            except RequestError:
                running.completion = running.ended = None  # no state follows
                raise
        else:
            response = await forward(params)
            if not running.answered.done():
                running.answered.set_result(response)
        if (result := completion.on_message_id(response.message_id)) is None:
            result = await ended
        if running.failure is not None:
            raise running.failure
        if result.error is not None:
            raise result.error
        return result

    async def _repeat(self, params: Any) -> Any:
        """Send a prompt when the client already has the response to its own."""
        method = self._version.methods["prompt"]
        response = await self._stage.call(Direction.TO_AGENT, method.name, raw_of(params))
        if (error := response.request_error()) is not None:
            raise error
        assert response.result is not None, "neither a result nor an error"
        return self._version.decode(method.result, response.result)

    async def _call_v2(self, running: RunningTurn, turn: ProxyTurn, forward: Any) -> None:
        try:
            reason = await self._proxy.prompt(turn, forward)
            require_type(f"the result of {self._label}", reason, str, NoneType)
            running.stop_reason = reason
            running.error = running.failure
        except asyncio.CancelledError:
            running.stop_reason = "cancelled"
            if not running.answered.done():
                running.error = RequestCancelled()
            if not running.is_cancelled:
                raise
        except RequestError as exc:
            running.error = exc
        except Exception as exc:
            log.error("! %s failed", self._label, exc_info=exc)
            running.error = InternalError(f"The proxy failed: {self._label} raised an exception")
        finally:
            self._end_v2(running)

    def _end_v2(self, running: RunningTurn) -> None:
        running.is_over = True
        session = running.session
        if not running.answered.done():
            if running.error is not None:
                running.answered.set_exception(running.error)
                _forget(running)
                return
            self._answer_itself(running)
        ended = running.ended
        if running.completion is None or running.is_abandoned:  # the agent sends no state
            idle = self._version.types.IdleStateUpdate(stop_reason="end_turn")
            self.send(session, self.last_state(running, idle))
        # Otherwise the last state still comes, or waits, and reports how the hook has ended.
        is_last = ended is None or (ended.done() and not running.holds)
        if is_last:
            _forget(running)
        running.settle(passes=True)

    def _answer_itself(self, running: RunningTurn) -> None:
        """Take over the prompt: respond, show it, and report that work is running."""
        types = self._version.types
        running.is_own = True
        message_id = uuid.uuid4().hex
        running.answered.set_result(types.PromptResponse(message_id=message_id))
        prompt = list(running.params.prompt)
        self.send(running.session, types.UserMessage(message_id=message_id, content=prompt))
        self.send(running.session, types.RunningStateUpdate())

    def last_state(self, running: RunningTurn, idle: Any) -> Any:
        """Return the last state of a turn with what `Proxy.prompt` returned or raised."""
        error = running.error or running.failure
        if error is not None:
            if idle.error is not None and running.failure is None:
                return idle  # the error of the agent
            wire = self._version.types.Error(
                code=error.code, message=error.message, data=error.data
            )
            return replace(idle, stop_reason="error", error=wire)
        reason = running.stop_reason
        if reason is None or reason == (idle.stop_reason or "end_turn"):
            return idle
        return replace(idle, stop_reason=reason)

    def observe(self, session: ProxiedSession, event: Any) -> list[RunningTurn]:
        """Note an event of version 2; return the turns that it ends."""
        if isinstance(event, StateChanged):
            session.state = event
        return [turn for turn in session.turns if _ends(turn, event)]

    @staticmethod
    def is_shown(session: ProxiedSession, message_id: str) -> bool:
        """Return whether a message of the user is a prompt that this proxy has shown itself."""
        for turn in session.turns:
            if turn.is_own and turn.echo_id is None:
                turn.echo_id = message_id  # what is said during the turn follows
            if turn.is_own and turn.echo_id == message_id:
                return True
        return False

    def last_of(self, running: RunningTurn, params: Params, note: Any) -> Params:
        """Return the last state of a turn whose `Proxy.prompt` has returned."""
        _forget(running)
        running.session.end_turn()
        state = self.last_state(running, note.update)
        if state is note.update or params is UNSET:
            return params
        return edited_json(params, note, replace(note, update=state))


def _ends(running: RunningTurn, event: Any) -> bool:
    if running.completion is None or running.ended is None or running.ended.done():
        return False
    ended = running.completion.on_event(event)
    if ended is None:
        return False
    running.ended.set_result(ended)
    running.holds = True
    return True


def _forget(running: RunningTurn) -> None:
    if running in running.session.turns:
        running.session.turns.remove(running)


# Calls `Proxy.update` for each event, and applies what it changes to the update.

_TOOL_CALL = "tool_call"  # all kinds that begin with it
_COMMANDS = ("available_commands_update",)
_STATES = ("state_update", "user_message", "user_message_chunk")
_COMMON = ("_update", "user_message", _TOOL_CALL)  # one search for several kinds
_ESCAPED = re.compile(rb"\\u00[2-7]")  # ASCII that needs no escape may hide one of them

_glance_at = msgspec.json.Decoder(_GlancedNote).decode


class UpdateHook(ChainPart):
    """Edits the updates of one chain."""

    def __init__(self, chain: ProxyInChain, turns: Turns) -> None:
        super().__init__(chain)
        self._turns = turns
        self._label = f"{self._stage.name}.update"
        self._decode = decoder(self._version.methods["session_update"].params)
        self._commands = self._version.editor.commands_to_wire(tuple(self._proxy.commands))
        self._has_warned = False
        self._log = FloodLog(log)
        self._calls_hook = False
        self._sees_all = False
        self._keeps_tool_calls = False
        self._follows_turns = self._version.number == 2
        # Only updates with one of these parts are looked at, and of them only these kinds read.
        self._parts: tuple[bytes, ...] = ()
        self._needed: frozenset[str] = frozenset()
        self._seen: frozenset[str] = frozenset()  # of the hook

    def add_to(self, to_client: Overrides, has: dict[str, bool]) -> None:
        """Edit the updates that the proxy needs to see."""
        self._calls_hook = has["update"]
        self._keeps_tool_calls = has["decide_permission"]
        self._follows_turns = self._follows_turns and (has["prompt"] or has["update"])
        self._needed = frozenset(
            (*(_COMMANDS if self._commands else ()), *(_STATES if self._follows_turns else ()))
        )
        kept = (_TOOL_CALL,) if self._keeps_tool_calls else ()
        if not self._calls_hook and not self._needed and not kept:
            return
        self._seen = self._proxy._seen if self._calls_hook else frozenset()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        self._sees_all = self._calls_hook and not self._seen
        kinds = (*self._needed, *kept, *self._seen)
        self._parts = tuple({_part_of(kind) for kind in kinds})
        if not self._sees_all:
            self._stage.watch = self
        to_client.notifications["session/update"] = self.edit

    def find(self, run: Run) -> Sequence[int]:
        """Return the places of the updates that have something to look at (`UpdateWatch`)."""
        joined, ends = run.joined, list(accumulate(run.sizes))
        found: set[int] = set()
        for part in self._parts:
            at = joined.find(part)
            while at >= 0:
                number = _place(ends, at)
                found.add(number)
                at = joined.find(part, ends[number] + number + 1)
        if b"\\" in joined and b"\\u00" in joined:
            found.update(_place(ends, one.start()) for one in _ESCAPED.finditer(joined))
        return sorted(found) if found else ()

    def _may_matter(self, text: bytes) -> bool:
        return any(part in text for part in self._parts) or (
            b"\\u00" in text and _ESCAPED.search(text) is not None
        )

    def note(self, text: Frame) -> bool:
        """Note an update that needs no change; False: `edit` has to read it (`UpdateWatch`)."""
        try:
            glanced = _glance_at(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        session_id, update = glanced.session_id, glanced.update
        kind = update.kind
        if kind in self._needed:
            return False
        if kind in self._seen and not self._proxy._glance(session_id, update, text):  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            return False
        if self._keeps_tool_calls and kind.startswith(_TOOL_CALL):
            session = self._sessions[session_id]
            session.keep_unread(update.tool_call_id, update.status, text, self._keep_read)
        return True

    def _keep_read(self, session: ProxiedSession, text: Frame) -> None:
        """Read and keep what an update says about a tool call."""
        with suppress(DecodeError):
            self._keep(session, self._decode(bytes(text)).update)

    def _keep(self, session: ProxiedSession, update: Any) -> None:
        if isinstance(update, self._version.tool_updates):
            call = self._version.read(update, session.calls)
            if isinstance(call, ToolCall):
                session.keep(call)

    def edit(self, method: str, params: Params) -> Params | None | Awaitable[Params | None]:
        """Return an update as the proxy changes it."""
        if params is UNSET:
            return params
        if not self._sees_all:
            text = bytes(params)
            if not self._may_matter(text) or self.note(text):
                return params
        try:
            note = self._decode(params)
        except DecodeError:
            return self._unknown(params)
        session = self._sessions[note.session_id]
        update = note.update
        if isinstance(update, self._version.types.AvailableCommandsUpdate):
            session.has_commands = True
        if self._keeps_tool_calls:
            self._keep(session, update)
        events = self._version.editor.events(update)
        edited: Any = params
        if self._calls_hook and events:
            edited = self._call(session, params, note, events)
        elif self._commands:
            edited = self._changed(params, note, update)
        if not self._follows_turns:
            return edited
        ended = [turn for event in events for turn in self._turns.observe(session, event)]
        if _is_prompt(self._version, update) and self._turns.is_shown(session, update.message_id):
            return None
        if not ended:
            return edited
        waiting = [(turn, turn.settled) for turn in ended if turn.settled is not None]
        return self._end_turns(waiting, params, edited, note)

    async def _end_turns(
        self,
        ended: list[tuple[RunningTurn, asyncio.Future[bool]]],
        params: Params,
        edited: Any,
        note: Any,
    ) -> Params | None:
        if isawaitable(edited):
            edited = await edited
        if any(turn.failure is not None for turn, _ in ended):
            # Nothing of the agent passes, but the state is not lost.
            note = replace(note, update=self._version.types.IdleStateUpdate(), meta=None)
            params = edited = raw_of(note)
        passes = False
        held = params if edited is None else edited
        for turn, settled in ended:
            if await settled:
                passes = True
                held = self._turns.last_of(turn, held, note)
        # A state that ends only turns whose prompts are repeated would end those of the client.
        return held if passes and edited is not None else None

    # The hook.

    def _call(
        self, session: ProxiedSession, params: Raw, note: Any, events: tuple[Event, ...]
    ) -> Any:
        redaction = session.redaction
        redaction.start(is_tool_content=_is_tool_content(self._version, note))
        token = redacted_streams.set(redaction)
        results: list[Any] = []
        try:
            for event in events:
                result = self._proxy.session_update(session.id, event)
                if type(result) is not type(event) and isawaitable(result):
                    later = self._call_later(session, params, note, events, results, result)
                    return Owning(later, result)
                results.append(result)
        except Exception as exc:  # noqa: BLE001  # logged
            return self._failed(session, exc)
        finally:
            redacted_streams.reset(token)
        return self._apply(session, params, note, events, results)

    async def _call_later(
        self,
        session: ProxiedSession,
        params: Raw,
        note: Any,
        events: tuple[Event, ...],
        results: list[Any],
        pending: Awaitable[Any],
    ) -> Params | None:
        redacted_streams.set(session.redaction)
        try:
            results.append(await pending)
            for event in events[len(results) :]:
                result = self._proxy.session_update(session.id, event)
                results.append(await result if isawaitable(result) else result)
        except Exception as exc:  # noqa: BLE001  # logged
            return self._failed(session, exc)
        return self._apply(session, params, note, events, results)

    def _failed(self, session: ProxiedSession, error: Exception) -> None:
        log.error("! %s failed; the update is dropped", self._label, exc_info=error)
        self._turns.fail(session, self._label)

    def _apply(
        self,
        session: ProxiedSession,
        params: Raw,
        note: Any,
        events: tuple[Event, ...],
        results: list[Any],
    ) -> Params | None:
        editor, redaction = self._version.editor, session.redaction
        for event in redaction.flush():
            self._turns.send(session, editor.chunk(event))
        is_dropped_state = results[0] is None and type(events[0]) is StateChanged
        if is_dropped_state:
            results = list(events)
            self._warn_of_dropped_state()
        if len(events) == 1 and results[0] is events[0] and not redaction.used:
            return self._changed(params, note, note.update) if note is not None else params
        try:
            if type(events[0]) is UnknownUpdate:
                return self._with_raw(params, results[0], events[0], redaction)
            if redaction.may_occur_in(bytes(params)):
                params, note = self._redacted(params, note, redaction)
                events = editor.events(note.update)
                results = list(events) if is_dropped_state else results
            if (text := _only_text(events, results)) is not None:
                value = lenient_json.loads(bytes(params))
                value["update"]["content"]["text"] = text
                return raw_of(value)
            return self._changed(params, note, editor.changed(note.update, events, results))
        except Exception as exc:  # noqa: BLE001  # logged
            return self._failed(session, exc)

    def _warn_of_dropped_state(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "! %s returned None for a StateChanged, which passes: without it, a turn would not"
                " end",
                self._label,
            )

    def _redacted(self, params: Raw, note: Any, redaction: SessionRedaction) -> tuple[Raw, Any]:
        """Return an update without secrets in any of its strings, of unknown fields too."""
        value = lenient_json.loads(bytes(params))
        clean = redaction.value(value)
        if clean is value:
            return params, note
        params = raw_of(clean)
        return params, self._decode(params)

    def _changed(self, params: Raw, note: Any, update: Any) -> Params | None:
        if update is None:
            return None
        if self._commands and type(update) is self._version.types.AvailableCommandsUpdate:
            names = {command.name for command in self._commands}
            kept = [c for c in update.available_commands if getattr(c, "name", "") not in names]
            update = replace(update, available_commands=[*kept, *self._commands])
        if update is note.update:
            return params
        return edited_json(params, note, replace(note, update=update))

    # Updates that the types of the version cannot read.

    def _unknown(self, params: Raw) -> Any:
        if not self._calls_hook:
            return params
        session_id = session_id_of(params)
        try:
            value = lenient_json.loads(bytes(params))
        except lenient_json.NotJson:
            value = None
        if session_id is None or not lenient_json.is_object(value):
            self._log.log(
                logging.WARNING,
                "! %s cannot be called: dropped an update of no session",
                self._label,
            )
            return None
        session = self._sessions[session_id]
        event = UnknownUpdate(value.get("update"))
        return self._call(session, params, None, (event,))

    def _with_raw(
        self, params: Raw, result: Any, event: Any, redaction: SessionRedaction
    ) -> Params | None:
        if result is None:
            return None
        if result is event and not redaction.used:
            return params
        value = lenient_json.loads(bytes(params))
        value["update"] = result.raw
        return raw_of(redaction.value(value))


def _place(ends: Sequence[int], at: int) -> int:
    """Return which element of a JSON array `at` is in; a byte precedes each of them."""
    number = bisect_right(ends, at - 1)
    while number and ends[number - 1] + number >= at:
        number -= 1
    return number


def _part_of(kind: str) -> bytes:
    """Return a part of the text of each update of a kind."""
    return next((part for part in _COMMON if part in kind), kind).encode()


def _only_text(events: tuple[Event, ...], results: list[Any]) -> str | None:
    """Return the new text of a chunk if nothing else has changed, and there is any."""
    old, new = events[0], results[0]
    if not isinstance(old, Text | Thought | UserText) or type(new) is not type(old):
        return None
    if not new.text or new.text == old.text:
        return None
    same: Any = msgspec.structs.replace(old, text=new.text)
    return new.text if same == new else None


def _is_tool_content(version: ProxiedVersion, note: Any) -> bool:
    """Return whether an update appends to the content of a tool call (version 2)."""
    return note is not None and type(note.update) is getattr(
        version.types, "ToolCallContentChunk", None
    )


def _is_prompt(version: ProxiedVersion, update: Any) -> bool:
    types = version.types
    return isinstance(update, types.UserMessage | types.UserMessageChunk)
