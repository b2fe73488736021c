"""Tool calls: how they are shown, how they end, and permission requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from accord import ImageContent, PermissionOption, ToolCallLocation, Turn, v1, v2
from accord.agent import ToolCallHandle
from accord.wire.base import UNSET, Unknown
from agent.harness import BOTH, V1, V2, AgentHarness, ClientV2, FunctionAgent, connect_client
from requirement import requirement


async def read_a(turn: Turn) -> None:
    async with turn.tool(
        "Read a.py",
        kind="read",
        name="read_file",
        locations=["/project/a.py", ToolCallLocation("/project/b.py", 3)],
        raw_input={"path": "a.py"},
    ) as call:
        await call.add_content("found it")
        await call.set_raw_output({"lines": 3})


@BOTH
@requirement("R-TOOL-04")
async def test_tool_call_is_reported_from_pending_to_completed(version: int) -> None:
    async with connect_client(FunctionAgent(read_a), version) as client:
        assert await client.prompt("go") == "end_turn"
        assert client.statuses() in (
            ["pending", "in_progress", "completed"],
            ["in_progress", "completed"],  # v1: a new call is pending
        )


@BOTH
@requirement("R-TOOL-01", "R-TOOL-09", "R-TOOL-13")
async def test_first_update_has_the_title_the_kind_and_the_name(version: int) -> None:
    async with connect_client(FunctionAgent(read_a), version) as client:
        await client.prompt("go")
        first = client.of("ToolCall" if version == V1 else "ToolCallUpdate")[0]
        assert (first.title, first.kind, first.name) == ("Read a.py", "read", "read_file")
        assert first.locations == [
            client.types.ToolCallLocation(path="/project/a.py"),
            client.types.ToolCallLocation(path="/project/b.py", line=3),
        ]
        assert client.tool()["name"] == "read_file"  # unchanged


@BOTH
async def test_tool_call_has_its_input_output_and_content(version: int) -> None:
    async with connect_client(FunctionAgent(read_a), version) as client:
        await client.prompt("go")
        types, call = client.types, client.tool()
        assert call["raw_input"] == {"path": "a.py"}
        assert call["raw_output"] == {"lines": 3}
        assert call["content"] == [types.Content(content=types.TextContent(text="found it"))]


@BOTH
@requirement("R-TOOL-02")
async def test_ids_of_tool_calls_are_unique_in_a_session(version: int) -> None:
    ids: list[str] = []

    async def work(turn: Turn) -> None:
        for _ in range(2):
            async with turn.tool("Look") as call:
                ids.append(call.id)

    async with connect_client(FunctionAgent(work), version) as client:
        await client.prompt("go")
        await client.prompt("again")
        first = client.of("ToolCall") if version == V1 else client.of("ToolCallUpdate")
        assert list(dict.fromkeys(update.tool_call_id for update in first)) == ids
        assert len(set(ids)) == 4


@BOTH
async def test_tool_call_that_raises_fails_and_the_turn_continues(version: int) -> None:
    async def work(turn: Turn) -> None:
        try:
            async with turn.tool("Break"):
                raise RuntimeError("broken")
        except RuntimeError:
            await turn.say("It broke.")

    async with connect_client(FunctionAgent(work), version) as client:
        assert await client.prompt("go") == "end_turn"
        assert client.tool()["status"] == "failed"
        assert client.said() == "It broke."


@BOTH
async def test_tool_call_can_fail_with_a_message(version: int) -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Break") as call:
            await call.fail("no such thing")

    async with connect_client(FunctionAgent(work), version) as client:
        assert await client.prompt("go") == "end_turn"
        assert client.statuses()[-1] == "failed"
        assert client.statuses().count("failed") == 1


@pytest.mark.parametrize(("version", "status"), [(V1, "failed"), (V2, "cancelled")])
async def test_tool_call_of_a_cancelled_turn_is_cancelled(version: int, status: str) -> None:
    began = asyncio.Event()

    async def work(turn: Turn) -> None:
        async with turn.tool("Wait") as call:
            await call.start()
            began.set()
            await asyncio.Event().wait()

    async with connect_client(FunctionAgent(work), version) as client:
        sent = client.send("go")
        await began.wait()
        await client.cancel()
        assert await client.stopped(sent) == "cancelled"
        assert client.tool()["status"] == status


@BOTH
async def test_diff_shown_before_the_write_is_shown_once(version: int, tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")

    async def work(turn: Turn) -> None:
        async with turn.tool("Edit", kind="edit") as call:
            await call.add_diff(path, None, "new")
            if await call.permission():
                await turn.files.write(path, "new")

    async with connect_client(FunctionAgent(work), version, cwd=str(tmp_path)) as client:
        await client.prompt("go")
        assert (tmp_path / "a.txt").read_text() == "new"
        assert len(client.tool()["content"]) == 1
        assert client.tool()["status"] == "completed"


@pytest.mark.parametrize(("version", "status"), [(V1, "failed"), (V2, "cancelled")])
async def test_rejected_diff_is_cancelled_although_it_was_shown(version: int, status: str) -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Edit", kind="edit") as call:
            await call.add_diff("/project/a.py", "one", "two")
            await call.permission()

    async with connect_client(FunctionAgent(work), version) as client:
        client.allow = lambda _request: "reject_once"
        await client.prompt("go")
        assert client.tool()["status"] == status


@BOTH
async def test_tool_call_denied_by_the_agent_has_a_reason_and_never_runs(
    version: int,
) -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Delete /", kind="delete") as call:
            await call.deny("Never.", raw_output={"error": "Never."})

    async with connect_client(FunctionAgent(work), version) as client:
        await client.prompt("go")
        assert client.statuses()[-1] == ("failed" if version == V1 else "cancelled")
        assert "in_progress" not in client.statuses()
        call = client.tool()
        assert call["raw_output"] == {"error": "Never."}
        types = client.types
        assert call["content"] == [types.Content(content=types.TextContent(text="Never."))]


async def edit_a(turn: Turn) -> None:
    async with turn.tool("Edit", kind="edit") as call:
        await call.add_diff("/project/a.py", "one\n", "two\n")


@requirement("R-TOOL-17")
async def test_v1_diff_has_the_complete_texts() -> None:
    async with connect_client(FunctionAgent(edit_a), V1) as client:
        await client.prompt("go")
        (diff,) = client.tool()["content"]
        assert diff == v1.Diff(path="/project/a.py", old_text="one\n", new_text="two\n")


@requirement("R-TOOL-17")
async def test_v1_diff_of_a_new_file_has_no_old_text() -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Create", kind="edit") as call:
            await call.add_diff("/project/a.py", None, "two\n")

    async with connect_client(FunctionAgent(work), V1) as client:
        await client.prompt("go")
        (diff,) = client.tool()["content"]
        assert diff == v1.Diff(path="/project/a.py", new_text="two\n")


@requirement("R-TOOL-20")
async def test_v2_diff_has_the_changes() -> None:
    async with connect_client(FunctionAgent(edit_a), V2) as client:
        await client.prompt("go")
        (diff,) = client.tool()["content"]
        assert diff.changes == [v2.DiffModify(path="/project/a.py")]


@requirement("R-TOOL-21", "R-TOOL-22", "R-TOOL-24")
async def test_v2_diff_has_a_patch_in_git_format() -> None:
    async with connect_client(FunctionAgent(edit_a), V2) as client:
        await client.prompt("go")
        (diff,) = client.tool()["content"]
        assert diff.patch.text == (
            "diff --git /project/a.py /project/a.py\n"
            "--- /project/a.py\n+++ /project/a.py\n@@ -1 +1 @@\n-one\n+two\n"
        )
        assert all(change.path in diff.patch.text for change in diff.changes)


@BOTH
@requirement("R-TOOL-05")
async def test_streamed_text_accumulates(version: int) -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Run") as call:
            await call.add_content("Output:")
            for part in ("a", "b", "c"):
                await call.append_text(part)

    async with connect_client(FunctionAgent(work), version) as client:
        await client.prompt("go")
        texts = [item.content.text for item in client.tool()["content"]]
        assert "".join(texts) == "Output:abc"
        if version == V1:
            assert texts == ["Output:abc"]


async def test_v1_streamed_text_is_not_resent_with_every_chunk() -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Run") as call:
            for _ in range(1000):
                await call.append_text("word ")
            await call.add_content("Done.")

    async with connect_client(FunctionAgent(work), V1) as client:
        await client.prompt("go")
        assert [i.content.text for i in client.tool()["content"]] == ["word " * 1000, "Done."]
        assert len(client.of("ToolCallUpdate")) < 50


async def test_v1_streamed_text_is_sent_even_if_nothing_follows() -> None:
    seen = asyncio.Event()

    async def work(turn: Turn) -> None:
        async with turn.tool("Run") as call:
            await call.append_text("a")
            await call.append_text("b")
            await seen.wait()

    async with connect_client(FunctionAgent(work), V1) as client:
        sent = client.send("go")
        await client.until(
            lambda: (
                client.of("ToolCallUpdate")
                and client.tool()["content"]
                and client.tool()["content"][0].content.text == "ab"
            )
        )
        seen.set()
        assert await client.stopped(sent) == "end_turn"


@BOTH
async def test_content_can_be_replaced_and_added(version: int) -> None:
    image = ImageContent(b"\x01\x02\x03", "image/png")

    async def work(turn: Turn) -> None:
        async with turn.tool("Draw") as call:
            await call.add_content("wait", image)
            await call.replace_content("done")
            await call.add_content("really")

    async with connect_client(FunctionAgent(work), version) as client:
        await client.prompt("go")
        assert [item.content.text for item in client.tool()["content"]] == ["done", "really"]


@BOTH
async def test_title_kind_and_locations_can_be_changed(version: int) -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Think") as call:
            await call.update(
                title="Edit a.py", kind="edit", locations=["/project/a.py"], raw_input={"n": 1}
            )

    async with connect_client(FunctionAgent(work), version) as client:
        await client.prompt("go")
        call = client.tool()
        assert (call["title"], call["kind"]) == ("Edit a.py", "edit")
        assert call["locations"] == [client.types.ToolCallLocation(path="/project/a.py")]
        assert call["raw_input"] == {"n": 1}


@BOTH
async def test_custom_kind_is_sent_in_the_form_of_the_version(version: int) -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Sing", kind="_sing"):
            pass

    async with connect_client(FunctionAgent(work), version) as client:
        await client.prompt("go")
        assert client.tool()["kind"] == ("other" if version == V1 else "_sing")


@BOTH
@requirement("R-MSG-01")
async def test_text_after_a_tool_call_is_a_new_message(version: int) -> None:
    async def work(turn: Turn) -> None:
        await turn.say("Let me look.")
        async with turn.tool("Look"):
            pass
        await turn.say("Here it is.")

    async with connect_client(FunctionAgent(work), version) as client:
        await client.prompt("go")
        assert len(set(client.message_ids())) == 2


# Permission.


async def ask(turn: Turn) -> None:
    async with turn.tool("Edit a.py", kind="edit", name="edit") as call:
        await turn.say("yes" if await call.permission() else "no")


@BOTH
@pytest.mark.parametrize(
    ("chosen", "said", "status"),
    [
        ("allow_once", "yes", "completed"),
        ("allow_always", "yes", "completed"),
        ("reject_once", "no", "cancelled"),
        ("reject_always", "no", "cancelled"),
        ("something else", "no", "cancelled"),
    ],
)
@requirement("R-PERM-01", "R-PERM-05")
async def test_user_decides_a_permission_request(
    version: int, chosen: str, said: str, status: str
) -> None:
    async with connect_client(FunctionAgent(ask), version) as client:
        client.allow = lambda _request: chosen
        assert await client.prompt("go") == "end_turn"
        assert client.said() == said
        shown = "failed" if (version, status) == (V1, "cancelled") else status
        assert client.tool()["status"] == shown


@BOTH
@requirement("R-PERM-08", "R-PERM-16", "R-PERM-17")
async def test_user_can_allow_or_reject_once_or_always(version: int) -> None:
    async with connect_client(FunctionAgent(ask), version) as client:
        client.allow = lambda _request: "allow_once"
        await client.prompt("go")
        (request,) = client.asked
        assert [option.kind for option in request.options] == [
            "allow_once",
            "allow_always",
            "reject_once",
            "reject_always",
        ]
        assert len({option.option_id for option in request.options}) == 4


@requirement("R-PERM-14")
async def test_v2_unknown_outcome_is_not_an_approval() -> None:
    class Odd(ClientV2):
        async def request_permission(
            self, params: v2.RequestPermissionRequest, context: v2.ClientContext
        ) -> Any:
            return v2.RequestPermissionResponse(outcome=Unknown("_maybe", {"outcome": "_maybe"}))

    async with connect_client(FunctionAgent(ask), V2, client=Odd) as client:
        await client.prompt("go")
        assert client.said() == "no"


@BOTH
@pytest.mark.parametrize(("chosen", "said"), [("allow_always", "yes"), ("reject_always", "no")])
async def test_always_applies_for_the_rest_of_the_session(
    version: int, chosen: str, said: str
) -> None:
    async with connect_client(FunctionAgent(ask), version) as client:
        client.allow = lambda _request: chosen
        await client.prompt("go")
        await client.prompt("go")
        assert client.said() == said + said
        assert len(client.asked) == 1
        await client.open()
        await client.prompt("go")
        assert len(client.asked) == 2


@BOTH
async def test_policy_of_the_agent_decides_first(version: int) -> None:
    class Careful(FunctionAgent):
        async def decide_permission(self, call: ToolCallHandle) -> bool | None:
            return {"read": True, "delete": False}.get(call.kind)

    async def work(turn: Turn) -> None:
        for kind in ("read", "delete", "edit"):
            async with turn.tool(kind, kind=kind) as call:
                await turn.say(f"{await call.permission()} ")

    async with connect_client(Careful(work), version) as client:
        await client.prompt("go")
        assert client.said() == "True False True "
        assert len(client.asked) == 1


@requirement("R-PERM-07")
@BOTH
async def test_agent_can_offer_its_own_options(version: int) -> None:
    options = [
        PermissionOption("main", "On main", "allow_once"),
        PermissionOption("branch", "On a branch", "allow_once"),
    ]

    async def work(turn: Turn) -> None:
        async with turn.tool("Push") as call:
            chosen = await call.request_choice(
                options, title="Where to?", description="Think well."
            )
            await turn.say("nowhere" if chosen is None else chosen.id)

    async with connect_client(FunctionAgent(work), version) as client:
        client.allow = lambda _request: "branch"
        await client.prompt("go")
        assert client.said() == "branch"
        (request,) = client.asked
        if version == V1:
            assert request.tool_call.title == "Where to?"
            assert request.tool_call.content[0].content.text == "Think well."
        else:
            assert (request.title, request.description) == ("Where to?", "Think well.")
            assert request.subject.tool_call.title == "Push"


@pytest.mark.parametrize(("version", "reason"), [(V1, "cancelled"), (V2, "end_turn")])
@requirement("R-PERM-03", "R-PERM-18")
async def test_cancelled_permission_request_is_not_an_approval(version: int, reason: str) -> None:
    async with connect_client(FunctionAgent(ask), version) as client:
        client.allow = lambda _request: None
        assert await client.prompt("go") == reason
        assert "yes" not in client.said()


class Waits:
    """A client whose user does not respond until the test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.withdrawn = False

    def v1(self, _talk: AgentHarness) -> Any:
        waits = self

        class Client(v1.ClientRole):
            def session_update(
                self, params: v1.SessionNotification, context: v1.ClientContext
            ) -> None:
                _talk.heard(params.update)

            async def request_permission(
                self, params: v1.RequestPermissionRequest, context: v1.ClientContext
            ) -> v1.RequestPermissionResponse:
                await waits.wait()
                outcome = v1.SelectedPermissionOutcome(option_id="allow_once")
                return v1.RequestPermissionResponse(outcome=outcome)

        return Client()

    def v2(self, _talk: AgentHarness) -> Any:
        waits = self

        class Client(v2.ClientRole):
            def session_update(
                self, params: v2.UpdateSessionNotification, context: v2.ClientContext
            ) -> None:
                _talk.heard(params.update)

            async def request_permission(
                self, params: v2.RequestPermissionRequest, context: v2.ClientContext
            ) -> v2.RequestPermissionResponse:
                await waits.wait()
                outcome = v2.SelectedPermissionOutcome(option_id="allow_once")
                return v2.RequestPermissionResponse(outcome=outcome)

        return Client()

    async def wait(self) -> None:
        self.asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.withdrawn = True
            raise


