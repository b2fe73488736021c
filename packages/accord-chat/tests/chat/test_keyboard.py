"""Where keys go: the prompt, the conversation, the question."""

from __future__ import annotations

from pathlib import Path

from textual import events

from accord import Agent, Turn
from accord.client.agent_adapter import SessionInfo
from accord_chat.view.commands import session_choices
from chat.chats import LocalAgent, open_chat

COMMAND = "deploy --to " + "production-cluster-" * 30 + " --delete-everything"


class Asking(Agent):
    """Asks with a long title; says the rest."""

    async def prompt(self, turn: Turn) -> None:
        if turn.text == "ask":
            async with turn.tool(COMMAND, kind="execute") as call:
                await call.permission()
        else:
            await turn.say(turn.text)


async def test_letters_typed_in_the_conversation_go_to_the_prompt(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Asking()), folder=tmp_path) as user:
        await user.press("f6")
        await user.until(lambda: user.view.has_focus)
        for letter in "hey, vote":  # faster than the keyboard moves
            user.view.post_message(events.Key("space" if letter == " " else letter, letter))
        await user.until(lambda: user.composer.has_focus)
        await user.until(lambda: user.composer.text == "hey, vote")
        await user.press("f6", "G", "k")  # these mean something there
        assert user.view.has_focus
        user.view.post_message(events.Paste(" pasted\ntext"))
        await user.until(lambda: user.composer.has_focus)
        assert user.composer.text == "hey, vote pasted\ntext"


async def test_tab_completes_and_else_answers(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("n")
    async with open_chat(LocalAgent(Asking()), folder=tmp_path) as user:
        await user.type("@not")
        await user.sees("notes.txt")
        await user.press("escape")
        await user.until(lambda: not user.composer.is_completing)
        await user.press("tab")
        await user.until(lambda: user.composer.is_completing)
        await user.press("tab")
        await user.until(lambda: "@notes.txt" in user.composer.text)
        await user.press("tab")  # nothing to complete, and no question
        assert user.composer.has_focus
        await user.send("ask")
        panel = await user.question()
        await user.press("escape")
        await user.until(lambda: user.composer.has_focus)
        await user.press("tab")
        await user.until(lambda: panel.has_focus_within)


async def test_question_shows_the_end_of_a_long_command(tmp_path: Path) -> None:
    async with open_chat(LocalAgent(Asking()), folder=tmp_path, size=(80, 40)) as user:
        await user.send("ask")
        panel = await user.question()
        await user.sees("--delete-everything", "deploy --to")
        shown = user.screen[user.screen.index("asks for permission") :]
        assert "".join(COMMAND.split()) in "".join(shown.replace("┃", "").split())
        assert panel.is_attached


def test_sessions_are_listed_by_time_with_what_is_known_of_them() -> None:
    listed = [
        SessionInfo(id="a", cwd="/w", title="Older", updated_at="2026-01-01T10:00:00+05:00"),
        SessionInfo(id="b", cwd="/w", updated_at="2026-01-01T09:00:00Z"),
        SessionInfo(id="c", cwd="/w", updated_at="not a time"),
        SessionInfo(id="d", cwd="/w", title="No time"),
    ]
    choices = session_choices(listed, {"c": "the first prompt"})
    assert [choice.value for choice in choices] == ["b", "a", "c", "d"]
    assert [choice.label for choice in choices] == [
        "Without a title",
        "Older",
        "the first prompt",
        "No time",
    ]
    assert "b" in choices[0].detail
    assert [choice.is_current for choice in choices] == [False, False, True, False]
