"""The settings of `accord check agent`: how to start the agent, and its prompts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, field

SETTINGS_FILE = Path("accord-check.toml")

FOLDER = "{folder}"  # in a prompt: the directory of its session

# The effect that each prompt has to have, and a default for agents with a language model. An empty
# prompt is not sent: no wording has this effect with every agent.
PROMPTS: dict[str, tuple[str, str]] = {
    "text": (
        "Gives a short answer in text.",
        "Answer with the single word hello. Use no tools.",
    ),
    "tool": (
        "Makes a tool call that does not need permission.",
        "List the files in the directory {folder} with one of your tools, then say how many.",
    ),
    "permission": (
        "Makes a tool call that needs permission.",
        "Run the command `touch {folder}/permitted.txt`.",
    ),
    # Without the directory: an agent has to find the file by the `cwd` of the session (R-SESS-04).
    "file_read": (
        "Reads the file note.txt in the session's directory and repeats its text.",
        "Read the file note.txt in the current directory with your tools, and repeat its text.",
    ),
    "file_write": (
        "Writes a file.",
        "Create the file {folder}/written.txt with the text hello.",
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
        "Works for longer than the time limit, and is cancelled.",
        "Count slowly from 1 to 5000 in words, each number on a line of its own. Use no tools.",
    ),
    "background": ("Starts background work that continues long after the turn (version 2).", ""),
    "tool_cancel": ("Makes a long tool call that can be cancelled individually (version 2).", ""),
    "title": ("Gives the session a title.", ""),
    "subagent": ("Starts a subagent (unstable).", ""),
    "command": ("Runs a slash command that needs no model.", ""),
    "fail": ("Fails after the prompt was inserted.", ""),
}


class InvalidSettings(Exception):
    """The settings are invalid; the text describes why."""


class Settings(Struct, forbid_unknown_fields=True):
    """The settings; `timeout` limits a turn, `answer` any other response.

    `budget` limits the whole run, which fails if it takes longer.

    `login` is an auth method that works without a user; the agent is logged out only with it.
    `more` are further prompts, whose turns only have to conform to the protocol. `skip` has
    scenarios, or areas of scenarios, each with the reason.
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
        """Return the prompt for a purpose, or an empty text."""
        found = self.prompts.get(purpose)
        return PROMPTS[purpose][1] if found is None else found

    def skipped(self, name: str) -> str | None:
        """Return the reason to skip a scenario, or None."""
        return self.skip.get(name, self.skip.get(name.partition("/")[0]))


def read_settings(path: Path) -> Settings:
    """Read a settings file; raise `InvalidSettings`."""
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
            f"{path}: unknown prompt {unknown[0]!r}: expected one of {', '.join(PROMPTS)}"
        )
    if not (settings.timeout > 0 and settings.answer > 0 and settings.budget > 0):  # nan is not
        raise InvalidSettings(
            f"{path}: `timeout`, `answer` and `budget` must be seconds, more than 0"
        )
    return settings


def template() -> str:
    """Return a settings file with all settings and their explanation."""
    lines = [
        "# Settings of `accord check agent`. All of them are optional.",
        "",
        "# The command that starts the agent; the command line takes precedence.",
        '# command = ["my-agent", "--acp"]',
        "",
        "# Time limits in seconds: of a turn, and of any other response.",
        "timeout = 60.0",
        "answer = 10.0",
        "# Time limit of the whole run in seconds.",
        "budget = 600.0",
        "",
        "# An auth method that works without a user. Without it, no login is tested.",
        '# login = "api-key"',
        "",
        "# Further prompts, whose turns only have to conform to the protocol: for plans, mode",
        "# changes, usage and other things that the prompts below do not cause.",
        '# more = ["Make a plan of three steps."]',
        "",
        "[env]",
        "# Environment variables for the agent.",
        '# MY_AGENT_MODEL = "small"',
        "",
        "[prompts]",
        "# The prompts, by the effect that each has to have. An empty prompt is not sent.",
        f"# {FOLDER} is the absolute path of the session's directory.",
    ]
    for purpose, (about, default) in PROMPTS.items():
        lines += [f"# {about}", f"{purpose} = {_quoted(default)}"]
    lines += [
        "",
        "[skip]",
        "# Scenarios, or areas of scenarios, to skip, and the reason.",
        '# "mcp" = "our MCP servers are configured elsewhere"',
        "",
    ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# The time limit of turns, which is reduced if no turn ends.

_TRIES = 3


class TurnTimeout:
    """The time limit of the settings, until several turns have timed out and none has ended.

    Then the limit is that of other responses: otherwise an agent that ends no turn would take the
    whole limit in every scenario.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._missed = 0
        self._any = False

    @property
    def seconds(self) -> float:
        """The limit of the next turn."""
        is_reduced = not self._any and self._missed >= _TRIES
        settings = self._settings
        return min(settings.timeout, settings.answer) if is_reduced else settings.timeout

    def turn_ended(self) -> None:
        """Record that a turn has ended."""
        self._any = True

    def turn_timed_out(self) -> None:
        """Record that a turn has timed out."""
        self._missed += 1
