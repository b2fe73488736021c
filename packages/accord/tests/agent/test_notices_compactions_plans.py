"""Notices, compactions and plan documents, and how each client receives them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accord import Agent, MemoryStore, PlanEntry, Turn, v1, v2
from agent.harness import BOTH, V1, V2, AgentHarness, ClientV1, ClientV2, connect_client
from requirement import requirement


class ShowsExtras(Agent):
    unstable = True

    def __init__(self) -> None:
        self.store = MemoryStore()

    async def prompt(self, turn: Turn) -> None:
        match turn.text:
            case "notice":
                await turn.say("Before.")
                await turn.show_notice("Slow today", severity="warning", description="Much to do.")
                await turn.say("Behind.")
            case "compact":
                async with turn.compaction() as compaction:
                    await compaction.summary("What we ")
                    await compaction.summary("have done.")
            case "compact badly":
                async with turn.compaction() as compaction:
                    await compaction.fail("It does not fit.")
            case "compact and crash":
                async with turn.compaction():
                    raise RuntimeError("a secret")
            case "document":
                plan = await turn.plan_markdown("# Steps\n\n- Look\n- Act\n")
                await turn.plan_file("file:///project/plan.md", plan_id="other")
                await plan.replace([PlanEntry("Rest")])
                await plan.remove()
            case _:
                with pytest.raises(ValueError, match="title"):
                    await turn.show_notice("")


class StableShowsExtras(ShowsExtras):
    unstable = False


def client_with(harness: AgentHarness) -> Any:
    """Return a client class that advertises support for these updates."""

    class Showing(ClientV1):
        def capabilities(self) -> v1.ClientCapabilities:
            return v1.ClientCapabilities(
                session=v1.ClientSessionCapabilities(
                    notices=v1.NoticeCapabilities(), compaction=v1.CompactionCapabilities()
                ),
                plan=v1.PlanCapabilities(),
            )

    return Showing(harness) if harness.version == V1 else ClientV2(harness)


@BOTH
@requirement("R-NOTICE-01", "R-NOTICE-02", "R-SESS-18")
async def test_notice_is_shown_and_not_stored(version: int) -> None:
    async with connect_client(ShowsExtras(), version, client=client_with) as client:
        await client.prompt("notice")
        (notice,) = client.of("Notice")
        assert (notice.severity, notice.title) == ("warning", "Slow today")
        assert notice.description == "Much to do."
        client.updates.clear()
        fields: dict[str, Any] = {"session_id": client.session_id, "cwd": client.cwd}
        if version == V1:
            await client.remote.load_session(v1.LoadSessionRequest(mcp_servers=[], **fields))
        else:
            start = v2.ReplayFromStart()
            await client.remote.resume_session(v2.ResumeSessionRequest(replay_from=start, **fields))
        assert client.said() == "Before.Behind."
        assert client.of("Notice") == []


@requirement("R-NOTICE-01", "R-NOTICE-06")
async def test_v1_client_without_notices_receives_a_message() -> None:
    async with connect_client(ShowsExtras(), V1) as client:
        await client.prompt("notice")
        assert client.said() == "Before.Slow today\n\nMuch to do.Behind."
        assert len(set(client.message_ids())) == 3


@BOTH
async def test_notice_without_a_title_is_rejected(version: int) -> None:
    async with connect_client(ShowsExtras(), version) as client:
        assert await client.prompt("") == "end_turn"


@BOTH
@requirement("R-COMP-03", "R-SESS-19")
async def test_compaction_is_replayed_with_its_last_status(version: int) -> None:
    async with connect_client(ShowsExtras(), version, client=client_with) as client:
        await client.prompt("compact")
        first, last = client.of("CompactionUpdate")
        assert (first.status, last.status) == ("in_progress", "completed")
        chunks = client.of("CompactionSummaryChunk")
        assert [chunk.content.text for chunk in chunks] == ["What we ", "have done."]
        client.updates.clear()
        fields: dict[str, Any] = {"session_id": client.session_id, "cwd": client.cwd}
        if version == V1:
            await client.remote.load_session(v1.LoadSessionRequest(mcp_servers=[], **fields))
        else:
            start = v2.ReplayFromStart()
            await client.remote.resume_session(v2.ResumeSessionRequest(replay_from=start, **fields))
        (replayed,) = client.of("CompactionUpdate")
        assert (replayed.compaction_id, replayed.status) == (first.compaction_id, "completed")
        assert [block.text for block in replayed.summary] == ["What we have done."]
        assert client.of("CompactionSummaryChunk") == []


@BOTH
@pytest.mark.parametrize(
    ("prompt", "why"), [("compact badly", "It does not fit."), ("compact and crash", None)]
)
async def test_failed_compaction_is_reported_with_its_message(
    version: int, prompt: str, why: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect_client(ShowsExtras(), version, client=client_with) as client:
        sent = client.send(prompt)
        await client.until(lambda: len(client.of("CompactionUpdate")) == 2)
        last = client.of("CompactionUpdate")[-1]
        assert (last.status, last.error or None) == ("failed", why)
        await asyncio.gather(sent, return_exceptions=True)
    caplog.clear()


@requirement("R-COMP-01")
async def test_v1_client_without_compactions_receives_none() -> None:
    async with connect_client(ShowsExtras(), V1) as client:
        await client.prompt("compact")
        assert client.updates == []


@BOTH
@requirement("R-PLAN-05")
async def test_plan_documents_are_shown_changed_and_removed(version: int) -> None:
    async with connect_client(ShowsExtras(), version, client=client_with) as client:
        await client.prompt("document")
        plans = [update.plan for update in client.of("PlanUpdate")]
        assert [type(plan).__name__ for plan in plans] == ["PlanMarkdown", "PlanFile", "PlanItems"]
        assert [plan.plan_id for plan in plans] == ["main", "other", "main"]
        assert plans[1].uri == "file:///project/plan.md"
        assert [update.plan_id for update in client.of("PlanRemoved")] == ["main"]


@BOTH
async def test_plan_documents_become_lists_for_clients_with_lists_only(version: int) -> None:
    async with connect_client(StableShowsExtras(), version, client=client_with) as client:
        await client.prompt("document")
        entries = [
            update.entries if version == V1 else update.plan.entries
            for update in client.of("Plan", "PlanUpdate")
        ]
        assert [[entry.content for entry in each] for each in entries] == [
            ["Steps", "Look", "Act"],
            ["file:///project/plan.md"],
            ["Rest"],
            [],
        ]


@requirement("R-TOOL-27")
@pytest.mark.parametrize("version", [V1, V2])
async def test_tool_call_is_paused_and_continued(version: int) -> None:
    class Pauses(Agent):
        async def prompt(self, turn: Turn) -> None:
            async with turn.tool("Wait") as call:
                await call.pause()
                await call.add_content("on")

    async with connect_client(Pauses(), version) as client:
        await client.prompt("go")
        paused = "in_progress" if version == V1 else "paused"
        assert client.statuses() == ["pending", "in_progress", paused, "in_progress", "completed"]
