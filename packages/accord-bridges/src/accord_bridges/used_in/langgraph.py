"""ACP agents in LangGraph and LangChain: `acp_node`, `acp_runnable` and `acp_tool`.

The session of an agent belongs to a thread and a node. A permission that no rule decides becomes an
`interrupt`: the turn waits in this process, and `Command(resume=…)` continues it. Each part of a
turn between two interrupts is a task of LangGraph, so a durable checkpointer knows the session and
what was decided. After a restart of the process, the session is loaded, the prompt is sent again,
and the stored decisions answer the same requests.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import inspect
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any, Unpack, cast

from langchain_core.callbacks import AsyncCallbackManager
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, HumanMessage
from langchain_core.messages.utils import convert_to_messages
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.config import get_config, get_stream_writer
from langgraph.func import task  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import interrupt

import accord
from accord.client.connect import AgentCommand
from accord.types.content import ContentBlock
from accord_bridges.steps import call_arguments, call_name, call_output
from accord_bridges.used_in.agents import AcpAgent, AgentOptions, agent_of
from accord_bridges.used_in.turns import AcpAgentError, Asked, Called, Turn, answer_of

_Step = dict[str, Any]
_SESSION = "acp_session"
_AGAIN = (
    "The program was restarted while you waited for a permission. This is the same request again;"
    " go on where you stopped:\n\n"
)


def acp_node(
    agent: AgentCommand | AcpAgent, **options: Unpack[AgentOptions]
) -> Runnable[Any, dict[str, list[AnyMessage]]]:
    """Return a node for a graph whose state has `messages`: the agent answers what is new in them.

    The answer is one `AIMessage`. Permissions that the policies leave open are interrupts if the
    graph has a thread, else they are rejected. Custom events are dicts with the key `acp`.
    Raises `AcpAgentError` if the agent fails.
    """
    acp = agent_of(agent, options)

    def messages_of(state: Any) -> list[BaseMessage]:
        found = state["messages"] if hasattr(state, "keys") else getattr(state, "messages", state)
        return convert_to_messages(found)

    async def node(state: Any, config: RunnableConfig) -> dict[str, list[AnyMessage]]:
        return {"messages": [await _Run(acp, config, messages_of(state)).result()]}

    def sync_node(state: Any, config: RunnableConfig) -> dict[str, list[AnyMessage]]:
        return {"messages": [_Run(acp, config, messages_of(state)).sync_result()]}

    return RunnableLambda(sync_node, node, name=acp.name)


def acp_tool(
    agent: AgentCommand | AcpAgent,
    *,
    name: str = "ask_agent",
    description: str = "Give a task to another agent, which works on it and answers.",
    **options: Unpack[AgentOptions],
) -> BaseTool:
    """Return a tool that asks an ACP agent, in one session for each thread.

    Permissions are as in `acp_node`. Failures of the agent are results that the model can read.
    """
    acp = agent_of(agent, options)

    async def delegate(prompt: str, config: RunnableConfig) -> str:
        try:
            message = await _Run(acp, config, [HumanMessage(prompt)], name).result()
        except AcpAgentError as error:
            return str(error)
        return str(message.content)

    def sync_delegate(prompt: str, config: RunnableConfig) -> str:
        try:
            return str(_Run(acp, config, [HumanMessage(prompt)], name).sync_result().content)
        except AcpAgentError as error:
            return str(error)

    return StructuredTool.from_function(  # pyright: ignore[reportUnknownMemberType]
        sync_delegate, delegate, name=name, description=description
    )


def acp_runnable(agent: AgentCommand | AcpAgent, **options: Unpack[AgentOptions]) -> AcpRunnable:
    """Return a runnable: text or messages in, an `AIMessage` out, streamed as chunks.

    `thread_id` of the config names the session; without one, each call has a new session.
    Permissions that the policies leave open are rejected.
    """
    return AcpRunnable(agent_of(agent, options))


class AcpRunnable(Runnable[Any, AIMessage]):
    """An ACP agent as a runnable of LangChain: see `acp_runnable`."""

    def __init__(self, agent: AcpAgent) -> None:
        self.agent = agent

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> AIMessage:  # noqa: A002
        """Run a turn."""
        return asyncio.run(self.ainvoke(input, config))

    async def ainvoke(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> AIMessage:
        return await _Run(self.agent, config or {}, _messages(input), asks=False).step_alone()

    async def astream(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **_: Any,
    ) -> AsyncIterator[AIMessage]:
        chunks: asyncio.Queue[AIMessageChunk | None] = asyncio.Queue()
        run = _Run(self.agent, config or {}, _messages(input), asks=False)
        run.on_text = lambda text, name: chunks.put_nowait(AIMessageChunk(content=text, id=name))
        work = asyncio.create_task(run.step_alone())
        work.add_done_callback(lambda _: chunks.put_nowait(None))
        try:
            while (chunk := await chunks.get()) is not None:
                yield chunk
            done = work.result()
            yield AIMessageChunk(
                content="",
                id=done.id,
                response_metadata=done.response_metadata,
                usage_metadata=done.usage_metadata,
            )
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError, AcpAgentError):
                await work


def _messages(given: Any) -> list[BaseMessage]:
    if isinstance(given, str):
        return [HumanMessage(given)]
    if hasattr(given, "to_messages"):
        return given.to_messages()
    return convert_to_messages(cast("Any", given if isinstance(given, list) else [given]))


class _Run:
    """A turn of an agent in a node or tool, in steps: each ends with a question or the turn."""

    def __init__(
        self,
        agent: AcpAgent,
        config: RunnableConfig,
        messages: Sequence[BaseMessage],
        tool: str = "",
        *,
        asks: bool = True,
    ) -> None:
        configurable = config.get("configurable") or {}
        thread = configurable.get("thread_id")
        self.agent, self.config, self.messages, self.tool = agent, config, messages, tool
        self.asks = asks and thread is not None
        self.node = str((config.get("metadata") or {}).get("langgraph_node", ""))
        self.thread = "" if thread is None else f"{thread}/{self.node}/{tool}"
        # It is the same when an interrupted node runs again.
        self.place = str(configurable.get("checkpoint_ns", "")) or uuid.uuid4().hex
        self.on_text: Callable[[str, str], object] = lambda _text, _id: None
        self.answers: list[tuple[str, str]] = []  # what was asked, and the decisions

    async def result(self) -> AIMessage:
        """Run the turn to its end; an interrupt leaves it, and a resume comes back to it."""
        last: _Step = {}
        while "message" not in last:
            last = await self._as_task(self.step, last)()
            self._ask(last)
        return _message(last)

    def sync_result(self) -> AIMessage:
        """Do the same in a graph that is not asynchronous."""
        last: _Step = {}
        while "message" not in last:

            def step(last: _Step = last) -> _Step:
                return asyncio.run(self.step(last))

            last = self._as_task(step)().result()
            self._ask(last)
        return _message(last)

    async def step_alone(self) -> AIMessage:
        """Run the turn outside a graph."""
        self.write: Callable[[Any], object] = lambda _: None
        return _message(await self.step({}))

    def _as_task(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the function as a task, whose result a checkpointer keeps."""
        if not hasattr(self, "write"):
            self.write = get_stream_writer()
            self.config = get_config()

        if inspect.iscoroutinefunction(function):

            async def acp_turn() -> _Step:
                return await function(*arguments)

            return task(acp_turn)

        def acp_turn_sync() -> _Step:
            return function(*arguments)

        return task(acp_turn_sync)

    def _ask(self, step: _Step) -> None:
        """Interrupt with the question of a step; its answer is there when the node runs again."""
        if "asked" in step:
            decision = _decision(interrupt(step["asked"]))
            self.answers.append((step["what"], decision))

    async def step(self, last: _Step) -> _Step:
        """Go on with the turn up to a question, or to its end."""
        turn = self.agent.running(last.get(_SESSION, ""))
        asked = None if turn is None else turn.context.get("asked")
        if turn is None or asked is None or turn.context["place"] != self.place:
            turn = await self._begin(last)
        else:  # it waits in this process
            turn.context["asked"] = None
            asked.answer(self.answers[-1][1])
        chat = await self._chat()
        question: _Step | None = None
        try:
            async with _cancelling(turn):
                while question is None and (items := await self._read(turn)):
                    while items and question is None:
                        question = await self._handle(turn, items.pop(0), chat)
                    turn.context["left"] = items
        finally:
            partial = AIMessage(answer_of(turn.context["said"], turn), id=turn.context["id"])
            await chat.on_llm_end(LLMResult(generations=[[ChatGeneration(message=partial)]]))
        return question or self._end(turn)

    async def _begin(self, last: _Step) -> Turn:
        """Send what is new to the session of the thread, or to a new session."""
        new, session_id = self._new_messages()
        session_id = last.get(_SESSION) or session_id or self.agent.threads.get(self.thread)

        def contents(is_known: bool) -> Sequence[ContentBlock]:
            blocks = _contents(new if is_known else self.messages)
            return [_AGAIN, *blocks] if is_known and last else blocks

        turn = await self.agent.start(contents, session_id=session_id)
        if self.thread:
            self.agent.threads[self.thread] = turn.session_id
        context = turn.context
        context["place"], context["id"] = self.place, f"acp-{uuid.uuid4()}"
        context["said"], context["calls"], context["left"] = [], {}, []
        context["stored"] = list(self.answers)
        return turn

    def _new_messages(self) -> tuple[Sequence[BaseMessage], str | None]:
        """Return the messages after the last answer of this node, and its session."""
        for index in range(len(self.messages) - 1, -1, -1):
            message = self.messages[index]
            made = message.response_metadata.get(_SESSION)
            if made and message.name == (self.node or None):
                return self.messages[index + 1 :], made
        return self.messages, None

    async def _read(self, turn: Turn) -> list[Any]:
        left = turn.context["left"]
        return list(left) if left else list(await turn.read())

    async def _handle(self, turn: Turn, item: Any, chat: Any) -> _Step | None:
        """Show an event; return the question of a permission that the user must decide."""
        context = turn.context
        match item:
            case Asked():
                if await item.decide():
                    return None
                what = _what(item.request)
                for stored in context["stored"]:
                    if stored[0] == what:
                        context["stored"].remove(stored)
                        item.answer(stored[1])
                        return None
                if not self.asks:
                    item.answer("reject")
                    return None
                context["asked"] = item
                asked = _question(item, self.agent.name)
                return {"asked": asked, "what": what, _SESSION: turn.session_id}
            case accord.Text(text=text):
                context["said"].append(item)
                self.on_text(text, context["id"])
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=text, id=context["id"]))
                await chat.on_llm_new_token(text, chunk=chunk)
                self.write({"acp": "text", "text": text})
            case accord.Thought(text=text):
                self.write({"acp": "thought", "text": text})
            case accord.ToolCall():
                shown = {
                    "id": item.id,
                    "name": call_name(item),
                    "title": item.title,
                    "kind": item.kind,
                    "status": item.shown_status,
                }
                context["calls"][item.id] = shown
                more = {"args": call_arguments(item), "output": call_output(item)}
                self.write({"acp": "tool_call"} | shown | more)
            case accord.Plan(entries=entries):
                plan = [{"status": one.status, "content": one.content} for one in entries]
                context["plan"] = plan
                self.write({"acp": "plan", "entries": plan})
            case Called():
                item.answer("There is no such tool.", is_error=True)
            case _:
                pass
        return None

    def _end(self, turn: Turn) -> _Step:
        used, context = turn.usage, turn.context
        metadata: dict[str, Any] = {
            _SESSION: turn.session_id,
            "model_name": self.agent.name,
            "stop_reason": turn.limit or turn.stop_reason,
            "rejected": list(turn.rejected),
            "cost": turn.cost,
            "plan": context.get("plan", []),
            "tool_calls": list(context["calls"].values()),
        }
        usage = used and {
            "input_tokens": used.input,
            "output_tokens": used.output,
            "total_tokens": used.total,
        }
        message = {"content": answer_of(context["said"], turn), "id": context["id"]}
        more = {"name": self.node or None, "response_metadata": metadata, "usage_metadata": usage}
        return {"message": message | more, _SESSION: turn.session_id}

    async def _chat(self) -> Any:
        """Begin a run of a chat model, so that the text is in `stream_mode="messages"`, too."""
        given = self.config.get("callbacks")
        manager = AsyncCallbackManager.configure(
            inheritable_callbacks=given,
            inheritable_tags=self.config.get("tags"),
            inheritable_metadata=self.config.get("metadata"),
        )
        started = await manager.on_chat_model_start(
            {"name": self.agent.name}, [list(self.messages)], name=self.agent.name
        )
        return started[0]


