"""ACP agents in inspect-ai: `acp_agent` is an agent of inspect that runs any ACP agent.

The agent's process runs in the sandbox of the sample. Each step of its turn becomes a model call of
inspect whose output is what the agent said, and each of its tool calls one of `execute_tools`. So
the transcript, usage, limits and approval policies are inspect's own; nothing here writes its log.
docs/how-to/evaluate-with-inspect.md has the table of what becomes what.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import anyio
from inspect_ai import model as im
from inspect_ai.agent import Agent, AgentState, agent, sandbox_agent_bridge
from inspect_ai.log import transcript
from inspect_ai.tool import ToolCall, ToolCallContent, ToolCallView, ToolDef, ToolError, ToolParams
from inspect_ai.util import JSONSchema, SandboxEnvironment
from inspect_ai.util import sandbox as sandbox_of

import accord
from accord.errors import AccordError
from accord.transports.command_line import argv_of
from accord_bridges.command_transport import CommandResult, CommandTransport
from accord_bridges.inspect_messages import contents_of, message_of, output_of
from accord_bridges.steps import Call, Step, Steps

# Opens the turn with a policy for permissions.
_Opened: TypeAlias = Callable[[Any], contextlib.AbstractAsyncContextManager[asyncio.TaskGroup]]
_COMMAND_S = 120  # the longest time of one command in a sandbox


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
    evaluation, and inspect meters them: `{bridge}` in a value of `env` or a word of `command`
    becomes the address of inspect's proxy, such as `http://localhost:40123`.

    Raises `RuntimeError` with the cause if the agent cannot be started or fails.
    """

    async def execute(state: AgentState) -> AgentState:
        run = _Run(sandbox_of(sandbox), state, argv_of(command), env or {}, user)
        opened = partial(run.turn, cwd or "", mode, options or {})
        if not bridge:
            await _owned(run.record(opened))
            return state
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        url = f"http://localhost:{port}"
        run.argv = [word.replace("{bridge}", url) for word in run.argv]
        run.env = {name: word.replace("{bridge}", url) for name, word in run.env.items()}
        async with sandbox_agent_bridge(state, sandbox=sandbox, port=port) as bridged:
            await _owned(run.follow(opened))
        return bridged.state

    return execute


async def _owned(work: Coroutine[Any, Any, None]) -> None:
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
    task.result()


