"""Turns: prompts, messages, and how turns end, in both versions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from accord import (
    Agent,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MemoryStore,
    Session,
    Turn,
    v1,
    v2,
)
from accord.errors import (
    ConnectionLost,
    RequestCancelled,
    RequestError,
    ResourceNotFound,
    StartError,
)
from agent.harness import BOTH, V1, V2, AgentHarness, connect_client
from event_loop import drain_event_loop
from requirement import requirement


class Greeter(Agent):
    """Greets every prompt."""

    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"Hello! You wrote: {turn.text}")


class Steps(Agent):
    """Waits until the test lets it continue."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()
        self.prompts: list[str] = []
        self.ends: list[str] = []

    async def prompt(self, turn: Turn) -> None:
        self.prompts.append(turn.text)
        self.began.set()
        await self.may_end.wait()
        self.ends.append(turn.text)


@BOTH
@requirement("R-PROMPT-04", "R-PROMPT-06", "R-PROMPT-08")
async def test_prompt_is_answered_with_messages_and_a_stop_reason(version: int) -> None:
    async with connect_client(Greeter(), version) as client:
        # The updates are written before the response (R-PROMPT-08).
        assert await client.prompt("hi") == "end_turn"
        assert client.said() == "Hello! You wrote: hi"


@BOTH
@requirement("R-SESS-01")
async def test_ids_of_sessions_are_unique(version: int) -> None:
    async with connect_client(Greeter(), version) as client:
        ids = {client.session_id}
        for _ in range(3):
            await client.open()
            ids.add(client.session_id)
        assert len(ids) == 4


@requirement("R-PROMPT-03")
async def test_v1_prompt_stays_open_while_the_agent_works() -> None:
    class Works(Steps):
        async def prompt(self, turn: Turn) -> None:
            await turn.say("working")
            await super().prompt(turn)

    agent = Works()
    async with connect_client(agent, V1) as client:
        sent = client.send("hi")
        await client.until(client.said)
        assert not sent.done()
        agent.may_end.set()
        assert (await sent).stop_reason == "end_turn"


@BOTH
async def test_agent_sends_its_implementation(version: int) -> None:
    async with connect_client(Greeter(), version) as client:
        initialized = client.remote.initialized
        info = initialized.agent_info if version == V1 else initialized.info
        assert info.name == "Greeter"


@requirement("R-PROMPT-05", "R-PROMPT-15")
@BOTH
async def test_stop_reason_is_returned_by_the_handler(version: int) -> None:
    class Refuses(Agent):
        async def prompt(self, turn: Turn) -> str:
            return "refusal"

    async with connect_client(Refuses(), version) as client:
        assert await client.prompt("hi") == "refusal"


@pytest.mark.parametrize(("version", "reported"), [(V1, "end_turn"), (V2, "_tired")])
@requirement("R-PROMPT-21")
async def test_custom_stop_reason_is_sent_where_the_version_allows_it(
    version: int, reported: str
) -> None:
    class Tired(Agent):
        async def prompt(self, turn: Turn) -> str:
            return "_tired"

    async with connect_client(Tired(), version) as client:
        assert await client.prompt("hi") == reported


# Messages.


@BOTH
@requirement("R-MSG-01", "R-MSG-02", "R-MSG-03")
async def test_consecutive_text_is_one_message(version: int) -> None:
    class Talks(Agent):
        async def prompt(self, turn: Turn) -> None:
            await turn.think("Hm. ")
            await turn.think("Well.")
            await turn.say("One ")
            await turn.say("message.")
            turn.start_new_message()
            await turn.say("Another.")

    async with connect_client(Talks(), version) as client:
        await client.prompt("hi")
        first, second, third = client.message_ids()
        assert first == second != third
        assert len(set(client.message_ids("AgentThoughtChunk"))) == 1
        assert client.said(thought=True) == "Hm. Well."
        await client.prompt("again")
        assert len(set(client.message_ids())) == 4


@BOTH
async def test_images_are_received_and_sent(version: int) -> None:
    class Mirror(Agent):
        prompt_capabilities = frozenset({"image"})

        async def prompt(self, turn: Turn) -> None:
            for image in turn.images:
                await turn.say(image)

    async with connect_client(Mirror(), version) as client:
        image = client.types.ImageContent(data="AQID", mime_type="image/png")
        await client.prompt("look", image)
        (chunk,) = client.of("AgentMessageChunk")
        assert chunk.content == image


