"""Permission policies: their decisions and the chosen options."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from accord import PermissionDecided, PermissionOption, PermissionRequest, ToolCall, v2
from accord.client.permissions import (
    allow,
    allows,
    ask_one_at_a_time,
    chain,
    choose,
    denies,
    deny,
    remember,
)
from accord.types.content import Other
from accord.types.convert_v2 import tool_content_from_wire
from accord.types.tool_calls import Diff, ToolCallLocation
from accord.wire.codec import convert
from client.wire_agents import BOTH, Speaker, agent_by_hand, session_with
from requirement import requirement

KINDS = ("reject_always", "allow_always", "reject_once", "allow_once")


def options(*kinds: str) -> list[PermissionOption]:
    return [PermissionOption(f"id of {kind}", kind, kind) for kind in kinds]


def request(
    kind: str = "edit", *paths: str, command: Any = None, session: str = "s"
) -> PermissionRequest:
    call = ToolCall(
        id="c",
        kind=kind,
        locations=tuple(ToolCallLocation(path) for path in paths),
        raw_input=None if command is None else {"command": command},
    )
    return PermissionRequest(
        session_id=session,
        cwd="/project",
        title="May I?",
        options=tuple(options(*KINDS)),
        tool_call=call,
    )


async def decided(policy: Any, *requests: PermissionRequest) -> list[Any]:
    return [await chain(policy)(each) for each in requests]


@pytest.mark.parametrize(
    ("offered", "decision", "chosen"),
    [
        (KINDS, "allow", "allow_once"),
        (KINDS, "allow_always", "allow_always"),
        (KINDS, "reject", "reject_once"),
        (KINDS, "reject_always", "reject_always"),
        (KINDS, "cancel", None),
        (("allow_once", "reject_once"), "allow_always", "allow_once"),
        (("allow_always", "reject_once"), "allow", "reject_once"),
        (("allow_always",), "allow", None),
        (("allow_once",), "reject", None),
        (("allow_once", "allow_always", "reject_always"), "reject", None),
        (("allow_always", "reject_always"), "allow", None),
        (("allow_once", "reject_always"), "reject_always", "reject_always"),
        (("allow_once", "reject_once"), "reject_always", "reject_once"),
        (("_maybe",), "allow", None),
    ],
)
def test_option_is_chosen_by_kind_and_never_exceeds_the_decision(
    offered: Any, decision: Any, chosen: str | None
) -> None:
    option = choose(options(*offered), decision)
    assert (None if option is None else option.kind) == chosen


def test_id_of_both_an_allow_and_a_reject_option_is_not_chosen() -> None:
    both = [PermissionOption("a", "Yes", "allow_once"), PermissionOption("a", "No", "reject_once")]
    assert choose(both, "reject") is None
    assert choose(both, "allow") is None
    assert choose([*both, *options("reject_once")], "reject") == options("reject_once")[0]


@pytest.mark.parametrize("kind", ["allow_once", "reject_once"])
def test_option_with_an_ambiguous_id_is_never_chosen(kind: str) -> None:
    wanted = PermissionOption("same", "Push to a branch", kind)
    other = PermissionOption("same", "Push to main", "allow_once")
    assert choose([other, wanted], wanted) is None
    assert choose([wanted, wanted], wanted) == wanted


def test_option_that_was_not_offered_is_not_chosen() -> None:
    here, elsewhere = options("allow_once"), options("allow_always")
    assert choose(here, here[0]) == here[0]
    assert choose(here, elsewhere[0]) is None


@pytest.mark.parametrize(
    ("rule", "asked", "expected"),
    [
        ("*", request("edit"), True),
        ("edit", request("edit"), True),
        ("edit", request("read"), False),
        ("edit:src/*", request("edit", "/project/src/a.py"), True),
        ("edit:src/*", request("edit", "src/deep/a.py"), True),
        ("edit:src/*", request("edit", "/project/src/../secret"), False),
        ("edit:src/*", request("edit", "/project/src/a.py", "/etc/passwd"), False),
        ("edit:src/*", request("edit"), False),
        ("*:/elsewhere/*", request("read", "/elsewhere/x"), True),
        ("execute:pytest*", request("execute", command="pytest -q"), True),
        ("execute:pytest*", request("execute", command=["pytest", "-q"]), True),
        ("execute:pytest*", request("execute", command="pytest; rm -rf /"), False),
        ("execute:pytest*", request("execute", command="pytest `id`"), False),
        ("execute:pytest*", request("execute", command=["pytest", "a;b"]), False),
        ("execute:pytest*", request("execute", command={"odd": 1}), False),
        ("execute", request("execute", command="rm -rf /"), True),
    ],
)
async def test_rule_allows(rule: str, asked: PermissionRequest, expected: bool) -> None:
    assert await decided(allow(rule), asked) == ["allow" if expected else None]


def editing(*content: Any, paths: tuple[str, ...] = ()) -> PermissionRequest:
    asked = request("edit", *paths)
    assert asked.tool_call is not None
    return replace(asked, tool_call=replace(asked.tool_call, content=content))


@pytest.mark.parametrize(
    ("asked", "allowed", "denied"),
    [
        (editing(Diff("/project/src/a", "", "x")), True, False),
        (editing(Diff("src/a", "", "x")), True, False),
        (editing(Diff("/project/src/a"), "text"), True, False),
        (editing(Diff("/etc/passwd", "", "x"), paths=("/project/src/a",)), False, True),
        (editing(Diff("/project/src/../../etc/passwd")), False, True),
        (editing(Diff("/project/src/a"), Diff("/etc/passwd")), False, True),
        (editing(Diff("/project/src/a", others=("/etc/passwd",))), False, True),
        (editing(Diff("/project/src/a", others=("/project/src/b",))), True, False),
        (editing(Diff("/project/src/a"), paths=("/etc/passwd",)), False, True),
        (editing(Other({"type": "diff"}), paths=("/project/src/a",)), False, False),
        (editing("text"), False, False),
    ],
)
async def test_files_in_the_diff_count_as_paths(
    asked: PermissionRequest, allowed: bool, denied: bool
) -> None:
    assert await decided(allow("edit:src/*"), asked) == ["allow" if allowed else None]
    assert await decided(deny("edit:/etc/*"), asked) == ["reject" if denied else None]


def test_all_files_of_a_v2_diff_are_checked() -> None:
    content = {
        "type": "diff",
        "changes": [
            {"operation": "modify", "path": "/a"},
            {"operation": "add", "path": "/b"},
            {"operation": "move", "oldPath": "/c", "path": "/d"},
            {"operation": "_link", "path": "/e", "oldPath": "/f"},
            {"operation": "delete", "path": "/a"},
        ],
    }
    diff = tool_content_from_wire(convert(content, v2.ToolCallContent))
    assert isinstance(diff, Diff)
    assert (diff.path, diff.others) == ("/a", ("/b", "/d", "/c", "/e", "/f"))


@pytest.mark.parametrize("policy", [allow, deny])
@pytest.mark.parametrize(
    ("rules", "error", "names"),
    [
        (("edti",), ValueError, ("'edti'", "did you mean 'edit'?", "execute")),
        (("read", "Edit:src/**"), ValueError, ("'Edit' in 'Edit:src/**'", "did you mean 'edit'?")),
        (("write",), ValueError, ("'write'", "read, edit, delete")),
        (("",), ValueError, ("''", "or * for all")),
        ((["edit", "read"],), TypeError, ('"read", "edit:src/**"', "['edit', 'read']")),
        ((None,), TypeError, ("expected rules as separate strings", "None")),
    ],
)
def test_rule_of_an_unknown_kind_raises_at_once_with_the_nearest_name(
    policy: Any, rules: Any, error: type[Exception], names: tuple[str, ...]
) -> None:
    with pytest.raises(error) as caught:
        policy(*rules)
    for name in (f"{policy.__name__}(…): expected ", *names):
        assert name in str(caught.value)


def test_kind_of_an_extension_can_be_in_a_rule() -> None:
    allow("_vendor/paint", "*", "switch_mode")


def test_kind_that_only_an_agent_knows_is_compared_without_an_error() -> None:
    call = ToolCall(id="c", title="Paint", kind="paint")
    asked = PermissionRequest(session_id="s", cwd="/", title="", options=(), tool_call=call)
    assert allows("paint", asked)
    assert denies("paint", asked)
    assert not allows("edit", asked)


async def test_v2_command_without_a_tool_call_is_matched() -> None:
    asked = PermissionRequest(session_id="s", cwd="/", title="", options=(), command="make test")
    assert await decided(allow("execute:make *"), asked) == ["allow"]
    assert await decided(allow("edit"), asked) == [None]


async def test_one_path_or_joined_command_is_enough_to_deny() -> None:
    policy = deny("edit:/etc/*", "execute:*rm -rf*")
    assert await decided(
        policy,
        request("edit", "/project/a", "/etc/passwd"),
        request("execute", command="ls; rm -rf /"),
        request("edit", "/project/a"),
    ) == ["reject", "reject", None]


async def test_first_policy_that_decides_wins() -> None:
    policy = chain(deny("edit:/project/secret"), allow("edit"))
    assert await decided(
        policy, request("edit", "/project/secret"), request("edit", "/project/a"), request("fetch")
    ) == ["reject", "allow", None]


async def test_always_decision_is_not_asked_again() -> None:
    asked: list[PermissionRequest] = []

    def once(asking: PermissionRequest) -> Any:
        asked.append(asking)
        return "allow_always" if asking.tool_call and asking.tool_call.kind == "edit" else "allow"

    policy = remember(once)
    requests = [request("edit"), request("edit"), request("read"), request("read")]
    assert await decided(policy, *requests) == ["allow_always", "allow_always", "allow", "allow"]
    assert len(asked) == 3
    await decided(policy, request("edit", session="another"))
    assert len(asked) == 4


async def test_always_decision_is_for_one_command_or_one_title() -> None:
    asked: list[PermissionRequest] = []

    def always(asking: PermissionRequest) -> Any:
        asked.append(asking)
        return "allow_always"

    policy = remember(always)
    for command in ("git status", "git status", "rm -rf /"):
        await decided(policy, request("execute", command=command))
    assert [one.tool_call and one.tool_call.raw_input for one in asked] == [
        {"command": "git status"},
        {"command": "rm -rf /"},
    ]
    asked.clear()
    for title in ("Use the network?", "Use the network?", "Leave the sandbox?"):
        await decided(policy, replace(request(), title=title, tool_call=None))
    assert [one.title for one in asked] == ["Use the network?", "Leave the sandbox?"]


async def test_user_is_asked_one_question_at_a_time() -> None:
    asking = 0

    async def ask(_request: PermissionRequest) -> Any:
        nonlocal asking
        asking += 1
        assert asking == 1
        await asyncio.sleep(0)
        asking -= 1
        return "allow"

    policy = ask_one_at_a_time(ask)
    answers = await asyncio.gather(*(chain(policy)(request()) for _ in range(5)))
    assert answers == ["allow"] * 5


# Over the wire.


@requirement("R-PERM-02", "R-PERM-04", "R-PERM-06", "R-PERM-10")
@BOTH
async def test_policy_decides_and_the_turn_has_the_decision(version: int) -> None:
    answers: list[str | None] = []

    async def work(speaker: Speaker) -> None:
        answers.append(await speaker.permission(*KINDS, title="Edit a", kind="edit"))
        answers.append(await speaker.permission(*KINDS, title="Fetch b", kind="fetch", call="2"))

    async with session_with(version, work, permissions=[allow("edit")]) as session:
        async with session.prompt("Hi") as turn:
            events = [event async for event in turn]
        assert [call.title for call in session.transcript.tool_calls] == ["Edit a", "Fetch b"]
    assert answers == ["allow_once", "reject_once"]
    reported = [event for event in events if isinstance(event, PermissionDecided)]
    assert [event.allowed for event in reported] == [True, False]
    assert reported[0].request.tool_call is not None


@BOTH
async def test_policy_that_raises_rejects(version: int, caplog: pytest.LogCaptureFixture) -> None:
    answers: list[str | None] = []

    async def work(speaker: Speaker) -> None:
        answers.append(await speaker.permission(*KINDS))

    def broken(_request: PermissionRequest) -> Any:
        raise ZeroDivisionError

    async with session_with(version, work, permissions=broken) as session, session.prompt("Hi"):
        pass
    assert answers == ["reject_once"]
    assert "policy failed" in caplog.text


@requirement("R-CANCEL-03", "R-PERM-03")
async def test_v1_cancel_answers_open_permission_requests() -> None:
    asked = asyncio.Event()

    async def never(_request: PermissionRequest) -> Any:
        asked.set()
        await asyncio.Event().wait()

    question = {
        "sessionId": "s1",
        "toolCall": {"toolCallId": "c"},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
    }
    cancelled = {"outcome": {"outcome": "cancelled"}}
    async with agent_by_hand(1, permissions=never) as (agent, raw):
        opened = asyncio.create_task(agent.new_session("/project"))
        raw.answer((await raw.get())["id"], {"sessionId": "s1"})
        session = await opened
        async with session.prompt("Hi") as turn:
            prompt = await raw.get()
            raw.ask("first", "session/request_permission", question)
            await asked.wait()
            await turn.cancel()
            assert (await raw.get())["method"] == "session/cancel"
            first = await raw.get()
            assert (first["id"], first["result"]) == ("first", cancelled)
            assert await raw.result_of("late", "session/request_permission", question) == cancelled
            raw.answer(prompt["id"], {"stopReason": "cancelled"})
        assert turn.stop_reason == "cancelled"


@requirement("R-PERM-09")
async def test_permission_request_without_a_tool_call_is_asked() -> None:
    from accord import v2

    titles: list[str] = []

    def note(asking: PermissionRequest) -> Any:
        titles.append(asking.title)
        return "allow"

    async def work(speaker: Speaker) -> None:
        option = v2.PermissionOption(option_id="y", name="Yes", kind="allow_once")
        await speaker.client.request_permission(
            v2.RequestPermissionRequest(session_id="s1", title="Really?", options=[option])
        )

    async with session_with(2, work, permissions=note) as session, session.prompt("Hi"):
        pass
    assert titles == ["Really?"]