class _Run:
    """One turn of an ACP agent in a sandbox."""

    def __init__(
        self, box: SandboxEnvironment, state: AgentState, argv: list[str],
        env: Mapping[str, str], user: str | None,
    ) -> None:  # fmt: skip
        self.box, self.state, self.argv, self.env, self.user = box, state, argv, env, user
        self.name = Path(argv[0]).name
        self.steps = Steps(self._note)
        self.prompt = list(state.messages)
        self.said: list[tuple[im.ChatMessageAssistant, Step]] = []
        self.results: dict[Call, list[im.ChatMessage]] = {}

    async def record(self, opened: _Opened) -> None:
        """Run the turn; inspect records what the agent reports."""
        api = _AgentApi(self.name)
        model = im.Model(api, im.GenerateConfig())
        tools: dict[Call, asyncio.Task[None]] = {}
        async with opened(self.steps.decide) as group:
            async for step in self.steps:
                if ended := [task for call, task in tools.items() if call.ended.is_set()]:
                    await asyncio.wait(ended)
                if step.closed.is_set() and step.is_empty and self.said:
                    continue
                api.step = step
                try:
                    self.state.output = await model.generate(self._history())
                except asyncio.CancelledError:
                    self._say(message_of(step, self.name), step)
                    raise
                self._say(self.state.output.message, step)
                for call in step.calls:
                    tools[call] = group.create_task(self._call(call))

    async def follow(self, opened: _Opened) -> None:
        """Run the turn; inspect records, and approves, what its model says."""
        async with opened(lambda _: "allow"):
            async for _ in self.steps:
                pass

    @contextlib.asynccontextmanager
    async def turn(
        self, cwd: str, mode: str | None, options: Mapping[str, str | bool], policy: Any
    ) -> AsyncGenerator[asyncio.TaskGroup, None]:
        """Start the agent and send it the sample; in the block, `steps` are those of the turn."""
        cwd = str(PurePosixPath((await self.box.exec(["pwd"])).stdout.strip(), cwd))
        agent: accord.AgentCommand = self.argv
        given: dict[str, Any] = {"cwd": cwd, "env": self.env}
        if type(self.box.as_type(SandboxEnvironment)).__name__ != "LocalSandboxEnvironment":
            agent, given = CommandTransport(self._exec, self.argv, **given), {}
        # The sample does not record the commands of the transport.
        with getattr(self.box, "no_events", contextlib.nullcontext)():
            try:
                async with accord.connect(agent, permissions=policy, **given) as connected:
                    session = await connected.new_session(cwd=cwd)
                    if mode is not None:
                        await session.set_mode(mode)
                    for name, value in options.items():
                        await session.set_option(name, value)
                    prompt = contents_of(self.prompt)
                    async with session.prompt(*prompt) as turn, asyncio.TaskGroup() as group:
                        group.create_task(self.steps.listen(turn))
                        yield group
            except (BaseExceptionGroup, AccordError) as failed:
                error: BaseException = failed
                while isinstance(error, BaseExceptionGroup):
                    error = error.exceptions[0]
                if not isinstance(error, AccordError):
                    raise error from None
                notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
                raise RuntimeError(f"The agent {self.name} failed: {error}{notes}") from error

    async def _exec(self, script: str, env: Mapping[str, str]) -> CommandResult:
        done = await self.box.exec(
            ["sh", "-c", script], env=dict(env), user=self.user,
            timeout=_COMMAND_S, timeout_retry=False, concurrency=False,
        )  # fmt: skip
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def _note(self, event: object) -> None:
        """Record an event that is not part of a message."""
        if isinstance(event, accord.Plan):
            plan = [f"[{one.status}] {one.content}" for one in event.entries]
            transcript().info({"plan": plan}, source=self.name)
        elif isinstance(event, accord.ModeChanged):
            transcript().info({"mode": event.mode}, source=self.name)

    def _say(self, message: im.ChatMessageAssistant, step: Step) -> None:
        self.said.append((message, step))
        self.state.messages = self._history()

    def _history(self) -> list[im.ChatMessage]:
        messages = list(self.prompt)
        for message, step in self.said:
            messages.append(message)
            for call in step.calls:
                messages += self.results.get(call, ())
        return messages

    async def _call(self, call: Call) -> None:
        """Let inspect run a call: its policy decides, and it records the result."""
        arguments = call.arguments
        has_run = False

        async def tool(**kwargs: Any) -> str:
            nonlocal has_run
            if kwargs != arguments:
                raise ToolError("A call of an ACP agent can be allowed or rejected, not modified.")
            has_run = True
            call.decide("allow")
            await call.ended.wait()
            if call.failure is not None:
                raise ToolError(call.failure)
            return call.output

        params = ToolParams(properties={name: JSONSchema() for name in arguments})
        definition = ToolDef(tool, call.name, call.state.title or call.name, params,
                             viewer=partial(_view, call), max_output=0)  # fmt: skip
        message = message_of(call.step, self.name, call)
        done = await im.execute_tools([*self._history(), message], [definition])
        self.results[call] = done.messages
        self.state.messages = self._history()
        if not has_run:
            call.decide("reject")
            await call.ended.wait()
            if not call.is_asked and call.failure is None:
                raise RuntimeError(
                    f"The approval policy rejected {call.name} ({call.state.title}), but "
                    f"{self.name} ran it without asking for permission: choose a mode of the agent "
                    "in which it asks"
                )


@im.modelapi(name="acp")
class _AgentApi(im.ModelAPI):
    """The steps of an agent as outputs of a model."""

    step: Step

    async def generate(self, input: Any, **_: Any) -> im.ModelOutput:  # noqa: A002
        """Wait for the end of the step, and return it."""
        await self.step.closed.wait()
        return output_of(self.step, self.model_name)

    def served_model_usage(self, output: im.ModelOutput) -> list[im.ServedModelUsage] | None:
        """Return what the agent says the step has cost, as the price of a million tokens."""
        cost, million = self.step.cost, im.ModelUsage(input_tokens=1_000_000)
        price = im.ModelCost(input=cost, output=0, input_cache_write=0, input_cache_read=0)
        return [im.ServedModelUsage(self.model_name, million, price)] if cost else None


def _view(call: Call, _: ToolCall) -> ToolCallView:
    """Show an approver what the agent wants to do, with its diffs."""
    shown = ToolCallContent(title=call.state.title, format="text", content=call.output)
    return ToolCallView(call=shown if call.output else None)
