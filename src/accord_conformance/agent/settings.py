"""What the author of an agent tells the kit: how to start it, and what to ask it for."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, field

__all__ = ("PROMPTS", "SETTINGS_FILE", "InvalidSettings", "Settings", "read_settings", "template")

SETTINGS_FILE = Path("accord-check.toml")

# What each prompt has to bring about, and how an agent with a language model may be asked for it.
# An empty one is not asked: what it is for cannot be said to any agent.
PROMPTS: dict[str, tuple[str, str]] = {
    "text": (
        "A short answer in words.",
        "Answer with the single word hello. Use no tools.",
    ),
    "tool": (
        "A tool call that needs nobody's permission.",
        "List the files in the current directory with one of your tools, then say how many.",
    ),
    "permission": (
        "A tool call that the user has to allow.",
        "Run the command `touch permitted.txt` in the current directory.",
    ),
    "file_read": (
        "Reads the file note.txt in the session's directory and repeats what it says.",
        "Read the file note.txt in the current directory with your tools, and repeat its text.",
    ),
    "file_write": (
        "Writes a file.",
        "Create the file written.txt with the text hello, in the current directory.",
    ),
    "terminal": (
        "Runs a command.",
        "Run the command `echo hello` with your tools, and tell what it printed.",
    ),
    "elicit": (
        "Asks the user for data with a form (elicitation).",
        "Ask me for my name with a form, if you have a tool that can do so.",
    ),
    "long": (
        "Work that takes longer than the time limit, to be cancelled.",
        "Count slowly from 1 to 5000 in words, each number on a line of its own. Use no tools.",
    ),
    "background": ("Work that goes on for long when the turn is over (version 2).", ""),
    "tool_cancel": ("A long tool call that can be cancelled by itself (version 2).", ""),
    "title": ("Gives the session a title.", ""),
    "subagent": ("Has a subagent do something (unstable).", ""),
    "command": ("A slash command that needs no model.", ""),
    "fail": ("Work that fails.", ""),
}


class InvalidSettings(Exception):
    """The settings cannot be used; the text says why."""


class Settings(Struct, forbid_unknown_fields=True):
    """What a file of settings says; `timeout` is for what a model does, `answer` for the rest.

    `budget` is for the whole run: it ends then, and has not passed.

    `login` is a way to log in that works without a user; only then the agent is logged out.
    `more` are further prompts, of which nothing is expected but that they keep the rules; `skip`
    are scenarios, or areas of them, each with the reason.
    """

    command: list[str] = field(default_factory=list[str])
    timeout: float = 60.0
    answer: float = 10.0
    budget: float = 600.0
    login: str = ""
    env: dict[str, str] = field(default_factory=dict[str, str])
    more: list[str] = field(default_factory=list[str])
    prompts: dict[str, str] = field(default_factory=dict[str, str])
    skip: dict[str, str] = field(default_factory=dict[str, str])

    def prompt(self, purpose: str) -> str:
        """Return what to ask for something; empty when there is nothing."""
        found = self.prompts.get(purpose)
        return PROMPTS[purpose][1] if found is None else found

    def skipped(self, name: str) -> str | None:
        """Return why a scenario is not to be played."""
        return self.skip.get(name, self.skip.get(name.partition("/")[0]))


def read_settings(path: Path) -> Settings:
    """Read a file of settings; raise `WrongSettings`."""
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        settings = convert(data, Settings)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"Cannot read {path}: {error}") from None
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise InvalidSettings(f"{path}: {error}") from None
    unknown = sorted(settings.prompts.keys() - PROMPTS.keys())
    if unknown:
        raise InvalidSettings(
            f"{path}: there is no purpose {unknown[0]!r}; there are {', '.join(PROMPTS)}"
        )
    if not (settings.timeout > 0 and settings.answer > 0 and settings.budget > 0):  # nan is not
        raise InvalidSettings(f"{path}: `timeout`, `answer` and `budget` are seconds, more than 0")
    return settings


def template() -> str:
    """Return a file of settings with all that there is, explained."""
    lines = [
        "# How `accord check agent` talks to your agent. All of this may be left out.",
        "",
        "# What starts it; words after `--` on the command line go first.",
        '# command = ["my-agent", "--acp"]',
        "",
        "# Seconds that a turn, which a model works on, may take; and any other answer.",
        "timeout = 60.0",
        "answer = 10.0",
        "# Seconds for the whole run.",
        "budget = 600.0",
        "",
        "# A login that works without a user. Only with one the agent is logged in and out.",
        '# login = "api-key"',
        "",
        "# Further prompts; nothing is expected of them but that they keep the rules. For plans, a",
        "# mode that changes, usage: what the prompts below do not bring about.",
        '# more = ["Make a plan of three steps."]',
        "",
        "[env]",
        "# Environment variables for the agent.",
        '# MY_AGENT_MODEL = "small"',
        "",
        "[prompts]",
        "# What your agent is asked, by what that has to bring about. Empty: not asked.",
    ]
    for purpose, (about, default) in PROMPTS.items():
        lines += [f"# {about}", f"{purpose} = {_quoted(default)}"]
    lines += [
        "",
        "[skip]",
        "# Scenarios, or areas of them, that are not to be played, and why.",
        '# "mcp" = "our MCP servers are configured elsewhere"',
        "",
    ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