@BOTH
@requirement("R-CANCEL-03", "R-CANCEL-14")
async def test_cancel_withdraws_the_permission_request(version: int) -> None:
    waits = Waits()
    make = waits.v1 if version == V1 else waits.v2
    async with connect_client(FunctionAgent(ask), version, client=make) as client:
        sent = client.send("go")
        await waits.asked.wait()
        await client.cancel()
        assert await client.stopped(sent) == "cancelled"
        assert not client.said()
        assert waits.withdrawn


@requirement("R-PROMPT-14")
async def test_v2_session_requires_action_while_the_user_is_asked() -> None:
    waits = Waits()
    async with connect_client(FunctionAgent(ask), V2, client=waits.v2) as client:
        sent = client.send("go")
        await client.until(lambda: client.of("RequiresActionStateUpdate"))
        waits.may_answer.set()
        assert await client.stopped(sent) == "end_turn"
        states = [
            type(u).__name__
            for u in client.of("RunningStateUpdate", "RequiresActionStateUpdate", "IdleStateUpdate")
        ]
        assert states == [
            "RunningStateUpdate",
            "RequiresActionStateUpdate",
            "RunningStateUpdate",
            "IdleStateUpdate",
        ]


@requirement("R-PROMPT-14")
async def test_v2_session_runs_while_other_tools_run() -> None:
    waits = Waits()
    answered = asyncio.Event()

    async def other(turn: Turn) -> None:
        async with turn.tool("Build") as call:
            await call.start()
            await answered.wait()

    async def asks(turn: Turn) -> None:
        await ask(turn)
        answered.set()

    async def work(turn: Turn) -> None:
        await asyncio.gather(other(turn), asks(turn))

    async with connect_client(FunctionAgent(work), V2, client=waits.v2) as client:
        sent = client.send("go")
        await waits.asked.wait()
        waits.may_answer.set()
        assert await client.stopped(sent) == "end_turn"
        assert not client.of("RequiresActionStateUpdate")


