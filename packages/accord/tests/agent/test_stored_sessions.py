"""Stored sessions: listed, loaded, resumed, forked, renamed, archived and deleted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accord import (
    Agent,
    InvalidParams,
    MethodNotFound,
    OptionChoice,
    SelectOption,
    Session,
    Turn,
    v1,
    v2,
)
from accord.agent.store import MemoryStore
from accord.agent.updates import MessageUpdate
from accord.errors import NotOffered, ResourceNotFound
from agent.harness import BOTH, V1, V2, AgentHarness, connect_client
from requirement import requirement


class Remembers(Agent):
    """Has a store and an option, and counts the turns of its history."""

    unstable = True

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.began = asyncio.Event()

    async def open_session(self, session: Session) -> None:
        choices = OptionChoice("small", "Small"), OptionChoice("large", "Large")
        await session.set_options(
            [SelectOption(id="model", name="M", value="small", choices=choices)]
        )

    async def prompt(self, turn: Turn) -> None:
        if turn.text == "wait":
            self.began.set()
            await asyncio.Event().wait()
        if turn.text == "count":
            history = await turn.session.history()
            await turn.say(
                str(sum(isinstance(r, MessageUpdate) and r.role == "user" for r in history))
            )
            return
        await turn.set_title(f"About {turn.text}")
        await turn.plan(["Answer"])
        async with turn.tool("Look") as call:
            await call.add_content("found")
        for word in ("You ", "said ", turn.text):
            await turn.say(word)


async def load(
    client: AgentHarness, session_id: str, *, cwd: str = "/project", replay: bool = True
) -> Any:
    """Open a stored session by the method of the version, and drop the earlier updates."""
    client.updates.clear()
    client.session_id = session_id
    fields: dict[str, Any] = {"session_id": session_id, "cwd": cwd}
    if client.version == V2:
        start = v2.ReplayFromStart() if replay else None
        request = v2.ResumeSessionRequest(replay_from=start, **fields)
        return await client.remote.resume_session(request)
    if replay:
        return await client.remote.load_session(v1.LoadSessionRequest(mcp_servers=[], **fields))
    return await client.remote.resume_session(v1.ResumeSessionRequest(**fields))


def user_text(client: AgentHarness) -> str:
    """Return the user's text, as it was replayed."""
    if client.version == V1:
        return "".join(update.content.text for update in client.of("UserMessageChunk"))
    return "".join(block.text for update in client.of("UserMessage") for block in update.content)


async def listed(client: AgentHarness, **fields: Any) -> list[Any]:
    answer = await client.remote.list_sessions(client.types.ListSessionsRequest(**fields))
    return answer.sessions


@BOTH
@requirement("R-SESS-08", "R-SESS-15")
async def test_session_is_loaded_with_everything_that_was_shown(version: int) -> None:
    agent = Remembers()
    async with connect_client(agent, version) as client:
        await client.prompt("hello")
        await client.prompt("there")
        session_id = client.session_id
    async with connect_client(agent, version, opened=False) as client:
        await load(client, session_id)
        assert user_text(client) == "hellothere"
        assert client.said() == "You said helloYou said there"
        call = client.tool()
        assert (call["title"], call["status"]) == ("Look", "completed")
        assert len(client.of("Plan", "PlanUpdate")) == 1
        assert client.of("SessionInfoUpdate")[-1].title == "About there"


@BOTH
@requirement("R-SESS-09", "R-SESS-14", "R-SESS-29")
async def test_load_response_follows_the_replay(version: int) -> None:
    agent = Remembers()
    async with connect_client(agent, version) as client:
        await client.prompt("hello")
        session_id = client.session_id
    async with connect_client(agent, version, opened=False) as client:
        await load(client, session_id)
        replayed = list(client.updates)
        assert client.said() == "You said hello"
        if version == V2:
            assert replayed[-1] == v2.IdleStateUpdate(background=[])
        await client.prompt("count")
        assert client.updates[: len(replayed)] == replayed
        assert client.said().endswith("2")


