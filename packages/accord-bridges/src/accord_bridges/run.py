"""One turn of a bridged agent: what a framework reports and asks, in the framework's own terms.

`Run` takes events as frameworks have them: deltas of text, calls of tools by id, results in any
order. It finds titles, kinds, files, diffs and plans, asks the user, and ends what was left open.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct

from accord import (
    Agent,
    ContentBlock,
    ContextUsage,
    Cost,
    NotOffered,
    PermissionOption,
    PlanEntry,
    Session,
    TokenUsage,
    Turn,
)
from accord_bridges.tools import Described, command_of, describe, plan_of, shown

if TYPE_CHECKING:
    from accord.agent import SubagentHandle, ToolCallHandle


F = TypeVar("F", bound=Struct)
Outcome: TypeAlias = Literal["completed", "failed", "cancelled"]

_MAX_OUTPUT = 100_000  # characters of a tool's result that are shown
_WRITE_S = 5.0  # that a cancel waits for what is remembered
_ALLOW = PermissionOption("allow_once", "Allow", "allow_once")
_ALWAYS = PermissionOption("allow_always", "Always allow", "allow_always")
_CHANGED = PermissionOption("allow_changed", "Allow with changes…", "allow_once")
_ANSWER = PermissionOption("answer", "Answer instead…", "reject_once")
_REJECT = PermissionOption("reject_once", "Reject", "reject_once")
_NEVER = PermissionOption("reject_always", "Always reject", "reject_always")
_TEXT = msgspec.defstruct("Answer", [("answer", str)])


class Approval(Struct, frozen=True):
    """The user's answer to a call of a tool."""

    allowed: bool
    """Whether the call may run."""
    input: Any
    """The arguments to run it with: those that were asked about, or what the user made of them."""
    changed: bool = False
    """Whether the user has changed the arguments."""
    answer: str | None = None
    """What the user says in place of the tool's result; then the call may not run."""


class Question(Struct, frozen=True):
    """A question that is no permission, as a form."""

    message: str
    """What the user reads."""
    choices: tuple[str, ...] = ()
    """The answers to choose from; any text without them."""
    several: bool = False
    """Whether several choices may be chosen."""


class _Call(Struct):
    """A tool call of the framework, shown as one of the session."""

    handle: ToolCallHandle
    name: str
    input: Any
    about: Described
    is_plan: bool = False
    pieces: list[str] = []  # of arguments that arrive as text


