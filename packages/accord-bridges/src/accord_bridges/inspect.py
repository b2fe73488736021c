"""ACP agents in inspect-ai: `acp_agent` is an agent of inspect that runs any ACP agent.

The agent's process runs in the sandbox of the sample. Each step of its turn becomes a model call of
inspect whose output is what the agent said, and each of its tool calls a call of `execute_tools`.
So the transcript, usage, limits and approval policies are those of inspect itself; nothing here
writes its log. docs/how-to/evaluate-with-inspect.md says what is mapped to what.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncIterator, Coroutine, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import anyio
from inspect_ai import model as im
from inspect_ai.agent import Agent, AgentState, agent, sandbox_agent_bridge
from inspect_ai.log import transcript
from inspect_ai.tool import ToolCall as InspectCall
from inspect_ai.tool import ToolCallContent, ToolCallView, ToolDef, ToolError, ToolParams
from inspect_ai.util import JSONSchema, SandboxEnvironment
from inspect_ai.util import sandbox as sandbox_of

import accord
from accord import ClientTurn, ContentBlock, ImageContent, PermissionRequest, ToolCall
from accord.errors import AccordError
from accord.transports.command_line import argv_of
from accord_bridges.command_transport import CommandResult, CommandTransport
from accord_bridges.steps import Step, Steps, arguments_of, function_of, output_of

_COMMAND_S = 120  # the longest time of one command in a sandbox
_STOP_REASONS: dict[str, im.StopReason] = {
    "tool_calls": "tool_calls",
    "end_turn": "stop",
    "max_tokens": "max_tokens",
    "max_turn_requests": "max_tokens",
    "refusal": "content_filter",
}


@agent
def acp_agent(
    command: str | list[str],
    *,
    cwd: str | None = None,
    env: dict[str, str] | None = None,
    mode: str | None = None,
    options: dict[str, str | bool] | None = None,
    bridge: bool = False,
    user: str | None = None,
    sandbox: str | None = None,
) -> Agent:
    """Return an agent of inspect that runs an ACP agent in the sandbox of the sample.

    `command` starts the agent there, in the directory `cwd`, with the variables `env`. `mode` and
    `options` are set in its session. With `bridge`, the agent's model calls go to the model of the
    evaluation: `{bridge}` in a value of `env` or a word of `command` becomes the address of
    inspect's proxy, such as `http://localhost:40123`, and inspect meters the calls itself.

    Raises `RuntimeError` with the cause if the agent cannot be started or fails.
    """

    async def execute(state: AgentState) -> AgentState:
        box = sandbox_of(sandbox)
        settings = _Settings(argv_of(command), cwd, env or {}, mode, options or {}, user)
        if not bridge:
            return await _owned(_Run(box, settings, state).run())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        async with sandbox_agent_bridge(state, sandbox=sandbox, port=port) as bridged:
            settings = settings.at(f"http://localhost:{port}")
            await _owned(_Run(box, settings, state, is_bridged=True).run())
        return bridged.state

    return execute


class _Settings:
    """How the agent is started, and what is set in its session."""

    def __init__(
        self,
        argv: list[str],
        cwd: str | None,
        env: Mapping[str, str],
        mode: str | None,
        options: Mapping[str, str | bool],
        user: str | None,
    ) -> None:
        self.argv, self.cwd, self.env = argv, cwd, env
        self.mode, self.options, self.user = mode, options, user

    def at(self, url: str) -> _Settings:
        """Return these settings with the address of the model."""
        argv = [word.replace("{bridge}", url) for word in self.argv]
        env = {name: value.replace("{bridge}", url) for name, value in self.env.items()}
        return _Settings(argv, self.cwd, env, self.mode, self.options, self.user)


async def _owned(work: Coroutine[Any, Any, AgentState]) -> AgentState:
    """Run work in a task of its own, so that a limit leaves it time to cancel and end the agent.

    inspect cancels by scopes of anyio, in which each further `await` is cancelled again.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task])
    finally:
        with anyio.CancelScope(shield=True):
            task.cancel()
            await asyncio.wait([task])
    return task.result()


