"""The colours of the chat: text can be read in every theme, and nothing is said by colour only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from accord.script_agent.agent import ScriptAgent
from accord_chat.view.review_screen import ReviewScreen
from accord_chat.view.themes import THEMES
from chat.chats import LocalAgent, Typist, open_chat
from chat.contrast import low_contrasts
from chat.quick_textual import settle
from chat.test_memory_and_review import Writer, shop

MARKDOWN = """# Title

`code` **bold** [link](https://example.com)

> quoted

```py
x = 1
```
"""
Scene = Callable[[Typist], Awaitable[None]]


async def conversation(user: Typist) -> None:
    for prompt in ("tools", "content", "think about it", "notice warning", "notice error", "plan"):
        await user.send(prompt)
        await user.until(lambda: not user.session.is_busy and not user.session.queue)
    await user.send(f"echo {MARKDOWN}")
    await user.sees("quoted", "x = 1", " s\n")


async def working(user: Typist) -> None:
    await user.press("f8")
    await user.until(lambda: user.session.state == "idle")
    await user.send("wait forever")
    await user.sees("working")
    await user.send("echo later")
    await user.type("@")
    await user.sees("queued")


async def failed(user: Typist) -> None:
    await user.send("echo x")
    await user.sees("  x")
    user.session._fail(ValueError("It broke"))
    await user.sees("It broke", "Ctrl+R")


async def permission(user: Typist) -> None:
    await user.send("permission")
    await user.question()


async def permission_left(user: Typist) -> None:
    await permission(user)
    await user.press("escape")


async def form(user: Typist) -> None:
    await user.send("elicit form")
    await user.sees("script asks", "Ctrl+S")


async def page(user: Typist) -> None:
    await user.send("elicit url")
    await user.sees("Decline")


async def review(user: Typist) -> None:
    await user.send("go")
    await user.sees("written")
    await user.press("f4")
    await user.until(lambda: isinstance(user.app.screen, ReviewScreen))
    await user.sees("not decided")


async def review_decided(user: Typist) -> None:
    await review(user)
    await user.press("x")
    await user.sees("the old text is back")


async def chosen_entry(user: Typist) -> None:
    await user.send("tools")
    await user.sees("19 tool calls")
    await user.press("f6", "up", "up")


async def followed(user: Typist) -> None:
    await user.send("go")
    await user.sees("written")
    await user.press("alt+w")
    await user.until(lambda: user.screen.count("LINE 2") > 1)


async def subagents(user: Typist) -> None:
    await user.send("subagent forever")
    await user.until(lambda: user.session.transcript.subagents)
    await user.press("alt+a")
    await user.sees("Subagents")


SCENES: dict[str, Scene] = {
    "conversation": conversation,
    "working": working,
    "failed": failed,
    "permission": permission,
    "permission left": permission_left,
    "form": form,
    "page": page,
    "review": review,
    "review decided": review_decided,
    "chosen": chosen_entry,
    "followed": followed,
    "subagents": subagents,
}
# What opens them, and a text in them; Escape closes them.
LISTS = {
    ("f1",): "While you type",
    ("ctrl+p",): "Commands",
    ("f2", "down"): "Mode, model",
    ("f3",): "Sessions of this folder",
    ("f5",): "Plan",
    ("alt+t",): "session/",
    ("alt+e",): "Markdown",
    ("alt+n",): "Open a session of an agent",
    ("f7",): "No prompt is queued",  # a notice
}


async def theme_faults(user: Typist) -> dict[str, object]:
    """Return the texts with too little contrast by theme."""
    found: dict[str, object] = {}
    for theme in THEMES:
        user.app.theme = theme
        await settle()
        least = 7.0 if theme == "high-contrast" else 4.5
        if low := sorted(set(low_contrasts(user.app, least))):
            found[theme] = low
    return found


@pytest.mark.parametrize("scene", SCENES)
async def test_text_has_contrast_in_every_theme(tmp_path: Path, scene: str) -> None:
    shop(tmp_path)
    agent = Writer() if scene.startswith(("review", "followed")) else ScriptAgent()
    size = (160, 40) if scene == "followed" else (80, 24)
    async with open_chat(LocalAgent(agent, label="script"), folder=tmp_path, size=size) as user:
        await SCENES[scene](user)
        assert not await theme_faults(user)


async def test_lists_have_contrast_in_every_theme(tmp_path: Path) -> None:
    found: dict[str, object] = {}
    async with open_chat(LocalAgent(ScriptAgent(), label="script"), folder=tmp_path) as user:
        await user.send("updates")
        await user.sees("One of each.")
        for keys, text in LISTS.items():
            await user.press(*keys)
            await user.sees(text)
            if faults := await theme_faults(user):
                found[text] = faults
            await user.press("escape")
            await user.until(lambda: len(user.app.screen_stack) == 2)
    assert not found


def test_themes_have_plain_names() -> None:
    assert [theme.label for theme in THEMES.values()] == ["dark", "light", "high contrast"]


async def test_switching_says_the_name_of_the_theme(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(ScriptAgent()), folder=tmp_path) as user:
        for label in ("light", "high contrast", "dark"):
            await user.press("f9")
            await user.sees(f"Theme: {label}")


async def test_no_color_gives_grey_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_chat(LocalAgent(ScriptAgent()), folder=tmp_path) as user:
        await conversation(user)
        colours = {
            colour.get_truecolor()
            for strip in user.app.screen._compositor.render_strips()
            for _, style, _ in strip
            if style is not None
            for colour in (style.color, style.bgcolor)
            if colour is not None
        }
        assert colours
        assert all(len(set(colour)) == 1 for colour in colours), colours


async def test_focus_can_be_seen(tmp_path: Path) -> None:
    """A panel with the keyboard has another border than one without, also without colours."""
    async with open_chat(LocalAgent(ScriptAgent(), label="script"), folder=tmp_path) as user:
        await permission(user)
        await user.sees("Esc to the prompt")
        await user.press("escape")
        await user.sees("F10 answers")
