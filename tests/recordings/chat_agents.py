"""The agents that are used in `accord chat`, and what is said to each."""

from __future__ import annotations

from dataclasses import dataclass

from recordings.agents import AGENTS, OURS, Known
from recordings.fake_model import EDITED, NEW, NO_TOOL

__all__ = ("CHAT_AGENTS", "ChatAgent", "Say")


@dataclass(frozen=True)
class Say:
    """A prompt, and what the screen shows afterwards."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class ChatAgent:
    """An agent and a conversation; `{notes}` in a prompt is the path of the file to change."""

    known: Known
    hello: Say = Say("Say hello to Ada.", "Hello Ada!")
    edit: Say = Say("Edit the file {notes}.", EDITED)
    slow: Say = Say("Count slowly.", "3 4 5")
    again: Say = Say("Say hello to Bob.", "Hello Bob!")
    recalls: bool = True  # it sends earlier prompts to the fake model
    tells_undone: bool = True  # the prompt may begin with a sentence about what was undone
    needs_new_minute: bool = False  # between the end of the program and its next start
    remarks: tuple[str, ...] = ()  # for the page

    @property
    def name(self) -> str:
        return self.known.name

    @property
    def mode(self) -> str | None:
        """The mode in which the agent asks before it changes a file."""
        return self.known.mode


KNOWN = {known.name: known for known in AGENTS}
CHAT_AGENTS = (
    ChatAgent(
        Known("accord-coder", OURS, 2),
        hello=Say("help", "Move or rename"),
        edit=Say("replace notes.txt draft report", "Made 2 replacements"),
        slow=Say("run printf 'be%s' gun && sleep 60", "begun"),
        again=Say("list", "notes.txt"),
        recalls=False,
        tells_undone=False,
    ),
    ChatAgent(
        KNOWN["accord-script"],
        hello=Say("permission", "1 of 1 allowed."),
        edit=Say(f"fs write notes.txt {NEW.strip()}", "notes.txt is written."),
        slow=Say("wait forever", "Wait forever"),
        again=Say("stream 3", "1 2 3"),
        recalls=False,
        tells_undone=False,
        remarks=("Its sessions end with its process.",),
    ),
    ChatAgent(KNOWN["claude-agent-acp"]),
    ChatAgent(KNOWN["claude-agent-acp-v2"]),
    ChatAgent(KNOWN["codex-acp"]),
    ChatAgent(KNOWN["codex-acp-v2"]),
    ChatAgent(
        KNOWN["gemini-cli"],
        needs_new_minute=True,
        remarks=("It cannot load a session in the minute in which it was made.",),
    ),
    ChatAgent(KNOWN["opencode"]),
    ChatAgent(KNOWN["qwen-code"]),
    ChatAgent(
        KNOWN["fast-agent"],
        remarks=(
            "It asks, and reports changes, only if the client holds the files and terminals "
            "(`fs/…`, `terminal/…`), which this client does not: the change was found in the "
            "files.",
        ),
    ),
    ChatAgent(KNOWN["vibe"]),
    ChatAgent(KNOWN["copilot"]),
    ChatAgent(
        KNOWN["kimi"],
        remarks=("The last versions need an account.",),
    ),
    ChatAgent(
        KNOWN["pi"],
        remarks=("It does not ask. Its adapter can miss a change that is made very fast.",),
    ),
    ChatAgent(
        KNOWN["gptme"],
        slow=Say("Count slowly.", ""),  # its answers come as a whole
        remarks=(
            "It asks nothing, reports no changes (this one was found in the files) and cannot open "
            "earlier sessions. A cancel waits for the answer, and then ends the session: later "
            "prompts are cancelled, too.",
        ),
    ),
    ChatAgent(KNOWN["hermes"]),
    ChatAgent(
        KNOWN["deepagents"],
        edit=Say("Edit the file /notes.txt.", EDITED),
        remarks=(
            "It does not ask. Its paths begin at the directory of the session: it reports a change "
            "of `/notes.txt`, which the chat does not touch, and the chat finds the one of "
            "`notes.txt` in the files. It cannot open earlier sessions.",
        ),
    ),
    ChatAgent(
        KNOWN["crow"],
        edit=Say("Edit the file {notes}.", NO_TOOL),
        remarks=("It has no tools of its own.",),
    ),
    ChatAgent(
        KNOWN["bub"],
        remarks=("It does not ask. A cancel does not end the turn: the answer continues.",),
    ),
    ChatAgent(
        KNOWN["agentao"],
        remarks=(
            "It does not ask before an edit in its mode `workspace-write`, reports no changes "
            "(this one was found in the files), and writes its log into the directory of the "
            "session, which is the first of the hunks.",
        ),
    ),
    ChatAgent(KNOWN["openhands"], slow=Say("Count slowly.", "")),  # its answers come as a whole
)