class Run:
    """One turn, as the code of a framework sees it.

    Everything is shown as it is reported. Calls are known by the ids that the framework gives
    them; one that is still open when the turn ends is cancelled, or fails with the turn.
    """

    def __init__(self, agent: Agent, turn: Turn, work: Turn | SubagentHandle) -> None:
        self.agent = agent
        self.turn = turn
        """The turn, with all that the library offers."""
        self.session: Session = turn.session
        """The session of the turn, also in a subagent."""
        self.content: tuple[ContentBlock, ...] = turn.content
        """The prompt."""
        self.say = work.say
        """Append to the answer."""
        self.think = work.think
        """Append to the thoughts."""
        self._work = work
        self.shown_elsewhere: set[str] = set()
        """The names of tools that show their calls themselves, see `editor.editor_tools`."""
        self._calls: dict[str, _Call] = {}
        self._message_id: str | None = None
        self._asking = asyncio.Lock()  # one question at a time: the user answers what they see

    # The prompt and the session.

    @property
    def text(self) -> str:
        """The text of the prompt; links and resources are written as Markdown."""
        return self.turn.text

    @property
    def cwd(self) -> str:
        """The working directory of the session."""
        return self.session.cwd

    @property
    def model(self) -> str | None:
        """The model that the user has chosen; None without a list of models."""
        return self._option("model")

    @property
    def mode(self) -> str | None:
        """The mode that the user has chosen; None without modes."""
        return self._option("mode")

    def _option(self, name: str) -> str | None:
        try:
            return str(self.session.option(name))
        except KeyError:
            return None

    @property
    def remembered(self) -> Any:
        """What `remember` was given last in this session or the one that it is a copy of."""
        return self.session.remembered

    async def remember(self, value: Any) -> None:
        """Store what the framework needs to continue the session, as JSON.

        Do it at the end of a turn, and of a cancelled one as far as the framework can continue: a
        cancel waits until it is written.
        """

        async def write() -> None:
            await self.session.remember(value)

        writing = asyncio.create_task(write(), name="accord bridge: remember")
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing], timeout=_WRITE_S)
            raise

    # Messages.

    def message(self, message_id: str | None) -> None:
        """Start a new message if the framework has: what follows belongs to this id."""
        if message_id != self._message_id:
            if self._message_id is not None:
                self._work.start_new_message()
            self._message_id = message_id

    async def show(self, content: object) -> None:
        """Append any output to the answer; what cannot be shown is described."""
        for part in shown(content):
            await self.say(part)

    # Tool calls.

    async def begin_call(
        self, call_id: str, name: str, arguments: Any = None, *, title: str | None = None,
        kind: str | None = None,
    ) -> None:  # fmt: skip
        """Show a call of a tool; with an id that is known, report its arguments.

        `arguments` are JSON, or the text of JSON, possibly not complete yet.
        """
        call = self._calls.get(call_id)
        if call is not None:
            if arguments is not None:
                await self._set_input(call, arguments)
            return
        if name in self.shown_elsewhere:
            return
        value = _parsed(arguments)
        about = describe(name, value, self.cwd, title=title, kind=kind)
        handle = self._work.tool(
            about.title, kind=about.kind, name=name, locations=about.locations,
            raw_input=value if isinstance(value, Mapping | list) else None,
        )  # fmt: skip
        call = _Call(handle, name, value, about)
        self._calls[call_id] = call
        await handle.begin()
        await self._show_plan(call)

    async def add_arguments(self, call_id: str, text: str) -> None:
        """Append to the arguments of a call, JSON that arrives as text.

        They are reported when they are complete: by `begin_call`, or when the call goes on.
        """
        call = self._calls.get(call_id)
        if call is not None and text:
            call.pieces.append(text)

    async def progress(self, call_id: str, content: object) -> None:
        """Show what a call has done so far."""
        call = self._calls.get(call_id)
        if call is None:
            return
        await self._complete_input(call)
        if isinstance(content, str):
            await call.handle.append_text(content)
        else:
            await call.handle.add_content(*shown(content))

    async def end_call(
        self, call_id: str, output: object = None, *, outcome: Outcome = "completed"
    ) -> None:
        """End a call with what the tool has returned, or with the message of its error."""
        call = self._calls.pop(call_id, None)
        if call is None:
            return
        handle = call.handle
        await self._complete_input(call)
        if outcome == "completed" and not call.is_plan:
            await self._show_diffs(call)
        parts = [] if output is None or call.is_plan else shown(output)
        if outcome == "cancelled":
            await handle.deny(parts[0] if parts and isinstance(parts[0], str) else None)
        else:
            await handle.start()
            for part in parts:
                await handle.add_content(_excerpt(part) if isinstance(part, str) else part)
        if output is not None and not isinstance(output, str):
            value = _json(output)
            if value is not None:
                await handle.set_raw_output(value)
        await handle.end(outcome)

    async def start_call(self, call_id: str) -> None:
        """Report that a call is in progress."""
        call = self._calls.get(call_id)
        if call is not None:
            await self._complete_input(call)
            await call.handle.start()

    async def pause_call(self, call_id: str) -> None:
        """Report that a call waits for the user; `start_call` reports that it continues."""
        call = self._calls.get(call_id)
        if call is not None:
            await self._complete_input(call)
            await call.handle.pause()

    def is_open(self, call_id: str) -> bool:
        """Return whether a call was begun and has not ended."""
        return call_id in self._calls

    async def _complete_input(self, call: _Call) -> None:
        if call.pieces:
            text = "".join(call.pieces)
            call.pieces.clear()
            await self._set_input(call, text)

    async def _set_input(self, call: _Call, arguments: Any) -> None:
        call.pieces.clear()
        value = _parsed(arguments)
        if value == call.input or not isinstance(value, Mapping | list):
            return
        call.input = value
        call.about = about = describe(call.name, value, self.cwd)
        await call.handle.update(
            title=about.title, kind=about.kind, locations=about.locations or None, raw_input=value
        )
        await self._show_plan(call)

    async def _show_plan(self, call: _Call) -> None:
        entries = plan_of(call.name, call.input)
        if entries is not None:
            call.is_plan = True
            await self.plan(entries)

    async def _show_diffs(self, call: _Call) -> None:
        for diff in call.about.diffs:
            await call.handle.add_diff(diff.path, diff.old, diff.new)

    # Questions.

    async def approve(
        self,
        call_id: str,
        name: str,
        arguments: Any = None,
        *,
        question: str | None = None,
        description: str | None = None,
        editable: bool = False,
        answerable: bool = False,
    ) -> Approval:
        """Ask the user whether a call may run; show the call first if it is not shown yet.

        "Always" applies to calls of the same tool in this session; for a command, to this command
        line only. If the arguments are `editable` and the client has forms, the user may change
        them; if the call is `answerable`, they may write its result themselves. A call that does
        not run is ended by this. Raises `CancelledError` if the turn is cancelled instead.
        """
        await self.begin_call(call_id, name, arguments)
        call = self._calls[call_id]
        await self._complete_input(call)
        handle = call.handle
        memory: dict[tuple[str, ...], bool] = self.session.data.setdefault("always", {})
        key = (name, command_of(name, call.input) or "")
        async with self._asking:
            allowed = memory.get(key)
            if allowed is None:
                allowed = await self.agent.decide_permission(handle)
            value, changed = call.input, False
            answer: str | None = None
            if allowed is None:
                await self._show_diffs(call)
                if description and description in (question or call.about.title):
                    description = None  # for example the path, which the title has
                options = [_ALLOW, _ALWAYS, _REJECT, _NEVER]
                form = _form(call.input) if editable and self._has_forms else None
                if form is not None:
                    options.insert(2, _CHANGED)
                if answerable and self._has_forms:
                    options.append(_ANSWER)  # last: a client may take the first that rejects
                chosen = await handle.request_choice(
                    options, title=question, description=description
                )
                allowed = chosen is not None and chosen.allows
                if chosen is not None and chosen.is_remembered:
                    memory[key] = allowed
                if chosen is _CHANGED and form is not None:
                    value = await self._changed(form, call.input)
                    allowed, changed = value is not None, value is not None
                if chosen is _ANSWER:
                    given: Any = await self._work.elicit_form(_TEXT, f"The result of {name}")
                    answer = None if given is None else given.answer
        if changed:
            await self._set_input(call, value)
        if allowed:
            await handle.start()
        elif answer is not None:
            await self.end_call(call_id, answer)
        else:
            await self.end_call(call_id, "Not allowed by the user", outcome="cancelled")
        return Approval(allowed, value if changed else call.input, changed, answer)

    async def _changed(self, form: type[Struct], before: Any) -> Any:
        """Return the arguments that the user has entered; None if they cancel."""
        answer = await self._work.elicit_form(form, "The arguments to allow")
        if answer is None:
            return None
        new = dict(before)
        for name in form.__struct_fields__:
            given = getattr(answer, name)
            old = before.get(name)
            new[name] = _value_like(old, given)
        return new

    @property
    def _has_forms(self) -> bool:
        capabilities = self.session.client.capabilities
        elicitation = getattr(capabilities, "elicitation", None)
        return bool(elicitation) and getattr(elicitation, "form", None) not in (None, msgspec.UNSET)

    async def fill_in(self, form: type[F], message: str) -> F | None:
        """Ask the user to fill in a form, a class of msgspec with plain fields.

        Return None if the user does not answer. Raises `NotOffered` if the client has no forms.
        """
        async with self._asking:
            return await self._work.elicit_form(form, message)

    async def ask(self, question: Question) -> str | list[str] | None:
        """Ask a question that is no permission; return None if the user does not answer.

        A client without forms is asked by a permission request if there are choices. Without
        choices, it shows the question, and the next prompt is the answer: `NotOffered` is raised.
        """
        async with self._asking:
            if self._has_forms:
                kind: Any = str
                if question.choices:
                    literal = Literal[question.choices]
                    kind = list[literal] if question.several else literal
                form = msgspec.defstruct("Answer", [("answer", kind)])
                given: Any = await self._work.elicit_form(form, question.message)
                return None if given is None else given.answer
            if not question.choices:
                raise NotOffered("elicitation/create", "elicitation.form")
            async with self._work.tool(question.message, kind="think", raw_input={}) as call:
                options = [
                    PermissionOption(f"choice_{n}", choice, "allow_once")
                    for n, choice in enumerate(question.choices)
                ]
                options.append(PermissionOption("none", "None of these", "reject_once"))
                chosen = await call.request_choice(options, title=question.message)
            if chosen is None or not chosen.allows:
                return None
            return [chosen.name] if question.several else chosen.name

    # Plans, use, subagents.

    async def plan(self, entries: Iterable[str | PlanEntry]) -> None:
        """Show the plan of the turn, which replaces the one before."""
        await self._work.plan(entries)

    async def used(
        self,
        *,
        input: int = 0,  # noqa: A002  # the name of the field
        output: int = 0,
        thought: int | None = None,
        cached_read: int | None = None,
        cached_write: int | None = None,
    ) -> None:
        """Add tokens of a model request to those of the turn."""
        before = self.turn.token_usage or TokenUsage(total=0, input=0, output=0)
        self.turn.token_usage = TokenUsage(
            total=before.total + input + output,
            input=before.input + input,
            output=before.output + output,
            thought=_sum(before.thought, thought),
            cached_read=_sum(before.cached_read, cached_read),
            cached_write=_sum(before.cached_write, cached_write),
        )

    async def context(self, usage: ContextUsage) -> None:
        """Report how full the model's context is, and what the session has cost so far."""
        await self.turn.set_context_usage(usage.used, usage.size, cost=usage.cost)

    async def cost(self, amount: float, currency: str = "USD") -> None:
        """Add to the cost of the session; `context` is reported with it."""
        spent: float = self.session.data.get("cost", 0.0) + amount
        self.session.data["cost"] = spent
        used = self.turn.token_usage.total if self.turn.token_usage else 0
        await self.turn.set_context_usage(used, max(used, 1), cost=Cost(spent, currency))

    @asynccontextmanager
    async def subagent(
        self, title: str, description: str | None = None
    ) -> AsyncGenerator[Run, None]:
        """Show what is reported to the yielded run as the work of a subagent."""
        async with self._work.subagent(title, description=description) as work:
            run = Run(self.agent, self.turn, work)
            run._asking, run.shown_elsewhere = self._asking, self.shown_elsewhere
            async with run.ending_calls():
                yield run

    # The end.

    @asynccontextmanager
    async def ending_calls(self) -> AsyncGenerator[None, None]:
        """End the calls that are open when the block ends: cancelled with it, or failed."""
        outcome: Outcome = "completed"
        try:
            yield
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except BaseException:
            outcome = "failed"
            raise
        finally:
            for call in tuple(self._calls.values()):
                await call.handle.end(outcome)
            self._calls.clear()


