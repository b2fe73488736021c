"""Agents of smolagents: what they say, their code, their plans and the agents that they manage.

smolagents is not asynchronous. A turn runs in threads (`accord_bridges.threads`) with a copy of the
agent: its model, its tools and its Python are wrapped, because they, and not the steps that
smolagents yields, know when something begins, fails, or is to be allowed. The memory of the agent
is stored with the session.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import copy
import io
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from importlib.util import find_spec
from typing import Any

import PIL.Image
from rich.console import Console
from smolagents import (
    ActionStep,
    AgentLogger,
    AgentMemory,
    CodeAgent,
    LogLevel,
    MultiStepAgent,
    PlanningStep,
    TaskStep,
    Tool,
    ToolCallingAgent,
    utils,
)
from smolagents._function_type_hints_utils import get_json_schema
from smolagents.agents import FinalAnswerStep, ToolCall
from smolagents.default_tools import FinalAnswerTool
from smolagents.local_python_executor import LocalPythonExecutor
from smolagents.memory import CallbackRegistry
from smolagents.models import ApiModel, ChatMessage, MessageRole
from smolagents.monitoring import Monitor, Timing

from accord import EmbeddedResource, ImageContent, Session
from accord.types.session import StopReason
from accord_bridges.bridge import BridgedAgent
from accord_bridges.editor import editor_tools
from accord_bridges.failures import is_bad_request
from accord_bridges.frameworks.smolagents_replies import Model
from accord_bridges.run import Run
from accord_bridges.threads import Threads

_PYTHON = "python_interpreter"
_DENIED = "The user does not allow this call."
_CANCELLED = "(The user has cancelled this step.)"


class SmolagentsAgent(BridgedAgent):
    """An agent of smolagents.

    Settings: `ask_for`, the names of tools that the user is asked about, `python_interpreter` for
    the code of a `CodeAgent`; `stream`, False for models whose streams are not to be used.
    """

    target: MultiStepAgent
    prompt_capabilities = frozenset({"image", "resource"})
    mcp_transports = (
        frozenset({"stdio", "http", "sse", "acp"}) if find_spec("mcp") else frozenset[str]()
    )
    reports = frozenset({"tokens"})
    knows_settings = frozenset({"ask_for", "stream"})

    def _check_options(self) -> None:
        super()._check_options()
        model = self.target.model
        if self.options.models and not isinstance(model, ApiModel):
            kind = type(model).__name__
            raise TypeError(f"models=…: expected an agent with an ApiModel, got a {kind}")

    async def begin_session(self, session: Session) -> None:
        session.data["smolagents"] = _Memory(self.target, session.remembered)

    async def end_session(self, session: Session) -> None:
        _cleanup(session.data["smolagents"].agent)

    async def answer(self, run: Run) -> StopReason | None:
        memory: _Memory = run.session.data["smolagents"]
        turn = _Turn(self, run, memory)
        agent = await turn.agent()
        before = len(agent.memory.steps)
        work = Work(turn, agent, run)
        images = _images(run)
        try:
            await turn.threads.run(partial(work.run, run.text, reset=False, images=images))
        except asyncio.CancelledError:
            turn.interrupt()
            memory.cut(before, work.calls)
            raise
        except Exception as error:  # noqa: BLE001  # raised again, or its cause
            cause = error.__cause__ if isinstance(error, utils.AgentGenerationError) else None
            if is_bad_request(error):
                del agent.memory.steps[before:]
            raise cause or error from None
        finally:
            await asyncio.shield(asyncio.ensure_future(turn.end()))
        last = agent.memory.steps[-1]
        if isinstance(getattr(last, "error", None), utils.AgentMaxStepsError):
            return "max_turn_requests"
        return None


def _images(run: Run) -> list[Any] | None:
    found: list[Any] = []
    for block in run.content:
        data = None
        if isinstance(block, ImageContent):
            data = block.data
        elif isinstance(block, EmbeddedResource) and isinstance(block.content, bytes):
            data = block.content if (block.mime_type or "").startswith("image/") else None
        if data is not None:
            found.append(_image(data))
    return found or None


def _image(data: bytes) -> Any:
    image = PIL.Image.open(io.BytesIO(data))
    image.load()
    return image


# The agent of a session.


def _copy(target: MultiStepAgent) -> Any:
    """Return a copy of an agent that shares no state with it, and writes nothing to stdout."""
    agent: Any = copy.copy(target)
    level = max(min(int(target.logger.level), LogLevel.DEBUG), LogLevel.OFF)
    level = LogLevel.ERROR if level == LogLevel.INFO else level
    agent.logger = AgentLogger(level=level, console=Console(stderr=True, highlight=False))
    agent.memory = AgentMemory("")
    agent.state, agent.tools = dict(target.state), dict(target.tools)
    agent.monitor = Monitor(target.model, agent.logger)
    agent.step_callbacks = CallbackRegistry()
    for kind, callbacks in target.step_callbacks._callbacks.items():  # noqa: SLF001
        for each in callbacks:
            own = each == target.monitor.update_metrics
            agent.step_callbacks.register(kind, agent.monitor.update_metrics if own else each)
    agent.stream_outputs = False  # `Model` streams, and more than this does
    if isinstance(target, CodeAgent):
        agent.python_executor = _Python(target)
    return agent


def _cleanup(agent: Any) -> None:
    clean = getattr(agent, "cleanup", None)
    if clean is not None:
        clean()


class _Memory:
    """The agent of a session with its memory, which can be stored."""

    def __init__(self, target: MultiStepAgent, kept: Any) -> None:
        self._target = target
        self.agent = _copy(target)
        self.agent.memory.steps = _steps_of(kept or {})

    def renew(self) -> None:
        """Leave the agent to a thread that has not ended, and go on with a copy."""
        kept = self.dump()
        self.agent = _copy(self._target)
        self.agent.memory.steps = _steps_of(kept)

    def cut(self, before: int, calls: list[ToolCall]) -> None:
        """Make a step that was cancelled one that the model can go on after."""
        steps = self.agent.memory.steps
        last = steps[-1] if len(steps) > before else None
        if isinstance(last, ActionStep) and last.observations is None and last.error is None:
            last.tool_calls = last.tool_calls or calls or None
            last.observations = _CANCELLED

    def dump(self) -> dict[str, Any]:
        """Return the memory as JSON: what the next requests need of it."""
        images: list[Any] = []
        steps = [_step(each, images) for each in self.agent.memory.steps]
        return {"steps": steps, "images": [_png(each) for each in images]}


def _png(image: Any) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "png")
    return base64.b64encode(buffer.getvalue()).decode()


def _step(step: Any, images: list[Any]) -> dict[str, Any]:
    def places(found: list[Any] | None) -> list[int] | None:
        for each in found or ():
            if not any(each is image for image in images):
                images.append(each)
        return [next(n for n, i in enumerate(images) if i is each) for each in found or ()] or None

    match step:
        case TaskStep():
            return {"task": step.task, "images": places(step.task_images)}
        case PlanningStep():
            return {"plan": step.plan}
        case _:
            error = step.error and [type(step.error).__name__, str(step.error)]
            return {
                "number": step.step_number, "output": step.model_output, "error": error,
                "code": step.code_action, "observations": step.observations,
                "images": places(step.observations_images), "final": step.is_final_answer,
                "calls": [
                    [call.name, json.loads(json.dumps(call.arguments, default=str)), call.id]
                    for call in step.tool_calls or ()
                ],
            }  # fmt: skip


def _steps_of(kept: Mapping[str, Any]) -> list[Any]:
    images = [_image(base64.b64decode(each)) for each in kept.get("images", ())]
    quiet = AgentLogger(level=LogLevel.OFF)
    steps: list[Any] = []
    for each in kept.get("steps", ()):
        found = [images[place] for place in each.get("images") or ()] or None
        timing = Timing(0.0, 0.0)
        if "task" in each:
            steps.append(TaskStep(each["task"], found))
        elif "plan" in each:
            said = ChatMessage(MessageRole.ASSISTANT, each["plan"])
            steps.append(PlanningStep([], said, each["plan"], timing))
        else:
            error = None
            if each["error"]:
                kind, text = each["error"]
                error = getattr(utils, kind, utils.AgentError)(text, quiet)
            calls = [ToolCall(*call) for call in each["calls"]] or None
            steps.append(
                ActionStep(
                    each["number"], timing, tool_calls=calls, error=error,
                    model_output=each["output"], code_action=each["code"],
                    observations=each["observations"], observations_images=found,
                    is_final_answer=each["final"],
                )
            )  # fmt: skip
    return steps


# A turn, and the work of each agent in it.


class _Turn:
    """What the agents of a turn share."""

    def __init__(self, bridge: SmolagentsAgent, run: Run, memory: _Memory) -> None:
        settings = bridge.options.settings
        self.bridge = bridge
        self.run = run
        self.memory = memory
        self.threads = Threads()
        self.ask_for: set[str] = set(settings.get("ask_for", ()))
        self.streams = bool(settings.get("stream", True))
        self.works: list[Work] = []
        self.members: list[AsyncExitStack] = []
        self._ids = itertools.count(1)

    def new_id(self, kind: str) -> str:
        return f"{kind}-{next(self._ids)}"

    async def agent(self) -> Any:
        """Return the agent of the session as this turn wants it; its memory is the session's."""
        run, bridge = self.run, self.bridge
        agent = copy.copy(self.memory.agent)
        agent.tools = {**agent.tools, **{tool.name: tool for tool in await self._tools()}}
        if run.model is not None and run.model != agent.model.model_id:
            agent.model = copy.copy(agent.model)
            agent.model.model_id = run.model
        if (mode := bridge.mode_text(run)) is not None:
            agent.instructions = "\n\n".join(filter(None, (agent.instructions, mode)))
        return agent

    async def _tools(self) -> list[Tool]:
        run = self.run
        tools: list[Tool] = []
        if self.bridge.options.editor_tools:
            for function in editor_tools(run):
                found = get_json_schema(function)["function"]
                tools.append(
                    _AskedTool(
                        function.__name__, found["description"], found["parameters"],
                        partial(self._call_editor, function),
                    )
                )  # fmt: skip
        if run.session.mcp_servers and self.bridge.mcp_transports:
            servers = await run.session.connect_mcp()
            for name, error in servers.failed.items():
                await run.turn.show_notice(
                    f"The MCP server {name} is not used", severity="warning", description=str(error)
                )
            for server in servers.values():
                for each in server.tools:
                    name = re.sub(r"\W", "_", f"{server.name}_{each.name}")
                    self.ask_for.add(name)
                    call = partial(self.threads.ask, _call_mcp, server, each.name)
                    about = each.description or ""
                    tools.append(_AskedTool(name, about, each.input_schema, call))
        return tools

    def _call_editor(self, function: Callable[..., Any], arguments: dict[str, Any]) -> str:
        return str(self.threads.ask(partial(function, **arguments)))

    def interrupt(self) -> None:
        for work in self.works:
            work.agent.interrupt()
            if isinstance(python := getattr(work.agent, "python_executor", None), _Python):
                python.stop()

    async def end(self) -> None:
        """Leave the managed agents, and store the memory."""
        for stack in reversed(self.members):
            await stack.aclose()
        if not self.threads.has_ended:
            self.memory.renew()
        await self.run.remember(self.memory.dump())


