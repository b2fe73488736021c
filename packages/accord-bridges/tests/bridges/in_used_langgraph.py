"""ACP agents in LangGraph; run by test_frameworks.py."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolCall
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from accord.client.permissions import allow
from accord_bridges.used_in import AcpAgent, AcpAgentError
from accord_bridges.used_in.langgraph import acp_node, acp_runnable, acp_tool

HERE = Path(__file__).parent
SCRIPT = [sys.executable, "-m", "accord", "agent", "script"]
COMMANDS = [sys.executable, str(HERE / "used_in_agent.py")]
script, commands = AcpAgent(SCRIPT), AcpAgent(COMMANDS)  # one process for all tests


def graph(node: Any, checkpointer: Any = True):
    builder = StateGraph(MessagesState)
    builder.add_node("worker", node)
    builder.add_edge(START, "worker")
    return builder.compile(checkpointer=InMemorySaver() if checkpointer is True else checkpointer)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def user(text: str) -> Any:
    return {"messages": [HumanMessage(text)]}


def test_a_thread_is_a_session_and_what_happens_is_streamed():
    async def main():
        app = graph(acp_node(script))
        seen: list[Any] = []
        streams = ["messages", "custom", "updates"]
        async for mode, data in app.astream(user("full"), thread("a"), stream_mode=streams):
            seen.append((mode, data))
        tokens = [one[0].content for mode, one in seen if mode == "messages"]
        assert "".join(tokens[:-1] if tokens[-1] == "" else tokens)
        kinds = {one["acp"] for mode, one in seen if mode == "custom"}
        assert kinds == {"text", "thought", "tool_call", "plan"}
        await app.ainvoke(user("stream 3"), thread("b"))
        pieces = [
            chunk.content
            async for chunk, _ in app.astream(user("stream 3"), thread("b"), stream_mode="messages")
        ]
        assert pieces == ["1 ", "2 ", "3 "]
        sessions = {
            message.response_metadata["acp_session"]
            for message in app.get_state(thread("b")).values["messages"]
            if isinstance(message, AIMessage)
        }
        assert len(sessions) == 1
        used = await app.ainvoke(user("tokens"), thread("c"))
        assert used["messages"][-1].usage_metadata["total_tokens"] == 30
        cost = await app.ainvoke(user("usage"), thread("d"))
        assert cost["messages"][-1].response_metadata["cost"] == 0.25

    asyncio.run(main())


@pytest.mark.parametrize("sync", [True, False])
def test_permissions_are_interrupts(sync: bool):
    app = graph(acp_node(commands))
    name = thread(f"p{sync}")

    def run(given: Any):
        return app.invoke(given, name) if sync else asyncio.run(app.ainvoke(given, name))

    asked = run(user("edit a\nedit b\nedit c"))["__interrupt__"][0].value
    assert asked["action_requests"] == [{"name": "edit", "args": {"file": "a"}, "description": "a"}]
    assert asked["options"][0]["kind"] == "allow_once"
    second = run(Command(resume="allow"))["__interrupt__"][0].value
    assert second["action_requests"][0]["description"] == "b"
    run(Command(resume={"decisions": [{"type": "approve"}]}))
    last = run(Command(resume=False))["messages"][-1]
    assert last.content == "did a. \n\ndid b. \n\nskipped c. \n\n[Not allowed: c]"
    assert last.response_metadata["rejected"] == ["c"]
    assert run(user("count"))["messages"][-1].content == "That is prompt 2."


def test_rules_decide_first_and_without_a_thread_nobody_is_asked():
    app = graph(acp_node(COMMANDS, permissions=allow("edit:a")), checkpointer=None)
    said = app.invoke(user("edit b"))["messages"][-1].content
    assert said == "skipped b. \n\n[Not allowed: b]"
    done = acp_runnable(AcpAgent(COMMANDS, permissions=allow("edit"))).invoke("edit b")
    assert done.content == "did b. "


PROGRAM = """
    import asyncio, json, os, sys
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.types import Command
    sys.path.insert(0, HERE)
    from in_used_langgraph import COMMANDS, acp_node, graph, thread, user

    async def main():
        async with AsyncSqliteSaver.from_conn_string("graph.db") as saver:
            app = graph(acp_node(COMMANDS), saver)
            given = user(sys.argv[2]) if sys.argv[1] == "new" else Command(resume=sys.argv[2])
            done = await app.ainvoke(given, thread("t"))
            asked = [one.value["action_requests"][0]["description"] for one in
                     done.get("__interrupt__", ())]
            print(json.dumps([asked, done["messages"][-1].content]), flush=True)
            os.kill(os.getpid(), 9)

    asyncio.run(main())
"""


@pytest.mark.parametrize("stores", [True, False])
def test_an_interrupted_graph_survives_its_process(tmp_path: Path, stores: bool):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM).replace("HERE", repr(str(HERE))))
    env = os.environ | ({"SESSIONS": str(tmp_path / "sessions.db")} if stores else {})

    def run(*arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, program, *arguments],
            cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == -9, done.stderr[-2000:]
        return json.loads(done.stdout)

    assert run("new", "edit a\nedit b\ncount")[0] == ["a"]
    assert run("resume", "allow")[0] == ["b"]
    asked, said = run("resume", "reject")
    assert asked == []
    # The prompt was sent again in each process: to the stored session, else to a new one.
    number = 3 if stores else 1
    assert "".join(said.split("\n\n")) == (
        f"did a. skipped b. That is prompt {number}.[Not allowed: b]"
    )


def test_a_tool_of_a_graph_asks_and_delegates():
    app = graph(ToolNode([acp_tool(commands)]))
    call = ToolCall(name="ask_agent", args={"prompt": "edit x"}, id="1")
    state: Any = {"messages": [AIMessage("", tool_calls=[call])]}
    assert "__interrupt__" in app.invoke(state, thread("tool"))
    done = app.invoke(Command(resume="allow"), thread("tool"))
    assert done["messages"][-1].content == "did x. "


def test_cancel_errors_and_chunks():
    async def main():
        app = graph(acp_node(script))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5):
                await app.ainvoke(user("wait forever"), thread("w"))
        async with asyncio.timeout(5):
            done = await app.ainvoke(user("echo x"), thread("w"))
        assert "x" in done["messages"][-1].content
        with pytest.raises(AcpAgentError, match="could not be started"):
            await graph(acp_node("no-such-agent")).ainvoke(user("x"), thread("e"))
        with pytest.raises(AcpAgentError, match=r"has ended: .*status 3"):
            await app.ainvoke(user("exit 3"), thread("e"))
        chunks = [one async for one in acp_runnable(script).astream("stream 3")]
        assert [one.content for one in chunks] == ["1 ", "2 ", "3 ", ""]

    asyncio.run(main())