class _Record:
    """A step, and the message that inspect has of it."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.closed = asyncio.Event()  # the step has ended
        self.recorded = asyncio.Event()  # `message` is the output of a model call
        self.message: im.ChatMessageAssistant | None = None
        self.usage: accord.TokenUsage | None = None
        self.cost = 0.0  # in dollars
        self.stop_reason: str = "tool_calls"


class _Run:
    """One turn of an ACP agent."""

    def __init__(
        self, box: SandboxEnvironment, settings: _Settings, state: AgentState, *,
        is_bridged: bool = False,
    ) -> None:  # fmt: skip
        self.box, self.settings, self.state = box, settings, state
        self.is_bridged = is_bridged  # then inspect itself records and approves what is called
        self.name = Path(settings.argv[0]).name
        self.api = _AgentApi(self.name)
        self.model = im.Model(self.api, im.GenerateConfig())
        self.prompt = list(state.messages)
        self.steps = Steps()
        self.records: list[_Record] = []
        self.opened: asyncio.Queue[_Record | None] = asyncio.Queue()
        self.asked: dict[str, asyncio.Future[Literal["allow", "reject"]]] = {}
        self.ends: dict[str, asyncio.Future[ToolCall]] = {}
        self.tools: dict[str, asyncio.Task[None]] = {}
        self.results: dict[str, list[im.ChatMessage]] = {}
        self.cost = 0.0  # of the session so far

    async def run(self) -> AgentState:
        try:
            async with self._session() as session, session.prompt(*_contents(self.prompt)) as turn:
                async with asyncio.TaskGroup() as self.group:
                    self.group.create_task(self._listen(turn))
                    while (record := await self.opened.get()) is not None:
                        await self._record(record)
        except (BaseExceptionGroup, AccordError) as failed:
            error: BaseException = failed
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            if isinstance(error, AccordError):
                notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
                raise RuntimeError(f"The agent {self.name} failed: {error}{notes}") from error
            raise error from None
        return self.state

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[accord.ClientSession]:
        settings = self.settings
        cwd = (await self.box.exec(["pwd"])).stdout.strip()
        if settings.cwd is not None:
            cwd = str(PurePosixPath(cwd, settings.cwd))
        agent: accord.AgentCommand = settings.argv
        given: dict[str, Any] = {"cwd": cwd, "env": settings.env}
        if type(self.box.as_type(SandboxEnvironment)).__name__ != "LocalSandboxEnvironment":
            agent, given = CommandTransport(self._exec, settings.argv, **given), {}
        async with accord.connect(agent, permissions=self._decide, **given) as connected:
            session = await connected.new_session(cwd=cwd)
            if settings.mode is not None:
                await session.set_mode(settings.mode)
            for name, value in settings.options.items():
                await session.set_option(name, value)
            yield session

    async def _exec(self, script: str, env: Mapping[str, str]) -> CommandResult:
        """Run a command of the transport; it is no event of the sample."""
        quiet = getattr(self.box, "no_events", contextlib.nullcontext)
        with quiet():
            done = await self.box.exec(
                ["sh", "-c", script], env=dict(env), user=self.settings.user,
                timeout=_COMMAND_S, timeout_retry=False, concurrency=False,
            )  # fmt: skip
        return CommandResult(done.returncode, done.stdout, done.stderr)

    # What the agent does.

    async def _listen(self, turn: ClientTurn) -> None:
        async for event in turn:
            self._add(event)
        calls = {call.id: call for call in turn.tool_calls}
        self._follow(last=self.steps.end())
        for call_id, end in self.ends.items():
            if not end.done():  # the agent has not reported how it ended
                end.set_result(calls.get(call_id, ToolCall(id=call_id)))
        if not self.is_bridged:
            record = self.records[-1]
            record.usage, record.stop_reason = turn.token_usage, str(turn.stop_reason)
            record.closed.set()
        self.opened.put_nowait(None)

    def _add(self, event: object) -> None:
        match event:
            case accord.UsageChanged(usage=accord.ContextUsage(cost=accord.Cost(new, "USD"))):
                self.cost = max(self.cost, new)
            case accord.Plan(entries=entries):
                plan = [f"[{one.status}] {one.content}" for one in entries]
                transcript().info({"plan": plan}, source=self.name)
            case accord.ModeChanged(mode=mode):
                transcript().info({"mode": mode}, source=self.name)
            case _:
                pass
        self.steps.add(event)
        self._follow()
        if isinstance(event, ToolCall) and event.is_final and not self.is_bridged:
            end = self.ends[event.id]
            if not end.done():
                end.set_result(event)

    def _follow(self, *, last: Step | None = None) -> None:
        """Begin what is new: steps, and the tools of those that have ended."""
        if self.is_bridged:
            return
        for step in self.steps.steps[len(self.records) :]:
            self.records.append(_Record(step))
            self.opened.put_nowait(self.records[-1])
        for record in self.records:
            if not record.step.is_closed or record.closed.is_set():
                continue
            for call_id in record.step.calls:
                self.ends[call_id] = asyncio.get_running_loop().create_future()
                self.tools[call_id] = self.group.create_task(self._call(record, call_id))
            if record.step is not last:
                record.closed.set()

    async def _decide(self, request: PermissionRequest) -> Literal["allow", "reject"]:
        """Decide a permission request: by the approval policy of the call."""
        if self.is_bridged:
            return "allow"  # the policy has decided when the model called the tool
        for _ in range(3):
            await asyncio.sleep(0)  # the events before the request are added first
        call = request.tool_call or ToolCall(
            id=f"permission-{len(self.asked)}",
            title=request.title,
            kind="execute",
            raw_input={"command": request.command or request.title},
        )
        answer = self.asked[call.id] = asyncio.get_running_loop().create_future()
        is_late = call.id in self.tools
        self._add(call)
        self.steps.close(call.id)
        self._follow()
        if is_late:
            record = next(one for one in self.records if call.id in one.step.calls)
            self.group.create_task(self._approve(record, call, answer, is_late=True))
        return await answer

    # What inspect records.

    async def _record(self, record: _Record) -> None:
        """Record a step as a model call, which lasts as long as the step."""
        reviewed = [self.tools[call_id] for one in self.records if one.recorded.is_set()
                    for call_id in one.step.calls if self.ends[call_id].done()]  # fmt: skip
        if reviewed:
            await asyncio.wait(reviewed)
        is_first = record is self.records[0]
        if (
            record.closed.is_set()
            and record.usage is None
            and not is_first
            and record.step.is_empty
        ):
            return
        self.api.record, self.api.run = record, self
        self.state.output = await self.model.generate(self._history())
        record.message = self.state.output.message
        record.recorded.set()
        self.state.messages = self._history()

    def _history(self) -> list[im.ChatMessage]:
        messages = list(self.prompt)
        for record in self.records:
            if record.message is not None:
                messages.append(record.message)
                for call_id in record.step.calls:
                    messages += self.results.get(call_id, ())
        return messages

    async def _call(self, record: _Record, call_id: str) -> None:
        await record.recorded.wait()
        call = record.step.calls[call_id]
        self.results[call_id] = await self._approve(record, call, self.asked.get(call_id))
        self.state.messages = self._history()

    async def _approve(
        self, record: _Record, call: ToolCall, answer: asyncio.Future[Any] | None, *,
        is_late: bool = False,
    ) -> list[im.ChatMessage]:  # fmt: skip
        """Let inspect run a call: its policy decides, and it records the result."""
        has_run = False
        arguments = arguments_of(call)

        async def tool(**kwargs: Any) -> str:
            nonlocal has_run
            if kwargs != arguments:
                raise ToolError("A call of an ACP agent can be allowed or rejected, not modified.")
            has_run = True
            if answer is not None and not answer.done():
                answer.set_result("allow")
            ended = call if is_late else await self.ends[call.id]
            if ended.status in {"failed", "cancelled"}:
                raise ToolError(output_of(ended) or f"The call ended as {ended.status}.")
            return output_of(ended)

        name = function_of(call)
        given = {one: JSONSchema() for one in arguments}
        definition = ToolDef(tool, name, call.title or name, ToolParams(properties=given),
                             viewer=partial(_view, call), max_output=0)  # fmt: skip
        requested = InspectCall(id=call.id, function=name, arguments=arguments)
        message = im.ChatMessageAssistant(content=record.step.text, tool_calls=[requested])
        done = await im.execute_tools([*self._history(), message], [definition])
        if not has_run and answer is not None:
            if not answer.done():
                answer.set_result("reject")
        elif not has_run:
            raise RuntimeError(
                f"The approval policy rejected {name} ({call.title}), but {self.name} has not asked "
                "for permission before it ran it: choose a mode of the agent in which it asks"
            )
        return done.messages


@im.modelapi(name="acp")
class _AgentApi(im.ModelAPI):
    """The steps of an agent as outputs of a model."""

    record: _Record
    run: _Run

    async def generate(
        self,
        input: Any,
        tools: Any,
        tool_choice: Any,
        config: Any,  # noqa: A002
    ) -> im.ModelOutput:
        record, step = self.record, self.record.step
        await record.closed.wait()
        record.cost = self.run.cost - sum(one.cost for one in self.run.records)
        content: list[im.Content] = []
        if step.thought:
            content.append(im.ContentReasoning(reasoning=step.thought))
        if step.text:
            content.append(im.ContentText(text=step.text))
        calls = [
            InspectCall(id=call.id, function=function_of(call), arguments=arguments_of(call))
            for call in step.calls.values()
        ]
        message = im.ChatMessageAssistant(
            content=content, tool_calls=calls or None, model=self.model_name, source="generate"
        )
        reason = _STOP_REASONS.get(record.stop_reason, "unknown")
        choice = im.ChatCompletionChoice(message=message, stop_reason=reason)
        usage = None if record.cost == 0 else im.ModelUsage()
        if (used := record.usage) is not None:
            usage = im.ModelUsage(
                input_tokens=used.input, output_tokens=used.output, total_tokens=used.total,
                input_tokens_cache_read=used.cached_read,
                input_tokens_cache_write=used.cached_write, reasoning_tokens=used.thought,
            )  # fmt: skip
        return im.ModelOutput(
            model=self.model_name, choices=[choice], usage=usage, metadata={"cost": record.cost}
        )

    def served_model_usage(self, output: im.ModelOutput) -> list[im.ServedModelUsage] | None:
        """Return what the agent says it has cost, as a price of a million tokens."""
        cost = (output.metadata or {}).get("cost")
        if not cost:
            return None
        price = im.ModelCost(input=cost, output=0, input_cache_write=0, input_cache_read=0)
        usage = im.ModelUsage(input_tokens=1_000_000)
        return [im.ServedModelUsage(self.model_name, usage, price)]


def _view(call: ToolCall, _: InspectCall) -> ToolCallView:
    """Show an approver what the agent wants to do, with its diffs."""
    shown = ToolCallContent(title=call.title, format="text", content=output_of(call))
    return ToolCallView(call=shown if shown.content else None)


def _contents(messages: list[im.ChatMessage]) -> list[ContentBlock]:
    """Return the messages of a sample as the prompt of one turn."""
    blocks: list[ContentBlock] = []
    for message in messages:
        contents = message.content
        for part in [im.ContentText(text=contents)] if isinstance(contents, str) else contents:
            match part:
                case im.ContentText(text=text):
                    said = message.role in {"system", "user"}
                    blocks.append(text if said else f"[{message.role}]\n{text}")
                case im.ContentImage(image=image) if image.startswith("data:"):
                    kind, _, data = image.removeprefix("data:").partition(";base64,")
                    blocks.append(ImageContent(base64.b64decode(data), kind))
                case im.ContentReasoning():
                    pass
                case _:
                    raise ValueError(f"An ACP agent cannot be given {part.type} of a sample")
    return blocks
