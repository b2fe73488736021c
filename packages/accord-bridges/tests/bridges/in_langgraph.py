"""The bridge to LangGraph, LangChain and deepagents; run by test_frameworks.py."""

import asyncio
import contextlib
import inspect
import json
import os
import signal
import sqlite3
import sys
from operator import add
from pathlib import Path
from typing import Annotated, Any, Literal

import aiosqlite
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, TodoListMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_stream_writer
from langgraph.func import task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import accord
from accord import SqliteStore
from accord_bridges import as_agent
from accord_bridges.testing import BridgeContract, Reply, Script, ToolUse, _Shared

if __name__ == "in_langgraph":  # not in the processes that tests start
    # They take seconds under load, which no case should wait for.
    import mcp  # noqa: F401
    from deepagents import create_deep_agent


def read(path: str) -> ToolUse:
    return ToolUse("read_note_file", {"path": path})


class Scripted(BaseChatModel):
    """A model that follows a script."""

    script: Any
    name_: str = "scripted"
    used: Any = None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools, **more):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **more):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **more):
        message = AIMessageChunk("")
        async for chunk in self._play(messages):
            message += chunk
        whole = AIMessage(
            message.content, tool_calls=message.tool_calls, usage_metadata=message.usage_metadata
        )
        return ChatResult(generations=[ChatGeneration(message=whole)])

    async def _astream(self, messages, stop=None, run_manager=None, **more):
        async for chunk in self._play(messages):
            part = ChatGenerationChunk(message=chunk)
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=part)
            yield part

    async def _play(self, messages):
        if self.used is not None:
            self.used.append(self.name_)
        reply = self.script.reply([[m.content, getattr(m, "tool_calls", None)] for m in messages])
        reply.raise_failure()
        for text in reply.thoughts:
            yield AIMessageChunk([{"type": "reasoning", "reasoning": text, "index": 0}])
        for text in reply.text:
            yield AIMessageChunk(text)
        if reply.hangs:
            await self.script.hang()
        for index, call in enumerate(reply.calls):
            whole = json.dumps(dict(call.arguments))
            half = len(whole) // 2
            for number, args in enumerate(("", whole[:half], whole[half:])):
                piece = {
                    "index": index, "args": args, "type": "tool_call_chunk",
                    "id": None if number else call.id, "name": None if number else call.name,
                }  # fmt: skip
                yield AIMessageChunk("", tool_call_chunks=[piece])
        usage = {
            "input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens,
            "total_tokens": reply.input_tokens + reply.output_tokens,
        }  # fmt: skip
        yield AIMessageChunk("", usage_metadata=usage)


class TestLangGraph(BridgeContract):
    can = frozenset(
        ("thoughts", "approvals", "edited_arguments", "plans", "questions", "subagents", "mcp",
         "images", "usage", "models", "parallel_calls", "fork", "editor_tools")
    )  # fmt: skip

    async def make_agent(self, script: Script, **options: Any):
        def make(tools, model=None):
            scripted = Scripted(script=script, name_=model or "scripted", used=self.models_used)
            helper = create_agent(scripted, list(self.tools.plain), name="helper")

            @tool
            async def ask_user(question: str) -> str:
                """Ask the user."""
                return interrupt({"question": question})

            @tool
            async def ask_helper(task: str) -> str:
                """Ask the helper."""
                done = await helper.ainvoke({"messages": [{"role": "user", "content": task}]})
                return done["messages"][-1].text

            every = [*self.tools.plain, *self.tools.guarded, ask_user, ask_helper, *tools]
            asks = HumanInTheLoopMiddleware({"write_note_file": True})
            return create_agent(scripted, every, middleware=[asks])

        return as_agent(make, **options)


class TestDeepAgents(BridgeContract):
    """What deepagents has of its own: the tool `task`, todos, a state that is stored as changes."""

    can = frozenset(("subagents", "usage", "fork", "approvals", "edited_arguments"))
    subagent_call = ToolUse(
        "task", {"description": "word-task", "subagent_type": "general-purpose"}
    )
    shared = (
        "subagent", "history_is_replayed", "fork_continues", "cancel_while_a_tool", "edited",
    )  # fmt: skip

    async def make_agent(self, script: Script, **options: Any):
        return as_agent(
            create_deep_agent(
                Scripted(script=script), [*self.tools.plain, *self.tools.guarded],
                interrupt_on={"write_note_file": True},
            ),
            **options,
        )  # fmt: skip