# Misuse.


@BOTH
async def test_tool_call_is_entered_once_before_it_is_used(version: int) -> None:
    async def work(turn: Turn) -> None:
        call = turn.tool("Dig")
        with pytest.raises(RuntimeError, match="async with"):
            await call.add_content("too early")
        async with call:
            pass
        with pytest.raises(RuntimeError, match="once"):
            async with call:
                pass

    async with connect_client(FunctionAgent(work), version) as client:
        assert await client.prompt("go") == "end_turn"


@BOTH
@pytest.mark.parametrize("ids", [(), ("yes", "yes")], ids=["none", "twice"])
async def test_permission_request_needs_options_with_unique_ids(
    version: int, ids: tuple[str, ...]
) -> None:
    async def work(turn: Turn) -> None:
        async with turn.tool("Dig") as call:
            with pytest.raises(ValueError, match="options must not be empty"):
                await call.request_choice(
                    [PermissionOption(key, "Yes", "allow_once") for key in ids]
                )

    async with connect_client(FunctionAgent(work), version) as client:
        assert await client.prompt("go") == "end_turn"
        assert not client.asked


@BOTH
async def test_call_that_comes_as_events_is_shown_without_a_block(version: int) -> None:
    async def work(turn: Turn) -> None:
        first, second = turn.tool("First", kind="read"), turn.tool("Second", kind="execute")
        await first.begin()
        await second.begin()
        with pytest.raises(RuntimeError, match="entered once"):
            await first.begin()
        await second.add_content("out of order")
        assert await first.permission()
        await second.end("failed")
        await first.end()
        await first.end("failed")  # it has ended

    async with connect_client(FunctionAgent(work), version) as client:
        assert await client.prompt("go") == "end_turn"
        states = [u for u in client.of("ToolCall", "ToolCallUpdate") if u.tool_call_id]
        last = {u.tool_call_id: u.status for u in states if u.status is not UNSET and u.status}
        assert list(last.values()) == ["completed", "failed"]
        assert len(client.asked) == 1
