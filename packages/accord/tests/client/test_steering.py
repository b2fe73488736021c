"""What is said while a turn runs: by agents that can be steered, and by those that cannot."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import (
    Agent,
    CancelTimeout,
    ClientSession,
    ClientTurn,
    ConnectionLost,
    FrameTooLarge,
    InvalidParams,
    LocalProtocolError,
    MemoryStore,
    Message,
    MethodNotFound,
    RequestError,
    Steered,
    SteeringMessage,
    SteerTimeout,
    Text,
    Turn,
    connect,
    serve,
    v2,
)
from accord.client import turn as turn_module
from accord.transports.memory import pair
from client.wire_agents import BOTH, ByHand, agent_by_hand, opened, update
from requirement import requirement
from versions import only

STEERING = "_session/steering"
REQUIRED = {"steering": {"idleBehavior": "promptRequired"}}


@pytest.fixture(autouse=True)
def joins_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait long for an agent of version 2 that holds a second prompt."""
    monkeypatch.setattr(turn_module, "JOIN_S", 0.02)


class Worker(Agent):
    """Says each prompt in brackets; one that begins with `hold` waits for `may_end`."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.prompts: list[str] = []

    async def prompt(self, turn: Turn) -> None:
        self.prompts.append(turn.text)
        await turn.say(f"[{turn.text}]")
        if turn.text.startswith("hold"):
            await self.may_end.wait()


class Collector(Worker):
    """Can be steered, and reads nothing until its prompt is done."""

    steering = True


class Listener(Agent):
    """Repeats what is said, until it hears `stop`."""

    steering = True

    async def prompt(self, turn: Turn) -> None:
        await turn.say("Yes?")
        async for message in turn.steering():
            await turn.say(f"<{message.text}>")
            if message.text == "stop":
                return


@asynccontextmanager
async def session_of(agent: Agent, version: int, **options: Any) -> AsyncGenerator[ClientSession]:
    ours, theirs = pair()
    serving = asyncio.create_task(serve(agent, theirs))
    async with connect(ours, versions=only(version), **options) as connected:
        yield await connected.new_session("/")
    await serving


async def said(turn: Any, text: str) -> None:
    """Wait until the agent has said something in the turn."""
    async for _ in turn:
        if text in turn.text:
            return
    raise AssertionError(f"{text!r} was not said, but {turn.text!r}")


def messages(session: ClientSession) -> list[str]:
    return [item.text for item in session.transcript.items if isinstance(item, Message)]


# Agents that can be steered.


@requirement("R-STEER-05")
@BOTH
async def test_agent_reads_what_is_said_while_it_works(version: int) -> None:
    async with session_of(Listener(), version) as session:
        async with session.prompt("Listen") as turn:
            await said(turn, "Yes?")
            assert await turn.steer("one") == Steered("injected")
            assert await session.steer("stop") == Steered("injected")
            assert await turn.wait() == "end_turn"
        assert messages(session) == ["Listen", "Yes?", "one", "<one>", "stop", "<stop>"]
        assert turn.unsent == []


@BOTH
async def test_what_the_agent_has_not_read_is_a_further_prompt_of_its_turn(version: int) -> None:
    agent = Collector()
    agent.store = MemoryStore()
    seen: list[Any] = []

    async def prompt(turn: Turn) -> None:
        seen.append([getattr(update, "content", ("",))[0] for update in await turn.history()])
        await Worker.prompt(agent, turn)

    agent.prompt = prompt
    async with session_of(agent, version) as session:
        async with session.prompt("hold") as turn:
            await said(turn, "[hold]")
            assert [await turn.steer("one"), await turn.steer("two")] == [Steered("injected")] * 2
            agent.may_end.set()
            assert await turn.wait() == "end_turn"
        assert agent.prompts == ["hold", "one", "two"]
        assert messages(session) == ["hold", "[hold]", "one", "two", "[one]", "[two]"]
        # Its history is what was said before.
        assert seen == [[], ["hold", "[hold]"], ["hold", "[hold]", "one", "[one]"]]


@BOTH
async def test_message_right_after_the_prompt_belongs_to_its_turn(version: int) -> None:
    agent = Listener()
    agent.store = MemoryStore()
    async with session_of(agent, version) as session:
        async with session.prompt("Listen") as turn:
            assert await turn.steer("stop") == Steered("injected")
            await turn.wait()
        assert messages(session)[0] == "Listen"
        assert messages(session)[-1] == "<stop>"


@BOTH
async def test_messages_are_taken_between_steps(version: int) -> None:
    class Stepper(Agent):
        steering = True

        async def prompt(self, turn: Turn) -> None:
            await turn.say("working")
            while not (heard := turn.take_steering()):
                await asyncio.sleep(0)
            await turn.say(f" heard {[message.text for message in heard]}")
            assert turn.take_steering() == []

    async with session_of(Stepper(), version) as session, session.prompt("Go") as turn:
        await said(turn, "working")
        await turn.steer("left", "and right")
        await turn.wait()
        assert "heard ['left\\nand right']" in turn.text


@requirement("R-STEER-03")
@BOTH
async def test_agent_that_overrides_steer_advertises_it_and_can_refuse(version: int) -> None:
    class Strict(Worker):
        async def steer(self, turn: Turn, message: SteeringMessage) -> None:
            if message.text == "no":
                raise InvalidParams("Not now")
            self.prompts.append(f"steered: {message.text}")

    agent = Strict()
    async with session_of(agent, version) as session, session.prompt("hold") as turn:
        await said(turn, "[hold]")
        assert await turn.steer("yes") == Steered("injected")
        with pytest.raises(InvalidParams, match="Not now"):
            await turn.steer("no")
        agent.may_end.set()
        await turn.wait()
    assert agent.prompts == ["hold", "steered: yes"]
    assert messages(session)[:3] == ["hold", "[hold]", "yes"]


@requirement("R-STEER-04")
@BOTH
async def test_nothing_runs_without_a_turn_unless_the_client_wants_it(version: int) -> None:
    agent = Collector()
    ours, theirs = pair()
    serving = asyncio.create_task(serve(agent, theirs))
    async with connect(ours, versions=only(version)) as connected:
        session = await connected.new_session("/")
        prompt = [{"type": "text", "text": "hello"}]
        params = {"sessionId": session.id, "prompt": prompt}
        result = await connected.call_extension(STEERING, params | {"_meta": REQUIRED})
        assert result == {"outcome": "promptRequired", "reason": "noRunningTurn"}
        assert agent.prompts == []
        async with session.events() as events:
            assert await connected.call_extension(STEERING, params) == {"outcome": "startedNewTurn"}
            async for event in events:
                if isinstance(event, Text):
                    assert event.text == "[hello]"
                    break
        for wrong in ({}, {"sessionId": "s?", "prompt": prompt}, params | {"prompt": []}):
            with pytest.raises(RequestError):
                await connected.call_extension(STEERING, wrong)
        with pytest.raises(InvalidParams, match=r"at least one content block|array. of length"):
            await connected.call_extension(STEERING, params | {"prompt": []})
        with pytest.raises(LocalProtocolError, match="No turn of this session is running"):
            await session.steer("Hello?")
    await serving


@requirement("R-STEER-01")
@BOTH
async def test_agent_that_cannot_be_steered_does_not_know_the_request(version: int) -> None:
    ours, theirs = pair()
    serving = asyncio.create_task(serve(Worker(), theirs))
    async with connect(ours, versions=only(version)) as connected:
        assert not connected.supports("steer")
        with pytest.raises(MethodNotFound):
            await connected.call_extension(STEERING, {"sessionId": "s", "prompt": []})
    await serving


# Agents that cannot.


@BOTH
async def test_messages_wait_for_the_end_of_the_prompt_in_their_order(version: int) -> None:
    agent = Worker()
    async with session_of(agent, version) as session:
        async with session.prompt("hold") as turn:
            await said(turn, "[hold]")
            first = await turn.steer("one")
            assert (first.outcome, first.by) == ("queued", "client" if version == 1 else "agent")
            assert (await turn.steer("two")).outcome == "queued"
            # In version 2 the agent holds the first, and the client those behind it.
            assert turn.unsent == ([("one",), ("two",)] if version == 1 else [("two",)])
            assert agent.prompts == ["hold"]
            agent.may_end.set()
            assert await turn.wait() == "end_turn"
        assert agent.prompts == ["hold", "one", "two"]
        assert messages(session) == ["hold", "[hold]", "one", "[one]", "two", "[two]"]
        assert "[hold]" in turn.text
        assert turn.text.endswith("[two]")


@BOTH
async def test_fallback_cancel_says_what_was_cut(version: int) -> None:
    class Digger(Worker):
        async def prompt(self, turn: Turn) -> None:
            if turn.text != "dig":
                await super().prompt(turn)
                return
            async with turn.tool("Dig a hole"):
                await turn.say("digging")
                await asyncio.Event().wait()

    agent = Digger()
    async with session_of(agent, version) as session, session.prompt("dig") as turn:
        await said(turn, "digging")
        assert (await turn.steer("stop that", fallback="cancel")).outcome == "restarted"
        assert await turn.wait() == "end_turn"
        assert turn.tool_calls[0].status == ("failed" if version == 1 else "cancelled")
    [told] = agent.prompts
    assert "interrupted" in told
    assert "“Dig a hole”" in told
    assert told.endswith("stop that")


@requirement("R-STEER-06")
@BOTH
async def test_no_steer_answers_or_cancels_a_question(version: int) -> None:
    asked, decide = asyncio.Event(), asyncio.Event()

    async def policy(_request: object) -> str:
        asked.set()
        await decide.wait()
        return "allow"

    class Asker(Worker):
        async def prompt(self, turn: Turn) -> None:
            await super().prompt(turn)
            if turn.text == "ask":
                async with turn.tool("Dig") as call:
                    self.prompts.append(str(await call.permission()))

    agent = Asker()
    opened = session_of(agent, version, permissions=policy)
    async with opened as session, session.prompt("ask") as turn:
        await asked.wait()
        steered = await turn.steer("dig deeper", fallback="cancel")
        assert (steered.outcome, steered.by) == ("queued", "client")
        assert "a question to the user is open" in steered.reason
        decide.set()
        await turn.wait()
    assert agent.prompts == ["ask", "True", "dig deeper"]


@BOTH
async def test_cancelled_turn_sends_no_more_and_keeps_what_waited(version: int) -> None:
    agent = Worker()
    async with session_of(agent, version) as session:
        async with session.prompt("hold") as turn:
            await said(turn, "[hold]")
            await turn.steer("never")
            await turn.cancel()
            with pytest.raises(LocalProtocolError, match="is being cancelled"):
                await turn.steer("too late")
            assert await turn.wait() == "cancelled"
        assert turn.unsent == [("never",)]
        async with session.prompt("next") as turn:
            assert await turn.wait() == "end_turn"
    assert agent.prompts == ["hold", "next"]


# The agents of others.


def answering(answer: Callable[[], Any], *, supported: bool = True) -> type[Worker]:
    """Return an agent that answers the request by hand."""

    class Odd(Worker):
        steering = supported

        async def extension_request(self, method: str, params: Any, client: Any) -> Any:
            return answer()

    return Odd


@requirement("R-STEER-02")
@pytest.mark.parametrize("odd", [{}, None, [], {"outcome": "failed"}, "refuse"])
async def test_only_a_known_outcome_counts_as_delivered(
    odd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer() -> Any:
        if odd == "refuse":
            raise MethodNotFound
        return odd

    agent = answering(answer)()
    monkeypatch.setattr("accord.agent.role.STEERING", "_other")  # the request is the agent's own
    async with session_of(agent, 1) as session, session.prompt("hold") as turn:
        await said(turn, "[hold]")
        assert (await turn.steer("one")).outcome == "queued"
        agent.may_end.set()
        await turn.wait()
    assert agent.prompts == ["hold", "one"]


async def test_prompt_that_ends_at_the_same_moment_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = answering(lambda: {"outcome": "promptRequired"})()
    monkeypatch.setattr("accord.agent.role.STEERING", "_other")
    async with session_of(agent, 1) as session, session.prompt("hold") as turn:
        await said(turn, "[hold]")
        steering = asyncio.ensure_future(turn.steer("one"))
        agent.may_end.set()
        assert await turn.wait() == "end_turn"
        assert (await steering).outcome == "queued"
    assert agent.prompts == ["hold", "one"]


async def test_agent_that_started_a_turn_of_its_own_is_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = answering(lambda: {"outcome": "startedNewTurn"})()
    monkeypatch.setattr("accord.agent.role.STEERING", "_other")
    async with session_of(agent, 1) as session:
        async with session.prompt("hold") as turn:
            await said(turn, "[hold]")
            assert (await turn.steer("one")).outcome == "started"
            agent.may_end.set()
            await turn.wait()
        assert (await session.steer("two")).outcome == "started"
    assert agent.prompts == ["hold"]


async def test_agent_that_does_not_answer_is_not_asked_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = Collector()
    monkeypatch.setattr("accord.agent.role.STEERING", "_other")
    monkeypatch.setattr(turn_module, "STEER_TIMEOUT_S", 0.01)

    async def never(method: str, params: Any, client: Any) -> Any:
        await asyncio.Event().wait()

    agent.extension_request = never
    async with session_of(agent, 1) as session, session.prompt("hold") as turn:
        await said(turn, "[hold]")
        with pytest.raises(SteerTimeout, match="whether it has the message"):
            await turn.steer("one")
        agent.may_end.set()
        await turn.wait()
    assert agent.prompts == ["hold"]


# At the end of a turn.


class Slow(Worker):
    """Takes a message when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_take = asyncio.Event(), asyncio.Event()
        self.notes: list[str] = []
        self.taking = 0

    async def steer(self, turn: Turn, message: SteeringMessage) -> None:
        self.taking += 1
        assert self.taking == 1
        self.asked.set()
        await self.may_take.wait()
        self.notes.append(message.text)
        self.taking -= 1