class TestGraph(BridgeContract):
    """A graph of one's own that is not compiled, whose model is not streamed."""

    can = frozenset(("approvals", "edited_arguments", "usage", "models", "fork", "images"))
    shared = (
        "several_requests", "tool_call_is_shown", "failing_tool", "allowed", "rejected", "always",
        "edited", "each_of_two", "cancel_while_the_user", "history_is_replayed", "model_can",
        "use_of_tokens", "too_long", "rate_limit", "go_in_an_approval",
    )  # fmt: skip

    async def make_agent(self, script: Script, **options: Any):
        every = [*self.tools.plain, *self.tools.guarded]

        class Context(BaseModel):
            model: str = "scripted"

        class State(MessagesState):
            pass

        async def think(state: State, runtime: Runtime[Context]):
            chosen = runtime.context.model if runtime.context else "scripted"
            model = Scripted(
                script=script, name_=chosen, used=self.models_used, disable_streaming=True
            )
            return {"messages": [await model.ainvoke(state["messages"])]}

        async def act(state: State):
            results = []
            for call in state["messages"][-1].tool_calls:
                arguments, result = call["args"], None
                if call["name"] == "write_note_file":
                    request = {
                        "action_request": {"action": call["name"], "args": arguments},
                        "config": {
                            "allow_accept": True, "allow_edit": True, "allow_respond": False,
                            "allow_ignore": True,
                        },
                    }  # fmt: skip
                    given = interrupt([request])[0]
                    if given["type"] == "ignore":
                        result = "Ignored"
                    elif given["type"] == "edit":
                        arguments = given["args"]["args"]
                if result is None:
                    run = next(each for each in every if each.__name__ == call["name"])
                    result = await task(run)(**arguments)
                results.append(ToolMessage(result, tool_call_id=call["id"]))
            return {"messages": results}

        def more(state: State):
            return "act" if state["messages"][-1].tool_calls else END

        graph = StateGraph(State, context_schema=Context)
        graph.add_node(think)
        graph.add_node(act)
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", more)
        graph.add_edge("act", "think")
        return as_agent(graph, **options)


for cls in (TestDeepAgents, TestGraph):
    for name in dir(BridgeContract):
        if name.startswith("test_") and not any(word in name for word in cls.shared):
            setattr(cls, name, None)


# What only this framework has.

connected = TestLangGraph().connected


async def no_permissions(request: Any) -> Any:
    raise AssertionError(f"it asks: {request}")


def graph_of(*nodes: Any, state: Any = MessagesState, **more: Any) -> Any:
    """Return a compiled graph of nodes in a row."""
    graph = StateGraph(state)
    before = START
    for node in nodes:
        graph.add_node(node)
        graph.add_edge(before, node.__name__)
        before = node.__name__
    return graph.compile(**more)


def asking(*values: Any, **more: Any) -> Any:
    """Return a graph that says what it gets for interrupts with these values."""

    def node(state: MessagesState):
        given = [interrupt(value, **more) for value in values]
        return {"messages": [AIMessage(json.dumps(given))]}

    return graph_of(node)


async def answered(graph: Any, *answers: Any, **more: Any) -> tuple[Any, list[Any]]:
    """Return what a graph gets for its interrupts, and the forms that were shown."""
    forms: list[Any] = []
    left = list(answers)

    async def answer(form: Any) -> Any:
        forms.append(form)
        given = left.pop(0)
        return given if given is None or isinstance(given, dict) else {form.fields[0].name: given}

    async with connected([], agent=as_agent(graph), answer=answer, **more) as client:
        turn = await client.turn(await client.session(), "go")
    return json.loads(turn.text) if turn.text else None, forms


async def test_interrupts_with_any_value_are_questions():
    got, forms = await answered(
        asking("Which colour?", {"question": "How many?", "unit": "boxes"}, ["a", {"b": 1}], 7),
        "green", "three", "yes", "no",
    )  # fmt: skip
    assert got == ["green", "three", "yes", "no"]
    assert [form.message for form in forms[:2]] == ["Which colour?", "How many?\n\nunit: boxes"]
    assert '"b": 1' in forms[2].message
    assert forms[3].message == "7"


