"""The contract of bridges as tests, with a scripted model: derive from `BridgeContract`.

The model's script and the tools that it calls are in `scripted_model`, a server with the API of a
model is in `scripted_server`.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import accord
from accord import (
    Agent,
    ClientSession,
    ClientTurn,
    ConnectedAgent,
    EmbeddedResource,
    ImageContent,
    McpServerStdio,
    MemoryStore,
    PermissionRequest,
    ResourceLink,
    SqliteStore,
    Text,
    Thought,
    ToolCall,
)
from accord.errors import AccordError, RequestError
from accord.local.run import run_program
from accord.transports.memory import pair
from accord.transports.stdio import stdio
from accord_bridges.scripted_model import (
    Failure,
    ModelError,
    Reply,
    Script,
    Tools,
    ToolUse,
    text_of_request,
)
from accord_bridges.scripted_server import ScriptedServer

__all__ = (
    "BridgeContract",
    "Failure",
    "ModelError",
    "Reply",
    "Script",
    "ScriptedServer",
    "ToolUse",
    "Tools",
    "serve_contract",
    "text_of_request",
)

ABILITIES: frozenset[str] = frozenset(
    ("thoughts", "approvals", "edited_arguments", "plans", "questions", "subagents", "mcp",
     "images", "usage", "models", "steering", "parallel_calls", "fork", "editor_tools")
)  # fmt: skip
_TIMEOUT_S = 15.0  # for one connection with all that is done on it
_PROCESS_S = 240.0  # for a process that imports a framework: 60 s are not enough on a busy machine
# One transparent point.
_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


class BridgeContract:
    """The contract of bridges as tests: derive `TestMyBridge`, override `make_agent`, set `can`.

    The tests are coroutines without arguments, for pytest-asyncio's auto mode or the like. Each
    has an instance of the class. Where the version of the protocol matters, a test runs in both.
    """

    can: ClassVar[frozenset[str]] = frozenset()
    """What the framework can do, names of `ABILITIES`; the tests of the rest check that it is not
    advertised, and are skipped."""
    has_server: ClassVar[bool] = False
    """Whether `self.server` is served with the script while an agent runs."""
    waits_in_threads: ClassVar[bool] = False
    """Whether the tools run in threads, so that a cancel cannot stop them."""
    timeout_s: ClassVar[float] = _TIMEOUT_S
    """How long a connection with all that is done on it may take; what must stop at its end has a
    fifth of that. More for a framework that starts programs."""
    question_call: ClassVar[ToolUse] = ToolUse("ask_user", {"question": "Which colour?"})
    """The call by which the model asks the user a question; see `make_agent`."""
    subagent_call: ClassVar[ToolUse] = ToolUse("ask_helper", {"task": "word-task"})
    """The call by which the model starts a subagent; see `make_agent`."""

    async def make_agent(self, script: Script, **options: Any) -> Agent:
        """Return the bridge with an agent of the framework whose model follows the script.

        The agent has the tools of `self.tools`: `plain`, and `guarded` with approvals. If it can
        ask questions, it has a tool for `question_call`, which returns the answer; if it has
        subagents, one for `subagent_call` that has the same model and tools. `options` are those
        of `as_agent`; a fork or a loaded session has another agent with the same store.
        """
        raise NotImplementedError

    def mcp_tool(self, server: str, tool: str) -> str:
        """Return the name by which the model knows a tool of an MCP server."""
        return f"{server}_{tool}"

    # The means.

    @cached_property
    def tools(self) -> Tools:
        """The tools of the agents of this test."""
        return Tools()

    server: ScriptedServer
    """The server of the script, if the class `has_server`."""

    @asynccontextmanager
    async def connected(
        self,
        script: Script | Iterable[Reply],
        version: int = 2,
        *,
        permissions: Any = None,
        answer: Callable[[Any], Awaitable[Any]] | None = None,
        agent: Agent | None = None,
        folder: str | None = None,
        **options: Any,
    ) -> AsyncGenerator[_Client, None]:
        """Yield a client of an agent; at the end, check that nothing of it stays running.

        `permissions` and `answer` are the client's decisions and its answers to forms, which it
        offers only with `answer`. Sessions work in `folder`, a new one by default.
        """
        script = script if isinstance(script, Script) else Script(*script)
        before = asyncio.all_tasks()
        self.tools.released.clear()  # set by the connection before
        unknown = self.can - ABILITIES
        assert not unknown, f"can={sorted(unknown)}: expected names of {sorted(ABILITIES)}"
        here, there = pair()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as new_folder:
            try:
                async with asyncio.timeout(self.timeout_s):
                    if self.has_server:
                        self.server = ScriptedServer(script)
                        await self.server.listen()
                    agent = agent or await self.make_agent(script, **options)
                    serving = asyncio.create_task(accord.serve(agent, there))
                    try:
                        async with accord.connect(
                            here,
                            versions=(1,) if version == 1 else (2,),
                            unstable=True,
                            permissions=permissions,
                            on_elicit_form=answer,
                        ) as client:
                            yield _Client(client, agent, script, folder or new_folder)
                    finally:
                        await here.aclose()
                        await asyncio.wait([serving], timeout=self.timeout_s / 5)
                        assert serving.done(), "the agent still serves a client that has gone"
                        await agent.aclose()
            except TimeoutError as error:
                raise AssertionError(f"not done after {self.timeout_s:g} s") from error
            except BaseException as error:
                error.add_note(f"in version {version} of the protocol")
                raise
            finally:
                script.released.set()
                self.tools.released.set()
                if self.has_server:
                    await self.server.refuse()
        assert not script.problems, f"the model was asked without a reply: {script.problems}"
        await _until_ended(before, self.timeout_s / 5)
        await self.tools.until_idle()

    def _need(self, ability: str) -> None:
        """Skip a test of what the framework cannot do."""
        if ability not in self.can:
            _skip(f"the framework cannot do this: {ability}")

    # What the agent says.

    async def test_text_and_thoughts_arrive_in_order(self) -> None:
        thinks = "thoughts" in self.can
        thoughts = ("First ", "a thought.") if thinks else ()
        script = Script(Reply(thoughts=thoughts, text=("Hel", "lo, ", "wor", "ld.")))
        async with self.connected(script) as client:
            session = await client.session()
            events: list[Any] = []
            async with session.prompt("word-one") as turn:
                events += [event async for event in turn]
            assert turn.stop_reason == "end_turn"
            assert turn.text == "Hello, world."
            kinds = [type(e).__name__ for e in events if isinstance(e, Text | Thought)]
            assert sorted(kinds, reverse=True) == kinds, f"thoughts come before text: {kinds}"
            messages = session.transcript.messages
            assert [m.text for m in messages if m.role == "thought"] == (
                ["First a thought."] if thinks else []
            )
            ids = [m.id for m in messages if m.role in ("agent", "thought")]
            assert all(ids), "messages have ids"
            assert len(set(ids)) == len(ids) == 1 + thinks
            assert "word-one" in script.requests[0], "the model gets the prompt"

    async def test_replies_of_several_requests_are_several_messages(self) -> None:
        script = Script(
            Reply(text=("I look.",), calls=(_read("a.txt"),)), Reply(text=("I have ", "looked."))
        )
        async with self.connected(script) as client:
            session = await client.session()
            turn = await client.turn(session, "go")
            items = [_shown(item) for item in session.transcript.items]
            assert items == ["user: go", "agent: I look.", "call", "agent: I have looked."], items
            ids = [m.id for m in session.transcript.messages]
            assert len(set(ids)) == 3, f"each message has an id of its own: {ids}"
            assert turn.text == "I look.\n\nI have looked."

    async def test_many_deltas_arrive_complete_and_in_order(self) -> None:
        deltas = [f"{number} " for number in range(2000)]
        async with self.connected([Reply(text=deltas)]) as client:
            turn = await client.turn(await client.session(), "count")
            assert turn.text == "".join(deltas)

    async def test_text_that_is_no_markdown_is_said_as_it_is(self) -> None:
        text = 'Zwölf \N{GRINNING FACE} <b>&amp;</b> {"a": [1]} \\n $HOME  \n\n\tdone'
        async with self.connected([Reply(text=(text,))]) as client:
            assert (await client.turn(await client.session(), "go")).text == text

    # The prompt.

    async def test_content_of_the_prompt_reaches_the_model(self) -> None:
        script = Script(Reply(text=("Seen.",)), Reply(text=("Seen.",)))
        async with self.connected(script) as client:
            session = await client.session()
            link = ResourceLink("file:///notes/word-link.txt", "word-name")
            await client.turn(session, "word-one", link, "word-two")
            seen = script.requests[0]
            for word in ("word-one", "word-link", "word-two"):
                assert word in seen, f"{word} of the prompt is not in the request: {seen[:2000]}"
            if client.agent.supports_content("resource"):
                await client.turn(
                    session, EmbeddedResource("file:///notes/b.txt", "word-embedded"), "word-three"
                )
                assert "word-embedded" in script.requests[1]
                assert "b.txt" in script.requests[1], "the source of a resource is said"

    async def test_image_of_the_prompt_reaches_the_model(self) -> None:
        self._need("images")
        script = Script(Reply(text=("A point.",)))
        async with self.connected(script) as client:
            assert client.agent.supports_content("image"), "'images' is not advertised"
            await client.turn(await client.session(), "Look", ImageContent(_PNG, "image/png"))
            assert base64.b64encode(_PNG).decode() in script.requests[0]

    # Tool calls.

    async def test_tool_call_is_shown_with_what_it_does(self) -> None:
        script = Script(Reply(calls=(_read("notes/a.txt"),)), Reply(text=("Done.",)))
        async with self.connected(script) as client:
            session = await client.session()
            turn = await client.turn(session, "go")
            call = _only(turn)
            path = os.path.join(client.folder, "notes", "a.txt")  # noqa: PTH118  # a text
            assert "notes/a.txt" in call.title, f"the title says what it works on: {call.title!r}"
            assert call.kind == "read", call.kind
            assert call.name is not None
            assert "read_note_file" in call.name
            assert call.raw_input == {"path": "notes/a.txt"}
            assert [location.path for location in call.locations] == [path]
            assert call.status == "completed"
            assert "word-apple" in str(call.content), f"its output is shown: {call.content}"
            assert self.tools.ran == [("read_note_file", {"path": "notes/a.txt"})]
            assert "word-apple" in script.requests[1], "the model gets the output"

    async def test_failing_tool_fails_its_call_and_not_the_session(self) -> None:
        fails = ToolUse("fail_always", {"reason": "word-reason"})
        script = Script(Reply(calls=(fails,)), Reply(text=("It failed.",)), Reply(text=("Well.",)))
        async with self.connected(script) as client:
            session = await client.session()
            turn, error = await client.ended(session, "go")
            call = _only(turn)
            assert call.status == "failed", call.status
            shown = f"{call.content} {turn.text} {error}"
            assert "word-reason" in shown, f"the reason is shown: {shown}"
            _no_traceback(shown)
            assert self.tools.count("fail_always") == 1, "it runs once"
            assert (await client.turn(session, "and now?")).stop_reason == "end_turn"

    async def test_parallel_calls_run_at_once(self) -> None:
        self._need("parallel_calls")
        both = (ToolUse("meet", {"who": "word-a"}), ToolUse("meet", {"who": "word-b"}))
        script = Script(Reply(calls=both), Reply(text=("They met.",)))
        async with self.connected(script) as client:
            turn = await client.turn(await client.session(), "go")
            calls = {call.raw_input["who"]: call for call in turn.tool_calls}
            assert len(turn.tool_calls) == 2
            for who, call in calls.items():
                assert call.status == "completed"
                assert who in str(call.content), f"each call has its own output: {call.content}"
            assert "word-a has met" in script.requests[1]
            assert "word-b has met" in script.requests[1]

    async def test_plan_is_shown(self) -> None:
        self._need("plans")
        steps = ToolUse("update_plan", {"steps": ["Look", "Write"]})
        for version in (1, 2):
            async with self.connected(
                [Reply(calls=(steps,)), Reply(text=("Planned.",))], version
            ) as client:
                session = await client.session()
                await client.turn(session, "plan it")
                plan = session.transcript.plan
                assert plan is not None, "no plan is shown"
                assert [entry.content for entry in plan.entries] == ["Look", "Write"]

    async def test_work_of_a_subagent_is_shown_apart(self) -> None:
        self._need("subagents")
        script = Script(
            Reply(calls=(self.subagent_call,)),
            Reply(text=("The helper ", "reads."), calls=(_read("a.txt"),)),
            Reply(text=("The helper is done.",)),
            Reply(text=("All done.",)),
        )
        async with self.connected(script) as client:
            session = await client.session()
            turn = await client.turn(session, "go")
            assert turn.text.endswith("All done.")
            assert "reads" not in turn.text, f"it is not the agent's own text: {turn.text}"
            subagents = session.transcript.subagents
            assert len(subagents) == 1, f"no subagent is shown: {session.transcript.items}"
            items = session.subagent(next(iter(subagents))).transcript
            assert "The helper reads." in items.text
            assert [call.status for call in items.tool_calls] == ["completed"]

    # Approvals and questions.

    async def test_allowed_call_runs_once(self) -> None:
        self._need("approvals")
        for version in (1, 2):
            asked: list[PermissionRequest] = []
            script = Script(Reply(calls=(_write("word-text"),)), Reply(text=("Written.",)))
            async with self.connected(
                script, version, permissions=_deciding(asked, "allow")
            ) as client:
                turn = await client.turn(await client.session(), "write it")
                assert turn.text == "Written."
                assert len(asked) == 1, f"it is asked once, not {len(asked)} times"
                call = asked[0].tool_call
                assert call is not None, "a request for permission belongs to a call"
                assert call.id in [each.id for each in turn.tool_calls]
                kinds = {option.kind for option in asked[0].options}
                assert {"allow_once", "reject_once"} <= kinds, kinds
                assert "n.txt" in call.title, f"the user sees what is allowed: {call.title!r}"
                assert call.raw_input == {"path": "n.txt", "text": "word-text"}
                assert _only(turn).status == "completed"
                assert "Wrote word-text" in script.requests[1]
                assert self.tools.count("write_note_file") == version

    async def test_rejected_call_does_not_run(self) -> None:
        self._need("approvals")
        for version in (1, 2):
            script = Script(
                Reply(calls=(_write("word-text"),)), Reply(text=("A pity.",)), Reply(text=("Yes",))
            )
            async with self.connected(
                script, version, permissions=_deciding([], "reject")
            ) as client:
                session = await client.session()
                turn, error = await client.ended(session, "write it")
                assert error is None, f"a rejection is no error: {error}"
                assert _only(turn).status in ("cancelled", "failed")
                assert not self.tools.ran, "it ran although it was rejected"
                await client.turn(session, "go on")

    async def test_always_is_remembered_for_the_session(self) -> None:
        self._need("approvals")
        for decision, runs in (("allow_always", 3), ("reject_always", 0)):
            asked: list[PermissionRequest] = []
            write = Reply(calls=(_write("word-text"),))
            script = Script(*(write, Reply(text=("So.",))) * 3)
            self.tools.ran.clear()
            async with self.connected(script, permissions=_deciding(asked, decision)) as client:
                session = await client.session()
                await client.turn(session, "write it")
                await client.turn(session, "write it again")
                assert len(asked) == 1, f"{decision} is asked once, not {len(asked)} times"
                await client.turn(await client.session(), "write it there")
                assert len(asked) == 2, "it holds for its session only"
                assert self.tools.count("write_note_file") == runs

    async def test_call_runs_with_the_arguments_that_the_user_edited(self) -> None:
        self._need("edited_arguments")
        forms: list[Any] = []

        async def answer(form: Any) -> Any:
            forms.append(form)
            return {"path": "n.txt", "text": "word-edited"}

        def decide(request: PermissionRequest) -> Any:
            changed = [o for o in request.options if o.kind == "allow_once" and "change" in o.id]
            assert changed, f"no option to change the arguments: {request.options}"
            return changed[0]

        for version in (1, 2):
            script = Script(Reply(calls=(_write("word-text"),)), Reply(text=("Written.",)))
            self.tools.ran.clear()
            async with self.connected(script, version, permissions=decide, answer=answer) as client:
                turn = await client.turn(await client.session(), "write it")
                new = {"path": "n.txt", "text": "word-edited"}
                assert self.tools.ran == [("write_note_file", new)]
                assert _only(turn).raw_input == new, "the call is shown as it ran"
        assert len(forms) == 2

    async def test_each_of_two_calls_is_approved_by_itself(self) -> None:
        self._need("approvals")
        asked: list[PermissionRequest] = []

        def decide(request: PermissionRequest) -> Any:
            asked.append(request)
            assert request.tool_call is not None
            return "allow" if "word-b" in str(request.tool_call.raw_input) else "reject"

        script = Script(
            Reply(calls=(_write("word-a"), _write("word-b"), _read("a.txt"))),
            Reply(text=("One is written.",)),
        )
        async with self.connected(script, permissions=decide) as client:
            turn = await client.turn(await client.session(), "write both")
            assert len(asked) == 2, f"each is asked once, not {len(asked)} times in all"
            assert self.tools.count("read_note_file") == 1, "other calls run once"
            written = [arguments["text"] for name, arguments in self.tools.ran if "write" in name]
            assert written == ["word-b"]
            shown = {str(call.raw_input.get("text")): call.status for call in turn.tool_calls}
            assert shown["word-b"] == shown["None"] == "completed"
            assert shown["word-a"] in ("cancelled", "failed")

    async def test_question_is_answered_by_the_user(self) -> None:
        self._need("questions")

        async def answer(form: Any) -> Any:
            asked.append(form.message)
            return {form.fields[0].name: "word-green"}

        for version in (1, 2):
            asked: list[str] = []
            script = Script(Reply(calls=(self.question_call,)), Reply(text=("Green.",)))
            async with self.connected(script, version, answer=answer) as client:
                turn = await client.turn(await client.session(), "ask me")
                assert turn.text.endswith("Green.")
                assert len(asked) == 1
                assert "colour" in asked[0]
                assert "word-green" in script.requests[-1], (
                    "the model gets the answer" + script.requests[-1]
                )

    # Cancels.

    async def test_cancel_before_the_first_delta(self) -> None:
        for version in (1, 2):
            script = Script(Reply(hangs=True), Reply(text=("I am back.",)))
            async with self.connected(script, version) as client:
                session = await client.session()
                async with session.prompt("word-first") as turn:
                    await script.until_requests(1)
                    await turn.cancel()
                    await turn.wait()
                await self._goes_on(client, session, turn)

    async def test_cancel_while_text_arrives(self) -> None:
        for version in (1, 2):
            script = Script(
                Reply(text=("word-said ", "and "), hangs=True), Reply(text=("I am back.",))
            )
            async with self.connected(script, version) as client:
                session = await client.session()
                async with session.prompt("word-first") as turn:
                    async for event in turn:
                        if isinstance(event, Text):
                            break
                    await turn.cancel()
                    await turn.wait()
                assert turn.text.startswith("word-said"), "text is shown as it arrives"
                await self._goes_on(client, session, turn)

    async def test_cancel_while_a_tool_hangs(self) -> None:
        for version in (1, 2):
            waits = ToolUse("wait_forever", {"what": "word-event"})
            script = Script(
                Reply(calls=(_read("word-done.txt"),)),
                Reply(calls=(waits,)),
                Reply(text=("I am back.",)),
            )
            async with self.connected(script, version) as client:
                session = await client.session()
                async with session.prompt("word-first") as turn:
                    await self.tools.until_running("wait_forever")
                    await turn.cancel()
                    await turn.wait()
                if not self.waits_in_threads:
                    await self.tools.until_idle()
                statuses = [call.status for call in turn.tool_calls]
                # Version 1 has no status for a cancel.
                assert statuses == ["completed", "cancelled" if version == 2 else "failed"], (
                    statuses
                )
                await self._goes_on(client, session, turn, knows="word-done")
                assert self.tools.count("wait_forever") == version, "it is not run again"
                assert self.tools.count("read_note_file") == version, "it is not run again"

    async def test_cancel_while_the_user_is_asked(self) -> None:
        self._need("approvals")
        for version in (1, 2):
            asked = asyncio.Event()

            async def decide(_: PermissionRequest, asked: asyncio.Event = asked) -> Any:
                asked.set()
                await asyncio.get_running_loop().create_future()

            script = Script(Reply(calls=(_write("word-text"),)), Reply(text=("I am back.",)))
            async with self.connected(script, version, permissions=decide) as client:
                session = await client.session()
                async with session.prompt("word-first") as turn:
                    await asked.wait()
                    await turn.cancel()
                    await turn.wait()
                assert not self.tools.ran, "it ran although it was not allowed"
                await self._goes_on(client, session, turn)

    async def _goes_on(
        self, client: _Client, session: ClientSession, turn: ClientTurn, *, knows: str = ""
    ) -> None:
        """Check that a turn was cancelled, and that the session goes on after it."""
        assert turn.stop_reason == "cancelled", turn.stop_reason
        assert turn.error is None
        count = len(client.script.requests)
        more = await client.turn(session, "word-second")
        assert more.text.endswith("I am back."), more.text
        assert len(client.script.requests) == count + 1, "one prompt is one request here"
        seen = client.script.requests[-1]
        for word in ("word-first", "word-second", knows):
            assert word in seen, f"after a cancel the model does not know {word}: {seen[-2000:]}"
        # The client marks the calls of a turn that it cancels; what is stored is the agent's word.
        if client.agent.supports("load_session"):
            loaded = await client.agent.load_session(session.id, session.cwd)
            left = [call.title for call in loaded.transcript.tool_calls if not call.is_final]
            assert not left, f"the agent has left calls open: {left}"

    # Errors of the model.

    async def test_rate_limit_is_a_readable_error(self) -> None:
        text = await self._fails("rate_limit")
        assert "rate" in text.lower(), text

    async def test_missing_key_is_a_readable_error(self) -> None:
        text = await self._fails("no_key")
        assert "key" in text.lower(), text

    async def test_refused_connection_is_a_readable_error(self) -> None:
        text = await self._fails("connection_refused")
        assert "cannot be reached" in text, text

    async def test_too_long_context_ends_the_turn_with_max_tokens(self) -> None:
        await self._fails("context_length", "max_tokens")

    async def test_refusal_ends_the_turn_with_refusal(self) -> None:
        await self._fails("refusal", "refusal")

    async def _fails(self, failure: Failure, stop_reason: str | None = None) -> str:
        """Run a turn whose model fails, and then one that works; return what the user reads."""
        refuses = failure == "connection_refused" and self.has_server
        replies = [] if refuses else [Reply(failure=failure)]
        script = Script(*replies, Reply(text=("It works ", "again.")))
        async with self.connected(script) as client:
            session = await client.session()
            if refuses:
                await self.server.refuse()
            turn, error = await client.ended(session, "word-first")
            shown = f"{turn.text}{'' if error is None else error}"
            assert shown.strip(), "nothing is said about the failure"
            _no_traceback(shown)
            if stop_reason is not None:
                assert turn.stop_reason == stop_reason, f"{turn.stop_reason}: {shown}"
            else:
                assert isinstance(error, RequestError), f"no error: {turn.stop_reason}, {shown}"
            if refuses:
                await self.server.listen()
            again = await client.turn(session, "word-second")
            assert again.stop_reason == "end_turn"
            assert again.text == "It works again."
            assert "word-second" in script.requests[-1]
            return shown

    # Sessions.

    async def test_sessions_at_once_share_no_state(self) -> None:
        script = Script(
            Reply(calls=(_read("word-left.txt"),), when="word-left"),
            Reply(calls=(_read("word-right.txt"),), when="word-right"),
            Reply(text=("Left ", "done."), when="word-left"),
            Reply(text=("Right ", "done."), when="word-right"),
            Reply(text=("Left again.",), when="word-left"),
            Reply(text=("Right again.",), when="word-right"),
        )
        async with self.connected(script) as client:
            left, right = await client.session(), await client.session()
            turns = await asyncio.gather(
                client.turn(left, "word-left"), client.turn(right, "word-right")
            )
            assert [turn.text for turn in turns] == ["Left done.", "Right done."]
            turns = await asyncio.gather(client.turn(left, "more"), client.turn(right, "more"))
            assert [turn.text for turn in turns] == ["Left again.", "Right again."]
            for seen in script.requests:
                assert ("word-left" in seen) != ("word-right" in seen), f"mixed up: {seen[-2000:]}"
            for session, word in ((left, "right"), (right, "left")):
                assert f"word-{word}" not in str(session.transcript.items)

    async def test_history_is_replayed_and_continued_after_a_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for version in (1, 2):
                await self._load(version, folder)

    async def _load(self, version: int, folder: str) -> None:
        store = _Shared()
        script = Script(
            Reply(text=("Reading.",), calls=(_read("word-file.txt"),)),
            Reply(text=("Read.",)),
            Reply(text=("I remember.",)),
            Reply(text=("Still.",)),
        )
        async with self.connected(script, version, store=store, folder=folder) as client:
            session = await client.session()
            await client.turn(session, "word-first")
            items = [_shown(item) for item in session.transcript.items]
        async with self.connected(script, version, store=store, folder=folder) as client:
            loaded = await client.agent.load_session(session.id, session.cwd)
            assert [_shown(item) for item in loaded.transcript.items] == items
            assert [call.status for call in loaded.transcript.tool_calls] == ["completed"]
            turn = await client.turn(loaded, "word-second")
            assert turn.text == "I remember."
            for word in ("word-first", "word-file", "word-apple", "word-second"):
                assert word in script.requests[-1], f"{word} is lost after a load"
            await client.turn(loaded, "word-third")
            count = script.requests[-1].count("word-first")
            assert count == script.requests[-2].count("word-first"), "history is doubled"
        assert self.tools.count("read_note_file") == version, "a load runs no tool"

    async def test_fork_continues_apart(self) -> None:
        self._need("fork")
        async with self.connected(Script.echo()) as client:
            session = await client.session()
            await client.turn(session, "word-root")
            copy = await client.agent.fork_session(session.id, session.cwd)
            mine = await client.turn(session, "word-mine")
            other = await client.turn(copy, "word-other")
            assert other.text == "I have heard: word-root word-other"
            assert mine.text == "I have heard: word-root word-mine"

    async def test_closed_session_is_at_an_end(self) -> None:
        script = Script(Reply(text=("word-said",), hangs=True), Reply(text=("Here.",)))
        async with self.connected(script) as client:
            session, other = await client.session(), await client.session()
            async with session.prompt("go") as turn:
                async for event in turn:
                    if isinstance(event, Text):
                        break
                await session.close()
                await client.settle(turn)
            assert session.id not in client.bridge.sessions
            assert (await client.turn(other, "and you?")).text == "Here."

    async def test_completed_turn_survives_the_end_of_the_process(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            session_id = ""
            said = ""
            for word in ("word-first", "word-second"):
                command = [sys.executable, "-c", self.program, str(Path(folder, "store.sqlite"))]
                async with (
                    asyncio.timeout(max(self.timeout_s * 4, _PROCESS_S)),
                    accord.connect(command, cwd=Path.cwd()) as agent,
                ):
                    if session_id:
                        session = await agent.load_session(session_id, folder)
                    else:
                        session = await agent.new_session(folder)
                    session_id = session.id
                    async with session.prompt(word) as turn:
                        await turn.wait()
                    said = turn.text
                    process: Any = agent.remote.connection.transport
                    os.kill(process.pid, signal.SIGKILL)
            assert said == "I have heard: word-first word-second", said

    @property
    def program(self) -> str:
        """The Python source of a program that serves the agent of this class with `Script.echo`.

        Its argument is the path of an SQLite store.
        """
        cls = type(self)
        file = Path(inspect.getfile(cls)).resolve()
        return (
            "import importlib.util, sys\n"
            f"sys.path.insert(0, {str(file.parent)!r})\n"
            "from accord_bridges.testing import serve_contract\n"
            f"spec = importlib.util.spec_from_file_location('contract', {str(file)!r})\n"
            "module = importlib.util.module_from_spec(spec)\n"
            "sys.modules['contract'] = module\n"
            "spec.loader.exec_module(module)\n"
            f"serve_contract(module.{cls.__qualname__}, sys.argv[1])\n"
        )

    # Clients that go.

    async def test_nothing_stays_running_when_the_client_goes_in_an_approval(self) -> None:
        self._need("approvals")
        asked = asyncio.Event()

        async def decide(_: PermissionRequest) -> Any:
            asked.set()
            await asyncio.get_running_loop().create_future()

        script = Script(Reply(calls=(_write("word-text"),)), Reply(text=("Too late.",)))
        await self._leave(script, asked.wait, permissions=decide)
        assert not self.tools.ran, "it ran although it was not allowed"

    async def test_nothing_stays_running_when_the_client_goes_in_a_tool(self) -> None:
        waits = ToolUse("wait_forever", {"what": "word-event"})
        script = Script(Reply(calls=(waits,)), Reply(text=("Too late.",)))
        await self._leave(script, lambda: self.tools.until_running("wait_forever"))
        assert self.tools.count("wait_forever") == 1

    async def _leave(
        self, script: Script, when: Callable[[], Awaitable[object]], **more: Any
    ) -> None:
        async with self.connected(script, **more) as client:
            session = await client.session()
            prompt = asyncio.create_task(client.ended(session, "go"), name="the client's turn")
            await when()
        _, error = await prompt
        assert error is not None, "a turn does not end without its client"
        if not self.waits_in_threads:
            await self.tools.until_idle()

    # MCP servers of the client.

    async def test_mcp_servers_of_the_client_are_used_and_end_with_the_session(self) -> None:
        self._need("mcp")
        calls = [
            ToolUse(self.mcp_tool(name, "shout"), {"text": f"word-{name}"})
            for name in ("alpha", "beta")
        ]
        script = Script(Reply(calls=calls), Reply(text=("Both.",)))
        async with self.connected(script, permissions=_deciding([], "allow")) as client:
            servers = [
                McpServerStdio(name, sys.executable, ("-I", "-S", "-c", _MCP_SERVER, name))
                for name in ("alpha", "beta")
            ]
            broken = McpServerStdio("broken", str(Path(client.folder, "missing")))
            session = await client.agent.new_session(
                client.folder, mcp_servers=(servers[0], broken, servers[1])
            )
            assert client.agent.supports_mcp_server(broken), "'mcp' is not advertised"
            events: list[Any] = []
            async with session.prompt("shout") as turn:
                events += [event async for event in turn]
            assert turn.text.endswith("Both."), turn.text
            told = [event for event in events if "broken" in f"{event!r}"]
            assert told, "the user is not told of a server that does not start"
            pids: list[int] = []
            for call, name in zip(turn.tool_calls, ("alpha", "beta"), strict=True):
                assert call.status == "completed", f"{call.status}: {call.content}"
                output = f"{call.content}"
                assert f"{name} shouts WORD-{name.upper()}" in output, output
                assert _in(client.folder) in output, "servers start in the session's folder"
                pids.append(int(output.partition("in process ")[2].partition(".")[0]))
            assert len(set(pids)) == 2
            await session.close()
            await _until_gone(pids, self.timeout_s / 5)

    # Settings and reports.

    async def test_model_can_be_chosen(self) -> None:
        self._need("models")
        script = Script(Reply(text=("One.",)), Reply(text=("Two.",)), Reply(text=("Three.",)))
        async with self.connected(script, models=self.models) as client:
            session, other = await client.session(), await client.session()
            options = [o for o in session.transcript.options if o.category == "model"]
            assert len(options) == 1, f"one option for the model: {session.transcript.options}"
            option: Any = options[0]
            assert [choice.value for choice in option.choices] == list(self.models)
            await client.turn(session, "go")
            await session.set_option(option.id, self.models[1])
            await client.turn(session, "go")
            await client.turn(other, "go")
            if self.models_used:
                first, second = self.models
                assert self.models_used == [first, second, first], self.models_used

    models: tuple[str, str] = ("model-a", "model-b")
    """Two names of models that the framework takes."""

    @cached_property
    def models_used(self) -> list[str]:
        """The models that were asked, in order: `make_agent` lets its model append to it."""
        return []

    async def test_use_of_tokens_is_reported(self) -> None:
        self._need("usage")
        script = Script(
            Reply(calls=(_read("a.txt"),), input_tokens=100, output_tokens=10),
            Reply(text=("Done.",), input_tokens=200, output_tokens=20),
        )
        async with self.connected(script) as client:
            turn = await client.turn(await client.session(), "go")
            usage = turn.token_usage
            assert usage is not None, "no use of tokens is reported"
            found = (usage.input, usage.output, usage.total)
            assert found == (300, 30, 330), f"the tokens of both requests: {usage}"

    async def test_message_in_a_turn_reaches_the_model(self) -> None:
        self._need("steering")
        asked = asyncio.Event()
        go_on = asyncio.Event()

        async def decide(_: PermissionRequest) -> Any:
            asked.set()
            await go_on.wait()
            return "allow"

        script = Script(Reply(calls=(_write("word-text"),)), Reply(text=("I see.",)))
        async with self.connected(script, permissions=decide) as client:
            session = await client.session()
            async with session.prompt("write it") as turn:
                await asked.wait()
                steered = await turn.steer("word-steered")
                go_on.set()
                await turn.wait()
            assert steered.outcome == "injected", steered
            assert "word-steered" in script.requests[1]

    async def test_what_it_can_do_is_advertised_and_nothing_else(self) -> None:
        async with self.connected([]) as client:
            server = McpServerStdio("a", "/a")
            for ability, advertised in (
                ("images", client.agent.supports_content("image")),
                ("mcp", client.agent.supports_mcp_server(server)),
                ("steering", client.agent.supports("steer")),
                ("fork", client.agent.supports("fork_session")),
            ):
                can = ability in self.can
                assert advertised == can, f"{ability}: in `can` {can}, advertised {advertised}"
            options = (await client.session()).transcript.options
            assert not [o for o in options if o.category in ("model", "mode")], options
        for ability, name, value in (
            ("models", "models", self.models),
            ("editor_tools", "editor_tools", True),
        ):
            try:
                await self.make_agent(Script(), **{name: value})
                accepted = True
            except TypeError:
                accepted = False
            can = ability in self.can
            assert accepted == can, f"{ability}: in `can` {can}, {name}= is accepted {accepted}"


class _Client:
    """A connected client, and what it is connected to."""

    def __init__(self, agent: ConnectedAgent, bridge: Agent, script: Script, folder: str) -> None:
        self.agent = agent
        self.bridge = bridge
        self.script = script
        self.folder = folder

    async def session(self) -> ClientSession:
        return await self.agent.new_session(self.folder)

    async def turn(self, session: ClientSession, *content: Any) -> ClientTurn:
        """Run a turn to its end, which must not be an error."""
        async with session.prompt(*content) as turn:
            await turn.wait()
        assert turn.stop_reason == "end_turn", f"{turn.stop_reason}: {turn.text}"
        return turn

    async def ended(
        self, session: ClientSession, *content: Any
    ) -> tuple[ClientTurn, AccordError | None]:
        """Run a turn to its end, and return its error, if it has one."""
        turn = session.prompt(*content)
        try:
            async with turn:
                await turn.wait()
        except AccordError as error:
            return turn, error
        return turn, None

    async def settle(self, turn: ClientTurn) -> None:
        """Wait for the end of a turn, however it ends."""
        with suppress(AccordError):
            await turn.wait()
        with suppress(AccordError):
            await turn.__aexit__(None, None, None)


class _Shared(MemoryStore):
    """A store that is used again after its agent was closed."""

    async def aclose(self) -> None:
        pass


def serve_contract(contract: type[BridgeContract], store: str) -> None:
    """Serve the agent of a contract on stdin and stdout, with a model that repeats words.

    `store` is the path of an SQLite store.
    """

    async def serve() -> None:
        test = contract()
        script = Script.echo()
        async with ScriptedServer(script) as test.server:
            agent = await test.make_agent(script, store=SqliteStore(store))
            await accord.serve(agent, stdio())

    run_program(serve())


def _read(path: str) -> ToolUse:
    return ToolUse("read_note_file", {"path": path})


def _write(text: str) -> ToolUse:
    return ToolUse("write_note_file", {"path": "n.txt", "text": text})


def _only(turn: ClientTurn) -> ToolCall:
    calls = turn.tool_calls
    assert len(calls) == 1, f"expected one tool call, got {[call.title for call in calls]}"
    return calls[0]


def _in(folder: str) -> str:
    return f"It is in {Path(folder).resolve()}."


def _shown(item: object) -> str:
    role = getattr(item, "role", None)
    return "call" if role is None else f"{role}: {getattr(item, 'text', '')}"


def _deciding(asked: list[PermissionRequest], decision: str) -> Callable[[PermissionRequest], Any]:
    def decide(request: PermissionRequest) -> Any:
        asked.append(request)
        return decision

    return decide


def _no_traceback(text: str) -> None:
    for word in ("Traceback", 'File "', "site-packages"):
        assert word not in text, f"a traceback is shown to the user: {text[:1000]}"


async def _until_ended(before: set[asyncio.Task[Any]], timeout_s: float) -> None:
    """Wait until the tasks that were not there before have ended."""
    left = asyncio.all_tasks() - before
    if left:
        await asyncio.wait(left, timeout=timeout_s)
    late = [task.get_name() for task in left if not task.done()]
    assert not late, f"tasks that stay running: {late}"


async def _until_gone(pids: Iterable[int], timeout_s: float) -> None:
    """Wait until processes have ended."""
    async with asyncio.timeout(timeout_s):
        for pid in pids:
            while _runs(pid):  # noqa: ASYNC110  # a process of another program
                await asyncio.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _skip(reason: str) -> NoReturn:
    try:
        import pytest
    except ImportError:
        raise ImportError(
            "the contract of bridges is run by pytest, which is not installed:"
            " pip install pytest pytest-asyncio"
        ) from None
    pytest.skip(reason)


# A server with one tool, which starts in little time because it imports little.
_MCP_SERVER = """
import json, os, sys
name = sys.argv[1]
tool = {"name": "shout", "description": "Shout a text.", "inputSchema": {"type": "object",
        "properties": {"text": {"type": "string"}}, "required": ["text"]}}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    params = request.get("params") or {}
    match request["method"]:
        case "initialize":
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                      "serverInfo": {"name": name, "version": "1"}}
        case "tools/list":
            result = {"tools": [tool]}
        case "tools/call":
            text = params["arguments"]["text"].upper()
            said = f"{name} shouts {text} in process {os.getpid()}. It is in {os.getcwd()}."
            result = {"content": [{"type": "text", "text": said}]}
        case "ping":
            result = {}
        case method:
            error = {"code": -32601, "message": f"{method} is not served"}
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
