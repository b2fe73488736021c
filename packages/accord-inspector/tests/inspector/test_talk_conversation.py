"""What the page gets of a conversation, and the questions that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from accord.client.elicitation import ElicitationForm, FormField
from accord.client.events import PermissionRequest
from accord.types.permission import PermissionOption
from accord_inspector.talk import Conversation
from accord_terminal.conversation import ApiError, Questions
from accord_trace.message_index import MessageRow
from accord_trace.records import Record, decode_record
from inspector.test_talk_transcripts import chunk, opened
from sample_recordings import Writer

ALLOW = PermissionOption("same", "Allow", "allow_once")
REJECT = PermissionOption("no", "Reject", "reject_once")


class Recorded:
    """A recording that grows."""

    grows = False

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.rows_asked = 0
        self.observers: list[Callable[[int], None]] = []

    def __len__(self) -> int:
        return len(self.records)

    def read_written(self) -> None: ...

    def record(self, n: int) -> Record:
        return self.records[n]

    def row(self, n: int) -> MessageRow:
        self.rows_asked += 1
        record = self.records[n]
        return SimpleNamespace(  # type: ignore[return-value]  # what is asked of it
            method=record.method, kind=record.type, session=record.session
        )

    def observe(self, observer: Callable[[int], None]) -> None:
        self.observers.append(observer)

    def add(self, talk: Writer) -> None:
        found = map(decode_record, talk.text.splitlines())
        self.records += [record for record in found if record is not None]
        for observer in self.observers:
            observer(len(self))


class Followed:
    """A conversation that follows a recording; `read` waits until all of it is added."""

    def __init__(self) -> None:
        self.recorded = Recorded()
        self._changed = asyncio.Event()
        self.conversation = Conversation(self.recorded, self._changed.set)
        self._task = asyncio.create_task(self.conversation.follow())

    async def read(self, talk: Writer) -> None:
        self.recorded.add(talk)
        async with asyncio.timeout(10):
            while self.conversation.json()["behind"]:
                self._changed.clear()
                await self._changed.wait()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


async def test_an_agent_that_is_too_fast_is_sampled_and_the_page_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accord_inspector.talk.FAR", 100)
    followed = Followed()
    followed.recorded.grows = True
    talk = opened()
    for _ in range(1000):
        talk.update(1.0, **chunk("word "))
    await followed.read(talk)
    skipped, *_ = (
        entry
        for entry in followed.conversation.session("s")["entries"]
        if entry["kind"] == "skipped"
    )
    assert 800 < skipped["count"] < 900  # the last 100 are all shown
    # A recording is read as a whole, however far behind this is.
    complete = Followed()
    await complete.read(talk)
    kinds = {entry["kind"] for entry in complete.conversation.session("s")["entries"]}
    assert "skipped" not in kinds
    assert complete.recorded.rows_asked == 0
    await followed.close()
    await complete.close()


async def test_problem_follows_its_message_and_links_to_it() -> None:
    followed = Followed()
    talk = opened()
    talk.update(1.0, **chunk("before"))
    await followed.read(talk)
    more = Writer()
    more.update(2.0, sessionUpdate="agent_message_chunk", content=7)
    more.update(2.1, **chunk("after"))
    # The problem is known before the messages are read.
    followed.recorded.add(more)
    followed.conversation.problem("s", "The message cannot be read")
    await followed.read(Writer())
    *_, wrong, problem = followed.conversation.session("s")["entries"]
    assert (wrong["kind"], wrong["message"]) == ("unreadable", 5)
    assert (problem["kind"], problem["message"]) == ("failure", 5)
    await followed.close()


async def test_problem_with_a_response_to_no_request_links_to_the_response() -> None:
    followed = Followed()
    talk = opened()
    talk.to_agent(0.5, id=2, method="session/prompt", params={"sessionId": "s", "prompt": []})
    talk.update(1.0, **chunk("before"))
    talk.to_client(1.1, id="2", result={"stopReason": "end_turn"})
    await followed.read(talk)
    followed.conversation.problem("s", 'the response has the id "2", the request has 2')
    *_, problem = followed.conversation.session("s")["entries"]
    assert (problem["kind"], problem["message"]) == ("failure", 6)
    await followed.close()


async def test_problem_with_the_end_of_a_turn_is_part_of_it() -> None:
    followed = Followed()
    talk = opened()
    talk.to_agent(0.5, id=2, method="session/prompt", params={"sessionId": "s", "prompt": []})
    talk.to_client(1.1, id=2, result={"stopReason": 7})
    await followed.read(talk)
    followed.conversation.problem("s", "Expected `str`, got `int` at $.stopReason")
    *_, end = followed.conversation.session("s")["entries"]
    assert end["kind"] == "end"
    assert end["problem"] == "Expected string, got integer at $.stopReason"
    await followed.close()


async def test_session_that_was_never_opened_is_marked() -> None:
    followed = Followed()
    talk = opened()
    params = {"sessionId": "other", "update": chunk("Hello")}
    talk.to_client(1.0, method="session/update", params=params)
    await followed.read(talk)
    listed = followed.conversation.json()["sessions"]
    assert {one["id"]: one["opened"] for one in listed} == {"s": True, "other": False}
    await followed.close()


async def test_page_gets_the_end_first_and_then_only_what_changes() -> None:
    followed = Followed()
    talk = opened()
    for number in range(250):
        talk.update(1.0, sessionUpdate="tool_call", toolCallId=f"t{number}", title=f"T{number}")
    await followed.read(talk)
    conversation = followed.conversation
    first = conversation.session("s")
    assert (first["first"], first["total"], len(first["entries"])) == (150, 250, 100)
    known = {"since": first["now"], "epoch": first["epoch"], "first": first["first"]}
    nothing = conversation.session("s", **known)
    assert (nothing["entries"], "state" in nothing) == ([], False)
    more = Writer()
    more.update(2.0, sessionUpdate="tool_call_update", toolCallId="t3", status="failed")
    more.update(2.0, sessionUpdate="tool_call_update", toolCallId="t200", status="failed")
    more.update(2.0, **chunk("Hello"))
    await followed.read(more)
    changed = conversation.session("s", **known)
    # T3 is not among the entries that the page has.
    assert [entry["id"] for entry in changed["entries"]] == [200, 250]
    older = conversation.older("s", 150)
    assert (older["first"], older["entries"][3 - 50]["title"]) == (50, "T103")
    with pytest.raises(ApiError, match="Unknown session x"):
        conversation.session("x")
    await followed.close()


async def test_page_that_knows_another_epoch_gets_everything() -> None:
    followed = Followed()
    talk = opened()
    talk.update(1.0, **chunk("Hello"))
    await followed.read(talk)
    known = followed.conversation.session("s")
    again = Writer()
    again.to_agent(2.0, id=5, method="session/load", params={"sessionId": "s", "cwd": "/x"})
    await followed.read(again)
    answer = followed.conversation.session("s", since=known["now"], epoch=0, first=0)
    assert (answer["whole"], answer["epoch"], answer["total"]) == (True, 1, 0)
    await followed.close()


def request(*options: PermissionOption) -> PermissionRequest:
    return PermissionRequest(session_id="s", cwd="/x", title="Do it", options=options)


async def test_first_answer_counts_and_a_wrong_one_is_refused() -> None:
    shown = asyncio.Event()
    questions = Questions(shown.set)
    asking = asyncio.create_task(questions.ask_permission(request(ALLOW, REJECT)))
    await asyncio.wait_for(shown.wait(), 5)
    (card,) = questions.json()
    for wrong in ({"option": 2}, {"option": -1}, {"option": "same"}):
        with pytest.raises(ApiError, match="option: expected a number from 0 to 1"):
            questions.answer(card["number"], wrong)
    questions.answer(card["number"], {"option": 1})
    assert await asking == REJECT
    with pytest.raises(ApiError, match="does not wait"):
        questions.answer(card["number"], {"option": 0})
    assert questions.json() == []


async def test_option_whose_id_is_not_unique_cannot_be_chosen() -> None:
    shown = asyncio.Event()
    questions = Questions(shown.set)
    other = PermissionOption("same", "Reject", "reject_once")
    asking = asyncio.create_task(questions.ask_permission(request(ALLOW, other)))
    await asyncio.wait_for(shown.wait(), 5)
    (card,) = questions.json()
    assert [option["ambiguous"] for option in card["options"]] == [True, True]
    asking.cancel()
    await asyncio.wait([asking])


async def test_values_of_a_form_are_checked_before_they_are_sent() -> None:
    shown = asyncio.Event()
    questions = Questions(shown.set)
    field = FormField(name="n", kind="integer", title="N", required=True, maximum=5)
    asking = asyncio.create_task(questions.ask_form(ElicitationForm(message="?", fields=(field,))))
    await asyncio.wait_for(shown.wait(), 5)
    for wrong in ({}, {"n": 6}, {"n": "1"}, {"n": 1, "m": 2}):
        with pytest.raises(ApiError, match="values: "):
            questions.answer(1, {"values": wrong})
    questions.answer(1, {"values": {"n": 5}})
    assert await asking == {"n": 5}


async def test_question_that_ends_stays_with_its_reason_until_it_is_dismissed() -> None:
    shown = asyncio.Event()
    questions = Questions(shown.set)
    asking = asyncio.create_task(questions.ask_permission(request(ALLOW)))
    await asyncio.wait_for(shown.wait(), 5)
    questions.has_ended = lambda: True
    asking.cancel()
    await asyncio.wait([asking])
    questions.disconnected("the agent exited with status 3")
    (card,) = questions.json()
    assert card["ended"].endswith("has ended: the agent exited with status 3")
    with pytest.raises(ApiError, match="does not wait"):
        questions.answer(card["number"], {"option": 0})
    questions.dismiss(card["number"])
    assert questions.json() == []