async def test_choices_of_an_interrupt_are_offered():
    value = {"message": "Where?", "options": ["here", {"label": "there", "value": 2}]}
    got, forms = await answered(asking(value), "there")
    assert got == ["there"]
    assert [choice.value for choice in forms[0].fields[0].choices] == ["here", "there"]
    # A client without forms is asked by a permission.
    async with connected([], agent=as_agent(asking(value)), permissions=choose("here")) as client:
        turn = await client.turn(await client.session(), "go")
    assert json.loads(turn.text) == ["here"]


def choose(name: str) -> Any:
    def decide(request: Any) -> Any:
        return next(option for option in request.options if option.name.startswith(name))

    return decide


needs_schemas = pytest.mark.skipif(
    "response_schema" not in inspect.signature(interrupt).parameters,
    reason="interrupts of this release have no schemas",
)


@needs_schemas
async def test_schema_of_an_interrupt_is_a_form():
    class Trip(BaseModel):
        city: Literal["Oslo", "Rome"]
        days: int = Field(description="How long")
        note: str | None = None

    def node(state: MessagesState):
        trip = interrupt("Where to?", response_schema=Trip)
        return {"messages": [AIMessage(json.dumps([trip.city, trip.days, trip.note]))]}

    got, forms = await answered(graph_of(node), {"city": "Rome", "days": 3})
    assert got == ["Rome", 3, None]
    assert [field.name for field in forms[0].fields] == ["city", "days", "note"]
    got, _ = await answered(asking("Sure?", response_schema={"type": "boolean"}), True)
    assert got == [True]
    got, _ = await answered(
        asking("Which?", response_schema={"type": "array", "items": {"type": "object"}}),
        '[{"a": 1}]',
    )
    assert got == [[{"a": 1}]]


@needs_schemas
async def test_answer_that_does_not_fit_is_asked_again():
    class Trip(BaseModel):
        stops: list[dict[str, int]]

    def node(state: MessagesState):
        trip = interrupt("Where to?", response_schema=Trip)
        return {"messages": [AIMessage(json.dumps(trip.stops))]}

    got, forms = await answered(graph_of(node), "no idea", '{"stops": [{"oslo": 1}]}')
    assert got == [{"oslo": 1}]
    assert len(forms) == 2
    assert "stops" in forms[0].message, "the schema is said"


async def test_interrupts_at_once_are_all_answered():
    class State(MessagesState):
        given: Annotated[list, add]

    def left(state: State):
        return {"given": [f"left {interrupt('Left?')}"]}

    def right(state: State):
        return {"given": [f"right {interrupt('Right?')}"]}

    def end(state: State):
        return {"messages": [AIMessage(json.dumps(sorted(state["given"])))]}

    graph = StateGraph(State)
    for node in (left, right, end):
        graph.add_node(node)
    graph.add_edge(START, "left")
    graph.add_edge(START, "right")
    graph.add_edge(["left", "right"], "end")
    got, forms = await answered(graph, "one", "two")
    assert sorted(form.message for form in forms) == ["Left?", "Right?"]
    by_question = dict(zip((form.message for form in forms), ("one", "two"), strict=True))
    assert got == [f"left {by_question['Left?']}", f"right {by_question['Right?']}"]


async def test_question_that_is_not_answered_ends_the_turn():
    script = Script(Reply(calls=(ask("Which colour?"),)), Reply(text=("Then not.",)))
    async with connected(script, answer=lambda _: never()) as client:
        session = await client.session()
        turn = await client.turn(session, "go")
        assert turn.text == ""
        assert [call.status for call in turn.tool_calls] == ["completed"]
        assert (await client.turn(session, "word-other")).text == "Then not."
    assert "word-other" in script.requests[1]
    assert "did not end" in script.requests[1], "the call has a result for the model"


async def never() -> None:
    return None


def ask(question: str) -> ToolUse:
    return ToolUse("ask_user", {"question": question})