@BOTH
async def test_turn_is_cancelled_while_it_waits_for_a_message(version: int) -> None:
    agent = Slow()
    async with session_of(agent, version) as session, session.prompt("hold") as turn:
        steering = asyncio.create_task(turn.steer("one"))
        await agent.asked.wait()
        agent.may_end.set()
        await said(turn, "[hold]")
        for _ in range(20):
            await asyncio.sleep(0)  # the handler returns
        await turn.cancel()
        assert await turn.wait() == "cancelled"
        agent.may_take.set()
        assert await steering == Steered("injected")


@BOTH
async def test_message_that_comes_after_the_handler_is_a_further_prompt(version: int) -> None:
    agent = Slow()
    ours, theirs = pair()
    serving = asyncio.create_task(serve(agent, theirs))
    async with connect(ours, versions=only(version)) as connected:
        session = await connected.new_session("/")
        async with session.prompt("hold") as turn:
            prompt = {"sessionId": session.id, "_meta": REQUIRED}
            calls = [
                asyncio.create_task(
                    connected.call_extension(
                        STEERING, prompt | {"prompt": [{"type": "text", "text": text}]}
                    )
                )
                for text in ("one", "two", "three")
            ]
            await agent.asked.wait()
            agent.may_end.set()
            await said(turn, "[hold]")
            for _ in range(20):
                await asyncio.sleep(0)  # the handler returns, and would not look again
            agent.may_take.set()
            assert await asyncio.gather(*calls) == [{"outcome": "injected"}] * 3
            assert await turn.wait() == "end_turn"
    assert agent.notes == ["one"]
    assert agent.prompts == ["hold", "two", "three"]
    await serving