@BOTH
@requirement("R-PROMPT-26", "R-PROMPT-19")
async def test_content_without_its_capability_is_rejected(version: int) -> None:
    async with connect_client(Greeter(), version) as client:
        data = json.dumps(
            {
                "sessionId": client.session_id,
                "prompt": [{"type": "image", "data": "AQID", "mimeType": "image/png"}],
            }
        )
        connection = client.remote.connection
        with pytest.raises(InvalidParams):
            await connection.call("session/prompt", json.loads(data), bytes)
        assert not client.updates


@requirement("R-CONT-05", "R-PROMPT-26")
async def test_content_of_an_unknown_type_is_rejected() -> None:
    async with connect_client(Greeter(), V2) as client:
        params = {"sessionId": client.session_id, "prompt": [{"type": "_smell"}]}
        with pytest.raises(InvalidParams):
            await client.remote.connection.call("session/prompt", params, bytes)


@BOTH
@requirement("R-SESS-37")
async def test_prompt_of_an_unknown_session_is_rejected(version: int) -> None:
    async with connect_client(Greeter(), version) as client:
        client.session_id = "another"
        with pytest.raises(ResourceNotFound) as caught:
            await client.send("hi")
        assert caught.value.data == {"sessionId": "another"}


# The order of messages in version 2; only one turn at a time in version 1.


@requirement("R-PROMPT-09", "R-PROMPT-10")
async def test_v2_prompt_response_has_the_id_of_the_user_message() -> None:
    agent = Steps()
    async with connect_client(agent, V2) as client:
        answer = await client.send("hi")
        await client.until(lambda: client.updates)
        assert client.updates[0] == v2.UserMessage(
            message_id=answer.message_id, content=[v2.TextContent(text="hi")]
        )
        agent.may_end.set()
        await client.until(client.ends)


@requirement("R-PROMPT-11", "R-PROMPT-12", "R-PROMPT-13", "R-PROMPT-35")
async def test_v2_turn_is_reported_from_the_user_message_to_idle() -> None:
    agent = Steps()
    async with connect_client(agent, V2) as client:
        await client.send("hi")
        await agent.began.wait()
        await client.until(lambda: len(client.updates) == 2)
        assert client.updates[1] == v2.RunningStateUpdate(background=[])
        agent.may_end.set()
        await client.until(client.ends)
        assert client.ends() == [v2.IdleStateUpdate(background=[], stop_reason="end_turn")]
        assert client.updates[-1] == client.ends()[0]


@requirement("R-PROMPT-24")
async def test_v2_prompts_during_a_turn_are_queued_in_order() -> None:
    agent = Steps()
    async with connect_client(agent, V2) as client:
        first, second, third = client.send("1"), client.send("2"), client.send("3")
        await first
        await drain_event_loop()
        assert agent.prompts == ["1"]
        assert not second.done()
        agent.may_end.set()
        await third
        await client.until(lambda: len(client.ends()) == 3)
        assert agent.ends == ["1", "2", "3"]


@requirement("R-PROMPT-22")
async def test_v1_prompt_during_a_turn_is_rejected() -> None:
    agent = Steps()
    async with connect_client(agent, V1) as client:
        first, second = client.send("1"), client.send("2")
        with pytest.raises(InvalidRequest):
            await second
        agent.may_end.set()
        assert (await first).stop_reason == "end_turn"
        assert await client.prompt("3") == "end_turn"


@BOTH
@requirement("R-SESS-02")
async def test_sessions_do_not_wait_for_each_other(version: int) -> None:
    agent = Steps()
    async with connect_client(agent, version) as client:
        first = client.send("1")
        await agent.began.wait()
        agent.began.clear()
        await client.open()
        second = client.send("2")
        await agent.began.wait()
        assert agent.prompts == ["1", "2"]
        agent.may_end.set()
        await first
        await second


# Cancelling.


@BOTH
@requirement("R-CANCEL-05", "R-CANCEL-07", "R-INIT-23", "R-CANCEL-04")
async def test_cancelled_turn_ends_as_cancelled(version: int) -> None:
    agent = Steps()
    async with connect_client(agent, version) as client:
        sent = client.send("hi")
        await agent.began.wait()
        await client.cancel()
        assert await client.stopped(sent) == "cancelled"
        agent.may_end.set()
        assert await client.prompt("again") == "end_turn"