async def test_without_forms_the_next_prompt_is_the_answer():
    script = Script(Reply(calls=(ask("Which colour?"),)), Reply(text=("I see.",)))
    store = _Shared()
    async with connected(script, store=store) as client:
        session = await client.session()
        assert (await client.turn(session, "go")).text == "Which colour?"
    async with connected(script, store=store) as client:
        loaded = await client.agent.load_session(session.id, session.cwd)
        assert (await client.turn(loaded, "word-green")).text == "I see."
    assert "word-green" in script.requests[1]
    assert len(script.requests) == 2


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_decisions_about_calls(mode: str):
    has_modes = "interrupt_mode" in inspect.signature(HumanInTheLoopMiddleware).parameters
    if mode == "per_call" and not has_modes:
        pytest.skip("this release has one mode")
    more: Any = {"interrupt_mode": mode} if has_modes else {}
    ran: list[Any] = []

    @tool
    def deploy(where: str) -> str:
        """Deploy."""
        ran.append(where)
        return f"word-deployed to {where}"

    def agent(script: Script, allowed: list[str]) -> Any:
        middleware = HumanInTheLoopMiddleware({"deploy": {"allowed_decisions": allowed}}, **more)
        return as_agent(create_agent(Scripted(script=script), [deploy], middleware=[middleware]))

    async def answer(form: Any) -> Any:
        return {form.fields[0].name: "word-answer"}

    every = ["approve", "edit", "reject", "respond"]
    for allowed, chosen, seen, runs in (
        (every, "Allow", "word-deployed to oslo", ["oslo"]),
        (every, "Allow with changes", "word-deployed to word-answer", ["word-answer"]),
        (every, "Reject", "rejected", []),
        (every, "Answer instead", "word-answer", []),
        (["edit", "respond"], "Allow", "word-deployed to oslo", ["oslo"]),
        (["edit", "respond"], "Reject", "does not allow", []),
        (["respond"], "nothing", "word-answer", []),
    ):
        ran.clear()
        script = Script(Reply(calls=(ToolUse("deploy", {"where": "oslo"}),)), Reply(text=("So.",)))
        async with connected(
            script, agent=agent(script, allowed), permissions=choose(chosen), answer=answer
        ) as client:
            turn = await client.turn(await client.session(), "go")
        assert turn.text == "So."
        assert ran == runs, (allowed, chosen)
        assert seen in script.requests[1], (allowed, chosen, script.requests[1])
        assert len(turn.tool_calls) == 1


async def test_only_decisions_that_the_graph_takes_are_offered():
    asked: list[Any] = []

    async def answer(form: Any) -> Any:
        return None

    def decide(request: Any) -> Any:
        asked.append([option.name for option in request.options])
        return "reject"

    @tool
    def deploy(where: str) -> str:
        """Deploy."""
        raise AssertionError("it is not allowed")

    script = Script(Reply(calls=(ToolUse("deploy", {"where": "oslo"}),)), Reply(text=("Well.",)))
    middleware = HumanInTheLoopMiddleware({"deploy": {"allowed_decisions": ["approve"]}})
    agent = as_agent(create_agent(Scripted(script=script), [deploy], middleware=[middleware]))
    async with connected(script, agent=agent, permissions=decide, answer=answer) as client:
        session = await client.session()
        turn = await client.turn(session, "go")
        assert [call.status for call in turn.tool_calls] == ["cancelled"]
        assert (await client.turn(session, "and now?")).text == "Well."
    assert not any("changes" in name or "instead" in name for name in asked[0])


async def test_approval_in_a_subagent_is_asked_there():
    ran: list[str] = []

    @tool
    def deploy(where: str) -> str:
        """Deploy."""
        ran.append(where)
        return "word-deployed"

    calls = (
        ToolUse("task", {"description": "word-a", "subagent_type": "general-purpose"}),
        ToolUse("task", {"description": "word-b", "subagent_type": "general-purpose"}),
    )
    script = Script(
        Reply(calls=calls),
        Reply(calls=(ToolUse("deploy", {"where": "a"}),), when="word-a"),
        Reply(calls=(ToolUse("deploy", {"where": "b"}),), when="word-b"),
        Reply(text=("Done a.",), when="word-a"),
        Reply(text=("Done b.",), when="word-b"),
        Reply(text=("All done.",)),
    )
    agent = as_agent(
        create_deep_agent(Scripted(script=script), [deploy], interrupt_on={"deploy": True})
    )
    asked: list[Any] = []

    def decide(request: Any) -> Any:
        asked.append(request.tool_call.raw_input["where"])
        return "allow" if asked[-1] == "a" else "reject"

    async with connected(script, agent=agent, permissions=decide) as client:
        session = await client.session()
        turn = await client.turn(session, "go")
        assert turn.text == "All done."
        assert sorted(asked) == ["a", "b"]
        assert ran == ["a"]
        assert len(session.transcript.subagents) == 2
        statuses = [
            [call.status for call in session.subagent(each).transcript.tool_calls]
            for each in session.transcript.subagents
        ]
        assert sorted(statuses) == [["cancelled"], ["completed"]]


