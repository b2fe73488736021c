"""Rules for agents, one or two that belong together per test.

Other tests run whole stories and name many rules. Here a test that fails names what is broken.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, MemoryStore, PlanEntry, Turn, v1, v2
from accord.errors import AuthRequired, InvalidParams, ResourceNotFound
from agent.talk import BOTH, V1, V2, Talk, talk
from agent.test_elicit import Project, answering
from agent.test_kept import listed, load, user_text
from agent.test_mixins import Guarded, Routed, login, logout
from agent.test_tool import Does
from event_loop import drain_event_loop
from requirement import requirement


class Waits(Agent):
    """Works until it is allowed to end."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        await turn.say("Working. ")
        self.began.set()
        await self.may_end.wait()
        await turn.say("Done.")


class Remembers(Agent):
    """Stores its sessions."""

    unstable = True

    def __init__(self) -> None:
        self.store = MemoryStore()

    async def prompt(self, turn: Turn) -> None:
        await turn.set_title(f"About {turn.text}")
        await turn.say(f"You said {turn.text}.")
        turn.start_new_message()
        await turn.say("Is that so?")


# Turns.


@BOTH
@requirement("R-SESS-01")
async def test_every_new_session_has_an_id_of_its_own(version: int) -> None:
    async with talk(Waits(), version) as client:
        ids = [client.session_id, *[(await client.open()).session_id for _ in range(20)]]
        assert all(ids)
        assert len(set(ids)) == len(ids)


@requirement("R-PROMPT-03")
async def test_v1_prompt_is_not_answered_while_its_turn_shows_something() -> None:
    agent = Waits()
    async with talk(agent, V1) as client:
        sent = client.send("go")
        await agent.began.wait()
        await client.until(lambda: client.said() == "Working. ")
        await drain_event_loop()
        assert not sent.done()
        agent.may_end.set()
        await sent
        assert client.said() == "Working. Done."


@requirement("R-PROMPT-04", "R-PROMPT-08")
async def test_v1_prompt_is_answered_after_the_last_update_with_a_stop_reason() -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Look") as call:
            await call.add_content("found")
        for _ in range(100):
            await turn.say("x")

    async with talk(Does(work), V1) as client:
        answer = await client.send("go")
        heard = len(client.updates)
        assert answer.stop_reason == "end_turn"
        assert client.said() == "x" * 100
        assert client.tool()["status"] == "completed"
        await drain_event_loop()
        assert len(client.updates) == heard


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "max_turn_requests", "refusal"])
@requirement("R-PROMPT-06")
async def test_v1_stop_reason_is_one_of_the_protocols(reason: str) -> None:
    class Stops(Agent):
        async def prompt(self, turn: Turn) -> Any:
            return reason

    async with talk(Stops(), V1) as client:
        assert await client.prompt("go") == reason


@requirement("R-PROMPT-09")
async def test_v2_prompt_is_answered_when_its_message_has_its_place() -> None:
    agent = Waits()
    async with talk(agent, V2) as client:
        first, second = client.send("1"), client.send("2")
        await first
        await drain_event_loop()
        assert not second.done()
        agent.may_end.set()
        assert (await second).message_id != (await first).message_id


@requirement("R-PROMPT-10")
async def test_v2_message_of_the_user_is_shown_under_the_id_of_the_answer() -> None:
    agent = Waits()
    agent.may_end.set()
    async with talk(agent, V2) as client:
        answer = await client.send("go")
        await client.until(client.ends)
        (message,) = client.of("UserMessage")
        assert message.message_id == answer.message_id
        assert [block.text for block in message.content] == ["go"]


@requirement("R-PROMPT-11")
async def test_v2_work_that_starts_is_running() -> None:
    agent = Waits()
    async with talk(agent, V2) as client:
        await client.send("go")
        await client.until(lambda: client.said())
        names = [type(update).__name__ for update in client.updates]
        assert names.index("RunningStateUpdate") < names.index("AgentMessageChunk")
        assert "IdleStateUpdate" not in names
        agent.may_end.set()
        await client.until(client.ends)