@BOTH
@requirement("R-CANCEL-06", "R-CANCEL-08", "R-CANCEL-09")
@pytest.mark.parametrize("how", ["returns", "raises", "refuses", "ignores"])
async def test_turn_is_cancelled_however_the_handler_ends_after_a_cancel(
    version: int, how: str
) -> None:
    began = asyncio.Event()

    class Stubborn(Agent):
        async def prompt(self, turn: Turn) -> str | None:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await turn.say("Late.")
                if how == "raises":
                    raise RuntimeError("aborted") from None
                if how == "refuses":
                    raise InvalidParams("no") from None
                if how == "ignores":
                    return "max_tokens"
            return None

    async with connect_client(Stubborn(), version) as client:
        sent = client.send("hi")
        await began.wait()
        await client.cancel()
        await client.cancel()
        assert await client.stopped(sent) == "cancelled"
        assert client.said() == "Late."


@BOTH
async def test_turn_cancelled_before_its_first_step_ends_as_cancelled(version: int) -> None:
    agent = Greeter()
    async with connect_client(agent, version) as client:
        sent = client.send("hi")
        await asyncio.sleep(0)
        await client.cancel()
        try:
            assert await client.stopped(sent) == "cancelled"
        except RequestCancelled:
            assert version == V2  # it was never inserted
        assert await client.prompt("again") == "end_turn"


@requirement("R-CANCEL-13", "R-PROMPT-27")
async def test_v2_cancel_withdraws_queued_prompts() -> None:
    agent = Steps()
    async with connect_client(agent, V2) as client:
        first, second = client.send("1"), client.send("2")
        await agent.began.wait()
        await client.cancel()
        third = client.send("3")
        await first
        with pytest.raises(RequestCancelled):
            await second
        agent.may_end.set()
        await third
        await client.until(lambda: len(client.ends()) == 2)
        assert agent.prompts == ["1", "3"]


@BOTH
@requirement("R-CANCEL-12")
async def test_cancel_without_a_turn_is_ignored(version: int) -> None:
    async with connect_client(Greeter(), version) as client:
        await client.cancel()
        assert await client.prompt("hi") == "end_turn"


@requirement("R-REQCAN-03")
async def test_v1_cancelled_prompt_request_is_answered_with_cancelled() -> None:
    agent = Steps()
    raw: list[bytes] = []

    def observe(way: str, frame: object) -> None:
        if way == "sent":
            raw.append(bytes(frame))  # type: ignore[arg-type]  # a frame is bytes

    async with connect_client(agent, V1, observers=[observe]) as client:
        sent = client.send("hi")
        await agent.began.wait()
        sent.cancel()
        await drain_event_loop()
        assert json.loads(raw[-1])["result"] == {"stopReason": "cancelled"}
        agent.may_end.set()
        assert await client.prompt("again") == "end_turn"


# Failures.


