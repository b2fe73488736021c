"""`accord chat --lines` on a real terminal and in pipes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from accord_chat.lines.commands import COMMANDS, Commands, LineCommand, find_command
from chat.forked import Forked
from chat.line_chats import AGENT, LinesChat
from project import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
LOGIN = f"{sys.executable} {ROOT / 'packages/accord-terminal/tests/cli/login_agent.py'}"
PAGE = ROOT / "docs/reference/chat-lines.md"
ESCAPES = re.compile(r"\x1b|[\u2190-\u2bff\u2500-\u25ff]")
# What this program says at the left edge; all else begins with spaces.
OWN_WORDS = (
    "Agent", "Answer", "Change", "Done", "Draft", "Draft, not sent", "Error", "Field", "Files",
    "Note", "Plan", "Question", "Queue", "Review", "Status", "Subagent", "Thought", "Tool",
    "Warning", "You",
)  # fmt: skip


def shop(chat: LinesChat) -> Path:
    file = chat.work / "shop.txt"
    file.write_text("".join(f"line {n}\n" for n in range(1, 21)))
    return file


def test_conversation_on_a_terminal_is_plain_lines(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", "script", terminal=True) as chat:
        chat.sees("Note: script is ready. Mode: Ask. Model: Small. Brief: off.")
        chat.type("echo one. Two")
        chat.sees("Agent: one.\n  Two\n", "Done: 0 s\n")
        assert "You:" not in chat.text  # the terminal shows what was typed
        chat.type("plan")
        chat.sees("Plan: 3 of 3 done", "Agent: The plan is done.", "Done:")
        chat.type(":mode auto")
        chat.sees("Note: Mode: Auto\n")
        chat.type(":stat")
        chat.sees("Status: script, echo one. Two: the agent is waiting for you\n  Mode: Auto\n")
        chat.type("::colon")
        chat.sees("Agent: Unknown command `:colon`", "Done:")
        chat.type(":nothing")
        chat.sees("Error: there is no command :nothing.")
        chat.type(":quit")
        assert chat.status() == 0
        assert not ESCAPES.search(chat.text)


def test_pipe_gets_the_answers_and_the_end_of_the_input_waits_for_them(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT) as chat:
        chat.type("words")
        chat.type("plan")
        chat.write(b"the last line has no end")
        chat.end_input()
        assert chat.status() == 0
        you, words, plan, last = chat.text.split("You: ")
        assert "is ready" in you
        words = re.sub(r"Done: \d+ s", "Done: 0 s", words.replace("Tool: Wait, running\n", ""))
        assert words.startswith(
            "words\nAgent: First one.\n  Another, e.g. this!\n  And\n"
            "  Code, py:\n  x = 1\n  End of code.\n  Not finished\n"
            "Tool: Wait, done\nAgent: the end\nDone: 0 s\n"
        )
        assert plan.startswith("plan\n")
        assert "Plan: 1 of 2 done. Now: leap\n" in plan
        assert "Agent: planned\n" in plan
        assert last.startswith("the last line has no end\nAgent: the last line has no end\n")


def test_permission_is_answered_by_letter_and_remembered(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT, terminal=True) as chat:
        file = shop(chat)
        chat.sees("is ready")
        chat.type("ask")
        asked = chat.sees("Type the number or the letter of an answer.")
        assert "asks for permission: Change shop.txt\n" in asked
        assert "  line 2 removed: line 2\n  line 2 added: LINE 2\n" in asked
        assert "Answer 1 or y: Allow (allows it once)\n" in asked
        assert "Answer 5 or r: Allow, and remember for this agent: edit shop.txt\n" in asked
        assert "LINE" not in file.read_text()
        chat.type("")
        chat.sees("Type the number or the letter of an answer.")  # nothing was chosen
        chat.answer("r")
        chat.sees("Tool: Change shop.txt, done\n  shop.txt: 2 lines added, 2 removed\n", "Done:")
        shop(chat)
        chat.type("ask")
        assert "Question" not in chat.sees("Note: Allowed, as remembered: edit", "Done:")
        chat.type(":memory 1")
        chat.sees("Note: forgotten: edit")
        shop(chat)
        chat.type("ask")
        chat.sees("Type the number")
        chat.answer("3")
        chat.sees("Warning: Rejected: Change shop.txt", "Done:")
        assert "LINE" not in file.read_text()


def test_line_that_is_no_answer_is_a_queued_prompt(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT) as chat:
        shop(chat)
        chat.sees("is ready")
        chat.type("ask")
        chat.sees("Type the number")
        chat.type("yes do it")
        chat.sees("Note: queued as number 1. The question is still open; :again reads it.")
        chat.type(":queue")
        chat.sees("  1: yes do it\n")
        chat.type("n")  # at once: only a person can have typed it before the question came
        chat.sees("Warning: Rejected", "You: yes do it\nAgent: yes do it\n")


def test_queued_prompt_is_withdrawn_into_the_draft_and_dropped(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT) as chat:
        chat.sees("is ready")
        chat.type("wait")
        chat.sees("Tool: Wait, running")
        chat.type("one")
        chat.type("two")
        chat.sees("queued as number 2")
        chat.type(":withdraw 1")
        chat.sees("Draft:\n  one\n")
        chat.type(":queue")
        chat.sees("Queue: 1 prompt\n  1: two\n")
        chat.type(":drop")
        chat.type(":draft")
        chat.sees("Note: the draft is empty.\nNote: the draft is empty.")
        chat.type(":cancel")
        chat.sees("Done: Cancelled", "You: two\nAgent: two\n")
        assert "You: one" not in chat.text


def test_subagent_is_listed_read_and_cancelled(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", "script") as chat:
        chat.sees("is ready")
        chat.type("subagent forever")
        chat.sees("Subagent: ")
        chat.type(":subagents")
        chat.sees("The agent has 1 subagent.\n  1: ")
        chat.type(":subagents 1")
        chat.sees("Subagent: ")
        chat.type(":stop 1")
        chat.sees("Note: the agent was asked to cancel", "The subagent was cancelled")


def test_deny_rule_needs_no_question(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT, "--deny", "edit") as chat:
        shop(chat)
        chat.type("ask")
        chat.end_input()
        assert chat.status() == 0
        assert "Question" not in chat.text
        assert "Tool: Change shop.txt, failed" in chat.text


def test_one_hunk_is_rejected_and_the_next_prompt_says_so(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT) as chat:
        file = shop(chat)
        chat.sees("is ready")
        chat.type("change")
        chat.sees("Agent: written", "Done:")
        chat.type(":review")
        chat.sees("Review: 2 changes.", "Change 1 of 2: shop.txt, line 2, not decided\n")
        chat.type("x")
        chat.sees("Review: shop.txt:2: rejected, the old text is back\n", "Change 2 of 2")
        chat.type("a")
        chat.sees("Review: shop.txt:18: accepted\n", "all changes are decided")
        chat.type("q")
        chat.sees("Note: your next prompt says that to the agent.")
        text = file.read_text()
        assert "line 2\n" in text
        assert "LINE 18\n" in text
        chat.type("and now?")
        chat.sees("Agent: I have undone your changes at shop.txt:2.\n  and now?\n")


def test_interrupt_cancels_the_turn_and_the_next_one_asks_before_it_quits(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT, terminal=True) as chat:
        chat.sees("is ready")
        chat.type("wait")
        chat.sees("Tool: Wait, running")
        chat.type("later")
        chat.sees("Note: queued as number 1. The agent is working.")
        chat.interrupt()
        chat.sees("Done: Cancelled", "You: later\nAgent: later\n", "Done:")
        chat.interrupt()
        chat.sees("Note: Ctrl-C again quits")
        chat.type("still here")
        chat.sees("Agent: still here", "Done:")
        chat.interrupt()
        chat.sees("Note: Ctrl-C again quits")
        chat.interrupt()
        assert chat.status() == 0


def test_two_interrupts_quit_although_the_agent_does_not_end_the_turn(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", "script") as chat:
        chat.sees("is ready")
        chat.type("stubborn")
        chat.type("wait forever")
        chat.sees("Tool:")
        chat.interrupt()
        chat.sees("Note: cancelling the turn.")
        chat.interrupt()
        assert chat.status() == 0


def test_end_of_the_terminal_during_a_turn_quits_and_the_session_comes_back(
    tmp_path: Path,
) -> None:
    with LinesChat(tmp_path, "--agent", AGENT, terminal=True) as chat:
        chat.sees("is ready")
        chat.type("remember")
        chat.sees("Agent: remember", "Done:")
        chat.type("wait")
        chat.sees("Tool:")
        chat.type("not sent yet")
        chat.sees("queued")
        chat.end_input()
        assert chat.status() == 0
    with LinesChat(tmp_path, terminal=True) as chat:
        chat.sees("is ready", "You: remember\nAgent: remember\n", "Draft, not sent:\n  not")
        chat.type(":send")
        chat.sees("Agent: not sent yet")


def test_half_a_prompt_is_kept_when_the_terminal_is_closed(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT, terminal=True) as chat:
        chat.sees("is ready")
        chat.type("first line\\")
        chat.write(b"half a li")
        chat.until(lambda new: "half a li" in new)  # the echo
        os.kill(chat.process.pid, signal.SIGHUP)
        chat.status()
    with LinesChat(tmp_path, "--agent", AGENT, terminal=True) as chat:
        chat.sees("Draft, not sent:\n  first line\n  half a li")
        chat.type("the rest")
        chat.sees("Agent: first line\n  half a li\n  the rest\n")


def test_end_of_a_pipe_rejects_what_nobody_can_answer(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT) as chat:
        file = shop(chat)
        chat.type("ask")
        chat.end_input()
        assert chat.status() == 0
        assert "Note: rejected, since the input has ended." in chat.text
        assert "LINE" not in file.read_text()


def test_agent_that_dies_is_started_again(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", "script") as chat:
        chat.sees("is ready")
        chat.type("wait forever")
        chat.sees("Tool:")
        for process in psutil.Process(chat.process.pid).children(recursive=True):
            if process.cmdline()[-2:] == ["agent", "script"]:
                process.kill()
        chat.sees("Error:", "Note: the session is not open. :reconnect tries again.")
        chat.type("echo alive")
        chat.sees("queued as number 1. The session is not open")
        chat.type(":reconnect")
        chat.sees("Note: starting script.", "Agent: alive")


def test_status_is_1_if_the_agent_is_dead_at_the_end(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT) as chat:
        chat.type("die")
        chat.end_input()
        assert chat.status() == 1
        assert "exited with status 3" in chat.text


def test_earlier_session_is_listed_and_opened(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT) as chat:
        chat.type("long ago")
        chat.sees("Agent: long ago", "Done:")
        chat.end_input()
        chat.status()
    with LinesChat(tmp_path, "--agent", AGENT, "--resume") as chat:
        chat.sees("1 earlier session in this folder", "  1: ")
        chat.type(":resume 1")
        chat.sees("Session 1 of 1", "You: long ago\nAgent: long ago\n")
        chat.type(":new")
        chat.sees("Session 2 of 2: ")
        chat.type("slow")
        chat.type(":next")
        chat.sees("Session 1 of 2")
        (chat.work / "go-on").touch()
        chat.sees("Note: session 2, slow, has finished. :sessions 2 goes there.")
        chat.type(":sessions 2")
        chat.sees("Agent: that took long")


def test_pasted_lines_are_one_prompt(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", AGENT, terminal=True) as chat:
        chat.sees("is ready")
        chat.write(b"one\ntwo\nthree\n")
        chat.sees("Agent: one\n  two\n  three\n")


def test_form_is_filled_in_line_by_line_and_declined_with_an_interrupt(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", "script") as chat:
        chat.sees("is ready")
        chat.type("elicit form")
        chat.sees("Question: script asks (Ctrl-C declines):", "Field: ")
        chat.interrupt()
        chat.sees("Note: declined.", "Done:")
        chat.type("elicit url")
        chat.sees("Question: script asks to open a page", "  https://example.com/sign-in\n")
        chat.type("d")
        chat.sees("Note: declined.", "Done:")


def test_login_is_asked_for_before_the_agent_is_ready(tmp_path: Path) -> None:
    with LinesChat(tmp_path, "--agent", LOGIN) as chat:
        chat.sees("needs a login.", "Question:", "Log in with", "In the browser")
        assert "is ready" not in chat.text
        chat.type("1")
        chat.sees("is ready")
        chat.type("hello")
        chat.sees("Agent: Welcome by browser.")


@pytest.mark.parametrize("prompt", ["hide", "imitate"])
def test_agent_can_neither_hide_nor_speak_for_the_program(tmp_path: Path, prompt: str) -> None:
    with LinesChat(tmp_path, "--agent", AGENT, terminal=True, columns=72) as chat:
        chat.sees("ready.")
        chat.type(prompt)
        chat.sees("Done: 0 s")
        chat.type(":tools 1")
        chat.type(":history")
        chat.type(":quit")
        chat.status()
        shown = chat.text.partition("ready.")[2].replace("\r", "")
        assert all(letter.isprintable() or letter == "\n" for letter in shown), repr(shown)
        assert max(map(len, shown.split("\n"))) <= 72  # the terminal has nothing to break
        typed = (prompt, ":tools 1", ":history", ":quit", "", ".")
        words = {line.partition(":")[0] for line in shown.split("\n") if line not in typed}
        own = {word for word in words if not word.startswith("  ")}
        assert own <= {*OWN_WORDS, "Sessions"}, own
        assert not any(line.startswith(("Question", "Answer")) for line in shown.split("\n"))


def test_prompt_is_written_in_an_editor(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(
        '#!/bin/sh\necho editing\nread line\nprintf \'from the editor: %s\' "$line" >> "$1"\n'
    )
    editor.chmod(0o700)
    with LinesChat(tmp_path, "--agent", AGENT, terminal=True, EDITOR=str(editor)) as chat:
        chat.sees("is ready")
        chat.type(":edit")
        chat.sees("editing")
        chat.type("typed into it")  # the editor has the terminal
        chat.sees("Agent: from the editor: typed into it\n")


def test_lines_need_no_textual(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('textual', 'PIL'): sys.modules[name] = None\n"
        "from accord.program import main\n"
        "sys.exit(main(['chat', '--lines', '--new', '--agent', 'script']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="echo plain\n",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "ACCORD_CONFIG": str(tmp_path)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Agent: plain\n" in done.stdout


def test_every_command_has_a_method_and_is_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    assert [one.name for one in COMMANDS if not hasattr(Commands, one.name)] == []
    rows = [f"| `{one.usage.replace('|', chr(92) + '|')}` | {one.summary} |" for one in COMMANDS]
    assert [row for row in rows if row not in page] == []


def test_beginning_of_a_command_is_enough_if_it_is_the_only_one() -> None:
    assert isinstance(find_command("rev"), LineCommand)
    assert isinstance(find_command("mode"), LineCommand)  # and not :model
    assert len(find_command("re")) == 3  # type: ignore[arg-type]
    assert find_command("") == []


def test_no_input_ends_the_program(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "ACCORD_CONFIG": str(tmp_path)}
    output = tmp_path / "output"
    with open(os.devnull, "rb") as nothing, output.open("wb") as printed:  # noqa: PTH123
        words = ["-m", "accord", "chat", "--lines", "--agent", AGENT]
        files = [nothing.fileno(), printed.fileno(), printed.fileno()]
        assert Forked(words, files, cwd=tmp_path, env=environment).wait(60) == 0
    shown = output.read_text()
    assert "is ready." in shown
    assert "Error" not in shown
    assert "Traceback" not in shown


def test_budget_stops_the_turn_and_refuses_the_next_prompt(tmp_path: Path) -> None:
    with LinesChat(
        tmp_path, "--agent", "script", "--budget", "cost=0.1/session", terminal=True
    ) as chat:
        chat.sees("Note: script is ready.")
        chat.type("usage")
        chat.sees("Done: Stopped: Limit of the session reached: 0.25 USD of 0.10 USD, used: about")
        chat.type("echo more")
        chat.sees("Error: Limit of the session reached: 0.25 USD of 0.10 USD: the prompt was not")
        chat.type(":queue")
        chat.sees("1: echo more")
        chat.type(":quit")
        assert chat.status() == 0