class _AskedTool(Tool):
    """A tool that the event loop runs."""

    skip_forward_signature_validation = True

    def __init__(
        self, name: str, description: str, schema: Mapping[str, Any], call: Callable[..., Any]
    ) -> None:
        self.name, self.description, self.output_type = name, description, "any"
        required = schema.get("required", ())
        self.inputs: dict[str, Any] = {}
        for key, about in (schema.get("properties") or {}).items():
            self.inputs[key] = {"type": "any", "description": "", **about}
            if key not in required:
                self.inputs[key]["nullable"] = True
        self.call = call
        self.is_initialized = True

    def forward(self, **arguments: Any) -> Any:
        return self.call(arguments)


async def _call_mcp(server: Any, tool: str, arguments: dict[str, Any]) -> Any:
    result = await server.call(tool, arguments)
    parts = [part.model_dump(mode="json", by_alias=True) for part in result.content]
    texts = [part.get("text") or f"({part.get('type')})" for part in parts]
    text = "\n".join(texts) or "(nothing)"
    if result.is_error:
        raise RuntimeError(text)
    if len(parts) == 1 and parts[0].get("type") == "image":
        return _image(base64.b64decode(parts[0]["data"]))
    return text


class Work:
    """One run of an agent, in threads: its events, its calls and its requests to the model."""

    def __init__(self, turn: _Turn, agent: Any, run: Run) -> None:
        self.turn = turn
        self.threads = turn.threads
        self.post = turn.threads.post
        self.agent = agent
        self.shown = run
        self.calls: list[ToolCall] = []
        """The calls of the step that is in progress."""
        self.streamed: list[str] = []
        """The ids of calls that were shown while the model wrote them."""
        self.said = ""
        """What was said of the final answer."""
        self.told = ""
        """What the model has said in this step beside its calls."""
        self._pending: list[tuple[ToolCall, str]] = []
        self._has_failed = False
        self._run = agent.run
        agent.run = self.run
        agent.model = Model(agent.model, self)
        agent.managed_agents = {n: _Member(m, self) for n, m in agent.managed_agents.items()}
        if isinstance(agent, ToolCallingAgent):
            self._execute = agent.execute_tool_call
            agent.execute_tool_call = self.execute
        python = getattr(agent, "python_executor", None)
        if isinstance(python, _Python):
            python.work = self
        turn.works.append(self)

    @property
    def streams_answer(self) -> bool:
        """Whether the argument of `final_answer` is the answer."""
        return type(self.agent.tools.get("final_answer")) is FinalAnswerTool

    def run(self, task: str, stream: bool = False, **more: Any) -> Any:
        """Run the agent, and show what it does; return its final answer."""
        answer = None
        for event in self._run(task, stream=True, **more):
            match event:
                case ToolCall():
                    self._begin(event)
                case PlanningStep():
                    if entries := _entries(event.plan):
                        self.post(self.shown.plan, entries)
                case ActionStep(error=error):
                    if error is not None and not self._has_failed:
                        self.post(self.shown.think, f"{error}\n")
                    self._has_failed = False
                    self.calls, self._pending, self.streamed = [], [], []
                case FinalAnswerStep(output=answer):
                    self._answer(answer)
                case _:
                    pass
        return answer

    def _answer(self, answer: Any) -> None:
        said, self.said = self.said, ""
        if isinstance(answer, str) and said and answer.startswith(said):
            if rest := str(answer)[len(said) :]:
                self.post(self.shown.say, rest)
            return
        if isinstance(answer, str) and answer == self.told:
            return
        self.post(self.shown.message, self.turn.new_id("answer"))
        if isinstance(answer, str):
            self.post(self.shown.say, str(answer))
        else:
            self.post(self.shown.show, _output(answer))

    # Calls.

    def _begin(self, call: ToolCall) -> None:
        self.calls.append(call)
        if isinstance(self.agent, CodeAgent):
            self._code_id = None
            if not _only_answers(call.arguments):
                self._code_id = self.turn.new_id("code")
                self.post(self.shown.begin_call, self._code_id, _PYTHON, {"code": call.arguments})
        elif self.is_shown(call.name):
            call_id = self.streamed.pop(0) if self.streamed else self.turn.new_id("call")
            self.post(self.shown.begin_call, call_id, call.name, call.arguments)
            self._pending.append((call, call_id))

    def is_shown(self, name: str) -> bool:
        """Return whether calls of a tool are shown as such."""
        return name != "final_answer" and name not in self.agent.managed_agents

    def execute(self, name: str, arguments: Any) -> Any:
        """Run a call of a `ToolCallingAgent`."""
        execute = self._execute
        if not self.is_shown(name):
            return execute(name, arguments)
        place = next(
            (n for n, (c, _) in enumerate(self._pending) if c.arguments is arguments),
            next((n for n, (c, _) in enumerate(self._pending) if c.name == name), None),
        )
        call_id = self.turn.new_id("call") if place is None else self._pending.pop(place)[1]
        try:
            run = partial(self.threads.work, execute, name)
            return self._call(call_id, name, arguments, run)
        except PermissionError as error:
            if str(error) != _DENIED:
                raise
            return _DENIED

    def _call(self, call_id: str, name: str, arguments: Any, run: Callable[[Any], Any]) -> Any:
        """Ask the user if they are to be asked, run a call, and show how it ends.

        Raises `PermissionError` if the user does not allow it.
        """
        shown = self.shown
        if name in self.turn.ask_for:
            ask = partial(shown.approve, call_id, name, arguments, editable=True)
            approval = self.threads.ask(ask)
            if not approval.allowed:
                raise PermissionError(_DENIED)
            if approval.changed:
                arguments = approval.input
        else:
            self.post(shown.start_call, call_id)
        try:
            output = run(arguments)
        except Exception as error:
            self._has_failed = True
            reason = error
            if isinstance(error, utils.AgentError) and error.__cause__ is not None:
                reason = error.__cause__
            kind = "" if isinstance(reason, utils.AgentError) else f"{type(reason).__name__}: "
            self.post(partial(shown.end_call, call_id, f"{kind}{reason}", outcome="failed"))
            raise
        self.post(shown.end_call, call_id, _output(output))
        return output

    _code_id: str | None = None

    def run_code(self, code: str, python: _Python) -> Any:
        """Run the code of a `CodeAgent`."""
        if self._code_id is None:
            return self._in_python(python, code)

        def run(changed: Mapping[str, str]) -> Any:
            return self._in_python(python, changed["code"])

        return self._call(self._code_id, _PYTHON, {"code": code}, run)

    def _in_python(self, python: _Python, code: str) -> Any:
        limit = python.limit_s
        own = python.own
        try:
            return self.threads.work(own, code, timeout_s=limit)
        except TimeoutError as error:
            if limit is None or str(error):
                raise
            python.stop()
            raise TimeoutError(f"The code has not ended after {limit:g} s") from None

    def in_code(self, name: str, tool: Any) -> Any:
        """Return a tool as the code of a `CodeAgent` calls it."""
        if not self.is_shown(name) or not isinstance(tool, Tool):
            return tool

        def call(*args: Any, **more: Any) -> Any:
            arguments = {**dict(zip(tool.inputs, args, strict=False)), **more}

            def run(changed: Mapping[str, Any]) -> Any:
                if changed is arguments:
                    return self.threads.work(partial(tool, *args, **more))
                return self.threads.work(partial(tool, **changed))

            call_id = self.turn.new_id("call")
            self.post(self.shown.begin_call, call_id, name, arguments)
            return self._call(call_id, name, arguments, run)

        return call

    # Managed agents.

    def delegate(self, target: MultiStepAgent, task: Any, more: Mapping[str, Any]) -> Any:
        """Run a managed agent, and show it as a subagent."""
        stack = AsyncExitStack()
        name = str(target.name)
        run = self.threads.ask(self._open, stack, name, str(task))
        agent = _copy(target)
        try:
            Work(self.turn, agent, run)
            return type(target).__call__(agent, task, **more)
        finally:
            _cleanup(agent)
            self.threads.ask(stack.aclose)

    async def _open(self, stack: AsyncExitStack, name: str, task: str) -> Run:
        self.turn.members.append(stack)
        return await stack.enter_async_context(self.shown.subagent(name, task))