async def test_cancel_in_a_subagent_cancels_its_calls():
    task = ToolUse("task", {"description": "word-task", "subagent_type": "general-purpose"})
    waits = ToolUse("wait_forever", {"what": "word-event"})
    script = Script(Reply(calls=(task,)), Reply(calls=(waits,)), Reply(text=("Back.",)))
    test = TestDeepAgents()
    async with test.connected(script) as client:
        session = await client.session()
        async with session.prompt("go") as turn:
            await test.tools.until_running("wait_forever")
            await turn.cancel()
            await turn.wait()
        assert (await client.turn(session, "and now?")).text == "Back."
        loaded = await client.agent.load_session(session.id, session.cwd)
        (inner,) = loaded.transcript.subagents
        calls = loaded.subagent(inner).transcript.tool_calls
        assert [call.status for call in calls] == ["cancelled"]
        assert [call.status for call in loaded.transcript.tool_calls] == ["cancelled"]


async def test_breakpoints_are_asked():
    ran: list[str] = []

    @tool
    def deploy(where: str) -> str:
        """Deploy."""
        ran.append(where)
        return "word-deployed"

    for decision, result in (("allow", "word-deployed"), ("reject", "does not allow")):
        script = Script(Reply(calls=(ToolUse("deploy", {"where": "oslo"}),)), Reply(text=("So.",)))
        agent = create_agent(Scripted(script=script), [deploy], interrupt_before=["tools"])
        async with connected(
            script, agent=as_agent(agent), permissions=lambda _, how=decision: how
        ) as client:
            assert (await client.turn(await client.session(), "go")).text == "So."
        assert result in script.requests[1]
    assert ran == ["oslo"]

    def one(state: MessagesState):
        return {"messages": [AIMessage("One.")]}

    def two(state: MessagesState):
        return {"messages": [AIMessage("Two.")]}

    for chosen, said in (("Continue", "One.\n\nTwo."), ("Stop", "One.")):
        agent = as_agent(graph_of(one, two, interrupt_before=["two"]))
        async with connected([], agent=agent, permissions=choose(chosen)) as client:
            assert (await client.turn(await client.session(), "go")).text == said


# Sessions.


async def test_prompt_that_the_provider_refuses_is_forgotten():
    script = Script(
        Reply(failure="context_length"), Reply(text=("One.",)), Reply(failure="context_length"),
        Reply(text=("Three.",)),
    )  # fmt: skip
    async with connected(script) as client:
        session = await client.session()
        await client.ended(session, "word-zero")
        await client.turn(session, "word-one")
        await client.ended(session, "word-two")
        await client.turn(session, "word-three")
    assert "word-zero" not in script.requests[1]
    assert "word-one" in script.requests[3]
    assert "word-two" not in script.requests[3]


async def test_text_and_results_of_a_cancelled_turn_are_known():
    script = Script(
        Reply(text=("word-said ", "so far"), hangs=True),
        Reply(calls=(read("a.txt"), ToolUse("wait_forever", {"what": "word-event"}))),
        Reply(text=("Back.",)),
    )
    test = TestLangGraph()
    async with test.connected(script) as client:
        session = await client.session()
        async with session.prompt("word-first") as turn:
            async for _ in turn:
                if turn.text.endswith("so far"):
                    break
            await turn.cancel()
            await turn.wait()
        async with session.prompt("word-second") as turn:
            async for _ in turn:
                done = [call for call in turn.tool_calls if call.status == "completed"]
                if done and test.tools.running == ["wait_forever"]:
                    break
            await turn.cancel()
            await turn.wait()
        assert (await client.turn(session, "word-third")).text == "Back."
    assert "word-said so far" in script.requests[1]
    assert "word-apple" in script.requests[2], "a call that has ended is not repeated"
    assert test.tools.count("read_note_file") == 1


