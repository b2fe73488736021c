"""The bridge to smolagents, with a scripted model; run by test_frameworks.py."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import subprocess
import sys
import threading
from typing import Any

import mcp.client  # noqa: F401  # takes seconds under load, which no case should wait for
import PIL.Image
from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool
from smolagents.models import (
    ApiModel,
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    agglomerate_stream_deltas,
)
from smolagents.monitoring import TokenUsage

from accord import Agent, ToolCall
from accord_bridges import as_agent
from accord_bridges.frameworks.smolagents_replies import Answer
from accord_bridges.testing import _PNG, BridgeContract, Reply, Script, ToolUse


class Scripted(ApiModel):
    """A model that follows a script; a reply without calls is a final answer."""

    def __init__(self, script: Script, model_id: str = "scripted", used: list[str] | None = None):
        self.script, self.used = script, used
        super().__init__(model_id)

    def create_client(self):
        return self

    def _reply(self, messages: Any) -> Reply:
        if self.used is not None:
            self.used.append(self.model_id)
        reply = self.script.reply([[m.role, _texts(m.content)] for m in messages])
        reply.raise_failure()
        return reply

    def generate_stream(self, messages: Any, tools_to_call_from: Any = None, **more: Any):
        reply = self._reply(messages)
        calls = list(reply.calls)
        if tools_to_call_from is None:
            yield from self._code(reply)
        elif calls or reply.hangs:
            for text in reply.text:
                yield ChatMessageStreamDelta(content=text)
            for number, call in enumerate(calls):
                yield from _pieces(number, call.id, call.name, json.dumps(call.arguments))
        else:
            quoted = [json.dumps(text)[1:-1] for text in reply.text]
            answer = ['{"answer"', ': "', *quoted, '"}']
            yield from _pieces(0, "answer", "final_answer", *answer)
        if reply.hangs:
            self.script.hang_in_thread()
        use = TokenUsage(reply.input_tokens, reply.output_tokens)
        yield ChatMessageStreamDelta(token_usage=use)

    def _code(self, reply: Reply):
        """Say thoughts and then code, as a `CodeAgent` expects it."""
        lines = [f"print({c.name}(**{dict(c.arguments)!r}))" for c in reply.calls]
        if not lines:
            lines = [f"final_answer({''.join(reply.text)!r})"]
        text = "".join((*reply.thoughts, *(reply.text if reply.calls else ())))
        for piece in ("Tho", "ught: ", text, "\n", "<co", "de>\n", "\n".join(lines), "\n</code>"):
            yield ChatMessageStreamDelta(content=piece)

    def generate(self, messages: Any, **more: Any) -> ChatMessage:
        return agglomerate_stream_deltas(list(self.generate_stream(messages, **more)))


def _pieces(index: int, call_id: str, name: str, *pieces: str):
    for number, piece in enumerate(pieces):
        function = ChatMessageToolCallFunction(piece, "" if number else name)
        delta = ChatMessageToolCallStreamDelta(index, call_id, "function", function)
        yield ChatMessageStreamDelta(tool_calls=[delta])


def _texts(content: Any) -> Any:
    """Return the content of a message; the picture of the contract as the client has sent it."""
    if not isinstance(content, list):
        return content
    sent = PIL.Image.open(io.BytesIO(_PNG)).tobytes()
    return [
        base64.b64encode(_PNG).decode()
        if part["type"] == "image" and part["image"].tobytes() == sent
        else part
        for part in content
    ]


class TestToolCallingAgent(BridgeContract):
    can = frozenset(
        ("approvals", "edited_arguments", "plans", "subagents", "mcp", "images", "usage",
         "models", "parallel_calls", "fork", "editor_tools")
    )  # fmt: skip
    waits_in_threads = True

    async def make_agent(self, script: Script, **options: Any) -> Agent:
        tools = [tool(each) for each in self.tools.blocking.values()]
        helper = ToolCallingAgent(
            tools, Scripted(script), name="ask_helper", description="It helps."
        )
        model = Scripted(script, self.models[0], self.models_used)
        agent = ToolCallingAgent(tools, model, managed_agents=[helper])
        return as_agent(agent, settings={"ask_for": ["write_note_file"]}, **options)


class TestCodeAgent(BridgeContract):
    """What is special in agents that write code: their calls are in it, and thoughts before it."""

    can = frozenset(("thoughts", "approvals", "subagents", "fork", "usage", "models"))
    waits_in_threads = True
    shared = ("arrive_in", "subagent", "rate_limit", "client_goes_in_a_tool",
              "share_no_state", "fork", "tokens")  # fmt: skip

    async def make_agent(self, script: Script, **options: Any) -> Agent:
        tools = [tool(each) for each in self.tools.blocking.values()]
        helper = ToolCallingAgent(
            tools, Scripted(script), name="ask_helper", description="It helps."
        )
        agent = CodeAgent(tools, Scripted(script), managed_agents=[helper])
        return as_agent(agent, settings={"ask_for": ["write_note_file"]}, **options)


for _name in dir(BridgeContract):
    if _name.startswith("test_") and not any(word in _name for word in TestCodeAgent.shared):
        setattr(TestCodeAgent, _name, None)


# What only this framework has.


def coder(script: Script, tools: Any = (), *, ask_for: Any = (), **more: Any) -> Agent:
    agent = CodeAgent([tool(each) for each in tools], Written(script), **more)
    return as_agent(agent, settings={"ask_for": ask_for})


class Written(Scripted):
    """A model whose texts are replies as they are."""

    def generate_stream(self, messages: Any, **more: Any):
        reply = self._reply(messages)
        for text in reply.text:
            yield ChatMessageStreamDelta(content=text)


def code(*lines: str) -> Reply:
    return Reply(text=("Thought: I compute.\n<code>\n", "\n".join(lines), "\n</code>"))


async def test_code_is_a_call_with_its_output_and_the_calls_in_it():
    script = Script(
        code("x = double(21)", "print('word-printed', x)"),
        code("final_answer(f'It is {x}')"),
        code("final_answer(x + 1)"),
        code("print(x)"),
        code("final_answer('No.')"),
    )

    def double(number: int) -> int:
        """Double.

        Args:
            number: A number.
        """
        return 2 * number

    async with contract().connected(script, agent=coder(script, [double])) as client:
        session, other = await client.session(), await client.session()
        turn = await client.turn(session, "go")
        assert turn.text == "It is 42"
        thoughts = [m.text for m in session.transcript.messages if m.role == "thought"]
        assert thoughts == ["I compute.", "I compute."]
        ran, doubled = turn.tool_calls
        assert (ran.kind, ran.status) == ("execute", "completed")
        assert ran.raw_input["code"].startswith("x = double(21)")
        assert "word-printed 42" in str(ran.content)
        assert (doubled.name, doubled.raw_input) == ("double", {"number": 21})
        assert "42" in str(doubled.content)
        assert "word-printed 42" in script.requests[1]
        assert (await client.turn(session, "more")).text == "43", "variables stay in a session"
        turn = await client.turn(other, "go")
        assert [call.status for call in turn.tool_calls] == ["failed"], "and are not in others"


async def test_code_runs_as_the_user_allows_it():
    asked: list[Any] = []

    def decide(request: Any) -> Any:
        asked.append(request)
        if len(asked) == 1:
            return "reject"
        return next(option for option in request.options if "change" in option.id)

    async def answer(form: Any) -> Any:
        return {"code": "print('word-changed')"}

    ran: list[str] = []

    def touch(name: str) -> str:
        """Touch.

        Args:
            name: A name.
        """
        ran.append(name)
        return name

    script = Script(code("touch('a')"), code("touch('b')"), code("final_answer('Done.')"))
    agent = coder(script, [touch], ask_for=["python_interpreter"])
    async with contract().connected(
        script, agent=agent, permissions=decide, answer=answer
    ) as client:
        turn = await client.turn(await client.session(), "go")
        assert turn.text == "Done."
        assert len(asked) == 2, "an answer that is no work is not asked about"
        assert asked[0].tool_call.raw_input == {"code": "touch('a')"}
        assert [call.status for call in turn.tool_calls] == ["cancelled", "completed"]
        assert not ran
        assert "does not allow" in script.requests[1]
        assert "word-changed" in script.requests[2]


async def test_time_that_the_user_takes_does_not_count_for_the_code():
    def wait(name: str) -> str:
        """Wait.

        Args:
            name: A name.
        """
        return name

    async def decide(request: Any) -> Any:
        await asyncio.to_thread(late.wait, 1.2)
        return "allow"

    late = threading.Event()
    script = Script(
        code("print(wait('word-allowed'))"),
        code("n = 0", "while n < 10_000_000:", "    n += 1"),
        code("final_answer('Done.')"),
    )
    agent = coder(script, [wait], ask_for=["wait"], executor_kwargs={"timeout_seconds": 1})
    async with contract().connected(script, agent=agent, permissions=decide) as client:
        turn = await client.turn(await client.session(), "go")
        statuses = [call.status for call in turn.tool_calls]
        assert statuses == ["completed", "completed", "failed"], "the second has no end"
        assert "not ended after 1 s" in str(turn.tool_calls[2].content)


async def test_cancel_ends_code_that_runs_and_the_next_turn_works():
    def begin(name: str) -> str:
        """Begin.

        Args:
            name: A name.
        """
        return name

    script = Script(
        code("word = begin('word-begun')", "n = 0", "while True:", "    n += 1"),
        code("print(word)"),
        code("final_answer('Here.')"),
    )
    async with contract().connected(script, agent=coder(script, [begin])) as client:
        session = await client.session()
        done = ("begin", "completed")
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, ToolCall) and (event.name, event.status) == done:
                    break
            await turn.cancel()
            await turn.wait()
        assert turn.stop_reason == "cancelled"
        assert [call.status for call in turn.tool_calls] == ["cancelled", "completed"]
        turn = await client.turn(session, "now?")
        assert turn.text == "Here."
        assert "word-begun" in str(turn.tool_calls[0].content), "what was done is kept"
        assert "has cancelled" in script.requests[1]
        assert "while True" in script.requests[1]


async def test_planning_is_a_plan():
    plan = "## 1. Facts\n- a fact\n## 2. Plan\n1. Look **well**\n2. Write\n<end_plan>"
    script = Script(Reply(text=(plan,)), code("final_answer('Done.')"))
    agent = coder(script, planning_interval=3)
    async with contract().connected(script, agent=agent) as client:
        session = await client.session()
        assert (await client.turn(session, "go")).text == "Done."
        assert [e.content for e in session.transcript.plan.entries] == ["Look well", "Write"]
        thoughts = [m.text for m in session.transcript.messages if m.role == "thought"]
        assert thoughts == [plan, "I compute."]


async def test_last_answer_after_too_many_steps_says_why_it_ended():
    script = Script(code("print(1)"), Reply(text=("It is ", "not done.")))
    async with contract().connected(script, agent=coder(script, max_steps=1)) as client:
        turn, error = await client.ended(await client.session(), "go")
        assert (turn.stop_reason, error) == ("max_turn_requests", None)
        assert turn.text == "It is not done."


async def test_replies_that_cannot_be_used_are_said_and_tried_again():
    script = Script(Reply(text=("Thought: I am (lost.",)), code("final_answer('Found.')"))
    async with contract().connected(script, agent=coder(script)) as client:
        session = await client.session()
        assert (await client.turn(session, "go")).text == "Found."
        thoughts = "".join(m.text for m in session.transcript.messages if m.role == "thought")
        assert "I am (lost." in thoughts
        assert "code parsing" in thoughts


async def test_answers_that_are_no_text_are_shown():
    def draw(size: int) -> PIL.Image.Image:
        """Draw.

        Args:
            size: A size.
        """
        return PIL.Image.new("RGB", (size, size))

    script = Script(code("final_answer(draw(3))"), code("final_answer({'a': [1]})"))
    async with contract().connected(script, agent=coder(script, [draw])) as client:
        session = await client.session()
        await client.turn(session, "go")
        shown = [part for m in session.transcript.messages for part in m.content]
        assert PIL.Image.open(io.BytesIO(shown[-1].data)).size == (3, 3)
        assert json.loads((await client.turn(session, "go")).text) == {"a": [1]}


async def test_prompt_that_the_provider_refuses_is_forgotten():
    script = Script(
        code("final_answer('One.')"), Reply(failure="context_length"), code("final_answer('Two.')")
    )
    async with contract().connected(script, agent=coder(script)) as client:
        session = await client.session()
        await client.turn(session, "word-one")
        await client.ended(session, "word-two")
        await client.turn(session, "word-three")
    assert "word-two" in script.requests[1]
    assert "word-one" in script.requests[2]
    assert "word-two" not in script.requests[2]


class Answering(OpenAIModel):
    """A model whose replies without calls are answers."""

    def parse_tool_calls(self, message: ChatMessage) -> ChatMessage:
        function = ChatMessageToolCallFunction({"answer": message.content}, "final_answer")
        message.tool_calls = [ChatMessageToolCall(function, "answer", "function")]
        return message


class TestOpenAi(BridgeContract):
    """The same with a client of a provider, and its server."""

    has_server = True
    waits_in_threads = True

    async def make_agent(self, script: Script, **options: Any) -> Agent:
        model = Answering(
            "scripted", api_base=self.server.url, api_key="none", retry=False,
            client_kwargs={"max_retries": 0},
        )  # fmt: skip
        tools = [tool(each) for each in self.tools.blocking.values()]
        return as_agent(ToolCallingAgent(tools, model), **options)


for _name in dir(BridgeContract):
    if _name.startswith("test_") and not any(
        word in _name for word in ("key_is", "limit_is", "connection_is", "too_long", "refusal")
    ):
        setattr(TestOpenAi, _name, None)


async def test_calls_and_answers_of_a_provider_are_streamed():
    read = ToolUse("read_note_file", {"path": "a.txt"})
    answer = ToolUse("final_answer", {"answer": 'A "quoted" \N{GRINNING FACE} word'})
    script = Script(Reply(text=("I look.",), calls=(read,)), Reply(calls=(answer,)))
    async with TestOpenAi().connected(script) as client:
        session = await client.session()
        turn = await client.turn(session, "go")
        assert turn.text == 'I look.\n\nA "quoted" \N{GRINNING FACE} word'
        assert [call.raw_input for call in turn.tool_calls] == [{"path": "a.txt"}]
        assert turn.token_usage.input == 20


async def test_answer_is_the_text_of_json_in_any_pieces():
    text = 'a\\b "c" \n \N{GRINNING FACE} é\t/'
    for ascii_only in (True, False):
        answer = Answer()
        whole = json.dumps({"answer": text}, ensure_ascii=ascii_only)
        assert "".join(map(answer.add, whole)) == text


def test_process_ends_although_tools_and_code_hang():
    """The threads of smolagents' own pools would be waited for at the end of the process."""
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "cancelled cancelled\n"


async def _hang() -> list[Any]:
    """Cancel a turn with two calls that hang, and one with code that hangs."""
    running = asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()

    def hang(name: str) -> str:
        """Hang.

        Args:
            name: A name.
        """
        loop.call_soon_threadsafe(running.release)
        threading.Event().wait()
        return name

    calls = [ToolUse("hang", {"name": name}) for name in "ab"]
    script = Script(Reply(calls=calls), code("hang('c')"))
    plain = as_agent(ToolCallingAgent([tool(hang)], Scripted(script)))
    reasons: list[Any] = []
    for agent, count in ((plain, 2), (coder(script, [hang]), 1)):
        async with contract().connected(script, agent=agent) as client:
            session = await client.session()
            async with session.prompt("go") as turn:
                for _ in range(count):
                    await running.acquire()
                await turn.cancel()
                await turn.wait()
            reasons.append(turn.stop_reason)
    return reasons


def contract() -> BridgeContract:
    return TestCodeAgent()


if __name__ == "__main__":
    print(*asyncio.run(_hang()))