@BOTH
async def test_prompt_that_is_cut_at_once_is_in_the_conversation(version: int) -> None:
    agent = Worker()
    agent.store = MemoryStore()
    async with session_of(agent, version) as session:
        async with session.prompt("work") as turn:
            assert (await turn.steer("one", fallback="cancel")).outcome == "restarted"
            assert await turn.wait() == "end_turn"
        ours, theirs = pair()
        serving = asyncio.create_task(serve(agent, theirs))
        async with connect(ours, versions=only(version)) as connected:
            kept = messages(await connected.load_session(session.id, "/"))
        await serving
    assert kept[0].startswith("work")
    assert kept[-2].endswith("one")
    assert kept[-1] == f"[{agent.prompts[-1]}]"


async def test_prompt_that_is_cut_before_the_agent_has_it_is_said_again() -> None:
    agent = Worker()
    ours, theirs = pair()
    serving = asyncio.create_task(serve(agent, theirs))
    async with connect(ours, versions=(2,)) as connected:
        session = await connected.new_session("/")
        running = v2.PromptRequest(session_id=session.id, prompt=[v2.TextContent(text="hold")])
        remote: Any = connected.remote
        await remote.prompt(running)
        async with session.prompt("first") as turn:
            assert (await turn.steer("second", fallback="cancel")).outcome == "restarted"
            assert await turn.wait() == "end_turn"
    assert agent.prompts == ["hold", "first\nsecond"]
    await serving