async def test_sessions_are_in_the_checkpointer_of_the_graph(tmp_path: Path):
    script = Script(*(Reply(text=(f"{number}.",)) for number in range(4)))
    for saver in (
        SqliteSaver(sqlite3.connect(tmp_path / "a", check_same_thread=False)),
        AsyncSqliteSaver(aiosqlite.connect(tmp_path / "b")),
    ):
        script = Script(*(Reply(text=(f"{number}.",)) for number in range(4)))
        agent = create_agent(Scripted(script=script), checkpointer=saver)
        async with connected(script, agent=as_agent(agent)) as client:
            session = await client.session()
            await client.turn(session, "word-one")
            copy = await client.agent.fork_session(session.id, session.cwd)
            await client.turn(session, "word-two")
            await client.turn(copy, "word-copy")
            await client.turn(copy, "word-more")
            if isinstance(saver, SqliteSaver):
                assert saver.get({"configurable": {"thread_id": session.id}})
        if isinstance(saver, AsyncSqliteSaver):
            await saver.conn.close()
        assert "word-one" in script.requests[1]
        assert "word-one" in script.requests[2]
        assert "word-two" not in script.requests[2]
        assert "word-copy" in script.requests[3]


async def test_saver_in_memory_is_stored_with_the_session():
    store = _Shared()
    for text in ("word-one", "word-two"):
        script = Script(Reply(text=("So.",)))
        agent = create_agent(Scripted(script=script), checkpointer=InMemorySaver())
        async with connected(script, agent=as_agent(agent, store=store)) as client:
            if text == "word-one":
                session = await client.session()
            else:
                session = await client.agent.load_session(session.id, session.cwd)
            await client.turn(session, text)
    assert "word-one" in script.requests[0]


async def test_stored_state_grows_by_what_is_new():
    sizes: list[int] = []
    script = Script.echo()
    async with connected(script, agent=as_agent(create_agent(Scripted(script=script)))) as client:
        session = await client.session()
        for number in range(6):
            await client.turn(session, f"word-{'abcdef'[number]} " + "x" * 2000)
            kept = client.bridge.sessions[session.id].remembered
            assert len(kept) == 2 * (number + 1) + 1, "each message is an item"
            sizes.append(len(json.dumps(kept[-1])))
        thread = client.bridge.sessions[session.id].data["langgraph"].thread
        saver = thread.graph.checkpointer
        assert len(saver.storage[session.id][""]) == 1, "older checkpoints are forgotten"
    assert max(sizes) < 4000


async def test_open_interrupt_survives_the_end_of_the_process(tmp_path: Path):
    command = [sys.executable, __file__, str(tmp_path)]
    asked = asyncio.Event()

    async def wait(request: Any) -> Any:
        asked.set()
        await asyncio.get_running_loop().create_future()

    async with (
        asyncio.timeout(60),
        accord.connect(command, cwd=Path.cwd(), permissions=wait) as agent,
    ):
        session = await agent.new_session(str(tmp_path))
        with contextlib.suppress(accord.AccordError):
            async with session.prompt("word-first") as turn:
                await asked.wait()
                os.kill(agent.remote.connection.transport.pid, signal.SIGKILL)
                await turn.wait()
    assert not (tmp_path / "ran").exists()
    async with (
        asyncio.timeout(60),
        accord.connect(command, cwd=Path.cwd(), permissions=lambda _: "allow") as agent,
    ):
        loaded = await agent.load_session(session.id, str(tmp_path))
        async with loaded.prompt("word-second") as turn:
            await turn.wait()
    assert (tmp_path / "ran").read_text() == "oslo\n", "it runs once"
    assert [call.status for call in turn.tool_calls] == ["completed"]
    assert "I have heard: word-first word-deployed" in turn.text
    assert turn.text.endswith("I have heard: word-first word-deployed word-second")


def serve(folder: Path) -> None:
    """Serve a graph with a checkpointer in a file; the first prompt deploys."""

    @tool
    def deploy(where: str) -> str:
        """Deploy."""
        with (folder / "ran").open("a") as file:
            file.write(f"{where}\n")
        return "word-deployed"

    class Deploys(Scripted):
        async def _play(self, messages):
            if len(messages) == 1:
                self.script.add(Reply(calls=(ToolUse("deploy", {"where": "oslo"}),)))
            self.script._echoes = len(messages) > 1
            async for chunk in super()._play(messages):
                yield chunk

    saver = SqliteSaver(sqlite3.connect(folder / "threads", check_same_thread=False))
    agent = create_agent(
        Deploys(script=Script()), [deploy], checkpointer=saver,
        middleware=[HumanInTheLoopMiddleware({"deploy": True})],
    )  # fmt: skip
    as_agent(agent, store=SqliteStore(folder / "sessions")).run()