@pytest.mark.parametrize("reason", ["end_turn", "refusal"])
@requirement("R-PROMPT-13")
async def test_v2_idle_update_has_the_stop_reason(reason: str) -> None:
    class Stops(Agent):
        async def prompt(self, turn: Turn) -> Any:
            return reason

    async with talk(Stops(), V2) as client:
        await client.send("go")
        await client.until(client.ends)
        assert [end.stop_reason for end in client.ends()] == [reason]


@requirement("R-PROMPT-35")
async def test_v2_prompt_that_needs_no_model_has_the_same_states() -> None:
    async def work(turn: Turn) -> None:
        if turn.text == "/help":
            await turn.say("No help.")

    async with talk(Does(work), V2) as client:
        assert await client.prompt("/help") == "end_turn"
        names = [type(update).__name__ for update in client.updates]
        expected = ["UserMessage", "RunningStateUpdate", "AgentMessageChunk", "IdleStateUpdate"]
        assert names == expected


# Tool calls.


@BOTH
@requirement("R-TOOL-01", "R-TOOL-02")
async def test_every_tool_call_is_reported_under_an_id_of_its_own(version: int) -> None:
    async def work(turn: Turn) -> None:
        for title in ("One", "Two"):
            async with turn.tool(title):
                pass

    async with talk(Does(work), version) as client:
        await client.prompt("go")
        await client.prompt("go")
        titles: dict[str, str] = {}
        for update in client.of("ToolCall", "ToolCallUpdate"):
            titles.setdefault(update.tool_call_id, update.title)
        assert list(titles.values()) == ["One", "Two", "One", "Two"]


@requirement("R-TOOL-09")
async def test_v2_first_report_of_a_tool_call_has_its_title() -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Look") as call:
            await call.append_text("found")

    async with talk(Does(work), V2) as client:
        await client.prompt("go")
        first = client.of("ToolCallUpdate", "ToolCallContentChunk")[0]
        assert first.title == "Look"


@BOTH
@requirement("R-TOOL-13")
async def test_name_of_a_tool_is_in_the_first_report_and_does_not_change(version: int) -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Look", name="look_around") as call:
            await call.update(title="Look around")
            await call.add_content("found")

    async with talk(Does(work), version) as client:
        await client.prompt("go")
        reports = client.of("ToolCall", "ToolCallUpdate")
        assert reports[0].name == "look_around"
        assert not {update.name for update in reports[1:] if update.name} - {"look_around"}


@BOTH
@requirement("R-TOOL-04")
async def test_tool_call_is_in_progress_only_after_permission(version: int) -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Edit", kind="edit") as call:
            assert await call.permission()
            await call.start()

    async with talk(Does(work), version) as client:
        before: list[str] = []

        def allow(_request: Any) -> str:
            before.extend(client.statuses())
            return "allow_once"

        client.allow = allow
        await client.prompt("go")
        assert "in_progress" not in before
        assert client.statuses()[-2:] == ["in_progress", "completed"]


@requirement("R-TOOL-17")
async def test_v1_diff_has_an_absolute_path_and_both_texts_in_full(tmp_path: Path) -> None:
    edited, created = tmp_path / "a.py", tmp_path / "new.py"
    edited.write_text("one\ntwo\n")

    async def work(turn: Turn) -> None:
        async with turn.tool("Edit", kind="edit"):
            await turn.files.write("a.py", "one\nthree\n")
            await turn.files.write("new.py", "new\n")

    async with talk(Does(work), V1, cwd=str(tmp_path)) as client:
        await client.prompt("go")
        assert client.tool()["content"] == [
            v1.Diff(path=str(edited), old_text="one\ntwo\n", new_text="one\nthree\n"),
            v1.Diff(path=str(created), new_text="new\n"),
        ]