# What is left when a turn ends in another way.


@BOTH
async def test_message_that_comes_too_late_is_not_called_queued(version: int) -> None:
    class Fails(Worker):
        async def prompt(self, turn: Turn) -> None:
            await super().prompt(turn)
            raise InvalidParams("The turn fails")

    agent, answer = Fails(), asyncio.Event()
    steerings: list[asyncio.Task[Steered]] = []
    async with session_of(agent, version) as session:
        sent = asyncio.Event()

        async def late(*_: object) -> str:
            sent.set()
            await answer.wait()
            return "promptRequired"

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(turn_module, "steer", late)
            patch.setattr(type(session._adapter), "can_be_steered", True)
            turn = session.prompt("hold")

            async def use() -> None:
                async with turn:
                    steerings.append(asyncio.create_task(turn.steer("one")))
                    await sent.wait()
                    agent.may_end.set()
                    await turn.wait()

            with pytest.raises(InvalidParams):
                await use()
            answer.set()
            with pytest.raises(LocalProtocolError, match="The turn has ended"):
                await steerings[0]
        assert turn.unsent == turn.unconfirmed == []


async def test_message_that_the_agent_works_on_is_not_called_unsent() -> None:
    agent = Worker()
    async with session_of(agent, 2) as session:
        async with session.prompt("hold") as turn:
            await said(turn, "[hold]")
            assert (await turn.steer("hold on")).by == "agent"
            assert (await turn.steer("never")).by == "client"
            agent.may_end.set()
            agent.may_end = asyncio.Event()
            await said(turn, "[hold on]")
            await turn.cancel()
            assert await turn.wait() == "cancelled"
        assert turn.unsent == [("never",)]
        assert turn.unconfirmed == []
        assert session.transcript.state is not None
        assert session.transcript.state.state == "idle"  # the cancel has reached the second prompt
    assert agent.prompts == ["hold", "hold on"]