def _parsed(arguments: Any) -> Any:
    """Return JSON that may be given as text; text that is none stays text."""
    if isinstance(arguments, str):
        try:
            return json.loads(arguments) if arguments.strip() else None
        except ValueError:
            return arguments
    return None if arguments is None else _json(arguments)


def _json(value: object) -> Any:
    """Return what JSON can hold of a value; None if it can hold nothing of it."""
    dump: Any = getattr(value, "model_dump", None)
    try:
        if dump is not None and not isinstance(value, type):
            return dump(mode="json")
        return msgspec.to_builtins(value, enc_hook=str)
    except Exception:  # noqa: BLE001  # of any object: only its text is shown then
        return None


def _excerpt(text: str) -> str:
    if len(text) <= _MAX_OUTPUT:
        return text
    return f"{text[:_MAX_OUTPUT]}\n… {len(text) - _MAX_OUTPUT:,} more characters"


def _sum(before: int | None, more: int | None) -> int | None:
    return before if more is None else (before or 0) + more


def _form(arguments: Any) -> type[Struct] | None:
    """Return a form with the arguments of a call; None for what is not an object."""
    if not isinstance(arguments, Mapping) or not arguments:
        return None
    fields: list[Any] = []
    for name, value in cast("Mapping[Any, Any]", arguments).items():
        if not (isinstance(name, str) and name.isidentifier()):
            return None
        is_plain = isinstance(value, bool | int | float | str)
        kind: Any = type(value) if is_plain else str
        default: Any = value if is_plain else json.dumps(value)
        fields.append((name, kind, default))
    try:
        return msgspec.defstruct("Arguments", fields)
    except (TypeError, ValueError):
        return None


def _value_like(old: Any, given: Any) -> Any:
    if isinstance(old, bool | int | float | str) or not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except ValueError:
        return given