@requirement("R-TOOL-21", "R-TOOL-22")
async def test_v2_patch_is_given_and_agrees_with_the_changes() -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Edit", kind="edit") as call:
            await call.add_diff("/project/new.py", None, "new\n")
            await call.add_diff("/project/a.py", "one\n", "two\n")
            await call.add_diff("/project/old.py", "old\n", None)

    async with talk(Does(work), V2) as client:
        await client.prompt("go")
        added, changed, removed = client.tool()["content"]
        assert [type(diff.changes[0]) for diff in (added, changed, removed)] == [
            v2.DiffAdd,
            v2.DiffModify,
            v2.DiffDelete,
        ]
        assert "new file mode" in added.patch.text
        assert "-one\n+two\n" in changed.patch.text
        assert "deleted file mode" in removed.patch.text


@requirement("R-TOOL-24")
async def test_v2_git_patch_has_absolute_paths_without_prefixes() -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Edit", kind="edit") as call:
            await call.add_diff("/project/a.py", "one\n", "two\n")

    async with talk(Does(work), V2) as client:
        await client.prompt("go")
        (diff,) = client.tool()["content"]
        assert diff.patch.format == "git_patch"
        head = diff.patch.text.splitlines()[:3]
        assert head == [
            "diff --git /project/a.py /project/a.py",
            "--- /project/a.py",
            "+++ /project/a.py",
        ]


# Permission.


async def asks(turn: Turn) -> None:
    async with turn.tool("Edit", kind="edit") as call:
        await turn.say("yes" if await call.permission() else "no")


@BOTH
@requirement("R-PERM-01")
async def test_permission_is_asked_for_before_the_tool_runs(version: int) -> None:
    async with talk(Does(asks), version) as client:
        before: list[list[str]] = []

        def reject(_request: Any) -> str:
            before.append(client.statuses())
            return "reject_once"

        client.allow = reject
        await client.prompt("go")
        assert len(before) == 1
        assert "in_progress" not in client.statuses()


@BOTH
@requirement("R-PERM-05")
async def test_option_that_was_not_offered_is_no_approval(version: int) -> None:
    async with talk(Does(asks), version) as client:
        client.allow = lambda _request: "allow_everything"
        await client.prompt("go")
        assert client.said() == "no"


@requirement("R-PERM-14")
async def test_v2_outcome_that_is_not_known_is_no_approval() -> None:
    def postponed(_talk: Talk, request: v2.RequestPermissionRequest) -> Any:
        return v2.RequestPermissionResponse(
            outcome=v2.Unknown("postponed", {"outcome": "postponed", "optionId": "allow_once"})
        )

    class Postpones(v2.ClientRole):
        def __init__(self, side: Talk) -> None:
            self.talk = side

        def session_update(
            self, params: v2.UpdateSessionNotification, context: v2.ClientContext
        ) -> None:
            self.talk.heard(params.update)

        def request_permission(
            self, params: v2.RequestPermissionRequest, context: v2.ClientContext
        ) -> v2.RequestPermissionResponse:
            return postponed(self.talk, params)

    async with talk(Does(asks), V2, client=Postpones) as client:
        await client.prompt("go")
        assert client.said() == "no"


@requirement("R-PERM-08", "R-PERM-17")
async def test_v2_options_of_a_request_are_at_least_one_with_ids_of_their_own() -> None:
    async with talk(Does(asks), V2) as client:
        await client.prompt("go")
        (request,) = client.asked
        ids = [option.option_id for option in request.options]
        assert ids
        assert len(set(ids)) == len(ids)


@requirement("R-PERM-16")
async def test_v1_options_have_the_four_kinds() -> None:
    async with talk(Does(asks), V1) as client:
        await client.prompt("go")
        (request,) = client.asked
        assert {option.kind for option in request.options} == {
            "allow_once",
            "allow_always",
            "reject_once",
            "reject_always",
        }


# Plans.


def plans(client: Talk) -> list[list[tuple[str, str]]]:
    """Return the content and status of the entries of every plan that was shown."""
    name = "Plan" if client.version == V1 else "PlanUpdate"
    entries = [u.entries if client.version == V1 else u.plan.entries for u in client.of(name)]
    return [[(entry.content, entry.status) for entry in shown] for shown in entries]