async def test_turn_that_fails_lasts_until_the_agent_has_done_what_it_holds() -> None:
    class Fails(Worker):
        async def prompt(self, turn: Turn) -> None:
            await super().prompt(turn)
            if turn.text == "hold":
                raise InvalidParams("The turn fails")

    agent = Fails()
    async with session_of(agent, 2) as session:
        turn = session.prompt("hold")

        async def use() -> None:
            async with turn:
                await said(turn, "[hold]")
                assert (await turn.steer("one")).by == "agent"
                assert (await turn.steer("two")).by == "client"
                agent.may_end.set()
                await turn.wait()

        with pytest.raises(InvalidParams, match="The turn fails"):
            await use()
        assert turn.text.endswith("[one]")
        assert turn.unsent == [("two",)]
    assert agent.prompts == ["hold", "one"]


@BOTH
async def test_what_a_cut_has_left_unsent_is_what_the_user_has_said(version: int) -> None:
    class Stubborn(Worker):
        async def prompt(self, turn: Turn) -> None:
            try:
                await super().prompt(turn)
            except asyncio.CancelledError:
                await self.may_end.wait()

    agent = Stubborn()
    async with session_of(agent, version) as session:
        turn = session.prompt("hold", cancel_timeout_s=60.0)

        async def use() -> None:
            async with turn:
                await said(turn, "[hold]")
                assert (await turn.steer("one", fallback="cancel")).outcome == "restarted"
                await turn.cancel(timeout_s=0.01)  # which is the limit from now on
                await turn.wait()

        with pytest.raises(CancelTimeout):
            await use()
        assert turn.unsent == [("one",)]
        agent.may_end.set()
    assert agent.prompts == ["hold"]