class Fails(Agent):
    """Raises the exception that the prompt names."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def prompt(self, turn: Turn) -> None:
        raise self.error


@requirement("R-ERR-05")
@BOTH
async def test_failed_turn_does_not_reveal_the_exception(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect_client(Fails(RuntimeError("the password is 123")), version) as client:
        if version == V1:
            with pytest.raises(RequestError) as caught:
                await client.prompt("hi")
            assert (caught.value.code, caught.value.message) == (-32603, "Internal error")
        else:
            assert await client.prompt("hi") == "error"
            (end,) = client.ends()
            assert end.error == v2.Error(code=-32603, message="Internal error")
    assert "the password is 123" in caplog.text


@BOTH
@requirement("R-PROMPT-28")
async def test_request_error_is_sent_unchanged(version: int) -> None:
    error = RequestError("The model is away", code=-32050, data={"retry": True})
    async with connect_client(Fails(error), version) as client:
        if version == V1:
            with pytest.raises(RequestError) as caught:
                await client.prompt("hi")
            found = caught.value
        else:
            assert await client.prompt("hi") == "error"
            found = client.ends()[0].error
        assert (found.code, found.message, found.data) == (
            -32050,
            "The model is away",
            {"retry": True},
        )


@requirement("R-PROMPT-32")
@BOTH
async def test_cancelled_error_from_elsewhere_is_a_failure(version: int) -> None:
    async with connect_client(Fails(asyncio.CancelledError()), version) as client:
        if version == V1:
            with pytest.raises(RequestError):
                await client.prompt("hi")
        else:
            assert await client.prompt("hi") == "error"


@BOTH
async def test_agent_without_a_prompt_method_is_an_error(version: int) -> None:
    async with connect_client(Agent(), version) as client:
        if version == V1:
            with pytest.raises(RequestError):
                await client.prompt("hi")
        else:
            assert await client.prompt("hi") == "error"


# Closing and disconnecting.


@BOTH
@requirement("R-SESS-21", "R-SESS-22", "R-SESS-33")
async def test_close_cancels_the_turn_and_frees_the_session(version: int) -> None:
    closed: list[str] = []

    class Closes(Steps):
        async def close_session(self, session: object) -> None:
            closed.append("closed")

    agent = Closes()
    async with connect_client(agent, version) as client:
        sent = client.send("hi")
        await agent.began.wait()
        await client.remote.close_session(
            client.types.CloseSessionRequest(session_id=client.session_id)
        )
        assert closed == ["closed"]
        assert await client.stopped(sent) == "cancelled"
        with pytest.raises(ResourceNotFound):
            await client.send("again")
        assert not agent.sessions


@requirement("R-SESS-22", "R-PROMPT-27")
async def test_v2_close_withdraws_queued_prompts() -> None:
    agent = Steps()
    async with connect_client(agent, V2) as client:
        first, second = client.send("1"), client.send("2")
        await agent.began.wait()
        await client.remote.close_session(v2.CloseSessionRequest(session_id=client.session_id))
        assert client.ends() == [v2.IdleStateUpdate(background=[], stop_reason="cancelled")]
        await first
        with pytest.raises(RequestCancelled):
            await second
        assert agent.prompts == ["1"]


@requirement("R-SESS-32")
async def test_v2_close_of_an_unknown_session_succeeds() -> None:
    async with connect_client(Greeter(), V2) as client:
        await client.remote.connection.call("session/close", {"sessionId": "another"}, bytes)


@BOTH
async def test_disconnected_client_is_not_a_failure_of_the_agent(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    ended = asyncio.Event()

    class Talks(Agent):
        async def prompt(self, turn: Turn) -> None:
            try:
                while True:
                    await turn.say("and so on ")
                    await asyncio.sleep(0)
            finally:
                ended.set()

    async with connect_client(Talks(), version) as client:
        sent = client.send("hi")
        await client.until(client.said)
    await ended.wait()
    sent.cancel()
    await asyncio.gather(sent, return_exceptions=True)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@BOTH
async def test_sessions_are_closed_when_the_client_disconnects(version: int) -> None:
    closed: list[str] = []

    class Closes(Greeter):
        async def close_session(self, session: object) -> None:
            closed.append("closed")

    agent = Closes()
    async with connect_client(agent, version) as client:
        await client.open()
        await client.prompt("hi")
    assert closed == ["closed", "closed"]


@BOTH
async def test_client_that_disconnects_during_a_turn_ends_it(version: int) -> None:
    agent = Steps()
    async with connect_client(agent, version) as client:
        sent = client.send("hi")
        await agent.began.wait()
    sent.cancel()
    await asyncio.gather(sent, return_exceptions=True)
    assert not agent.ends


async def test_v1_capabilities_follow_from_the_agent() -> None:
    class Sees(Greeter):
        prompt_capabilities = frozenset({"image", "audio", "resource"})
        mcp_transports = frozenset({"http"})

    async with connect_client(Sees(), V1) as client:
        capabilities = client.remote.initialized.agent_capabilities
        assert capabilities.prompt_capabilities == v1.PromptCapabilities(
            image=True, audio=True, embedded_context=True
        )
        assert capabilities.mcp_capabilities == v1.McpCapabilities(http=True)
        assert not capabilities.load_session


async def test_capabilities_can_be_changed() -> None:
    class Plain(Greeter):
        def capabilities_v1(self, derived: v1.AgentCapabilities) -> v1.AgentCapabilities:
            return v1.AgentCapabilities()

        def capabilities_v2(self, derived: v2.AgentCapabilities) -> v2.AgentCapabilities:
            return v2.AgentCapabilities(session=v2.SessionCapabilities())

    async with connect_client(Plain(), V1) as client:
        assert client.remote.initialized.agent_capabilities == v1.AgentCapabilities()
    async with connect_client(Plain(), V2) as client:
        assert client.remote.initialized.capabilities == v2.AgentCapabilities(
            session=v2.SessionCapabilities()
        )


@BOTH
@requirement("R-SESS-03", "R-DIR-06", "R-GEN-01")
async def test_directories_must_be_absolute(version: int) -> None:
    async with connect_client(Greeter(), version, opened=False) as client:
        with pytest.raises(InvalidParams):
            await client.open(cwd="here")
        with pytest.raises(InvalidParams):
            await client.open(additional_directories=[""])


# Errors.


class Odd(BaseException):
    """Derives from neither `Exception` nor the exceptions that end a program."""


def _raising(error: BaseException) -> type[Agent]:
    class Raises(Agent):
        async def prompt(self, turn: Turn) -> None:
            raise error

    return Raises


async def _failure(client: AgentHarness) -> RequestError:
    """Prompt, and return the error that ended the turn."""
    if client.version == V1:
        with pytest.raises(RequestError) as caught:
            await client.prompt("go")
        return caught.value
    assert await client.prompt("go") == "error"
    error = client.ends()[-1].error
    return RequestError(error.message, code=error.code, data=error.data)


@BOTH
@pytest.mark.parametrize(
    "error",
    [
        StartError("a command that is not there"),
        ConnectionLost("an agent of the agent's"),
        Odd(),
        BaseExceptionGroup("of tasks", [Odd()]),
        BaseExceptionGroup("of programs", [SystemExit(3)]),
        GeneratorExit(),
    ],
    ids=["start", "lost", "base", "group", "exits", "generator"],
)
async def test_turn_fails_with_any_exception_while_the_client_is_connected(
    version: int, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect_client(_raising(error)(), version) as client:
        failure = await _failure(client)
    assert (failure.code, failure.message) == (-32603, "Internal error")
    assert "the turn failed" in caplog.text


@BOTH
async def test_error_is_sent_without_data_that_cannot_be_encoded(version: int) -> None:
    error = RequestError("The model is away", code=7, data={"by": object()})
    async with connect_client(_raising(error)(), version) as client:
        failure = await _failure(client)
    assert (failure.code, failure.message, failure.data) == (7, "The model is away", None)


@BOTH
async def test_turn_ends_even_if_the_store_rejects_its_end(version: int) -> None:
    class Full(MemoryStore):
        async def append(self, *args: Any, **more: Any) -> None:
            if self.full:
                raise OSError("no space left")
            await super().append(*args, **more)

        full = False

    class Stores(Agent):
        store = Full()

        async def prompt(self, turn: Turn) -> None:
            Full.full = True

    async with connect_client(Stores(), version) as client:
        failure = await _failure(client)
    assert failure.code == -32603


@BOTH
@pytest.mark.parametrize("error", [Odd(), GeneratorExit()], ids=["base", "generator"])
async def test_any_exception_of_another_method_is_an_error_and_the_agent_continues(
    version: int, error: BaseException
) -> None:
    class Raises(Greeter):
        async def open_session(self, session: Session) -> None:
            if session.cwd == "/odd":
                raise error

        async def extension_notification(self, method: str, params: Any, client: Any) -> None:
            raise error

        async def extension_request(self, method: str, params: Any, client: Any) -> Any:
            raise error

    async with connect_client(Raises(), version) as client:
        with pytest.raises(InternalError):
            await client.open(cwd="/odd")
        params = {"sessionId": client.session_id}
        await client.remote.notify_extension("_told", params)
        with pytest.raises(InternalError):
            await client.remote.call_extension("_asked", params)
        assert await client.prompt("x") == "end_turn"


async def test_turn_has_only_names_that_agents_use() -> None:
    shown = {name for name in dir(Turn) if not name.startswith("_")}
    assert not shown & {"queue", "go", "leave", "insert", "work", "wait_first", "finished"}


class Groups(Agent):
    """Runs a task group that fails, and reports the result."""

    def __init__(self, *, caught: bool) -> None:
        self.caught = caught

    async def prompt(self, turn: Turn) -> None:
        async def fail() -> None:
            raise LookupError("in a task group")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
        except* LookupError:
            if not self.caught:
                raise
        async with turn.tool("After the group"):
            pass


@BOTH
async def test_turn_continues_after_a_failed_task_group(version: int) -> None:
    async with connect_client(Groups(caught=True), version) as client:
        assert await client.prompt("hi") == "end_turn"
        assert client.statuses()[-1] == "completed"


@BOTH
async def test_turn_fails_with_its_failed_task_group(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect_client(Groups(caught=False), version) as client:
        if version == V1:
            with pytest.raises(InternalError):
                await client.prompt("hi")
        else:
            assert await client.prompt("hi") == "error"
    assert "in a task group" in caplog.text
