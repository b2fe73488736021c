"""Requests of the agent to the user go to all clients; the first response wins."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from accord.agent.updates import PermissionQuestion, ToolCallUpdate
from accord.client.elicitation import (
    ElicitationForm,
    FormValues,
    UrlElicitationRequest,
    schema_of_form,
)
from accord.client.events import Decision, PermissionRequest
from accord.client.permissions import allow, deny
from accord.errors import DecodeError
from accord_terminal.sessions.journal import BY_RULE, NOT_ASKED, TURN_ENDED, Answered, Asked
from accord_terminal.sessions.owner.translate import tool_call_update

if TYPE_CHECKING:
    from accord_terminal.sessions.owner.state import Client, OwnerState


T = TypeVar("T")

PERMISSION = "session/request_permission"


class Questions:
    """Asks the clients on behalf of the agent."""

    def __init__(self, owner: OwnerState, clients: set[Client]) -> None:
        self._owner = owner
        self._clients = clients
        # The clients that are asked, by request.
        self._open: dict[str, dict[asyncio.Task[Any], Client]] = {}
        self._titles: dict[str, str] = {}

    @property
    def open_titles(self) -> list[str]:
        """What a user is asked now."""
        return [*self._titles.values()]

    def cancel_all(self) -> None:
        """Give up: the turn was cancelled."""
        for asked in self._open.values():
            for task in asked:
                task.cancel()
        self._open.clear()

    async def decide(self, request: PermissionRequest) -> Decision | None:
        """Decide a permission request: the rules of the turn, then who answers first."""
        owner = self._owner
        running = owner.queue.running
        approvals = owner.record.approvals if running is None else running.approvals
        rules = (deny(*approvals.deny), allow(*(("*",) if approvals.yes else approvals.allow)))
        for rule in rules:
            decided: Any = rule(request)
            if decided is not None:
                self._record("permission", request.title, BY_RULE, str(decided))
                return decided
        params = self._params(request)

        async def ask(client: Client) -> str | None:
            if client.adapter.version == owner.protocol and params is not None:
                return await client.connection.call(
                    PERMISSION, {**params, "sessionId": owner.record.id}, _decode_answer
                )
            return await client.adapter.request_permission(owner.record.id, _question(request))

        found = await self._first("permission", request.title, ask, _shown)
        if found is None:
            return "cancel" if running is not None and running.is_cancelled else "reject"
        _client, chosen = found
        by_id = {option.id: option for option in request.options}
        return "cancel" if chosen is None else by_id.get(chosen, "reject")

    def _params(self, request: PermissionRequest) -> dict[str, Any] | None:
        """Return the params as the agent has sent them, without the session id."""
        ids = [option.id for option in request.options]

        call = request.tool_call

        def matches(params: Any) -> bool:
            subject: Any = params.get("subject")
            tool: Any = (params if subject is None else subject).get("toolCall")
            offered: Any = params.get("options", ())
            is_call = call is None or (tool is not None and tool.get("toolCallId") == call.id)
            return is_call and [option.get("optionId") for option in offered] == ids

        return self._owner.frames.permission_params(matches)

    async def ask_form(self, form: ElicitationForm) -> FormValues | None:
        """Let a user fill in a form."""
        schema = schema_of_form(form)

        async def ask(client: Client) -> Mapping[str, Any] | None:
            return await client.adapter.elicit_form(
                self._owner.record.id, form.message, schema, form.tool_call_id
            )

        def shown(values: Mapping[str, Any] | None) -> str:
            return "declined" if values is None else "filled in"  # the values may be secret

        found = await self._first("form", form.message, ask, shown)
        return None if found is None else found[1]

    async def ask_url(self, page: UrlElicitationRequest) -> bool:
        """Let a user open a URL."""

        async def ask(client: Client) -> bool:
            return await client.adapter.elicit_url(
                self._owner.record.id, page.message, page.url, page.id, page.tool_call_id
            )

        def shown(agreed: bool) -> str:
            return "accepted" if agreed else "declined"

        found = await self._first("url", page.message, ask, shown)
        return found is not None and found[1]

    async def _first(
        self,
        what: str,
        title: str,
        ask: Callable[[Client], Awaitable[T]],
        shown: Callable[[T], str],
    ) -> tuple[Client, T] | None:
        """Ask the clients whose users can answer; None if there are none."""
        request = f"q-{os.urandom(4).hex()}"
        self._owner.add(Asked(request=request, what=what, title=title))
        asked: dict[asyncio.Task[Any], Client] = {}
        tried: set[Client] = set()
        found: tuple[Client, T] | None = None
        self._open[request] = asked
        self._titles[request] = f"{what}: {title}"
        try:
            while found is None and request in self._open:
                for client in self._askable(what):
                    if client not in tried:
                        tried.add(client)
                        asked[asyncio.create_task(_asked(ask, client))] = client
                if not asked:
                    break
                found = await self._next_answer(asked)
        finally:
            was_cancelled = self._open.pop(request, None) is None
            del self._titles[request]
            for task in asked:
                task.cancel()
            if asked:
                await asyncio.wait(asked)
        by = NOT_ASKED if found is None else found[0].name
        answer = "rejected" if found is None else shown(found[1])
        if was_cancelled:
            by, answer = TURN_ENDED, "cancelled"
        self._owner.add(Answered(request=request, by=by, answer=answer))
        return found

    async def _next_answer(self, asked: dict[asyncio.Task[T], Client]) -> tuple[Client, T] | None:
        """Wait for an answer; None if a client has left or joined, or if all were cancelled."""
        joined = asyncio.create_task(self._owner.joined.wait())
        done, _ = await asyncio.wait({*asked, joined}, return_when=asyncio.FIRST_COMPLETED)
        joined.cancel()
        found: tuple[Client, T] | None = None
        for task in [task for task in asked if task in done]:
            client = asked.pop(task)
            if not task.cancelled() and task.exception() is None and found is None:
                found = client, task.result()
        return found

    def _askable(self, what: str) -> Sequence[Client]:
        """Return whom to ask: users who decide; else the submitter, which reports a rejection."""
        owner = self._owner
        running = owner.queue.running
        present = [c for c in self._clients if c.is_open and not c.has_ended]
        deciding = [
            client
            for client in present
            if client.settings.answers(what)
            and (
                client.settings.follows != "own"
                or (running is not None and running.id in client.own_prompts)
            )
        ]
        if deciding or what != "permission" or running is None:
            return deciding
        return [client for client in present if running.id in client.own_prompts]

    def _record(self, what: str, title: str, by: str, answer: str) -> None:
        request = f"q-{os.urandom(4).hex()}"
        self._owner.add(Asked(request=request, what=what, title=title))
        self._owner.add(Answered(request=request, by=by, answer=answer))


async def _asked(ask: Callable[[Client], Awaitable[T]], client: Client) -> T:
    return await ask(client)


class _Outcome(Struct, rename="camel"):
    outcome: str
    option_id: str | None = None


class _Answer(Struct):
    outcome: _Outcome


_answer = msgspec.json.Decoder(_Answer)


def _decode_answer(text: bytes | Raw) -> str | None:
    try:
        outcome = _answer.decode(text).outcome
    except msgspec.MsgspecError as exc:
        raise DecodeError(str(exc)) from None
    return outcome.option_id if outcome.outcome == "selected" else None


def _shown(option_id: str | None) -> str:
    return "cancelled" if option_id is None else option_id


def _question(request: PermissionRequest) -> PermissionQuestion:
    call = request.tool_call
    if call is not None:
        tool = tool_call_update(call, is_new=True)
    else:
        line = request.command or request.title
        tool = ToolCallUpdate(id="command", title=line, kind="execute", raw_input={"command": line})
    return PermissionQuestion(
        title=request.title, description=request.description, options=request.options, tool=tool
    )