# What is shown.


async def test_todos_are_the_plan():
    todos = [{"content": "Look", "status": "in_progress"}, {"content": "Go", "status": "pending"}]
    script = Script(Reply(calls=(ToolUse("write_todos", {"todos": todos}),)), Reply(text=("So.",)))
    agent = create_agent(Scripted(script=script), middleware=[TodoListMiddleware()])
    async with connected(script, agent=as_agent(agent)) as client:
        session = await client.session()
        await client.turn(session, "go")
        entries = session.transcript.plan.entries
    assert [(e.content, e.status) for e in entries] == [("Look", "in_progress"), ("Go", "pending")]


async def test_subgraph_that_is_a_node_speaks_for_the_graph():
    script = Script(Reply(text=("I look.",), calls=(read("a.txt"),)), Reply(text=("I know.",)))
    test = TestLangGraph()
    graph = StateGraph(MessagesState)
    graph.add_node("worker", create_agent(Scripted(script=script), test.tools.plain))
    graph.add_edge(START, "worker")
    async with test.connected(script, agent=as_agent(graph)) as client:
        session = await client.session()
        turn = await client.turn(session, "go")
        assert turn.text == "I look.\n\nI know."
        assert [call.status for call in turn.tool_calls] == ["completed"]
        assert not session.transcript.subagents


async def test_function_that_calls_graphs_has_subagents():
    script = Script(Reply(text=("One.",)), Reply(text=("Two.",)))
    helper = create_agent(Scripted(script=script), name="helper")

    async def work(state: MessagesState):
        texts = [(await helper.ainvoke(state))["messages"][-1].text for _ in range(2)]
        return {"messages": [AIMessage(" and ".join(texts))]}

    async with connected(script, agent=as_agent(graph_of(work))) as client:
        session = await client.session()
        turn = await client.turn(session, "go")
        assert turn.text == "One. and Two."
        subagents = session.transcript.subagents
        texts = [session.subagent(each).transcript.text for each in subagents]
    assert sorted(texts) == ["One.", "Two."]
    assert "helper" in str(subagents)


async def test_custom_data_is_progress_or_a_thought():
    @tool
    def look(where: str) -> str:
        """Look."""
        get_stream_writer()("word-progress")
        return "word-seen"

    def node(state: MessagesState):
        get_stream_writer()({"step": "word-step"})
        return {"messages": [AIMessage("Done.")]}

    script = Script(Reply(calls=(ToolUse("look", {"where": "here"}),)), Reply(text=("So.",)))
    agent = as_agent(create_agent(Scripted(script=script), [look]))
    async with connected(script, agent=agent) as client:
        turn = await client.turn(await client.session(), "go")
        assert "word-progress" in str(turn.tool_calls[0].content)
        assert "word-seen" in str(turn.tool_calls[0].content)
    async with connected([], agent=as_agent(graph_of(node))) as client:
        session = await client.session()
        turn = await client.turn(session, "go")
        assert turn.text == "Done."
        thoughts = [m.text for m in session.transcript.messages if m.role == "thought"]
    assert thoughts == ['{"step": "word-step"}\n']

    async def show(run, data):
        await run.say(data["step"])

    agent = as_agent(graph_of(node), settings={"custom": show})
    async with connected([], agent=agent) as client:
        assert "word-step" in (await client.turn(await client.session(), "go")).text


async def test_graph_without_messages():
    class Given(TypedDict):
        topic: str

    class State(TypedDict):
        topic: str
        poem: str

    def write(state: State):
        return {"poem": f"On {state['topic']}"}

    graph = StateGraph(State, input_schema=Given)
    graph.add_node(write)
    graph.add_edge(START, "write")
    async with connected([], agent=as_agent(graph)) as client:
        turn = await client.turn(await client.session(), "bells")
        assert "On bells" in turn.text
    two = StateGraph(State)
    two.add_node(write)
    two.add_edge(START, "write")
    async with connected([], agent=as_agent(two)) as client:
        _, error = await client.ended(await client.session(), "bells")
        assert "topic, poem" in str(error)
        assert "settings={'input'" in str(error)
    given = as_agent(two, settings={"input": lambda run: {"topic": f"{run.text} at sea"}})
    async with connected([], agent=given) as client:
        assert "On bells at sea" in (await client.turn(await client.session(), "bells")).text


