"""Accord's client, driven by a program, with the checking agent; a filter can be between them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import json

import accord
from accord.client.agent_adapter import SessionInfo, SessionStatus
from accord.client.connect import AgentCommand, ConnectedAgent
from accord.client.elicitation import ElicitationForm, UrlElicitationRequest
from accord.client.events import Decision, PermissionRequest, ToolCall
from accord.client.session import ClientSession
from accord.transports.base import Frame, Receiver, Transport
from accord.transports.memory import pair
from accord.types.session import AuthStatus
from accord_conformance.client.probe_reply import session_state
from accord_conformance.client.run import ClientRun
from accord_conformance.client.scenarios import client_scenarios
from accord_conformance.client.scenarios.messages import CANCEL
from accord_conformance.client.state_probe import PROBE_METHOD
from accord_conformance.reports.report import RunResult
from versions import only

__all__ = ("PROMPTS", "Between", "Json", "check", "converse", "echo", "log_in", "look_around")

Json = dict[str, Any]
PROMPTS = ("/accord-check list", "check: all", "check: cancellation/turn")


async def check(
    cwd: Path,
    version: int,
    *prompts: str,
    between: Between | None = None,
    answer: int | None = None,
    speaks: tuple[int, ...] | None = None,
    does: Callable[[ConnectedAgent, Path], Any] | None = None,
    answer_s: float = 5.0,
    login: bool = False,
    offers: bool = True,
    window: bool = False,
    tools: Sequence[object] = (),
) -> RunResult:
    """Return the findings about Accord's client; with `window` it has a state probe."""
    here, there = pair()
    run = ClientRun(
        here,
        client_scenarios(),
        versions=only(version),
        answer=answer,
        pause_s=0.02,
        login=login,
        answer_s=answer_s,
        user_timeout_s=20.0,
    )
    transport: Transport = there
    if between is not None:
        between.put(there)
        transport = between
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        running = group.create_task(run.run())
        try:
            await converse(
                transport, speaks or (version,), cwd, prompts, does, offers, window, tools
            )
        except (accord.AccordError, ExceptionGroup):
            if between is None and answer is None:
                raise  # otherwise the double disconnects
        finally:
            await transport.aclose()
    return running.result()


async def converse(
    command: AgentCommand,
    versions: Sequence[int],
    cwd: Path,
    prompts: Sequence[str],
    does: Callable[[ConnectedAgent, Path], Any] | None = None,
    offers: bool = True,
    window: bool = False,
    tools: Sequence[object] = (),
) -> None:
    """Do what a person does who checks a client."""
    cancelling = asyncio.Event()
    kept = DisplayedState()

    def show(params: Json) -> Json:
        if (session := kept.opened.get(params["sessionId"])) is None:
            raise accord.ResourceNotFound("It is not open yet")
        return session_state(session) | kept.outside_sessions()

    async def decide(request: PermissionRequest) -> Decision | None:
        if request.title.startswith(CANCEL) or (
            request.tool_call is not None and request.tool_call.title.startswith(CANCEL)
        ):
            cancelling.set()
            await asyncio.Event().wait()
        return "allow"

    async with accord.connect(
        command,
        versions=versions,  # type: ignore[arg-type]  # 1 and 2
        permissions=decide,
        files="rw" if offers else None,
        terminals=offers,
        on_elicit_form=_fill_in if offers else None,
        on_elicit_url=_decline if offers else None,
        on_auth_status=kept.logins.append,
        extensions={PROBE_METHOD: show} if window else None,
        unstable=offers,
    ) as connected:
        agent = cast("ConnectedAgent", Keeping(connected, kept))
        if does is not None:
            await does(agent, cwd)
        session = await agent.new_session(cwd, tools=tools)
        for prompt in prompts:
            cancelling.clear()
            await _drive(session, prompt, cancelling)


class DisplayedState:
    """The state that a client with a user interface has to display."""

    def __init__(self) -> None:
        self.opened: dict[str, ClientSession] = {}
        self.logins: list[AuthStatus] = []
        self.listed: dict[str, Json] = {}
        self.statuses: dict[str, Json] = {}

    def outside_sessions(self) -> Json:
        shown: Json = {
            "sessions": list(self.listed.values()),
            "statuses": list(self.statuses.values()),
        }
        return shown | ({"login": self.logins[-1].state} if self.logins else {})


class Keeping:
    """A connected agent whose sessions are recorded for display."""

    def __init__(self, agent: ConnectedAgent, kept: DisplayedState) -> None:
        self._agent = agent
        self._kept = kept

    async def new_session(self, *args: Any, **more: Any) -> ClientSession:
        session = await self._agent.new_session(*args, **more)
        self._kept.opened[session.id] = session
        return session

    async def load_session(self, *args: Any, **more: Any) -> ClientSession:
        session = await self._agent.load_session(*args, **more)
        self._kept.opened[session.id] = session
        return session

    async def list_sessions(self, cwd: Path) -> AsyncIterator[SessionInfo]:
        async for listing in self._agent.list_sessions(cwd):
            self._kept.listed[listing.id] = {
                "sessionId": listing.id,
                "additionalDirectories": list(listing.additional_directories),
            }
            yield listing

    async def session_status(self, ident: str) -> SessionStatus:
        status = await self._agent.session_status(ident)
        self._kept.statuses[ident] = {
            "sessionId": ident,
            "status": "open" if status.is_open else "saved",
            "state": status.state and status.state.state,
        }
        return status

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)


