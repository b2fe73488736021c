"""ACP agents in the OpenAI Agents SDK: `acp_agent` is an agent of it, `acp_tool` a function tool.

The ACP agent is the model of an SDK agent. A permission that no rule decides is a call of the tool
`permission`, which needs an approval: the run ends with an interruption, and `state.approve` or
`state.reject` and a further run continue the turn. So approvals, streaming, sessions, handoffs and
agents as tools are those of the SDK. Function tools reach the agent by MCP, and the SDK runs them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any, Unpack, cast

import agents
from agents.models.interface import Model
from openai.types import responses as oa
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

import accord
from accord.client.connect import AgentCommand
from accord.types.content import ContentBlock
from accord_bridges.steps import call_arguments, call_name, call_output
from accord_bridges.used_in.agents import AcpAgent, AgentOptions, CallerTool, agent_of
from accord_bridges.used_in.turns import Asked, Called, Turn

PERMISSION = "permission"
_ALLOWED = "allowed"
_MARK = "acp_"  # begins the ids of messages: the id of the session and a number follow


def acp_agent(
    agent: AgentCommand | AcpAgent,
    *,
    name: str = "",
    tools: Sequence[agents.Tool] = (),
    asks: bool = True,
    hooks: agents.AgentHooks[Any] | None = None,
    handoff_description: str | None = None,
    **options: Unpack[AgentOptions],
) -> agents.Agent[Any]:
    """Return an agent of the SDK that an ACP agent does the work of.

    Permissions that the policies leave open are interruptions, or rejected without `asks`.
    `tools` are function tools for the agent.
    """
    acp = agent_of(agent, options)
    return agents.Agent(
        name=name or acp.name,
        model=AcpModel(acp),
        tools=[*tools, *([_permission_tool()] if asks else [])],
        hooks=hooks,
        handoff_description=handoff_description,
    )


def acp_tool(
    agent: AgentCommand | AcpAgent,
    *,
    name: str = "ask_agent",
    description: str = "Give a task to another agent, which works on it and answers.",
    session: agents.Session | None = None,
    on_stream: Any = None,
    max_turns: int = 100,
    **options: Unpack[AgentOptions],
) -> agents.FunctionTool:
    """Return a tool that asks an ACP agent; its permissions are interruptions of the outer run.

    With `session`, calls continue one session of the agent, else each has its own. `on_stream`
    receives the events of the agent. Failures are results that the model can read.
    """
    delegate = acp_agent(agent, **options)
    return delegate.as_tool(
        name, description, session=session, on_stream=on_stream, max_turns=max_turns
    )


class AcpModel(Model):
    """An ACP agent as a model of the SDK; `acp_agent` makes an agent with it."""

    def __init__(self, agent: AgentCommand | AcpAgent, **options: Unpack[AgentOptions]) -> None:
        self.agent: AcpAgent = agent_of(agent, options)
        self._last: dict[str, str] = {}  # the last response of each session
        self._told: dict[str, str | None] = {}  # the instructions that each session has

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002
        *given: Any,
        **more: Any,
    ) -> agents.ModelResponse:
        """Run the turn to its end, or to what the SDK must do."""
        response: oa.Response | None = None
        async for event in self.stream_response(system_instructions, input, *given, **more):
            if isinstance(event, oa.ResponseCompletedEvent):
                response = event.response
        assert response is not None
        used = response.usage
        usage = agents.Usage()
        if used is not None:
            usage = agents.Usage(
                requests=1,
                input_tokens=used.input_tokens,
                input_tokens_details=used.input_tokens_details,
                output_tokens=used.output_tokens,
                output_tokens_details=used.output_tokens_details,
                total_tokens=used.total_tokens,
            )
        return agents.ModelResponse(output=response.output, usage=usage, response_id=response.id)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002
        model_settings: agents.ModelSettings,
        tools: list[agents.Tool],
        *_: Any,
        **__: Any,
    ) -> AsyncIterator[Any]:
        """Run the turn, streamed."""
        items: list[Any] = [{"role": "user", "content": input}] if isinstance(input, str) else input
        response_id = ""
        asks = any(tool.name == PERMISSION for tool in tools)
        turn = self._continued(items) or await self._begun(items, system_instructions, tools)
        try:
            response = _Response(turn, self.agent, asks=asks)
            async for event in response.events():
                yield event
            response_id = response.id
        except BaseException:
            turn.cancel()
            raise
        finally:
            self._last[turn.session_id] = response_id

    def _continued(self, items: Sequence[Any]) -> Turn | None:
        """Return the turn that waits for what the SDK has done."""
        session_id, _, new = _place(items)
        turn = self.agent.running(session_id) if session_id else None
        outputs = _outputs(new)
        asked: dict[str, Asked] = {} if turn is None else turn.context.setdefault("asked", {})
        if turn is None or not outputs.keys() & {*turn.waiting, *asked}:
            return None
        for call_id, output in outputs.items():
            if call_id in asked:
                asked.pop(call_id).answer("allow" if output == _ALLOWED else "reject")
            elif call_id in turn.waiting:
                turn.waiting[call_id].answer(output)
        return turn

    async def _begun(
        self, items: Sequence[Any], told: str | None, tools: Sequence[agents.Tool]
    ) -> Turn:
        session_id, last, new = _place(items)
        if session_id is not None and self._last.get(session_id, last) != last:
            session_id = None  # the session has gone on: this is another branch
        stored = _stored(items)
        if stored:  # the program was restarted: the prompt comes again, with what was decided
            new = _since_user(items)

        def contents(is_known: bool) -> list[ContentBlock]:
            blocks: list[ContentBlock] = []
            if told and not (is_known and self._told.get(session_id or "") == told):
                blocks.append(f"<instructions>\n{told}\n</instructions>")
            said = _said(new if is_known else items)
            roles = {role for role, _ in said}
            lines = [text if roles == {"user"} else f"{role}: {text}" for role, text in said]
            return [*blocks, *lines] or ["Continue."]

        given = [
            CallerTool(tool.name, tool.description, tool.params_json_schema)
            for tool in tools
            if isinstance(tool, agents.FunctionTool) and tool.name != PERMISSION
        ]
        turn = await self.agent.start(contents, session_id=session_id, tools=given)
        self._told[turn.session_id] = told
        turn.context["stored"] = stored
        return turn


class _Response:
    """What the agent does up to its end, or up to what the SDK must do, as events of OpenAI."""

    def __init__(self, turn: Turn, agent: AcpAgent, *, asks: bool) -> None:
        count = turn.context["count"] = turn.context.get("count", 0) + 1
        self.id = f"{_MARK}{turn.session_id}_{uuid.uuid4().hex[:8]}{count}"
        self._turn, self._agent, self._asks = turn, agent, asks
        self._output: list[Any] = []
        self._text = ""
        self._message: str | None = None
        self._thought = ""
        self._number = 0

    async def events(self) -> AsyncIterator[Any]:
        """Yield the events of the response."""
        turn = self._turn
        is_waiting = False
        while not is_waiting and (items := await turn.read()):
            for item in items:
                match item:
                    case accord.Text(text=text, message_id=message):
                        gap = "\n\n" if self._text and message != self._message else ""
                        self._message = message
                        self._text += gap + text
                        yield self._delta(gap + text)
                    case accord.Thought(text=text):
                        self._thought += text
                        yield oa.ResponseReasoningSummaryTextDeltaEvent(
                            delta=text,
                            item_id=f"{self.id}_thought",
                            output_index=0,
                            summary_index=0,
                            sequence_number=self._next(),
                            type="response.reasoning_summary_text.delta",
                        )
                    case Asked():
                        if not await item.decide():
                            is_waiting = self._ask(item) or is_waiting
                    case Called():
                        self._call(item.name, json.dumps(item.arguments), item.id)
                        is_waiting = True
                    case _:
                        pass
        if turn.notes and not is_waiting:
            note = f"{chr(10) * 2 if self._text else ''}{turn.notes}"
            self._text += note
            yield self._delta(note)
        yield self._completed(is_waiting=is_waiting)

    def _ask(self, asked: Asked) -> bool:
        """Put a permission into the response; return whether it waits for an approval."""
        call = asked.request.tool_call
        what: dict[str, Any] = {"title": asked.title, "agent": self._agent.name}
        if call is None:
            what |= {"kind": "execute", "tool": "execute", "args": asked.request.command}
        else:
            what |= {"kind": call.kind, "tool": call_name(call), "args": call_arguments(call)}
            what["details"] = call_output(call)
        text = json.dumps(what, ensure_ascii=False, default=str)
        stored: list[tuple[str, bool]] = self._turn.context.get("stored", [])
        for one in stored:
            if one[0] == text:
                stored.remove(one)
                asked.answer("allow" if one[1] else "reject")
                return False
        if not self._asks:
            asked.answer("reject")
            return False
        call_id = f"acp_{uuid.uuid4().hex[:12]}"
        self._turn.context.setdefault("asked", {})[call_id] = asked
        self._call(PERMISSION, text, call_id)
        return True

    def _call(self, name: str, arguments: str, call_id: str) -> None:
        self._output.append(
            oa.ResponseFunctionToolCall(
                type="function_call",
                id=f"{self.id}_{len(self._output)}",
                call_id=call_id,
                name=name,
                arguments=arguments,
            )
        )

    def _delta(self, text: str) -> Any:
        return oa.ResponseTextDeltaEvent(
            type="response.output_text.delta",
            delta=text,
            item_id=self.id,
            content_index=0,
            output_index=0,
            sequence_number=self._next(),
            logprobs=[],
        )

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _completed(self, *, is_waiting: bool) -> Any:
        output: list[Any] = []
        if self._text or not is_waiting:
            text = oa.ResponseOutputText(text=self._text, type="output_text", annotations=[])
            message = oa.ResponseOutputMessage(
                id=self.id, type="message", role="assistant", status="completed", content=[text]
            )
            output.append(message)
        response = oa.Response(
            id=self.id,
            created_at=0,
            model=self._agent.name,
            object="response",
            output=[*output, *self._output],
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
            usage=None if is_waiting else _usage(self._turn),
        )
        return oa.ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=self._next()
        )


def _permission_tool() -> agents.FunctionTool:
    async def permit(_context: Any, _arguments: str) -> str:
        return _ALLOWED

    return agents.FunctionTool(
        name=PERMISSION,
        description="Something that the agent does only with an approval.",
        params_json_schema={"type": "object", "properties": {}, "additionalProperties": True},
        on_invoke_tool=permit,
        strict_json_schema=False,
        needs_approval=True,
    )


def _usage(turn: Turn) -> oa.ResponseUsage | None:
    used = turn.usage
    if used is None:
        return None
    return oa.ResponseUsage(
        input_tokens=used.input,
        input_tokens_details=InputTokensDetails(
            cached_tokens=used.cached_read or 0, cache_write_tokens=used.cached_write or 0
        ),
        output_tokens=used.output,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=used.thought or 0),
        total_tokens=used.total,
    )


# What the SDK sends: items of a conversation.


def _of(item: Any, name: str) -> Any:
    if isinstance(item, dict):
        return cast("dict[str, Any]", item).get(name)
    return getattr(item, name, None)


def _place(items: Sequence[Any]) -> tuple[str | None, str, list[Any]]:
    """Return the session of the last response, the response's id, and the items after it."""
    new: list[Any] = []
    for item in reversed(items):
        is_said = _of(item, "role") == "assistant" or _of(item, "type") == "function_call"
        if is_said:
            own = str(_of(item, "id") or "")
            if not own.startswith(_MARK):
                return None, "", new
            session, _, rest = own.removeprefix(_MARK).rpartition("_")
            if _of(item, "type") == "function_call":  # its number follows the response's id
                own = own.rpartition("_")[0]
                session = session.rpartition("_")[0]
            return session, own if rest else "", new
        new.insert(0, item)
    return None, "", new