async def test_structured_answer_is_shown():
    class Weather(BaseModel):
        sky: str

    script = Script(Reply(calls=(ToolUse("Weather", {"sky": "word-grey"}),)))
    agent = as_agent(create_agent(Scripted(script=script), response_format=ToolStrategy(Weather)))
    async with connected(script, agent=agent) as client:
        turn = await client.turn(await client.session(), "go")
    assert json.loads(turn.text) == {"sky": "word-grey"}


async def test_requests_of_the_middleware_are_not_shown():
    script = Script(Reply(text=("word-inner",), input_tokens=7), Reply(text=("Done.",)))
    model = Scripted(script=script)

    async def node(state: MessagesState):
        await model.ainvoke("word-ask", {"metadata": {"lc_source": "tool_selection"}})
        return {"messages": [await model.ainvoke(state["messages"])]}

    async with connected(script, agent=as_agent(graph_of(node))) as client:
        turn = await client.turn(await client.session(), "go")
    assert turn.text == "Done."
    assert turn.token_usage.input == 17


async def test_configuration_modes_and_models():
    seen: list[Any] = []

    def node(state: MessagesState, config: RunnableConfig):
        seen.append((config["configurable"].get("llm"), config["configurable"].get("user")))
        texts = [m.text for m in state["messages"]]
        return {"messages": [AIMessage(" | ".join(texts))]}

    agent = as_agent(
        graph_of(node), models=["small", "large"], modes={"plan": "Only plan.", "act": ""},
        settings={"model_key": "llm", "config": {"configurable": {"user": "ada"}}},
    )  # fmt: skip
    async with connected([], agent=agent) as client:
        session = await client.session()
        turn = await client.turn(session, "go")
        assert "Mode: plan. Only plan." in turn.text
        await session.set_option("model", "large")
        turn = await client.turn(session, "on")
        *_, last = turn.text.split(" | ")
        assert last == "on", "a mode is told once"
    assert seen == [("small", "ada"), ("large", "ada")]


async def test_recursion_limit_is_a_stop_reason():
    def again(state: MessagesState):
        return {}

    graph = StateGraph(MessagesState)
    graph.add_node(again)
    graph.add_edge(START, "again")
    graph.add_edge("again", "again")
    agent = as_agent(graph, settings={"config": {"recursion_limit": 3}})
    async with connected([], agent=agent) as client:
        turn, _ = await client.ended(await client.session(), "go")
    assert turn.stop_reason == "max_turn_requests"


async def test_length_and_refusal_of_a_reply_are_stop_reasons():
    for reason, expected in (("length", "max_tokens"), ("content_filter", "refusal")):

        def node(state: MessagesState, reason=reason):
            message = AIMessage("Cut", response_metadata={"finish_reason": reason})
            return {"messages": [message]}

        async with connected([], agent=as_agent(graph_of(node))) as client:
            turn, _ = await client.ended(await client.session(), "go")
        assert turn.stop_reason == expected


async def test_images_that_a_tool_returns_are_shown():
    @tool
    def draw(what: str) -> list:
        """Draw."""
        image = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
        return [{"type": "text", "text": "word-drawn"}, image]

    script = Script(Reply(calls=(ToolUse("draw", {"what": "a bell"}),)), Reply(text=("So.",)))
    agent = as_agent(create_agent(Scripted(script=script), [draw]))
    async with connected(script, agent=agent) as client:
        turn = await client.turn(await client.session(), "go")
    content = str(turn.tool_calls[0].content)
    assert "word-drawn" in content
    assert "ImageContent" in content


def test_what_a_graph_cannot_do_is_refused():
    def node(state: MessagesState):
        return {}

    def make(tools):
        return graph_of(node)

    for options in ({"models": ["a"]}, {"editor_tools": True}):
        with pytest.raises(TypeError, match="cannot use it"):
            as_agent(graph_of(node), **options)
    assert as_agent(make, editor_tools=True).mcp_transports
    assert not as_agent(graph_of(node)).mcp_transports
    with pytest.raises(TypeError, match="cannot use it"):
        as_agent(make, models=["a"])
    with pytest.raises(TypeError, match="LangGraphAgent knows no such setting"):
        as_agent(graph_of(node), settings={"deps": 1})


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