@BOTH
@requirement("R-PLAN-01")
async def test_plan_is_updated_as_work_proceeds(version: int) -> None:
    async def work(turn: Turn) -> None:
        plan = await turn.plan(["Find"])
        await plan.update(0, status="in_progress")
        await plan.update(0, status="completed")

    async with talk(Does(work), version) as client:
        await client.prompt("go")
        statuses = [shown[0][1] for shown in plans(client)]
        assert statuses == ["pending", "in_progress", "completed"]


@requirement("R-PLAN-02")
async def test_v1_plan_has_all_entries_in_every_update() -> None:
    async def work(turn: Turn) -> None:
        plan = await turn.plan(["Find", "Fix", "Test"])
        await plan.update(1, status="in_progress")

    async with talk(Does(work), V1) as client:
        await client.prompt("go")
        assert [len(shown) for shown in plans(client)] == [3, 3]


@BOTH
@requirement("R-PLAN-04")
async def test_entries_of_a_plan_are_added_changed_and_removed(version: int) -> None:
    async def work(turn: Turn) -> None:
        plan = await turn.plan(["Find"])
        await plan.replace(["Find", PlanEntry("Fix")])
        await plan.update("Fix", content="Fix it")
        await plan.replace(["Fix it"])

    async with talk(Does(work), version) as client:
        await client.prompt("go")
        contents = [[content for content, _ in shown] for shown in plans(client)]
        assert contents == [["Find"], ["Find", "Fix"], ["Find", "Fix it"], ["Fix it"]]


@requirement("R-PLAN-09")
async def test_v1_client_without_the_capability_gets_plain_plans() -> None:
    async def work(turn: Turn) -> None:
        await turn.plan(["Find"])

    class Unstable(Does):
        unstable = True

    async with talk(Unstable(work), V1) as client:
        await client.prompt("go")
        assert len(client.of("Plan")) == 1
        assert client.of("PlanUpdate") == []


# Stored sessions.


@requirement("R-SESS-08", "R-SESS-09")
async def test_v1_load_is_answered_after_the_whole_conversation_was_replayed() -> None:
    agent = Remembers()
    async with talk(agent, V1) as client:
        await client.prompt("hello")
        await client.prompt("there")
        session_id, said = client.session_id, client.said()
    async with talk(agent, V1, opened=False) as client:
        await load(client, session_id)
        replayed = len(client.updates)
        assert user_text(client) == "hellothere"
        assert client.said() == said
        await drain_event_loop()
        assert len(client.updates) == replayed


@requirement("R-SESS-10")
async def test_v1_message_ids_of_a_replay_are_unique_per_message() -> None:
    agent = Remembers()
    async with talk(agent, V1) as client:
        await client.prompt("hello")
        await client.prompt("there")
        session_id = client.session_id
    async with talk(agent, V1, opened=False) as client:
        await load(client, session_id)
        texts: dict[str, str] = {}
        for update in client.of("AgentMessageChunk"):
            text = texts.get(update.message_id, "")
            texts[update.message_id] = text + update.content.text
        assert None not in texts
        assert list(texts.values()) == [
            "You said hello.",
            "Is that so?",
            "You said there.",
            "Is that so?",
        ]


@BOTH
@requirement("R-LIST-02")
async def test_list_without_a_match_is_empty(version: int) -> None:
    async with talk(Remembers(), version) as client:
        assert len(await listed(client)) == 1
        assert await listed(client, cwd="/nowhere") == []


@BOTH
@requirement("R-LIST-03")
async def test_list_of_a_directory_has_its_sessions_only(version: int) -> None:
    async with talk(Remembers(), version, opened=False) as client:
        for cwd in ("/project", "/project/below", "/other"):
            await client.open(cwd=cwd)
        assert [session.cwd for session in await listed(client, cwd="/project")] == ["/project"]


@BOTH
@requirement("R-LIST-10")
async def test_list_has_the_additional_directories_in_order(version: int) -> None:
    async with talk(Remembers(), version, opened=False) as client:
        await client.open(additional_directories=["/z", "/a"])
        (session,) = await listed(client)
        assert session.additional_directories == ["/z", "/a"]