@BOTH
@requirement("R-SESS-10")
async def test_replayed_messages_keep_their_ids(version: int) -> None:
    agent = Remembers()
    async with connect_client(agent, version) as client:
        answer = await client.send("hello")
        if version == V2:
            await client.until(lambda: client.ends())
        await client.prompt("there")
        session_id, ids = client.session_id, client.message_ids()
    async with connect_client(agent, version, opened=False) as client:
        await load(client, session_id)
        replayed = client.message_ids()
        assert replayed == list(dict.fromkeys(ids))
        if version == V2:
            assert client.of("UserMessage")[0].message_id == answer.message_id
        await client.prompt("count")
        assert client.message_ids()[-1] not in replayed


@BOTH
@requirement("R-SESS-12", "R-SESS-13")
async def test_resumed_session_is_not_replayed(version: int) -> None:
    agent = Remembers()
    async with connect_client(agent, version) as client:
        await client.prompt("hello")
        session_id = client.session_id
    async with connect_client(agent, version, opened=False) as client:
        await load(client, session_id, replay=False)
        assert client.updates == ([] if version == V1 else [v2.IdleStateUpdate(background=[])])
        await client.prompt("count")
        assert client.said() == "2"


@BOTH
async def test_open_session_can_be_loaded_again(version: int) -> None:
    async with connect_client(Remembers(), version) as client:
        await client.prompt("hello")
        await load(client, client.session_id)
        assert client.said() == "You said hello"
        await client.prompt("count")
        assert client.said().endswith("2")


@BOTH
@requirement("R-SESS-29", "R-STATUS-03", "R-STATUS-06")
async def test_load_during_a_turn_sends_the_running_state(version: int) -> None:
    agent = Remembers()
    async with connect_client(agent, version) as client:
        sent = client.send("wait")
        await agent.began.wait()
        await load(client, client.session_id, replay=False)
        if version == V2:
            assert client.updates[-1] == v2.RunningStateUpdate(background=[])
        status = await client.remote.session_status(
            client.types.SessionStatusRequest(session_id=client.session_id)
        )
        assert status.status == "open"
        if version == V2:
            assert status.state == v2.RunningState(background=[])
        await client.cancel()
        await sent


@BOTH
async def test_loaded_options_have_the_values_that_the_user_chose(version: int) -> None:
    agent = Remembers()
    async with connect_client(agent, version) as client:
        await client.set_option("model", "large")
        session_id = client.session_id
    async with connect_client(agent, version, opened=False) as client:
        answer = await load(client, session_id)
        assert client.options(answer) == [{"id": "model", "value": "large"}]


@BOTH
@requirement("R-SESS-37", "R-STATUS-03", "R-TITLE-02", "R-ARCH-05")
async def test_unknown_session_is_not_found(version: int) -> None:
    async with connect_client(Remembers(), version) as client:
        types, remote = client.types, client.remote
        for call in (
            load(client, "another"),
            remote.fork_session(types.ForkSessionRequest(session_id="another", cwd="/project")),
            remote.session_status(types.SessionStatusRequest(session_id="another")),
            remote.set_session_title(types.SetSessionTitleRequest(session_id="another", title="x")),
            remote.archive_session(types.ArchiveSessionRequest(session_id="another")),
        ):
            with pytest.raises(ResourceNotFound) as caught:
                await call
            assert caught.value.data == {"sessionId": "another"}


@BOTH
@requirement("R-SESS-05", "R-SESS-35")
async def test_session_does_not_move_to_another_directory(version: int) -> None:
    async with connect_client(Remembers(), version) as client:
        with pytest.raises(InvalidParams):
            await load(client, client.session_id, cwd="/elsewhere")
        await load(client, client.session_id, cwd="/project/")


@BOTH
@requirement("R-LIST-02")
async def test_listing_without_sessions_is_empty(version: int) -> None:
    async with connect_client(Remembers(), version, opened=False) as client:
        assert await listed(client) == []
        await client.open()
        assert await listed(client, cwd="/elsewhere") == []


@BOTH
@requirement("R-LIST-16")
async def test_sessions_are_listed_with_titles_newest_first(version: int) -> None:
    async with connect_client(Remembers(), version) as client:
        first = client.session_id
        await client.open()
        await client.prompt("hello")
        newest, oldest = await listed(client)
        assert (newest.session_id, newest.title) == (client.session_id, "About hello")
        assert oldest.session_id == first
        assert newest.updated_at > oldest.updated_at