class _Member:
    """A managed agent, which is a copy in each call."""

    def __init__(self, target: Any, work: Work) -> None:
        self._target, self._work = target, work

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def __call__(self, task: Any, **more: Any) -> Any:
        return self._work.delegate(self._target, task, more)


class _Python:
    """The Python of a `CodeAgent`: that of a session, which the work of a turn uses."""

    work: Work

    def __init__(self, target: CodeAgent) -> None:
        own: Any = target.python_executor
        self.limit_s: float | None = None
        self.is_local = isinstance(own, LocalPythonExecutor)
        if self.is_local:
            own = copy.copy(own)
            own.state, own.custom_tools = dict(own.state), dict(own.custom_tools)
            self.limit_s = getattr(own, "timeout_seconds", None)
            own.timeout_seconds = None  # its thread would keep the process alive
        elif target.executor_type != "local":
            own = target.create_python_executor()
        else:
            own = copy.deepcopy(own)
        self.own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def __call__(self, code: str) -> Any:
        return self.work.run_code(code, self)

    def send_tools(self, tools: dict[str, Any]) -> None:
        if self.is_local:
            tools = {name: self.work.in_code(name, tool) for name, tool in tools.items()}
        self.own.send_tools(tools)

    def stop(self) -> None:
        """Make code that runs fail at its next operation, and leave the variables to it."""
        if self.is_local:
            count = self.own.state.get("_operations_count")
            self.own.state = dict(self.own.state)
            if isinstance(count, dict):
                count["counter"] = sys.maxsize