@BOTH
async def test_message_for_the_turn_of_another_client_is_in_the_transcript(version: int) -> None:
    agent = Listener()
    ours, theirs = pair()
    serving = asyncio.create_task(serve(agent, theirs))
    async with connect(ours, versions=only(version)) as connected:
        session = await connected.new_session("/")
        params = {"sessionId": session.id, "prompt": [{"type": "text", "text": "Listen"}]}
        await connected.call_extension(STEERING, params)  # which starts a turn
        async with session.events() as events:
            assert await session.steer("stop") == Steered("injected")
            async for event in events:
                if isinstance(event, Text) and event.text == "<stop>":
                    break
        assert messages(session)[-2:] == ["stop", "<stop>"]
    await serving


# Agents of version 2 that take a second prompt in their own way.


@asynccontextmanager
async def second_prompt(
    **options: Any,
) -> AsyncGenerator[tuple[ByHand, ClientTurn, asyncio.Task[Steered], Any]]:
    """Yield an agent, a turn whose prompt it has, and a second prompt that it has not answered."""
    async with agent_by_hand(2) as (agent, raw):
        session = await opened(agent, raw)
        async with session.prompt("first", **options) as turn:
            raw.answer((await raw.get())["id"], {"messageId": "u1"})
            raw.tell(*update("s1", sessionUpdate="state_update", state="running"))
            steering = asyncio.create_task(turn.steer("second"))
            yield raw, turn, steering, (await raw.get())["id"]
            if not steering.done():
                await steering


def idle(reason: str) -> tuple[str, Any]:
    return update("s1", sessionUpdate="state_update", state="idle", stopReason=reason)


async def test_second_prompt_that_joins_the_turn_is_injected() -> None:
    async with second_prompt() as (raw, turn, steering, request):
        raw.answer(request, {"messageId": "u2"})
        assert await steering == Steered("injected")
        raw.tell(*idle("end_turn"))
        assert await turn.wait() == "end_turn"
        assert turn.unsent == turn.unconfirmed == []


async def test_second_prompt_that_is_refused_is_sent_afterwards() -> None:
    async with second_prompt() as (raw, turn, steering, request):
        error = {"code": -32602, "message": "One at a time"}
        raw.send({"jsonrpc": "2.0", "id": request, "error": error})
        assert (await steering).by == "client"
        assert turn.unsent == [("second",)]
        raw.tell(*idle("end_turn"))
        again = await raw.get()
        assert again["params"]["prompt"] == [{"type": "text", "text": "second"}]
        raw.answer(again["id"], {"messageId": "u2"})
        raw.tell(*update("s1", sessionUpdate="state_update", state="running"))
        raw.tell(*idle("end_turn"))
        assert await turn.wait() == "end_turn"
        assert turn.unsent == turn.unconfirmed == []


async def test_second_prompt_that_is_not_answered_after_a_cancel_is_unconfirmed() -> None:
    async with second_prompt() as (raw, turn, steering, _request):
        assert (await steering).by == "agent"
        await turn.cancel(timeout_s=0.05)
        assert (await raw.get())["method"] == "session/cancel"
        raw.tell(*idle("cancelled"))
        assert await turn.wait() == "cancelled"
        assert turn.unsent == []
        assert turn.unconfirmed == [("second",)]


async def test_second_prompt_is_unconfirmed_when_the_connection_is_lost() -> None:
    lost: list[ClientTurn] = []

    async def use() -> None:
        async with second_prompt() as (raw, turn, steering, _request):
            lost.append(turn)
            assert (await steering).by == "agent"
            await raw.transport.aclose()
            await turn.wait()

    with pytest.raises(ExceptionGroup) as caught:
        await use()
    assert caught.group_contains(ConnectionLost)
    assert lost[0].unsent == []
    assert lost[0].unconfirmed == [("second",)]


# Mistakes.


async def test_mistakes_are_said() -> None:
    agent = Worker()
    async with session_of(agent, 1) as session:
        turn = session.prompt("hold")
        with pytest.raises(LocalProtocolError, match="Enter the turn"):
            await turn.steer("early")
        async with turn:
            with pytest.raises(ValueError, match=r"expected text or other content, got no content"):
                await turn.steer()
            with pytest.raises(ValueError, match=r"expected text or other content, got ''"):
                await turn.steer("", "")
            with pytest.raises(ValueError, match="'queue' or 'cancel', got 'no'"):
                await turn.steer("x", fallback="no")  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                await turn.steer(5)  # type: ignore[arg-type]
            agent.may_end.set()
        with pytest.raises(LocalProtocolError, match="The turn has ended"):
            await turn.steer("late")
        with pytest.raises(LocalProtocolError, match="No turn of this session is running"):
            await session.steer("late")
        for nothing in ((), ("",)):
            with pytest.raises(ValueError, match="expected text or other content"):
                await session.steer(*nothing)
        await session.close()
        with pytest.raises(LocalProtocolError, match="The session was closed"):
            await session.steer("late")