@contextlib.asynccontextmanager
async def _cancelling(turn: Turn) -> AsyncGenerator[None]:
    """Cancel the turn if the block is left by an exception, such as the cancel of the task."""
    try:
        yield
    except BaseException:
        turn.cancel()
        raise


def _message(step: _Step) -> AIMessage:
    return AIMessage(**step["message"])


def _question(asked: Asked, agent: str) -> dict[str, Any]:
    """Return the value of an interrupt, in the form of LangChain's human-in-the-loop."""
    request, call = asked.request, asked.request.tool_call
    if call is None:
        name, arguments = "execute", {"command": request.command or request.title}
    else:
        name, arguments = call_name(call), call_arguments(call)
    details = "" if call is None else call_output(call)
    action = {"name": name, "args": arguments, "description": asked.title}
    options = [{"id": one.id, "name": one.name, "kind": one.kind} for one in request.options]
    return {
        "action_requests": [action],
        "review_configs": [{"action_name": name, "allowed_decisions": ["approve", "reject"]}],
        "agent": agent,
        "kind": "execute" if call is None else call.kind,
        "details": details,
        "options": options,
    }


def _what(request: accord.PermissionRequest) -> str:
    """Return what a request is about, to find its decision after a restart."""
    call = request.tool_call
    if call is None:
        return json.dumps([request.title, request.command])
    paths = [place.path for place in call.locations]
    about = [call.kind, call.name, call.title, call.raw_input, paths, call_output(call)]
    return json.dumps(about, sort_keys=True, default=str)