def echo(text: str) -> str:
    """Return the text."""
    return text


async def look_around(agent: ConnectedAgent, cwd: Path) -> None:
    """Use listings, old sessions, options and providers, which prompts do not use."""
    sessions = [await agent.new_session(cwd, system_prompt="Be kind.") for _ in range(3)]
    for _ in range(2):
        _ = [listing async for listing in agent.list_sessions(cwd)]
        await agent.session_status(sessions[1].id)
    await agent.auth_status()
    await sessions[0].set_mode("strict")
    await agent.providers()
    await sessions[0].close()
    for replay in (False, True):
        await agent.load_session(sessions[0].id, cwd, system_prompt="Be kind.", replay=replay)


async def log_in(agent: ConnectedAgent, cwd: Path) -> None:
    """Log in if required."""
    with contextlib.suppress(accord.AuthRequired):
        await agent.new_session(cwd)
    await agent.authenticate("check")


async def _drive(session: ClientSession, prompt: str, cancelling: asyncio.Event) -> None:
    """Prompt, and cancel the turn if the agent asks for it."""
    async with session.prompt(prompt) as turn, asyncio.TaskGroup() as group:

        async def cancel() -> None:
            await cancelling.wait()
            await turn.cancel()

        waiting = group.create_task(cancel())
        async for event in turn:
            if isinstance(event, ToolCall) and event.title == CANCEL:
                cancelling.set()
        waiting.cancel()


async def _fill_in(form: ElicitationForm) -> Json:
    given: Json = {}
    for field in form.fields:
        if field.default is not None and field.pattern is None:
            given[field.name] = field.default
        elif field.kind == "choices":
            given[field.name] = [field.choices[0].value]
        elif field.required:
            given[field.name] = "some"
    return {name: value for name, value in given.items() if name != "dial"}


async def _decline(_: UrlElicitationRequest) -> bool:
    return False


class Between(Transport):
    """A transport with a filter.

    `from_agent` and `from_client` receive a message, the latter with the request that it answers;
    they return one or several messages to forward instead, or None to disconnect.
    """

    def __init__(self) -> None:
        self.from_agent: Callable[[Json], Json | list[Json] | None] = lambda message: message
        self.from_client: Callable[[Json, Json], Json | list[Json] | None] = lambda message, _: (
            message
        )
        self._asked: dict[str, Json] = {}
        self._closing: asyncio.Task[None] | None = None
        self.hung_up = False

    def put(self, way: Transport) -> None:
        self._way = way

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        await self._way.start(self)

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            if self.hung_up:
                return
            message = _read(frame)
            if "method" in message and "id" in message:
                self._asked[repr(message["id"])] = message
            passed = self.from_agent(message)
            if passed is None:
                self._hang_up()
            elif passed is message:
                self._receiver.frames_received([frame])
            else:
                self.to_client(*_several(passed))

    def write(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            if self.hung_up:
                return
            message = json.decode(frame)
            asked = {} if "method" in message else self._asked.get(repr(message.get("id")), {})
            passed = self.from_client(message, asked)
            if passed is None:
                self._hang_up()
            else:
                self.to_agent(*_several(passed))

    def to_agent(self, *messages: Json) -> None:
        self._way.write([json.encode(message) for message in messages])

    def to_client(self, *messages: Json) -> None:
        if messages:
            self._receiver.frames_received([bytearray(json.encode(one)) for one in messages])

    def _hang_up(self) -> None:
        self.hung_up = True
        self._closing = asyncio.get_running_loop().create_task(self._way.aclose())
        self._receiver.eof_received(None)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self._receiver.frame_refused(limit, head)

    def eof_received(self, error: Exception | None) -> None:
        if not self.hung_up:
            self._receiver.eof_received(error)

    def writable(self) -> None:
        self._receiver.writable()

    @property
    def congested(self) -> bool:
        return self._way.congested

    def pause_reading(self) -> None:
        self._way.pause_reading()

    def resume_reading(self) -> None:
        self._way.resume_reading()

    async def aclose(self) -> None:
        await self._way.aclose()


def _read(frame: Frame) -> Json:
    try:
        message = json.decode(frame)
    except (ValueError, UnicodeDecodeError):
        message = None
    return message if isinstance(message, dict) else {"raw": bytes(frame)}


def _several(passed: Json | list[Json]) -> list[Json]:
    return passed if isinstance(passed, list) else [passed]