@BOTH
@requirement("R-LIST-11")
async def test_listing_opens_no_session(version: int) -> None:
    agent = Remembers()
    async with talk(agent, version) as client:
        session_id = client.session_id
    async with talk(agent, version, opened=False) as client:
        first = await listed(client)
        assert [session.session_id for session in first] == [session_id]
        assert not agent.sessions
        assert await listed(client) == first
        client.session_id = session_id
        with pytest.raises(ResourceNotFound):
            await client.send("hello")


@BOTH
@requirement("R-LIST-16")
async def test_title_that_was_sent_is_listed_later(version: int) -> None:
    async with talk(Remembers(), version) as client:
        await client.prompt("hello")
        sent = client.of("SessionInfoUpdate")[-1].title
        assert [session.title for session in await listed(client)] == [sent] == ["About hello"]


@BOTH
@requirement("R-ARCH-11")
async def test_every_listed_session_says_whether_it_is_archived(version: int) -> None:
    async with talk(Remembers(), version) as client:
        archived = client.session_id
        await client.remote.archive_session(client.types.ArchiveSessionRequest(session_id=archived))
        await client.open()
        said = {s.session_id: s.archived for s in await listed(client, archived="include")}
        assert said == {archived: True, client.session_id: False}


@BOTH
@requirement("R-ARCH-03", "R-ARCH-08")
async def test_archived_session_is_in_the_lists_that_ask_for_it(version: int) -> None:
    async with talk(Remembers(), version) as client:
        archived = client.session_id
        await client.prompt("hello")
        await client.remote.archive_session(client.types.ArchiveSessionRequest(session_id=archived))
        await client.open()
        other = client.session_id

        async def ids(**fields: Any) -> set[str]:
            return {session.session_id for session in await listed(client, **fields)}

        assert await ids() == await ids(archived="exclude") == {other}
        assert await ids(archived="include") == {archived, other}
        assert await ids(archived="only") == {archived}
        assert await ids(archived="only", cwd="/elsewhere") == set()
        await client.remote.unarchive_session(
            client.types.UnarchiveSessionRequest(session_id=archived)
        )
        await load(client, archived)
        assert user_text(client) == "hello"


@BOTH
@requirement("R-ARCH-06")
async def test_unarchived_session_is_not_open(version: int) -> None:
    agent = Remembers()
    async with talk(agent, version) as client:
        ids = {"session_id": client.session_id}
        await client.remote.archive_session(client.types.ArchiveSessionRequest(**ids))
        await client.remote.unarchive_session(client.types.UnarchiveSessionRequest(**ids))
        assert not agent.sessions
        with pytest.raises(ResourceNotFound):
            await client.send("hello")


# Login and providers.


@BOTH
@requirement("R-AUTH-01")
async def test_every_auth_method_has_an_id_and_a_name(version: int) -> None:
    async with talk(Guarded(), version, opened=False) as client:
        (method,) = client.remote.initialized.auth_methods
        assert (method.id if version == V1 else method.method_id) == "key"
        assert method.name == "With a key"


@BOTH
@requirement("R-AUTH-10", "R-AUTH-11")
async def test_session_needs_a_login_and_opens_after_it(version: int) -> None:
    async with talk(Guarded(), version, opened=False) as client:
        with pytest.raises(AuthRequired) as caught:
            await client.open()
        assert caught.value.code == -32000
        await login(client, "key")
        await client.open()


@BOTH
@requirement("R-AUTH-26")
async def test_session_needs_a_login_again_after_a_logout(version: int) -> None:
    async with talk(Guarded(), version, opened=False) as client:
        await login(client, "key")
        await client.open()
        await logout(client)
        with pytest.raises(AuthRequired):
            await client.open()
        await login(client, "key")
        await client.open()


