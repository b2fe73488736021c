"""What is given in the wrong type is refused where it is given, in words that name it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from accord import (
    Agent,
    Audio,
    Command,
    Diff,
    Image,
    Link,
    Location,
    PermissionOption,
    PlanEntry,
    Resource,
    Select,
    Turn,
)
from accord.agent.store.base import MemoryStore
from accord.types.session import Choice, Cost, Tokens, Usage
from agent.talk import BOTH, settled, talk


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Link(5, 5), "Link(uri=…): expected str, got int: 5"),
        (lambda: Link("a", "a", size="big"), "Link(size=…): expected int or None, got str: 'big'"),
        (lambda: Image("text", "image/png"), "Image(data=…): expected bytes, bytearray or memory"),
        (lambda: Image(b"", None), "Image(mime_type=…): expected str, got None"),
        (lambda: Audio(b"", 3), "Audio(mime_type=…): expected str, got int: 3"),
        (lambda: Resource("a", 1.5), "Resource(content=…): expected str, bytes"),
        (lambda: PlanEntry(1), "PlanEntry(content=…): expected str, got int: 1"),
        (lambda: Diff(None), "Diff(path=…): expected str, got None"),
        (lambda: Location("a", True), "Location(line=…): expected int or None, got bool: True"),
        (lambda: Usage("much", 3), "Usage(used=…): expected int, got str: 'much'"),
        (lambda: Usage(1, 3, 5), "Usage(cost=…): expected Cost or None, got int: 5"),
        (lambda: Cost("1"), "Cost(amount=…): expected float or int, got str: '1'"),
        (lambda: Tokens(total=1, input=None, output=1), "Tokens(input=…): expected int, got None"),
        (
            lambda: Select(id="a", name="a", value="x", choices=["x"]),
            "Select(choices=…), one of them: expected Choice, got str: 'x'",
        ),
        (lambda: PermissionOption("a", "b", None), "PermissionOption(kind=…): expected str, got"),
    ],
)
def test_value_of_the_wrong_type_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_values_take_what_they_are_annotated_with() -> None:
    choices: Any = [Choice("x", "X")]
    assert Select(id="a", name="a", value="x", choices=choices).choices == choices
    assert Image(bytearray(b"x"), "image/png").data == b"x"
    assert Cost(1).amount == 1


async def _ask(turn: Any, options: Any) -> None:
    async with turn.tool("t") as call:
        await call.ask(options)


async def _in_call(turn: Any, use: Callable[[Any], Awaitable[object]]) -> None:
    async with turn.tool("t") as call:
        await use(call)


VERBS: list[tuple[Callable[[Any], Awaitable[object]], str]] = [
    (lambda t: t.say(b"x"), "content: expected str, Image, Audio, Link, Resource or Other, got b"),
    (lambda t: t.say(None), "content: expected str, Image, Audio, Link, Resource or Other, got N"),
    (lambda t: t.think(["a"]), "content: expected str, Image"),
    (
        lambda t: t.plan("abc"),
        "plan(entries=…), several: expected str or PlanEntry, got str: 'abc'",
    ),
    (lambda t: t.plan([1]), "plan(entries=…), one of them: expected str or PlanEntry, got int: 1"),
    (lambda t: t.plan(["a"], plan_id=1), "plan(plan_id=…): expected str, got int: 1"),
    (lambda t: t.plan_text(5), "plan_text(text=…): expected str, got int: 5"),
    (lambda t: t.plan_file(None), "plan_file(uri=…): expected str, got None"),
    (lambda t: t.notice(5), "notice(title=…): expected str, got int: 5"),
    (lambda t: t.notice("a", description=5), "notice(description=…): expected str or None"),
    (lambda t: t.title(None), "title(title=…): expected str, got None"),
    (lambda t: t.usage("much", 5), "Usage(used=…): expected int, got str: 'much'"),
    (lambda t: t.commands(["help"]), "commands(commands=…), one of them: expected Command"),
    (lambda t: t.commands(None), "commands(commands=…), several: expected Command, got None"),
    (lambda t: t.send("me", "x"), "send(recipient=…): expected Session, got str: 'me'"),
    (lambda t: t.elicit(5, "x"), "elicit(form=…): expected type, got int: 5"),
    (lambda t: t.elicit_url(5, "x"), "elicit_url(url=…): expected str, got int: 5"),
    (lambda t: t.call_extension("_x", [1]), "call_extension(params=…): expected Mapping or None"),
    (lambda t: t.background("b", None), "background(work=…): expected a function, got None"),
    (lambda t: t.tool(None).start(), "tool(title=…): expected str, got None"),
    (lambda t: t.tool("t", kind=None).start(), "tool(kind=…): expected str, got None"),
    (
        lambda t: t.tool("t", locations="a.py").start(),
        "tool(locations=…), several: expected str or",
    ),
    (
        lambda t: t.tool("t", locations=[3]).start(),
        "tool(locations=…), one of them: expected str o",
    ),
    (lambda t: t.subagent(None).__aenter__(), "subagent(title=…): expected str, got None"),
    (lambda t: t.tool("t", raw_input=object()).__aenter__(), "raw_input: expected what JSON can"),
    (lambda t: _ask(t, ["yes"]), "ask(options=…), one of them: expected PermissionOption, got str"),
    (lambda t: _ask(t, "yes"), "ask(options=…), several: expected PermissionOption, got str"),
    (lambda t: _in_call(t, lambda c: c.content(5)), "content(items=…), one of them: expected str"),
    (lambda t: _in_call(t, lambda c: c.replace("a", 5)), "replace(items=…), one of them: expected"),
    (lambda t: _in_call(t, lambda c: c.stream(b"x")), "stream(text=…): expected str, got bytes"),
    (lambda t: _in_call(t, lambda c: c.diff(5, None, "")), "Diff(path=…): expected str, got int"),
    (lambda t: _in_call(t, lambda c: c.terminal(5)), "TerminalView(terminal_id=…): expected str"),
    (lambda t: _in_call(t, lambda c: c.output(object())), "raw_output: expected what JSON can"),
    (lambda t: _in_call(t, lambda c: c.update(title=5)), "update(title=…): expected str or None"),
    (lambda t: _in_call(t, lambda c: c.fail(5)), "content(items=…), one of them: expected str"),
    (lambda t: _in_call(t, lambda c: c.refuse(5)), "refuse(content=…): expected str, Image"),
    (lambda t: _in_call(t, lambda c: c.permission(5)), "permission(title=…): expected str or None"),
]


@BOTH
@pytest.mark.parametrize("stored", [False, True], ids=["kept", "stored"])
async def test_verb_refuses_what_it_cannot_say_and_the_turn_goes_on(
    version: int, stored: bool
) -> None:
    told: list[str] = []

    class Slips(Agent):
        store = MemoryStore() if stored else None

        async def prompt(self, turn: Turn) -> None:
            for use, _ in VERBS:
                try:
                    await use(turn)
                except TypeError as exc:
                    told.append(str(exc))
                else:
                    told.append("nothing")
            await turn.say("done")
            await turn.commands([Command("a", "b")])

    async with talk(Slips(), version) as client:
        assert await client.prompt("go") == "end_turn"
        await settled()
        assert client.said() == "done"
    wrong = [(got, want) for got, (_, want) in zip(told, VERBS, strict=True) if want not in got]
    assert not wrong


@BOTH
async def test_text_of_a_class_of_its_own_is_text(version: int) -> None:
    class Markdown(str):
        __slots__ = ()

    class Says(Agent):
        async def prompt(self, turn: Turn) -> None:
            await turn.say(Markdown("bold"))

    async with talk(Says(), version) as client:
        assert await client.prompt("go") == "end_turn"
        assert client.said() == "bold"