def _outputs(items: Sequence[Any]) -> dict[str, str]:
    """Return the results of calls, by the ids of the calls."""
    found: dict[str, str] = {}
    for item in items:
        if _of(item, "type") == "function_call_output":
            output = _of(item, "output")
            text = output if isinstance(output, str) else json.dumps(output, default=str)
            found[str(_of(item, "call_id"))] = text
    return found


def _stored(items: Sequence[Any]) -> list[tuple[str, bool]]:
    """Return the permissions that were decided since the user has spoken."""
    since = _since_user(items)
    outputs = _outputs(since)
    return [
        (str(_of(item, "arguments")), outputs[str(_of(item, "call_id"))] == _ALLOWED)
        for item in since
        if _of(item, "name") == PERMISSION and str(_of(item, "call_id")) in outputs
    ]


def _since_user(items: Sequence[Any]) -> list[Any]:
    for index in range(len(items) - 1, -1, -1):
        if _of(items[index], "role") == "user":
            return list(items[index:])
    return list(items)


def _said(items: Sequence[Any]) -> list[tuple[str, str]]:
    """Return who said what, and what tools returned that no turn waits for."""
    found: list[tuple[str, str]] = []
    names: dict[str, str] = {}
    for item in items:
        role, kind = _of(item, "role"), _of(item, "type")
        if role in ("user", "assistant", "system", "developer"):
            content = _of(item, "content")
            if not isinstance(content, str):
                listed = cast("list[Any]", content or [])
                parts = [_of(part, "text") or f"[{_of(part, 'type')}]" for part in listed]
                content = "\n".join(map(str, parts))
            found.append((str(role), content))
        elif kind == "function_call":
            names[str(_of(item, "call_id"))] = str(_of(item, "name"))
        elif kind == "function_call_output":
            name = names.get(str(_of(item, "call_id")), "tool")
            if name != PERMISSION:
                found.append((f"result of {name}", next(iter(_outputs([item]).values()))))
    return found