@BOTH
@requirement("R-PROV-01")
async def test_providers_are_advertised_by_agents_that_have_some(version: int) -> None:
    def advertised(client: Talk) -> Any:
        initialized = client.remote.initialized
        if version == V1:
            return initialized.agent_capabilities.providers
        return initialized.capabilities.providers

    async with talk(Routed(), version, opened=False) as client:
        assert advertised(client) is not None
    async with talk(Waits(), version, opened=False) as client:
        assert not advertised(client)


def set_provider(client: Talk, provider_id: str, api_type: str = "openai", **fields: Any) -> Any:
    request = client.types.SetProviderRequest(
        provider_id=provider_id, api_type=api_type, base_url="https://b.example", **fields
    )
    return client.remote.set_provider(request)


@BOTH
@requirement("R-PROV-04")
async def test_headers_of_a_provider_are_not_listed(version: int) -> None:
    async with talk(Routed(), version, opened=False) as client:
        await set_provider(client, "main", headers={"Authorization": "secret"})
        answer = await client.remote.list_providers(client.types.ListProvidersRequest())
        assert "secret" not in str(client.json(answer))


@BOTH
@requirement("R-PROV-06")
async def test_provider_is_replaced_with_all_its_headers(version: int) -> None:
    agent = Routed()
    async with talk(agent, version, opened=False) as client:
        await set_provider(client, "extra", "anthropic", headers={"key": "1"})
        assert agent.headers == {"key": "1"}
        await set_provider(client, "extra", "openai")
        assert agent.headers == {}
        assert agent.found["extra"].api_type == "openai"


@BOTH
@requirement("R-PROV-07")
async def test_unknown_provider_and_unsupported_type_are_invalid(version: int) -> None:
    async with talk(Routed(), version, opened=False) as client:
        for provider_id, api_type in (("other", "openai"), ("main", "anthropic")):
            with pytest.raises(InvalidParams) as caught:
                await set_provider(client, provider_id, api_type)
            assert caught.value.code == -32602


@BOTH
@requirement("R-PROV-05", "R-PROV-08")
async def test_disabled_provider_stays_listed_and_a_required_one_is_not_disabled(
    version: int,
) -> None:
    async with talk(Routed(), version, opened=False) as client:
        await set_provider(client, "extra", "anthropic")
        disable = client.types.DisableProviderRequest
        await client.remote.disable_provider(disable(provider_id="extra"))
        with pytest.raises(InvalidParams):
            await client.remote.disable_provider(disable(provider_id="main"))
        answer = await client.remote.list_providers(client.types.ListProvidersRequest())
        current = {each.provider_id: each.current for each in answer.providers}
        assert current["extra"] is None
        assert current["main"].base_url == "https://a.example"


# Elicitation.


async def elicits(turn: Turn) -> None:
    await turn.elicit_form(Project, "Which project?")


@BOTH
@requirement("R-ELIC-05")
async def test_elicitation_has_its_mode_and_one_scope(version: int) -> None:
    client_class = answering(version, {"name": "x"})
    async with talk(Does(elicits), version, client=client_class) as client:
        await client.prompt("go")
        (request,) = client.asked
        sent = client.json(request)
        assert sent["mode"] == "form"
        assert sent["sessionId"] == client.session_id
        assert "requestId" not in sent


@BOTH
@requirement("R-ELIC-07")
async def test_schema_of_a_form_is_an_object_with_properties(version: int) -> None:
    client_class = answering(version, {"name": "x"})
    async with talk(Does(elicits), version, client=client_class) as client:
        await client.prompt("go")
        schema = client.json(client.asked[0])["requestedSchema"]
        assert schema["type"] == "object"
        assert "name" in schema["properties"]


@requirement("R-ELIC-35")
async def test_v2_session_requires_action_while_the_user_fills_in_a_form() -> None:
    client_class = answering(V2, {"name": "x"})
    async with talk(Does(elicits), V2, client=client_class) as client:
        await client.prompt("go")
        states = [type(u).__name__ for u in client.updates if "State" in type(u).__name__]
        assert states == [
            "RunningStateUpdate",
            "RequiresActionStateUpdate",
            "RunningStateUpdate",
            "IdleStateUpdate",
        ]
