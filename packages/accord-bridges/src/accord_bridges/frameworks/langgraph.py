"""LangGraph: compiled graphs, which agents of LangChain and deepagents are as well.

`LangGraphAgent` serves a graph; a turn is one run of it, continued as often as it is interrupted.
`_Turn` shows the events; a subgraph that a tool or a function calls is a subagent.
`langgraph_threads` has the state between turns, `langgraph_interrupts` the questions.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from importlib.util import find_spec
from typing import Any
from uuid import uuid4

from accord import NotOffered, Session
from accord.types.session import StopReason
from accord_bridges.bridge import BridgedAgent, Options
from accord_bridges.editor import editor_tools
from accord_bridges.failures import is_bad_request
from accord_bridges.frameworks.langgraph_content import (
    block_of_mcp,
    input_without_messages,
    output_of,
    parts_of,
    prompt_of,
    thoughts_of,
)
from accord_bridges.frameworks.langgraph_interrupts import Stopped, answer, text_of, value_of
from accord_bridges.frameworks.langgraph_threads import (
    Thread,
    dangling,
    is_open,
    without_result,
)
from accord_bridges.run import Question, Run

try:
    from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
    from langgraph.graph import StateGraph
    from langgraph.pregel import Pregel
    from langgraph.types import Command
except ImportError as error:
    raise ImportError(
        f"{error}; this bridge needs langgraph 1.2: pip install 'langgraph>=1.2'"
    ) from error

try:
    from langgraph.errors import is_invalid_resume
except ImportError:  # before 1.2.20 interrupts had no schemas

    def is_invalid_resume(error: BaseException) -> bool:  # noqa: ARG001  # it never is
        return False


_MODES = ["messages", "updates", "custom", "tools", "tasks"]
_DENIED = "The user does not allow this."
_REASONS: dict[str, StopReason] = {
    "length": "max_tokens", "max_tokens": "max_tokens", "MAX_TOKENS": "max_tokens",
    "content_filter": "refusal", "refusal": "refusal", "SAFETY": "refusal",
}  # fmt: skip
_END: Any = object()  # the turn is at its end


class LangGraphAgent(BridgedAgent):
    """A compiled graph, a `StateGraph`, or a function of `tools`, `model` or both that makes one.

    Settings: `config`, which each run of the graph gets; `context`, or a function that makes it
    from the `Run`; `input`, a function that makes the input from the `Run`; `model_key`, the name
    in `configurable` for the model that the user has chosen; `custom`, a coroutine function that
    shows what nodes write to the custom stream, from the `Run` and the data.
    """

    prompt_capabilities = frozenset({"image", "audio", "resource"})
    reports = frozenset({"tokens"})
    knows_settings = frozenset({"config", "context", "input", "model_key", "custom"})
    takes_factory = True

    def __init__(self, target: Any, options: Options | None = None) -> None:
        self.parameters: frozenset[str] = frozenset()
        graph = target
        if inspect.isfunction(target):
            names = set(inspect.signature(target).parameters)
            self.parameters = frozenset(names & {"tools", "model"})
            graph = None
        settings = (options or Options()).settings
        schema = _context_fields(graph)
        self.takes_models = bool(
            "model" in self.parameters or "model" in schema or settings.get("model_key")
        )
        self.context_fields = schema
        self.takes_editor_tools = "tools" in self.parameters
        self.mcp_transports = (
            frozenset({"stdio", "http", "sse", "acp"})
            if "tools" in self.parameters and find_spec("mcp")
            else frozenset[str]()
        )
        super().__init__(target, options)

    def default_name(self) -> str:
        if self.parameters:
            return str(self.target.__name__)
        name = getattr(self.target, "name", None)
        return name if name and name != "LangGraph" else "agent"

    async def begin_session(self, session: Session) -> None:
        mine = _Mine(self)
        mine.thread = await Thread.open(session.id, await mine.graph(None), session.remembered)
        session.data["langgraph"] = mine

    async def answer(self, run: Run) -> StopReason | None:
        mine: _Mine = run.session.data["langgraph"]
        await mine.prepare(run)
        return await _Turn(run, mine).work()


def _context_fields(graph: Any) -> frozenset[str]:
    """Return the names in the context of a graph."""
    schema: Any = getattr(graph, "context_schema", None)
    fields = getattr(schema, "model_fields", None) or getattr(schema, "__annotations__", None)
    return frozenset(fields or ())


class _Mine:
    """What a session has: its graph, its thread, and the tools that the graph was made with."""

    thread: Thread

    def __init__(self, bridge: LangGraphAgent) -> None:
        self.bridge = bridge
        self.turn: _Turn | None = None
        self.editor: dict[str, Callable[..., Any]] = {}
        self._tools: dict[str, BaseTool] = {}
        self._made_for: tuple[Any, ...] | None = None

    async def graph(self, run: Run | None) -> Any:
        """Return the graph, made for the model that the user has chosen."""
        bridge = self.bridge
        made = bridge.target
        if bridge.parameters:
            models = bridge.options.models
            model = run.model if run is not None else models[0] if models else None
            values = {"tools": list(self._tools.values()), "model": model}
            needed = inspect.signature(made).parameters
            given = {
                name: values[name]
                for name in bridge.parameters
                if name == "tools"
                or model is not None
                or needed[name].default is inspect.Parameter.empty
            }
            self._made_for = (model, *self._tools)
            made = made(**given)
        if isinstance(made, StateGraph):
            made = made.compile()
        if not isinstance(made, Pregel):
            raise TypeError(f"Expected a graph of LangGraph, got {type(made).__name__}")
        return made

    async def prepare(self, run: Run) -> None:
        """Make the graph again if its tools or its model have changed."""
        if "tools" in self.bridge.parameters:
            await self._open_tools(run)
        if self.bridge.parameters and self._made_for != (run.model, *self._tools):
            await self.thread.use(await self.graph(run))

    async def _open_tools(self, run: Run) -> None:
        if self.bridge.options.editor_tools:
            for function in editor_tools(run):
                name = function.__name__
                self.editor[name] = function
                if name not in self._tools:
                    tool = StructuredTool.from_function(coroutine=function, parse_docstring=True)
                    tool.coroutine = self._editor_tool(name)
                    self._tools[name] = tool
        if not run.session.mcp_servers or not self.bridge.mcp_transports:
            return
        servers = await run.session.connect_mcp()
        for name, why in servers.failed.items():
            await run.turn.show_notice(
                f"The MCP server {name} is not used", severity="warning", description=why
            )
        for server in servers.values():
            for tool in server.tools:
                name = f"{server.name}_{tool.name}"
                if name not in self._tools:
                    self._tools[name] = StructuredTool(
                        name=name, description=tool.description or name,
                        args_schema=tool.input_schema, handle_tool_error=True,
                        coroutine=self._mcp_tool(server.name, tool.name),
                    )  # fmt: skip

    # Functions, not partials: LangChain reads their annotations.

    def _editor_tool(self, name: str) -> Callable[..., Any]:
        async def call(**arguments: Any) -> str:
            return await self.editor[name](**arguments)

        return call

    def _mcp_tool(self, server: str, tool: str) -> Callable[..., Any]:
        async def call(**arguments: Any) -> Any:
            return await self._call_mcp(server, tool, arguments)

        return call

    async def _call_mcp(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool of an MCP server if the user allows it."""
        turn = self.turn
        if turn is None:
            raise ToolException("The turn is at its end")
        name = f"{server}_{tool}"
        run, call_id = turn.find(name, arguments, turn.running)
        if call_id not in turn.settled:  # the graph has not asked itself
            approval = await run.approve(call_id, name, arguments, editable=True)
            if not approval.allowed:
                raise ToolException(_DENIED)
            arguments = approval.input
            turn.settled.add(call_id)
        connection = (await run.session.connect_mcp())[server]
        result = await connection.call(tool, arguments)
        content = [part.model_dump(mode="json", by_alias=True) for part in result.content]
        if result.is_error:
            raise ToolException("\n".join(each.get("text", "") for each in content) or "It failed")
        return [block_of_mcp(each) for each in content]


