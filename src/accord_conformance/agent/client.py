"""A client of one version on a line: it opens sessions, prompts, and serves what an agent asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.capabilities import offered
from accord_conformance.agent.client_services import Services
from accord_conformance.agent.settings import Settings
from accord_conformance.agent.turn_timeout import Patience
from accord_conformance.harness.raw_connection import Line, NoSession, Silence
from accord_conformance.harness.scenario import LoginWanted, NotExercised
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.frame import Frame
from accord_conformance.traffic.message import Call, Note
from accord_conformance.traffic.strict_types import shown

__all__ = ("ALL_1", "ALL_2", "Editor", "Policy", "Prompted", "text")

Json: TypeAlias = dict[str, Any]
# Answers a request of the agent, now or later.
Policy: TypeAlias = Callable[[Call], None]

ALL_1: Json = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "subagents": {},
    "plan": {},
    "elicitation": {"form": {}, "url": {}},
}
ALL_2: Json = {"elicitation": {"form": {}, "url": {}}}
INFO: Json = {"name": "accord-check", "title": "Accord's conformance kit", "version": "1"}

_LOGIN_NEEDED = -32000
_LONGEST = 10_000  # characters that a form may demand
_BUSY = ("running", "requires_action")


def text(words: str) -> Json:
    """Return a block of text."""
    return {"type": "text", "text": words}


class Prompted:
    """A prompt that was sent; `call` is its request, `since` how much had been heard before."""

    def __init__(self, editor: Editor, session: str, call: Call) -> None:
        self.call = call
        self.session = session
        self._editor = editor
        self._began = call.frame.number

    def updates(self, *kinds: str) -> list[tuple[Note, Json]]:
        """Return what was told of the session since, of these kinds if any are named."""
        found = self._editor.updates(self.session, *kinds)
        return [(note, update) for note, update in found if note.frame.number > self._began]

    def states(self) -> list[tuple[Note, Json]]:
        """Return the states that were told since."""
        return self.updates("state_update")

    @property
    def inserted(self) -> bool:
        """Whether it has its place in the conversation (version 2)."""
        return self.call.ok

    @property
    def over(self) -> bool:
        """Whether the turn has ended, or was refused."""
        reply = self.call.reply
        if reply is None:
            return False
        if self._editor.version == 1 or not self.call.ok:
            return True
        states = self.states()
        if not states or states[-1][1].get("state") != "idle":
            return False
        worked = any(update.get("state") in _BUSY for _, update in states)
        note, idle = states[-1]
        return worked or (note.frame.number > reply.frame.number and "stopReason" in idle)

    @property
    def stop_reason(self) -> Any:
        """Why the turn ended; None when it has not, or in an error."""
        if self._editor.version == 1:
            return self.call.result.get("stopReason") if is_object(self.call.result) else None
        return self.states()[-1][1].get("stopReason") if self.over and self.call.ok else None

    async def end(self, *, within_s: float | None = None) -> None:
        """Return when the turn is over; raise `Silence`."""
        patience = self._editor.patience
        try:
            await self._editor.line.until(
                lambda: self.over,
                "end of the turn",
                within_s=patience.seconds if within_s is None else within_s,
            )
        except Silence:
            patience.missed()
            raise
        patience.ended()

    def said(self) -> str:
        """Return what the agent said, in the turn and in its tool calls."""
        return "".join(_texts([update for _, update in self.updates()]))

    @property
    def shows(self) -> tuple[Any, ...]:
        """What a finding about the end of the turn shows."""
        ends = [note for note, _ in self.states()[-1:]]
        return (self.call, *ends)


class Editor:
    """Plays a client of `version`; `initialize` first.

    `permission` and `elicitation` answer what the agent asks the user; change them as needed.
    """

    def __init__(
        self, line: Line, version: int, settings: Settings, folder: Path, patience: Patience
    ) -> None:
        self.line = line
        self.version = version
        self.settings = settings
        self.patience = patience
        self.folder = folder
        self.result: Json = {}
        self.logged_in: Call | None = None  # the login of the settings, if they name one
        self.permission: Policy = self.allow
        self.elicitation: Policy = self.accept
        self._services = Services(line, folder)
        self.withdraws = True  # what the agent does not need any more
        self._serves = True
        line.answer_s = settings.answer
        line.serve = self._serve
        line.heard = self._heard

    async def aclose(self) -> None:
        """Hang up, and end what the editor had started."""
        await self._services.aclose()
        await self.line.aclose()

    def begin(self, folder: Path, where: str) -> None:
        """Begin a scenario: work in this folder, and serve everything as at first."""
        self.folder = folder
        self._services.folder = folder
        self.line.observer.where = where
        self.permission, self.elicitation = self.allow, self.accept
        self.withdraws = True

    # Handshake.

    def hello(self, version: Any = None, capabilities: Json | None = None, **more: Any) -> Json:
        """Return the params of `initialize`."""
        if self.version == 1:
            capabilities = ALL_1 if capabilities is None else capabilities
            names = {"clientCapabilities": capabilities, "clientInfo": INFO}
        else:
            capabilities = ALL_2 if capabilities is None else capabilities
            names = {"capabilities": capabilities, "info": INFO}
        return {"protocolVersion": self.version if version is None else version, **names, **more}

    async def initialize(self, capabilities: Json | None = None, **more: Any) -> Call:
        """Make the handshake, and log in if the settings say how; raise `Silence`."""
        self._serves = capabilities is None
        call = self.line.ask("initialize", self.hello(None, capabilities, **more))
        await self.line.reply(call, within_s=self.settings.timeout)
        self.result = call.result if is_object(call.result) else {}
        if call.ok and self.settings.login:
            self.logged_in = await self.log_in()
        return call

    async def log_in(self) -> Call:
        """Log in as the settings say."""
        method = "authenticate" if self.version == 1 else "auth/login"
        call = self.line.ask(method, {"methodId": self.settings.login})
        await self.line.reply(call, within_s=self.settings.timeout)
        return call

    def offers(self, what: str) -> bool:
        """Tell whether the agent offers something, by the name in `offers.py`."""
        return offered(what, self.version, self.result)

    def needs(self, *what: str) -> None:
        """Raise `NotExercised` unless all this is offered."""
        for name in what:
            if not self.offers(name):
                raise NotExercised(f"the agent does not offer {name}")

    # Sessions.

    def setup(self, **more: Any) -> Json:
        """Return the params of what opens a session."""
        servers: Json = {"mcpServers": []} if self.version == 1 else {}
        return {"cwd": str(self.folder), **servers, **more}

    async def open(self, method: str, params: Json) -> Call:
        """Make a session, or open one again; return the answered call, or raise `Silence`."""
        call = self.line.ask(method, params)
        try:
            await self.line.reply(call, within_s=self.settings.timeout)
        except Silence as silence:
            if self.line.hung_up:
                raise
            raise NoSession(str(silence)) from None
        return call

    async def new_session(self, **more: Any) -> str:
        """Return the id of a new session; raise `NotExercised` when there is none to be had."""
        call = await self.open("session/new", self.setup(**more))
        ident = call.result.get("sessionId") if is_object(call.result) else None
        if isinstance(ident, str):
            return ident
        if call.code == _LOGIN_NEEDED:
            raise LoginWanted("the agent asks for a login before a session is made")
        error = call.reply.error if call.reply else None
        raise NotExercised(f"no session was made: {shown(error) if error else 'it has no id'}")

    async def again(self, session: str, *, replay: bool, **more: Any) -> Call:
        """Open a session again, with its history or without; raise `NotExercised`."""
        if self.version == 1:
            method, what = ("session/load", "load") if replay else ("session/resume", "resume")
            self.needs(what)
            return await self.open(method, self.setup(sessionId=session, **more))
        if replay:
            more["replayFrom"] = {"type": "start"}
        return await self.open("session/resume", self.setup(sessionId=session, **more))

    async def close(self, session: str) -> Call:
        """Close a session; raise `NotExercised`."""
        self.needs("close")
        return await self.line.call("session/close", {"sessionId": session})

    # Turns.

    def prompt(self, session: str, *blocks: Json | str) -> Prompted:
        """Send a prompt."""
        content = [text(block) if isinstance(block, str) else block for block in blocks]
        call = self.line.ask("session/prompt", {"sessionId": session, "prompt": content})
        return Prompted(self, session, call)

    def ask_for(self, session: str, purpose: str) -> Prompted:
        """Send the prompt of the settings for something; raise `NotExercised` without one."""
        words = self.settings.prompt(purpose)
        if not words:
            raise NotExercised(f"the settings have no prompt for {purpose}")
        return self.prompt(session, words)

    async def turn(self, session: str, purpose: str) -> Prompted:
        """Send the prompt for something, and return when its turn is over.

        Raises `NotExercised` when the agent refuses the prompt.
        """
        prompted = self.ask_for(session, purpose)
        await prompted.end()
        self.taken(prompted)
        return prompted

    def taken(self, prompted: Prompted) -> None:
        """Raise `NotExercised` when a prompt was refused."""
        if prompted.call.reply is not None and not prompted.call.ok:
            if prompted.call.code == _LOGIN_NEEDED:
                raise LoginWanted("the agent asks for a login before it works on a prompt")
            raise NotExercised(f"the prompt was refused: {shown(prompted.call.reply.error)}")

    def cancel(self, session: str) -> Frame:
        """Cancel the turn of a session; what the user is asked for it is cancelled, too."""
        frame = self.line.note("session/cancel", {"sessionId": session})
        for call in self.asked(session):
            self.cancelled(call)
        return frame

    def asked(self, session: str) -> list[Call]:
        """Return the permission requests of a session that wait for an answer."""
        return self.line.observer.talk.waiting("agent", "session/request_permission", session)

    def updates(self, session: str, *kinds: str) -> list[tuple[Note, Json]]:
        """Return what was told of a session, of these kinds if any are named."""
        found: list[tuple[Note, Json]] = []
        for note in self.line.notes:
            update = update_of(note)
            if note.method != "session/update" or note.session_id != session:
                continue
            if not kinds or update.get("sessionUpdate") in kinds:
                found.append((note, update))
        return found

    async def comes(self, holds: Callable[[], bool], what: str, *, within_s: float = 0) -> bool:
        """Wait for something that may come; return whether it did."""
        try:
            await self.line.until(holds, what, within_s=within_s or self.patience.seconds)
        except Silence:
            if self.line.hung_up:
                raise
            return False
        return True

    # Answers to the agent.

    def allow(self, call: Call) -> None:
        """Allow once, or choose what is offered first."""
        self.choose(call, "allow_once", "allow_always")

    def reject(self, call: Call) -> None:
        """Reject once, or cancel."""
        self.choose(call, "reject_once", "reject_always", otherwise_cancel=True)

    def cancelled(self, call: Call) -> None:
        """Answer that the user cancelled."""
        self.line.answer(call, {"outcome": {"outcome": "cancelled"}})

    def leave_open(self, call: Call) -> None:
        """Let the agent wait."""

    def choose(self, call: Call, *kinds: str, otherwise_cancel: bool = False) -> None:
        """Select an option of one of these kinds."""
        options = call.params.get("options") if is_object(call.params) else None
        known = [option for option in options if is_object(option)] if is_array(options) else []
        for kind in kinds:
            for option in known:
                if option.get("kind") == kind:
                    self.select(call, option.get("optionId"))
                    return
        if otherwise_cancel or not known:
            self.cancelled(call)
        else:
            self.select(call, known[0].get("optionId"))

    def select(self, call: Call, option: Any) -> None:
        """Select an option by its id."""
        self.line.answer(call, {"outcome": {"outcome": "selected", "optionId": option}})

    def accept(self, call: Call) -> None:
        """Fill in a form, or open a page."""
        params = call.params if is_object(call.params) else {}
        answer: Json = {"action": "accept"}
        if params.get("mode") == "form":
            answer["content"] = _filled(params.get("requestedSchema"))
        self.line.answer(call, answer)

    def _serve(self, call: Call) -> None:
        match call.method:
            case "session/request_permission":
                self.permission(call)
            case "elicitation/create" if self._serves:
                self.elicitation(call)
            case _:
                served = self.version == 1 and self._serves and self._services.serve(call)
                if not served:
                    self.line.refuse(call, -32601, "Method not found")

    def _heard(self, note: Note) -> None:
        """The agent withdraws what it asked for."""
        if note.method != "$/cancel_request" or not self.withdraws:
            return
        call = self.line.observer.talk.find("agent", note.params.get("requestId"))
        if call is None:
            return
        if call.method == "session/request_permission":
            self.cancelled(call)
        elif call.method == "elicitation/create":
            self.line.answer(call, {"action": "cancel"})


def _filled(schema: Any) -> Json:
    """Return an answer for each field of a form."""
    found = schema.get("properties") if is_object(schema) else None
    fields: Json = found if is_object(found) else {}
    return {name: _value(field) for name, field in fields.items() if is_object(field)}


def _value(field: Json) -> Any:
    if field.get("default") is not None:
        return field["default"]
    titled, named = field.get("oneOf"), field.get("enum")
    consts = [one.get("const") for one in titled if is_object(one)] if is_array(titled) else []
    choices: list[Any] = (named if is_array(named) else []) or consts
    match field.get("type"):
        case "boolean":
            return True
        case "integer" | "number":
            return field.get("minimum", 1)
        case "array":
            return []
        case _ if choices:
            return choices[0]
        case _:
            formats = {"email": "a@example.com", "uri": "https://example.com", "date": "2026-01-02"}
            formats["date-time"] = "2026-01-02T03:04:05Z"
            least = field.get("minLength")
            length = min(least, _LONGEST) if isinstance(least, int) else 0
            return formats.get(str(field.get("format")), "Accord".ljust(length, "."))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in some JSON: what a reader would see of it, and more."""
    if is_object(value):
        for key, inner in value.items():
            if key in ("text", "content", "newText", "title", "rawOutput", "output", "data"):
                yield from (inner,) if isinstance(inner, str) else _texts(inner)
            elif isinstance(inner, dict | list):
                yield from _texts(inner)
    elif is_array(value):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value
