"""Values of the wrong type are rejected where they are passed, with an error that names them."""

# Every value here has a wrong type.
# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from accord import (
    Agent,
    AudioContent,
    AvailableCommand,
    Diff,
    EmbeddedResource,
    ImageContent,
    PermissionOption,
    PlanEntry,
    ResourceLink,
    SelectOption,
    ToolCallLocation,
    Turn,
)
from accord.agent.store import MemoryStore
from accord.types.session import ContextUsage, Cost, OptionChoice, TokenUsage
from agent.harness import BOTH, connect_client
from event_loop import drain_event_loop


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ResourceLink(5, 5), "ResourceLink(uri=…): expected str, got int: 5"),
        (
            lambda: ResourceLink("a", "a", size="big"),
            "ResourceLink(size=…): expected int or None, got str: 'big'",
        ),
        (
            lambda: ImageContent("text", "image/png"),
            "ImageContent(data=…): expected bytes, bytearray or memory",
        ),
        (lambda: ImageContent(b"", None), "ImageContent(mime_type=…): expected str, got None"),
        (lambda: AudioContent(b"", 3), "AudioContent(mime_type=…): expected str, got int: 3"),
        (lambda: EmbeddedResource("a", 1.5), "EmbeddedResource(content=…): expected str, bytes"),
        (lambda: PlanEntry(1), "PlanEntry(content=…): expected str, got int: 1"),
        (lambda: Diff(None), "Diff(path=…): expected str, got None"),
        (
            lambda: ToolCallLocation("a", True),
            "ToolCallLocation(line=…): expected int or None, got bool: True",
        ),
        (lambda: ContextUsage("much", 3), "ContextUsage(used=…): expected int, got str: 'much'"),
        (lambda: ContextUsage(1, 3, 5), "ContextUsage(cost=…): expected Cost or None, got int: 5"),
        (lambda: Cost("1"), "Cost(amount=…): expected float or int, got str: '1'"),
        (
            lambda: TokenUsage(total=1, input=None, output=1),
            "TokenUsage(input=…): expected int, got None",
        ),
        (
            lambda: SelectOption(id="a", name="a", value="x", choices=["x"]),
            "SelectOption(choices=…), one of them: expected OptionChoice, got str: 'x'",
        ),
        (lambda: PermissionOption("a", "b", None), "PermissionOption(kind=…): expected str, got"),
    ],
)
def test_value_of_the_wrong_type_is_rejected(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_values_accept_their_annotated_types() -> None:
    choices: Any = [OptionChoice("x", "X")]
    assert SelectOption(id="a", name="a", value="x", choices=choices).choices == choices
    assert ImageContent(bytearray(b"x"), "image/png").data == b"x"
    assert Cost(1).amount == 1


async def _ask(turn: Any, options: Any) -> None:
    async with turn.tool("t") as call:
        await call.request_choice(options)


async def _in_call(turn: Any, use: Callable[[Any], Awaitable[object]]) -> None:
    async with turn.tool("t") as call:
        await use(call)


VERBS: list[tuple[Callable[[Any], Awaitable[object]], str]] = [
    (lambda t: t.say(b"x"), "content: expected str, ImageContent, AudioContent, R"),
    (lambda t: t.say(None), "content: expected str, ImageContent, AudioContent, R"),
    (lambda t: t.think(["a"]), "content: expected str, ImageContent"),
    (
        lambda t: t.plan("abc"),
        "plan(entries=…): expected a list of str or PlanEntry, got str: 'abc'",
    ),
    (lambda t: t.plan([1]), "plan(entries=…), one of them: expected str or PlanEntry, got int: 1"),
    (lambda t: t.plan(["a"], plan_id=1), "plan(plan_id=…): expected str, got int: 1"),
    (lambda t: t.plan_markdown(5), "plan_markdown(text=…): expected str, got int: 5"),
    (lambda t: t.plan_file(None), "plan_file(uri=…): expected str, got None"),
    (lambda t: t.show_notice(5), "show_notice(title=…): expected str, got int: 5"),
    (
        lambda t: t.show_notice("a", description=5),
        "show_notice(description=…): expected str or None",
    ),
    (lambda t: t.files.write("a.txt", 5), "files.write(text=…): expected str, got int: 5"),
    (lambda t: t.set_title(None), "set_title(title=…): expected str, got None"),
    (
        lambda t: t.set_context_usage("much", 5),
        "ContextUsage(used=…): expected int, got str: 'much'",
    ),
    (
        lambda t: t.set_commands(["help"]),
        "set_commands(commands=…), one of them: expected AvailableCommand",
    ),
    (
        lambda t: t.set_commands(None),
        "set_commands(commands=…): expected a list of AvailableCommand, got None",
    ),
    (
        lambda t: t.send_session_message("me", "x"),
        "send_session_message(recipient=…): expected Session, got str: 'me'",
    ),
    (lambda t: t.elicit_form(5, "x"), "elicit_form(form=…): expected type, got int: 5"),
    (lambda t: t.elicit_url(5, "x"), "elicit_url(url=…): expected str, got int: 5"),
    (lambda t: t.call_extension("_x", [1]), "call_extension(params=…): expected Mapping or None"),
    (
        lambda t: t.run_in_background("b", None),
        "run_in_background(work=…): expected a function, got None",
    ),
    (lambda t: t.tool(None).start(), "tool(title=…): expected str, got None"),
    (lambda t: t.tool("t", kind=None).start(), "tool(kind=…): expected str, got None"),
    (
        lambda t: t.tool("t", locations="a.py").start(),
        "tool(locations=…): expected a list of str or",
    ),
    (
        lambda t: t.tool("t", locations=[3]).start(),
        "tool(locations=…), one of them: expected str o",
    ),
    (lambda t: t.subagent(None).__aenter__(), "subagent(title=…): expected str, got None"),
    (lambda t: t.tool("t", raw_input=object()).__aenter__(), "raw_input: expected what JSON can"),
    (
        lambda t: _ask(t, ["yes"]),
        "request_choice(options=…), one of them: expected PermissionOption, got str",
    ),
    (
        lambda t: _ask(t, "yes"),
        "request_choice(options=…): expected a list of PermissionOption, got str",
    ),
    (
        lambda t: _in_call(t, lambda c: c.add_content(5)),
        "add_content(items=…), one of them: expected str",
    ),
    (
        lambda t: _in_call(t, lambda c: c.replace_content("a", 5)),
        "replace_content(items=…), one of them: expected",
    ),
    (
        lambda t: _in_call(t, lambda c: c.append_text(b"x")),
        "append_text(text=…): expected str, got bytes",
    ),
    (
        lambda t: _in_call(t, lambda c: c.add_diff(5, None, "")),
        "Diff(path=…): expected str, got int",
    ),
    (
        lambda t: _in_call(t, lambda c: c.add_terminal(5)),
        "TerminalView(terminal_id=…): expected str",
    ),
    (
        lambda t: _in_call(t, lambda c: c.set_raw_output(object())),
        "raw_output: expected what JSON can",
    ),
    (lambda t: _in_call(t, lambda c: c.update(title=5)), "update(title=…): expected str or None"),
    (lambda t: _in_call(t, lambda c: c.fail(5)), "add_content(items=…), one of them: expected str"),
    (lambda t: _in_call(t, lambda c: c.deny(5)), "deny(content=…): expected str, ImageContent"),
    (lambda t: _in_call(t, lambda c: c.permission(5)), "permission(title=…): expected str or None"),
]


@BOTH
@pytest.mark.parametrize("stored", [False, True], ids=["kept", "stored"])
async def test_wrong_argument_is_rejected_and_the_turn_continues(
    version: int, stored: bool
) -> None:
    reported: list[str] = []

    class Slips(Agent):
        store = MemoryStore() if stored else None

        async def prompt(self, turn: Turn) -> None:
            for use, _ in VERBS:
                try:
                    await use(turn)
                except TypeError as exc:
                    reported.append(str(exc))
                else:
                    reported.append("nothing")
            await turn.say("done")
            await turn.set_commands([AvailableCommand("a", "b")])

    async with connect_client(Slips(), version) as client:
        assert await client.prompt("go") == "end_turn"
        await drain_event_loop()
        assert client.said() == "done"
    wrong = [(got, want) for got, (_, want) in zip(reported, VERBS, strict=True) if want not in got]
    assert not wrong


@BOTH
async def test_subclass_of_str_is_text(version: int) -> None:
    class Markdown(str):
        __slots__ = ()

    class Says(Agent):
        async def prompt(self, turn: Turn) -> None:
            await turn.say(Markdown("bold"))

    async with connect_client(Says(), version) as client:
        assert await client.prompt("go") == "end_turn"
        assert client.said() == "bold"