@BOTH
@requirement("R-LIST-03", "R-LIST-10")
async def test_listing_by_directory_includes_additional_directories(version: int) -> None:
    async with connect_client(Remembers(), version, opened=False) as client:
        await client.open(additional_directories=["/other"])
        first = client.session_id
        await client.open(cwd="/elsewhere")
        (only,) = await listed(client, cwd="/project")
        assert (only.session_id, only.additional_directories) == (first, ["/other"])
        assert [one.session_id for one in await listed(client, cwd="/elsewhere")] == [
            client.session_id
        ]


@BOTH
@requirement("R-LIST-11")
async def test_listing_neither_opens_nor_changes_sessions(version: int) -> None:
    agent = Remembers()
    async with connect_client(agent, version) as client:
        await client.prompt("hello")
        (before,) = await listed(client)
    async with connect_client(agent, version, opened=False) as client:
        assert await listed(client) == [before]
        assert not agent.sessions
        assert await listed(client) == [before]


@BOTH
@requirement("R-ARCH-11")
async def test_listing_has_the_archived_state_of_each_session(version: int) -> None:
    async with connect_client(Remembers(), version) as client:
        await client.open()
        assert [session.archived for session in await listed(client)] == [False, False]


@BOTH
@requirement("R-LIST-04", "R-LIST-06", "R-LIST-07", "R-ARCH-09")
async def test_listing_is_paged(version: int) -> None:
    async with connect_client(Remembers(), version, opened=False) as client:
        for _ in range(60):
            await client.open()
        request = client.types.ListSessionsRequest
        first = await client.remote.list_sessions(request())
        assert len(first.sessions) == 50
        rest = await client.remote.list_sessions(request(cursor=first.next_cursor))
        assert len(rest.sessions) == 10
        assert rest.next_cursor is None
        with pytest.raises(InvalidParams):
            await client.remote.list_sessions(request(cursor="nonsense"))
        with pytest.raises(InvalidParams):
            await client.remote.list_sessions(request(archived="_some"))


@BOTH
@requirement("R-SESS-25", "R-DIR-08")
async def test_fork_continues_independently(version: int) -> None:
    async with connect_client(Remembers(), version) as client:
        await client.prompt("hello")
        source = client.session_id
        fork = await client.remote.fork_session(
            client.types.ForkSessionRequest(session_id=source, cwd="/project")
        )
        assert fork.session_id != source
        client.session_id = fork.session_id
        await client.prompt("more")
        await client.prompt("count")
        assert client.said().endswith("3")
        client.session_id = source
        await client.prompt("count")
        assert client.said().endswith("2")


@BOTH
@requirement("R-LIST-13", "R-LIST-14")
async def test_deleted_session_is_not_found(version: int) -> None:
    agent = Remembers()
    async with connect_client(agent, version) as client:
        sent = client.send("wait")
        await agent.began.wait()
        request = client.types.DeleteSessionRequest(session_id=client.session_id)
        await client.remote.delete_session(request)
        assert await client.stopped(sent) == "cancelled"
        await client.remote.delete_session(request)
        assert await listed(client) == []
        with pytest.raises(ResourceNotFound):
            await load(client, client.session_id)


@BOTH
@requirement("R-TITLE-03", "R-TITLE-04", "R-TITLE-05")
async def test_title_of_the_user_is_not_replaced(version: int) -> None:
    async with connect_client(Remembers(), version) as client:
        request = client.types.SetSessionTitleRequest

        def rename(title: str) -> Any:
            return client.remote.set_session_title(
                request(session_id=client.session_id, title=title)
            )

        assert (await rename("  My \n title ")).title == "My title"
        await client.prompt("hello")
        assert [session.title for session in await listed(client)] == ["My title"]
        with pytest.raises(InvalidParams):
            await rename("  ")


async def archive(client: AgentHarness, session_id: str) -> None:
    await client.remote.archive_session(client.types.ArchiveSessionRequest(session_id=session_id))


async def unarchive(client: AgentHarness, session_id: str) -> None:
    request = client.types.UnarchiveSessionRequest(session_id=session_id)
    await client.remote.unarchive_session(request)


@BOTH
@requirement("R-ARCH-04", "R-ARCH-05")
async def test_archiving_cancels_the_turn_and_closes_the_session(version: int) -> None:
    agent = Remembers()
    async with connect_client(agent, version) as client:
        sent = client.send("wait")
        await agent.began.wait()
        for _ in range(2):
            await archive(client, client.session_id)
        assert await client.stopped(sent) == "cancelled"
        assert not agent.sessions