def _decision(answer: Any) -> str:
    """Return the decision of a resume; everything that does not allow rejects."""
    if isinstance(answer, dict):
        given = cast("dict[str, Any]", answer)
        decisions = given.get("decisions") or [given]
        answer = decisions[0].get("type", decisions[0].get("decision"))
    known = {True: "allow", "approve": "allow", "allow": "allow", "allow_always": "allow_always"}
    always = "reject_always" if answer == "reject_always" else "reject"
    is_plain = isinstance(answer, bool | str)
    return known.get(answer, always) if is_plain else "reject"


def _contents(messages: Sequence[BaseMessage]) -> Sequence[ContentBlock]:
    """Return messages as content of a prompt: one of the user as it is, more with their roles."""
    is_alone = len(messages) == 1
    blocks: list[ContentBlock] = []
    for message in messages:
        role = "" if is_alone else f"{message.name or message.type}: "
        for index, block in enumerate(_blocks(message)):
            is_first = index == 0 and isinstance(block, str)
            blocks.append(f"{role}{block}" if is_first and role else block)
    return blocks or ["Continue."]


def _blocks(message: BaseMessage) -> list[ContentBlock]:
    found: list[ContentBlock] = []
    for block in cast("list[dict[str, Any]]", message.content_blocks):
        match block:
            case {"type": "text", "text": text}:
                found.append(str(text))
            case {"type": "image" | "audio" | "file", "url": url}:
                found.append(accord.ResourceLink(str(url), str(block.get("id", "file"))))
            case {"type": "image", "base64": data, "mime_type": media}:
                found.append(accord.ImageContent(base64.b64decode(data), str(media)))
            case {"type": "tool_call" | "reasoning"}:
                pass
            case _:
                found.append(f"[{block.get('type')}]")
    return found