@BOTH
async def test_an_agent_says_what_it_expected_what_came_and_where(version: int) -> None:
    text = {"type": "text", "text": "x"}
    image = {"type": "image", "data": "aaaa", "mimeType": "image/png"}
    ours, theirs = pair()
    serving = asyncio.create_task(serve(Collector(), theirs))
    async with connect(ours, versions=only(version)) as connected:
        session = await connected.new_session("/")
        turn = session.prompt("hold")
        # What each of these requests says, in a turn that runs.
        cases: list[tuple[Any, str]] = [
            (None, r"Expected `object`, got `null` at \$"),
            ([1], r"Expected `object`, got `array` at \$"),
            ({"prompt": [text]}, r"missing required field `sessionId` at \$"),
            ({"sessionId": session.id}, r"missing required field `prompt` at \$"),
            ({"sessionId": 5, "prompt": [text]}, r"Expected `str`, got `int` at \$\.sessionId"),
            ({"sessionId": session.id, "prompt": "x"}, r"got `str` at \$\.prompt"),
            ({"sessionId": session.id, "prompt": [text, 5]}, r"got `int` at \$\.prompt\[1\]"),
            (
                {"sessionId": session.id, "prompt": [text, image]},
                r"prompt\[1\]: expected content that this agent takes \(text, resource_link\), got"
                " image",
            ),
            ({"sessionId": "nope", "prompt": [text]}, "no session 'nope' is open"),
        ]
        async with turn:
            for params, expected in cases:
                with pytest.raises(RequestError, match=expected):
                    await connected.call_extension(STEERING, params)
            await turn.cancel()
            await turn.wait()
    await serving


@BOTH
async def test_a_message_that_is_too_large_fails_alone(version: int) -> None:
    async with session_of(Listener(), version) as session, session.prompt("go") as turn:
        with pytest.raises(FrameTooLarge, match=r"_session/steering takes .* bytes, more than"):
            await turn.steer("x" * 70_000_000)
        assert await turn.steer("stop") == Steered("injected")
        assert await turn.wait() == "end_turn"


# At random moments.


@BOTH
@pytest.mark.parametrize("kind", ["reads", "collects", "cannot"])
async def test_each_message_is_run_once_and_in_order(version: int, kind: str) -> None:
    chance = random.Random(f"{version} {kind}")

    class Busy(Agent):
        steering = kind != "cannot"

        def __init__(self) -> None:
            self.heard: dict[str, list[str]] = {}

        async def prompt(self, turn: Turn) -> None:
            heard = self.heard.setdefault(turn.session.id, [])
            heard.extend(turn.text.split("\n"))
            for _ in range(chance.randrange(12)):
                await turn.say(".")
                if kind == "reads":
                    heard.extend(message.text for message in turn.take_steering())

    agent = Busy()
    ours, theirs = pair()
    serving = asyncio.create_task(serve(agent, theirs))
    wanted: dict[str, list[str]] = {}

    async def use(session: ClientSession) -> None:
        told = wanted.setdefault(session.id, [])
        for number in range(60):
            told.append(f"{session.id} prompt {number}")
            async with session.prompt(told[-1]) as turn:
                for extra in range(chance.randrange(4)):
                    for _ in range(chance.randrange(15)):
                        await asyncio.sleep(0)
                    try:
                        message = f"{session.id} {number}.{extra}"
                        await turn.steer(message)
                        told.append(message)
                    except LocalProtocolError:
                        break  # the turn has ended, and the caller knows it
                assert await turn.wait() == "end_turn"
                assert turn.unsent == []

    async with connect(ours, versions=only(version)) as connected:
        sessions = [await connected.new_session("/") for _ in range(4)]
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                group.create_task(use(session))
    await serving
    assert agent.heard == wanted
    assert sum(map(len, wanted.values())) > 300