# How results and plans are shown.


def _output(value: Any) -> Any:
    """Return what a tool has returned as something that can be shown."""
    if hasattr(value, "is_final_answer") and hasattr(value, "logs"):  # of code
        logs, output = value.logs.rstrip(), value.output
        parts = [logs] if logs else []
        if output is not None and not value.is_final_answer:
            parts.append(str(output))
        return "\n".join(parts) or None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, PIL.Image.Image):
        raw: Any = getattr(value, "to_raw", lambda: value)()
        return ImageContent(base64.b64decode(_png(raw)), "image/png")
    return value


def _only_answers(code: Any) -> bool:
    """Return whether code does nothing but give an answer that is written in it."""
    try:
        body = ast.parse(str(code)).body
    except (SyntaxError, ValueError):
        return False
    match body:
        case [ast.Expr(ast.Call(ast.Name("final_answer")) as call)]:
            return sum(isinstance(each, ast.Call) for each in ast.walk(call)) == 1
        case _:
            return False


_ITEM = re.compile(r"\s*(?:\d+[.)]|[-*])\s+(?:\[.\]\s+)?(.+?)\s*$")
_HEADING = re.compile(r"\s*#+\s.*\bplan\b", re.IGNORECASE)


def _entries(plan: str) -> list[str]:
    """Return the steps of a plan: the items of the list after its last heading with "plan"."""
    lines = plan.splitlines()
    start = max((n for n, line in enumerate(lines) if _HEADING.match(line)), default=0)
    return list(_items(lines[start + 1 :] if start else lines))


def _items(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if (found := _ITEM.match(line)) is not None:
            yield found.group(1).replace("**", "")
