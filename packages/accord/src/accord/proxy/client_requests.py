"""Calls what a `Proxy` overrides for the requests of the agent to the client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import NoneType
from typing import Any

from accord.client.elicitation import UrlElicitationRequest, form_from_schema
from accord.client.events import PermissionRequest, ToolCall
from accord.client.permissions import choose
from accord.errors import RequestError
from accord.proxy.chain_part import ChainPart, ProxyInChain
from accord.proxy.overrides import Overrides
from accord.proxy.requests import FileRead, FileWrite, TerminalStart
from accord.types.permission import PermissionOption
from accord.types.validation import require_type
from accord.wire.base import replace
from accord.wire.codec import to_builtins

log: logging.Logger = logging.getLogger("accord.proxy")


class ClientRequests(ChainPart):
    """Handles permission requests, files, terminals and elicitation of one chain."""

    def __init__(self, chain: ProxyInChain) -> None:
        super().__init__(chain)
        self._types = self._version.types

    def add_to(self, to_client: Overrides, has: dict[str, bool]) -> None:
        """Handle what the proxy overrides."""
        name = type(self._proxy).__name__
        handlers = {
            "decide_permission": ("request_permission", self._permission),
            "read_file": ("read_text_file", self._read_file),
            "write_file": ("write_text_file", self._write_file),
            "start_terminal": ("create_terminal", self._terminal),
        }
        for hook, (call, handler) in handlers.items():
            method = self._version.methods.get(call)
            if has[hook] and method is not None:
                to_client.add(method, handler, f"{name}.{hook}")
        if has["elicit_form"] or has["elicit_url"]:
            method = self._version.methods["create_elicitation"]
            to_client.add(method, self._elicitation, self._elicitation_label)

    def _require(self, hook: str, result: object, *kinds: type) -> None:
        """Raise `TypeError` if a method of the proxy did not return one of these types."""
        require_type(f"the result of {type(self._proxy).__name__}.{hook}", result, *kinds)

    # Permissions.

    async def _permission(self, params: Any, forward: Any) -> Any:
        request = self._request(params)
        chosen: list[tuple[PermissionOption | None, Any]] = []

        async def forward_request() -> PermissionOption | None:
            result = await forward()
            option_id = getattr(result.outcome, "option_id", None)
            option = next((each for each in request.options if each.id == option_id), None)
            chosen.append((option, result))
            return option

        try:
            decision = await self._proxy.decide_permission(request, forward_request)
            for option, result in chosen:
                if decision is option:
                    return result  # as the user decided
            option = None if decision is None else choose(request.options, decision)
        except RequestError:
            raise
        except Exception:
            name = type(self._proxy).__name__
            log.exception("! %s.decide_permission failed; the request is rejected", name)
            option = choose(request.options, "reject")
        types = self._types
        outcome = (
            types.CancelledPermissionOutcome()
            if option is None
            else types.SelectedPermissionOutcome(option_id=option.id)
        )
        return types.RequestPermissionResponse(outcome=outcome)

    def _request(self, params: Any) -> PermissionRequest:
        """Return a request with the state of its tool call."""
        session = self._sessions[params.session_id]
        cwd, command, call = session.cwd or "/", None, None
        subject = getattr(params, "subject", params)
        details = getattr(subject, "tool_call", None)
        if details is not None:
            changed = self._version.apply_tool_call(details, session.calls)
            if changed is not None:
                session.keep(changed)
            call = changed or session.tool_call(details.tool_call_id)
        elif isinstance(subject, getattr(self._types, "CommandPermissionSubject", ())):
            command, cwd = subject.command, subject.cwd
            call = session.tool_call(subject.tool_call_id or "")
        title = getattr(params, "title", None)
        return PermissionRequest(
            session_id=params.session_id,
            cwd=cwd,
            title=title if title is not None else _title(call),
            options=tuple(PermissionOption(o.option_id, o.name, o.kind) for o in params.options),
            description=getattr(params, "description", None),
            tool_call=call,
            command=command,
        )

    # Files and terminals.

    async def _read_file(self, params: Any, forward: Any) -> Any:
        request = FileRead(
            session_id=params.session_id, path=params.path, line=params.line, limit=params.limit
        )
        results: list[Any] = []

        async def forward_read(other: FileRead = request) -> str:
            results.append(
                await forward(
                    params
                    if other == request
                    else replace(params, path=other.path, line=other.line, limit=other.limit)
                )
            )
            return results[-1].content

        text = await self._proxy.read_file(request, forward_read)
        self._require("read_file", text, str)
        if not results:
            return self._types.ReadTextFileResponse(content=text)
        last = results[-1]
        return last if text == last.content else replace(last, content=text)

    async def _write_file(self, params: Any, forward: Any) -> Any:
        request = FileWrite(session_id=params.session_id, path=params.path, text=params.content)
        results: list[Any] = []

        async def forward_write(other: FileWrite = request) -> None:
            results.append(
                await forward(
                    params
                    if other == request
                    else replace(params, path=other.path, content=other.text)
                )
            )

        await self._proxy.write_file(request, forward_write)
        return results[-1] if results else None

    async def _terminal(self, params: Any, forward: Any) -> Any:
        types = self._types
        request = TerminalStart(
            session_id=params.session_id,
            command=params.command,
            args=tuple(params.args),
            env={entry.name: entry.value for entry in params.env},
            cwd=params.cwd,
            output_byte_limit=params.output_byte_limit,
        )
        results: list[Any] = []

        async def forward_start(other: TerminalStart = request) -> str:
            changed = params
            if other != request:
                changed = replace(
                    params,
                    command=other.command,
                    args=list(other.args),
                    env=[types.EnvVariable(name=k, value=v) for k, v in other.env.items()],
                    cwd=other.cwd,
                    output_byte_limit=other.output_byte_limit,
                )
            results.append(await forward(changed))
            return results[-1].terminal_id

        terminal_id = await self._proxy.start_terminal(request, forward_start)
        self._require("start_terminal", terminal_id, str)
        if results and results[-1].terminal_id == terminal_id:
            return results[-1]
        return types.CreateTerminalResponse(terminal_id=terminal_id)

    # Elicitation.

    def _elicitation_label(self, params: Any) -> str:
        is_url = isinstance(params, self._types.ElicitationUrlMode)
        return f"{type(self._proxy).__name__}.{'elicit_url' if is_url else 'elicit_form'}"

    async def _elicitation(self, params: Any, forward: Any) -> Any:
        types = self._types
        results: list[tuple[Any, Any]] = []
        accept: dict[str, Any] | None
        session_id = getattr(params, "session_id", None)
        session_id = session_id if isinstance(session_id, str) else None

        async def forward_form() -> Any:
            result = await forward()
            accepted = isinstance(result, types.ElicitationAcceptAction)
            results.append((result.content or {} if accepted else None, result))
            return results[-1][0]

        async def forward_url() -> bool:
            result = await forward()
            results.append((isinstance(result, types.ElicitationAcceptAction), result))
            return results[-1][0]

        match params:
            case types.ElicitationFormMode():
                schema = to_builtins(params.requested_schema)
                form = form_from_schema(params.message, schema, session_id, params.tool_call_id)
                answer = await self._proxy.elicit_form(form, forward_form)
                self._require("elicit_form", answer, Mapping, NoneType)
                accept = None if answer is None else {"content": dict(answer)}
            case types.ElicitationUrlMode():
                request = UrlElicitationRequest(
                    message=params.message,
                    url=params.url,
                    id=params.elicitation_id,
                    done=asyncio.Event(),
                    session_id=session_id,
                    tool_call_id=params.tool_call_id,
                )
                answer = await self._proxy.elicit_url(request, forward_url)
                self._require("elicit_url", answer, bool)
                accept = {} if answer else None
            case _:
                return await forward()
        for known, result in results:
            if answer is known or answer == known:
                return result
        if accept is None:
            return types.ElicitationDeclineAction()
        return types.ElicitationAcceptAction(**accept)


def _title(call: ToolCall | None) -> str:
    return "" if call is None else call.title
