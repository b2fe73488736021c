"""Keys that are typed into a field while the program is busy."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from accord.script_agent.agent import ScriptAgent
from accord_chat.view.field import Field
from accord_chat.view.form_panel import FormPanel
from accord_chat.view.pick_screen import PickScreen
from chat.chats import LocalAgent, Typist, open_chat


def script() -> LocalAgent:
    return LocalAgent(ScriptAgent())


def type_at_once(user: Typist, *keys: str) -> None:
    """Type keys that the program reads together."""
    for key in keys:
        user.app.post_message(events.Key(key, key if len(key) == 1 else None))


async def test_letters_do_not_overtake_other_keys_in_a_list(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        await user.sees("Ask · Small")
        await user.press("f2")
        await user.until(lambda: isinstance(user.app.screen, PickScreen))
        field = user.app.screen.query_one(Field)
        await user.until(lambda: field.has_focus)
        type_at_once(user, *"zz", "ctrl+u", *"lax", "backspace", *"ge", "left", "left", "r")
        await user.until(lambda: field.value == "large")
        type_at_once(user, "enter", "q")
        await user.sees("Ask · Large")


async def form_of(user: Typist) -> FormPanel:
    """Ask the agent for a form, and return it when it has the keyboard."""
    await user.send("elicit form")
    panel: FormPanel = await user.until(lambda: next(iter(user.app.screen.query(FormPanel)), None))
    await user.until(lambda: panel.has_focus_within)
    return panel


async def test_letters_do_not_overtake_other_keys_in_a_form(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        panel = await form_of(user)
        type_at_once(user, *"Anx", "backspace", "n")
        await user.until(lambda: panel.query(Field).first().value == "Ann")
        await user.press("ctrl+s")
        await user.sees('"name":"Ann"')


@pytest.mark.parametrize("key", ["enter", "tab"])
async def test_letters_go_to_the_next_field_of_a_form(tmp_path: Path, key: str) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        panel = await form_of(user)
        type_at_once(user, *"Ann", key, "backspace", "4")
        fields = panel.query(Field)
        await user.until(lambda: [fields[0].value, fields[1].value] == ["Ann", "4"])
        await user.press("ctrl+s")
        await user.sees('"count":4')


async def test_shift_tab_goes_back_in_a_form_and_keeps_the_mode(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        panel = await form_of(user)
        type_at_once(user, "tab", "backspace", "4", "shift+tab", *"Ann")
        fields = panel.query(Field)
        await user.until(lambda: [fields[0].value, fields[1].value] == ["Ann", "4"])
        await user.press("ctrl+s")
        await user.sees('"name":"Ann"', "Ask · Small")
        await user.until(lambda: user.composer.has_focus)
        await user.press("shift+tab")
        await user.sees("Auto · Small")


LISTS = {"ctrl+p": "new session", "f2": "large", "alt+n": "local"}


@pytest.mark.parametrize("opens", [True, False], ids=["open", "opening"])
@pytest.mark.parametrize("key", LISTS)
async def test_burst_in_a_list_chooses_like_a_slow_typist(
    tmp_path: Path, key: str, opens: bool
) -> None:
    letters = LISTS[key][:1]
    keys = (*letters, "down", "down", "up", "down", "enter")

    async def chosen(slowly: bool) -> object:
        agents = [LocalAgent(ScriptAgent(), label=name) for name in ("local", "lunar", "solar")]
        async with open_chat(*agents, folder=tmp_path / str(slowly)) as user:
            await user.sees("Ask · Small")
            found: list[object] = []
            if slowly:
                await user.press(key)
                screen = await opened(user)
            else:
                type_at_once(user, key)
                screen = await opened(user) if opens else None
                type_at_once(user, *keys)
                screen = screen or await opened(user)
            screen.dismiss = found.append  # type: ignore[method-assign]
            if slowly:
                for one in keys:
                    await user.press(one)
            await user.until(lambda: found)
            return found[0]

    async def opened(user: Typist) -> PickScreen[object]:
        await user.until(lambda: isinstance(user.app.screen, PickScreen))
        screen = user.app.screen
        assert isinstance(screen, PickScreen)
        await user.until(lambda: not opens or screen.query_one(Field).has_focus)
        return screen

    for name in ("True", "False"):
        (tmp_path / name).mkdir()
    assert await chosen(slowly=False) == await chosen(slowly=True)