@BOTH
@requirement("R-ARCH-03")
async def test_archived_session_is_not_listed_and_keeps_its_history(version: int) -> None:
    async with connect_client(Remembers(), version) as client:
        session_id = client.session_id
        await client.prompt("hello")
        await archive(client, session_id)
        assert await listed(client) == []
        assert [one.session_id for one in await listed(client, archived="only")] == [session_id]
        await unarchive(client, session_id)
        await load(client, session_id)
        assert client.said() == "You said hello"


@BOTH
@requirement("R-ARCH-06")
async def test_unarchived_session_is_listed_and_not_opened(version: int) -> None:
    agent = Remembers()
    async with connect_client(agent, version) as client:
        types, session_id = client.types, client.session_id
        await archive(client, session_id)
        for _ in range(2):
            await unarchive(client, session_id)
        assert [one.archived for one in await listed(client)] == [False]
        assert not agent.sessions
        status = await client.remote.session_status(
            types.SessionStatusRequest(session_id=session_id)
        )
        assert status.status == "saved"


@BOTH
@requirement("R-ARCH-08")
async def test_archived_filter_applies_before_paging_and_with_cwd(version: int) -> None:
    async with connect_client(Remembers(), version) as client:
        archived = client.session_id
        await archive(client, archived)
        await client.open()
        current = client.session_id

        async def ids(**fields: Any) -> set[str]:
            return {one.session_id for one in await listed(client, **fields)}

        assert await ids() == await ids(archived="exclude") == {current}
        assert await ids(archived=None) == {current}
        assert await ids(archived="only") == {archived}
        assert await ids(archived="include") == {archived, current}
        assert await ids(archived="only", cwd="/project") == {archived}
        assert await ids(archived="only", cwd="/elsewhere") == set()


@BOTH
async def test_session_that_could_not_be_opened_is_not_stored(version: int) -> None:
    class Refuses(Remembers):
        async def open_session(self, session: Session) -> None:
            raise InvalidParams("no")

    async with connect_client(Refuses(), version, opened=False) as client:
        with pytest.raises(InvalidParams):
            await client.open()
        assert await listed(client) == []


async def test_v1_agent_without_a_store_advertises_no_stored_sessions() -> None:
    async with connect_client(Agent(), V1) as client:
        with pytest.raises(NotOffered):
            await load(client, client.session_id)
        with pytest.raises(MethodNotFound):
            await client.remote.connection.call("session/list", {}, bytes)


@requirement("R-SESS-02", "R-LIST-06")
async def test_v2_agent_without_a_store_lists_open_sessions() -> None:
    async with connect_client(Agent(), V2) as client:
        assert [session.session_id for session in await listed(client)] == [client.session_id]
        with pytest.raises(InvalidParams):
            await listed(client, cursor="nonsense")
        with pytest.raises(ResourceNotFound):
            await load(client, "another")


@requirement("R-INIT-40")
@BOTH
async def test_stable_agent_advertises_nothing_unstable(version: int) -> None:
    class Stable(Remembers):
        unstable = False

    async with connect_client(Stable(), version) as client:
        assert client.remote.supports("list_sessions")
        for call in ("fork_session", "archive_session", "session_status", "set_session_title"):
            assert not client.remote.supports(call)


@BOTH
async def test_history_of_a_turn_excludes_its_prompt(version: int) -> None:
    found: list[list[str]] = []

    class Counts(Agent):
        store = MemoryStore()

        async def prompt(self, turn: Turn) -> None:
            assert turn.client is turn.session.client
            assert turn.client.version == version
            updates = await turn.history()
            assert updates == (await turn.session.history())[: len(updates)]
            found.append([str(one.content[0]) for one in updates if isinstance(one, MessageUpdate)])
            await turn.say("yes")

    async with connect_client(Counts(), version) as client:
        await client.prompt("one")
        await client.prompt("two")
    assert found == [[], ["one", "yes"]]


@BOTH
async def test_history_of_a_turn_without_a_store_is_empty(version: int) -> None:
    found: list[object] = []

    class Forgets(Agent):
        async def prompt(self, turn: Turn) -> None:
            found.append(await turn.history())

    async with connect_client(Forgets(), version) as client:
        await client.prompt("one")
    assert found == [[]]
