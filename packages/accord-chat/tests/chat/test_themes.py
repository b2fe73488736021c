"""The colours of the chat: text can be read in every theme, and nothing is said by colour only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from accord.script_agent.agent import ScriptAgent
from accord_chat.view.form_panel import FormPanel, PagePanel
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


async def converse(user: Typist) -> None:
    for prompt in ("tools", "content", "think about it", "notice warning", "notice error", "plan"):
        await user.send(prompt)
        await user.until(lambda: not user.session.is_busy and not user.session.queue)
    await user.send(f"echo {MARKDOWN}")
    await user.sees("quoted", "x = 1", " s\n")


async def conversations(user: Typist) -> AsyncIterator[str]:
    """Show conversations; yield what is on the screen."""
    await converse(user)
    yield "conversation"
    await user.send("tools")
    await user.sees("19 tool calls")
    await user.press("f6", "up", "up")
    yield "chosen entry"
    await user.press("escape", "f8")
    await user.until(lambda: user.session.state == "idle")
    await user.send("wait forever")
    await user.sees("working")
    await user.send("echo later")
    await user.type("@")
    await user.sees("queued")
    yield "working"
    await user.press("f8")
    await user.until(lambda: user.session.state == "idle")
    await user.send("echo x")
    await user.sees("  x")
    user.session._fail(ValueError("It broke"))
    await user.sees("It broke", "Ctrl+R")
    yield "failed"


async def questions(user: Typist) -> AsyncIterator[str]:
    """Let the agent ask; yield what is on the screen."""
    await user.send("permission")
    await user.question()
    await user.sees("Esc to the prompt")
    yield "permission"
    await user.press("escape")
    await user.sees("F10 answers")  # that it has not the keyboard is also said without colours
    yield "permission left"
    await user.press("f10", "y")
    await user.sees("1 of 1 allowed.")
    await user.send("elicit form")
    await user.sees("script asks", "Ctrl+S")
    yield "form"
    await user.until(lambda: user.app.screen.query_one(FormPanel).has_focus_within)
    await user.press("escape")
    await user.sees("The form was not filled in.")
    await user.send("elicit url")
    await user.sees("Decline")
    yield "page"
    await user.until(lambda: user.app.screen.query_one(PagePanel).has_focus_within)
    await user.press("escape")
    await user.sees("The page was not opened.")


async def lists(user: Typist) -> AsyncIterator[str]:
    """Open the lists; yield what is on the screen."""
    await user.send("updates")
    await user.sees("One of each.")
    for keys, text in LISTS.items():
        await user.press(*keys)
        await user.sees(text)
        yield text
        await user.press("escape")
        await user.until(lambda: len(user.app.screen_stack) == 2)
    await user.send("subagent forever")
    await user.until(lambda: user.session.transcript.subagents)
    await user.press("alt+a")
    await user.sees("Subagents")
    yield "subagents"


async def changes(user: Typist) -> AsyncIterator[str]:
    """Change a file, follow the agent there, and review it; yield what is on the screen."""
    await user.send("go")
    await user.sees("written")
    await user.press("alt+w")
    await user.until(lambda: user.screen.count("LINE 2") > 1)
    yield "followed"
    await user.press("f4")
    await user.until(lambda: isinstance(user.app.screen, ReviewScreen))
    await user.sees("not decided")
    yield "review"
    await user.press("x")
    await user.sees("the old text is back")
    yield "review decided"


async def faults_of(user: Typist) -> dict[str, object]:
    """Return the texts with too little contrast by theme."""
    found: dict[str, object] = {}
    for theme in THEMES:
        user.app.theme = theme
        await settle()
        least = 7.0 if theme == "high-contrast" else 4.5
        if low := sorted(set(low_contrasts(user.app, least))):
            found[theme] = low
    return found


@pytest.mark.parametrize("scenes", [conversations, questions, lists, changes])
async def test_text_has_contrast_in_every_theme(
    tmp_path: Path, scenes: Callable[[Typist], AsyncIterator[str]]
) -> None:
    shop(tmp_path)
    agent = Writer() if scenes is changes else ScriptAgent()
    size = (160, 40) if scenes is changes else (80, 24)
    found: dict[str, object] = {}
    async with open_chat(LocalAgent(agent, label="script"), folder=tmp_path, size=size) as user:
        async for scene in scenes(user):
            if faults := await faults_of(user):
                found[scene] = faults
    assert not found


async def test_switching_says_the_name_of_the_theme(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(ScriptAgent()), folder=tmp_path) as user:
        for label in ("light", "high contrast", "dark"):
            await user.press("f9")
            await user.sees(f"Theme: {label}")


async def test_no_color_gives_grey_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_chat(LocalAgent(ScriptAgent()), folder=tmp_path) as user:
        await converse(user)
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