class _Work:
    """Where the events of one graph are shown: the turn, or a subagent."""

    def __init__(self, run: Run, graph: Any) -> None:
        self.run = run
        self.graph = graph
        self.calls: dict[str, tuple[str, Any]] = {}
        self.at: dict[Any, str] = {}  # calls whose arguments arrive, by their index


class _Turn:
    """A turn: the runs of the graph until no interrupt is left."""

    def __init__(self, run: Run, mine: _Mine) -> None:
        self.run = run
        self.mine = mine
        self.thread = mine.thread
        self.settled: set[str] = set()
        """Calls that the user has decided on."""
        self.running: set[str] = set()
        """Calls of tools of MCP servers."""
        self.works: dict[tuple[str, ...], _Work] = {(): _Work(run, self.thread.graph)}
        self._subagents: dict[tuple[str, ...], AsyncExitStack] = {}
        self._tasks: dict[str, Mapping[str, Any]] = {}  # the calls that tasks are for, by task
        self._asked_in: dict[str, tuple[str, ...]] = {}  # where interrupts are, by their ids
        self._errors: dict[str, str] = {}  # what tools have raised, by their calls
        self._said: list[str] = []  # since the last message that is in the state
        self._spoke = False  # since the last call
        self._structured: Any = None
        self._reason: StopReason | None = None

    async def work(self) -> StopReason | None:
        before, notes = await self.thread.state(), dict(self.thread.notes)
        cause: BaseException | None = None
        self.mine.turn = self
        try:
            await self._run(await self._first(before))
        except Stopped as error:
            cause = error
            await self._stop(error)
        except Exception as error:
            cause = error
            for call_id, text in self._errors.items():
                for work in self.works.values():
                    await work.run.end_call(call_id, text, outcome="failed")
            if is_bad_request(error):  # else, each later request would be refused as well
                await self.thread.go_back(before)
                self.thread.notes = notes
                self._said.clear()
            raise
        except BaseException as error:
            cause = error
            raise
        finally:
            await asyncio.shield(asyncio.ensure_future(self._end(cause)))
        return self._reason

    async def _stop(self, why: Stopped) -> None:
        await self.run.turn.show_notice("The agent stops here", description=str(why))

    async def _end(self, cause: BaseException | None) -> None:
        """Leave the subagents, and store the state, also that of a cancelled turn."""
        self.mine.turn = None
        for stack in reversed(list(self._subagents.values())):
            await stack.__aexit__(cause and type(cause), cause, None)
        if cause is not None:
            self.thread.notes.pop("asked", None)
            self.thread.notes["said"] = "".join(self._said)
            await self.thread.stop()
        await self.run.remember(await self.thread.stored())

    # What the graph gets.

    async def _first(self, state: Any) -> Any:
        """Return the prompt, or what it answers, after what the user has to answer before."""
        asked = self.thread.notes.pop("asked", None)
        for each in state.interrupts:
            if each.id == asked:
                return Command(resume={each.id: value_of(self.run.text, _schema(each))})
        if state.interrupts:  # the program was killed while it asked
            try:
                await self._run(await self._next(state))
            except Stopped as error:
                await self._stop(error)
            if "asked" in self.thread.notes:
                return _END
        return await self._prompt()

    async def _prompt(self) -> Any:
        """Return the input of the graph, after what closes the turn before."""
        run, settings = self.run, self.mine.bridge.options.settings
        await self.thread.stop()
        said = self.thread.notes.pop("said", "")
        if (make := settings.get("input")) is not None:
            made = make(run)
            return await made if inspect.isawaitable(made) else made
        if "messages" not in self.thread.graph.channels:
            return input_without_messages(self.thread.graph, run)
        closing: list[Any] = []
        closing += without_result(dangling(_messages_of(await self.thread.state())))
        if said:
            closing.append(AIMessage(f"{said}\n\n(was interrupted)"))
        content = prompt_of(run)
        if (mode := self.mine.bridge.mode_text(run)) != self.thread.notes.get("mode"):
            self.thread.notes["mode"] = mode
            if mode is not None and isinstance(content, str):
                content = f"{mode}\n\n{content}"
            elif mode is not None:
                content = [{"type": "text", "text": mode}, *content]
        return {"messages": [*closing, HumanMessage(content)]}

    def _config(self) -> dict[str, Any]:
        settings, model = self.mine.bridge.options.settings, self.run.model
        config: dict[str, Any] = {**settings.get("config", {})}
        more = {**config.get("configurable", {}), **self.thread.config["configurable"]}
        if model is not None and (key := settings.get("model_key")):
            more[key] = model
        return {**config, "configurable": more}

    def _context(self) -> Any:
        bridge = self.mine.bridge
        context = bridge.options.settings.get("context")
        if inspect.isroutine(context):
            context = context(self.run)
        if self.run.model is not None and "model" in bridge.context_fields:
            if context is None:
                return {"model": self.run.model}
            if isinstance(context, dict):
                return {**context, "model": self.run.model}
        return context

    # The runs.

    async def _run(self, entry: Any) -> None:
        """Run the graph until it needs no more answers."""
        state: Any = None
        while entry is not _END:
            events = self.thread.graph.astream(
                entry, self._config(), context=self._context(), stream_mode=_MODES, subgraphs=True
            )
            try:
                await self._show(events)
            except Exception as error:
                if not is_invalid_resume(error):
                    raise
                await self.run.turn.show_notice(
                    "The answer does not fit", severity="warning", description=str(error)
                )
            state = await self.thread.state()
            entry = await self._next(state)
        if state is not None:
            await self._last(state)

    async def _next(self, state: Any) -> Any:
        """Ask what the graph has stopped for, and return what continues it."""
        if not state.interrupts:
            return await self._breakpoint(state) if state.next else _END
        answers: dict[str, Any] = {}
        open_question: Any = None
        root = self.works[()]
        if not root.calls:  # they were shown in an earlier turn
            calls = dangling(_messages_of(state))
            root.calls.update((call["id"], (call["name"], call["args"])) for call in calls)
        for each in state.interrupts:
            work = self.works.get(self._asked_in.get(each.id, ()), root)

            def find(name: str, arguments: Any, run: Run = work.run) -> str:
                return self.find(name, arguments, self.settled, run)[1]

            try:
                answers[each.id] = await answer(work.run, each.value, _schema(each), find)
            except NotOffered:
                open_question = open_question or each
        if answers:
            return Command(resume=answers)
        self.run.message(open_question.id)
        await self.run.say(text_of(open_question.value, _schema(open_question)))
        self.thread.notes["asked"] = open_question.id
        return _END

    async def _breakpoint(self, state: Any) -> Any:
        """Ask whether to go on where the graph has a breakpoint."""
        calls = dangling(_messages_of(state))
        if not calls:
            question = Question(f"Continue with {', '.join(state.next)}?", ("Continue", "Stop"))
            if await self.run.ask(question) != "Continue":
                raise Stopped(f"Not continued with {', '.join(state.next)}")
            return None
        answers = [await self.run.approve(c["id"], c["name"], c["args"]) for c in calls]
        if all(each.allowed for each in answers):
            return None
        # The graph runs all of them or none.
        results = without_result(calls, _DENIED)
        node = state.next[0]
        await self.thread.graph.aupdate_state(
            self.thread.config, {"messages": results}, as_node=node
        )
        return None

    async def _last(self, state: Any) -> None:
        """Show what the graph returns if nothing of it was said."""
        if is_open(state) or self._spoke:
            return
        if self._structured is not None:
            await self.run.show(self._structured)
        elif "messages" not in self.thread.graph.channels and state.values:
            values, names = state.values, self.thread.graph.output_channels
            if isinstance(values, Mapping) and not isinstance(names, str):
                values = {name: values[name] for name in names if name in values}
                values = next(iter(values.values())) if len(values) == 1 else values
            await self.run.show(values)

    def find(
        self, name: str, arguments: Any, taken: set[str], run: Run | None = None
    ) -> tuple[Run, str]:
        """Return where a call is shown, and its id, which is `taken` from now on."""
        known = [
            (call[1] != arguments, work.run, call_id)
            for work in self.works.values()
            for call_id, call in work.calls.items()
            if call[0] == name and call_id not in taken and run in (None, work.run)
        ]
        _, run, call_id = min(
            known, default=(False, run or self.run, uuid4().hex), key=lambda each: each[0]
        )
        taken.add(call_id)
        return run, call_id

    # The events.

    async def _show(self, events: AsyncIterator[Any]) -> None:
        root = self.works[()]
        run = root.run
        say, message = run.say, run.message
        said = self._said.append
        async with aclosing(events):
            async for space, mode, data in events:
                if mode == "messages":
                    part = data[0]
                    if not space and type(part) is AIMessageChunk:
                        text = part.content
                        if type(text) is str and text and not part.tool_call_chunks:
                            if "lc_source" not in data[1]:
                                message(part.id)
                                await say(text)
                                said(text)
                                self._spoke = True
                            if part.usage_metadata or part.response_metadata:
                                await self._finish(root, part)
                            continue
                    await self._message(await self._work(space, data[1]), part, data[1])
                elif mode == "tasks":
                    await self._task(space, data)
                elif mode == "updates":
                    await self._update(space, data)
                elif mode == "tools":
                    await self._tool(await self._work(space, {}), data)
                elif mode == "custom":
                    await self._custom(await self._work(space, {}), data)

    async def _work(self, space: tuple[str, ...], about: Mapping[str, Any]) -> _Work:
        """Return where the events of a namespace are shown."""
        work = self.works.get(space)
        if work is not None:
            return work
        # A task numbers the graphs that it calls after the first one.
        depth = len(space) - (2 if space[-1].isdecimal() else 1)
        above = await self._work(space[:depth], {})
        name, _, task_id = space[depth].partition(":")
        nodes: Any = getattr(getattr(above.graph, "builder", None), "nodes", {})
        graph = getattr(nodes.get(name), "runnable", None)
        if isinstance(graph, Pregel):  # a part of the graph: it speaks for it
            work = _Work(above.run, graph)
        else:
            call = self._tasks.get(task_id, {})
            arguments: Mapping[str, Any] = call.get("args") or {}
            title = str(
                arguments.get("subagent_type")
                or about.get("lc_agent_name")
                or call.get("name")
                or name
            )
            description = arguments.get("description")
            stack = AsyncExitStack()
            inner = above.run.subagent(title, description if isinstance(description, str) else None)
            work = _Work(await stack.enter_async_context(inner), None)
            self._subagents[space] = stack
        self.works[space] = work
        return work

    async def _task(self, space: tuple[str, ...], task: dict[str, Any]) -> None:
        task_id = task["id"]
        if "input" in task:
            given = task["input"]
            call = given.get("tool_call") if isinstance(given, Mapping) else None
            self._tasks[task_id] = call or {}
            return
        for each in task.get("interrupts") or ():
            found = each["id"] if isinstance(each, Mapping) else each.id
            if len(space) >= len(self._asked_in.get(found, ())):
                self._asked_in[found] = space
        if task.get("interrupts"):
            return
        for inner, stack in list(self._subagents.items()):
            if len(inner) > len(space) and inner[len(space)].partition(":")[2] == task_id:
                del self._subagents[inner]
                self.works.pop(inner, None)
                await stack.aclose()

    async def _message(self, work: _Work, message: Any, about: Mapping[str, Any]) -> None:
        if "lc_source" in about:  # a request that LangChain's middleware makes for itself
            if isinstance(message, AIMessage):
                await self._use(work, message)
            return
        if isinstance(message, ToolMessage):
            failed = message.status == "error"
            await work.run.end_call(
                message.tool_call_id, output_of(message.content),
                outcome="failed" if failed else "completed",
            )  # fmt: skip
            work.calls.pop(message.tool_call_id, None)
            return
        if not isinstance(message, AIMessage):
            return
        run = work.run
        run.message(message.id)
        for thought in thoughts_of(message):
            await run.think(thought)
        for part in parts_of(message.content):
            if run is self.run:
                self._spoke = True
                if isinstance(part, str):
                    self._said.append(part)
            await (run.say(part) if isinstance(part, str) else run.show(part))
        if isinstance(message, AIMessageChunk):
            for piece in message.tool_call_chunks:
                await self._add(work, message.id, piece)
        else:
            for call in message.tool_calls:
                await self._begin(work, call)
        await self._finish(work, message)

    async def _add(self, work: _Work, message_id: Any, piece: Mapping[str, Any]) -> None:
        """Show a piece of a call."""
        key = (message_id, piece.get("index"))
        call_id, name = piece.get("id"), piece.get("name")
        if call_id and name and call_id not in work.calls:
            work.at[key] = call_id
            work.calls[call_id] = (name, None)
            self._spoke = self._spoke and work.run is not self.run
            await work.run.begin_call(call_id, name)
        known = work.at.get(key)
        if known is not None and piece.get("args"):
            await work.run.add_arguments(known, piece["args"])

    async def _begin(self, work: _Work, call: Mapping[str, Any]) -> None:
        call_id = call.get("id")
        if not call_id or call_id in self.settled:
            return
        work.calls[call_id] = (call["name"], call["args"])
        if work.run is self.run:
            self._spoke = False
        await work.run.begin_call(call_id, call["name"], call["args"])

    async def _finish(self, work: _Work, message: Any) -> None:
        """Report the use of a request, and why it has ended."""
        await self._use(work, message)
        about = message.response_metadata
        if work.run is self.run and about:
            why = about.get("finish_reason") or about.get("stop_reason")
            if isinstance(why, str):
                self._reason = _REASONS.get(why)

    async def _use(self, work: _Work, message: Any) -> None:
        usage = message.usage_metadata
        if usage:
            read = usage.get("input_token_details") or {}
            written = usage.get("output_token_details") or {}
            await work.run.used(
                input=usage.get("input_tokens", 0), output=usage.get("output_tokens", 0),
                thought=written.get("reasoning"), cached_read=read.get("cache_read"),
                cached_write=read.get("cache_creation"),
            )  # fmt: skip

    async def _update(self, space: tuple[str, ...], nodes: Mapping[str, Any]) -> None:
        """Complete the arguments of calls, and note a structured answer."""
        work = self.works.get(space)
        for update in nodes.values() if isinstance(nodes, Mapping) else ():
            if not isinstance(update, Mapping):
                continue
            if not space and update.get("structured_response") is not None:
                self._structured = update["structured_response"]
            for message in _messages(update.get("messages")):
                if not isinstance(message, AIMessage):
                    continue
                if not space:
                    self._said.clear()
                for call in message.tool_calls:
                    if work is not None and call["id"] in work.calls:
                        await self._begin(work, call)

    async def _tool(self, work: _Work, event: Mapping[str, Any]) -> None:
        call_id = event["tool_call_id"]
        match event["event"]:
            case "tool-started":
                await work.run.start_call(call_id)
            case "tool-output-delta":
                await work.run.progress(call_id, event["delta"])
            case "tool-error":
                self._errors[call_id] = str(event["message"])
            case _:
                pass

    async def _custom(self, work: _Work, data: Any) -> None:
        """Show what a node or a tool has written."""
        run = work.run
        if (show := self.mine.bridge.options.settings.get("custom")) is not None:
            await show(run, data)
            return
        call_id = data.get("tool_call_id") if isinstance(data, Mapping) else None
        if call_id is None:
            running = [each for each in work.calls if run.is_open(each)]
            call_id = running[0] if len(running) == 1 else None
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
        if call_id is not None and run.is_open(call_id):
            await run.progress(call_id, f"{text}\n")
        else:
            await run.think(f"{text}\n")


def _schema(interrupt: Any) -> Any:
    return getattr(interrupt, "response_schema", None)


def _messages_of(state: Any) -> Any:
    return state.values.get("messages") if isinstance(state.values, Mapping) else None


def _messages(value: Any) -> Iterator[Any]:
    value = getattr(value, "value", value)  # `Overwrite`
    if isinstance(value, list | tuple):
        yield from value
    elif value is not None:
        yield value
