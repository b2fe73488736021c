"""Keys that are typed into a field while the program is busy."""

from __future__ import annotations

from pathlib import Path

from textual import events

from accord.script_agent.agent import ScriptAgent
from accord_chat.view.form_panel import FormPanel
from accord_chat.view.pick_screen import Choice, Field, PickScreen
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
    """They go to the field that the keys before them have chosen; the mode is kept."""
    async with open_chat(script(), folder=tmp_path) as user:
        for keys, name, count in (
            ((*"Anx", "backspace", "n", "enter", "backspace", "4"), "Ann", "4"),
            ((*"Bob", "tab", "backspace", "5"), "Bob", "5"),
            (("tab", "backspace", "6", "shift+tab", *"Eve"), "Eve", "6"),
        ):
            panel = await form_of(user)
            fields = panel.query(Field)
            type_at_once(user, *keys)
            await user.until(
                lambda fields=fields, name=name, count=count: (
                    [fields[0].value, fields[1].value] == [name, count]
                )
            )
            await user.press("ctrl+s")
            await user.sees(f'"name":"{name}"', f'"count":{count}', "Ask · Small")
            await user.until(lambda: user.composer.has_focus and not user.session.is_busy)
        await user.press("shift+tab")
        await user.sees("Auto · Small")


CHOICES = [
    Choice(f"{word} {n}", f"{word} {n}") for n in range(9) for word in ("sun", "moon", "sea")
]
BURSTS = {
    "letters": (*"mo", "down", "down", "enter"),
    "between": ("down", *"s", "down", *"u", "down", "pagedown", "up", "enter"),
    "none": (*"zz", "enter", "backspace", "backspace", "down", "enter"),
}


async def test_burst_in_a_list_chooses_what_a_slow_typist_gets(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        found: list[str | None] = []

        async def choose(keys: tuple[str, ...], how: str) -> str | None:
            found.clear()
            screen = PickScreen[str]("Choose", CHOICES)
            user.app.push_screen(screen, found.append)
            if how != "opening":
                await user.until(lambda: screen.focused is not None)
            if how == "slow":
                await user.press(*keys)
            else:
                type_at_once(user, *keys)
            await user.until(lambda: found)
            return found[0]

        for name, keys in BURSTS.items():
            slow, *bursts = [await choose(keys, how) for how in ("slow", "open", "opening")]
            assert bursts == [slow, slow], name


async def test_burst_in_a_list_that_loads_waits_for_it(tmp_path: Path) -> None:
    class Loading(PickScreen[str]):
        def on_mount(self) -> None:
            super().on_mount()
            self.is_loading = True

    async with open_chat(script(), folder=tmp_path) as user:
        found: list[str | None] = []
        screen = Loading("Choose", CHOICES)
        user.app.push_screen(screen, found.append)
        await user.until(lambda: screen.focused is not None)
        await user.press(*"mo", "down", "enter")
        assert not found
        screen.load_ends()
        await user.until(lambda: found)
        assert found == ["moon 1"]


PROMPTS = (
    ((*"read @b", "down", "enter", *"now"), "read @notes/b2.txt now"),
    ((*"@a", "tab", *"and @b", "enter"), "@notes/a1.txt and @notes/b1.txt "),
    (("/", *"pl", "enter", *"x"), "/plan x"),
    ((*"@b", "down", "down", "escape", *"x", "up"), "@bx"),
)


async def test_burst_in_the_prompt_completes_what_a_slow_typist_gets(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for name in ("a1", "b1", "b2"):
        (tmp_path / "notes" / f"{name}.txt").touch()
    names = {" ": "space", "@": "at", "/": "slash"}
    async with open_chat(script(), folder=tmp_path) as user:
        await user.until(lambda: user.session.transcript.commands)
        for keys, text in PROMPTS:
            for is_burst in (True, False):
                user.composer.set_text("")
                if is_burst:  # the files are not listed yet
                    user.session.files = type(user.session.files)(tmp_path)
                    type_at_once(user, *keys)
                else:
                    await user.press(*(names.get(key, key) for key in keys))
                await user.until(lambda text=text: user.composer.text == text)
