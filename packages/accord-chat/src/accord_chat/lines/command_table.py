"""Every command of the chat in lines: for `:help`, the documentation and the calls."""

from __future__ import annotations

from msgspec import Struct


class LineCommand(Struct, frozen=True):
    """A line that begins with a colon; the method is `Commands.NAME`."""

    name: str
    argument: str
    summary: str

    @property
    def usage(self) -> str:
        """How it is typed."""
        return f":{self.name} {self.argument}".rstrip()


COMMANDS = (
    LineCommand("help", "", "List the commands"),
    LineCommand("status", "", "Say what the agent does, the settings, the queue and the usage"),
    LineCommand("cancel", "", "Cancel the turn; the session stays. Ctrl-C does it too"),
    LineCommand("again", "", "Read the question of the agent again"),
    LineCommand("queue", "", "List the queued prompts"),
    LineCommand("withdraw", "[NUMBER]", "Take a queued prompt back into the draft; else the last"),
    LineCommand("draft", "", "Read what is not sent yet; it goes before your next prompt"),
    LineCommand("send", "", "Send the draft"),
    LineCommand("drop", "", "Forget the draft"),
    LineCommand("edit", "", "Write the prompt in your editor; it is sent when you leave it"),
    LineCommand("mode", "[NAME]", "Say which modes there are, or choose one"),
    LineCommand("model", "[NAME]", "Say which models there are, or choose one"),
    LineCommand("set", "[ID VALUE]", "List all options, or set one"),
    LineCommand("review", "", "Review the changes, hunk by hunk: accept or undo each"),
    LineCommand("plan", "", "Read the whole plan"),
    LineCommand("tools", "[NUMBER]", "List the tool calls, or read all of one"),
    LineCommand("thought", "", "Read the last thought as a whole"),
    LineCommand("history", "[COUNT]", "Read the last entries of the conversation again"),
    LineCommand("subagents", "[NUMBER]", "List the subagents, or read what one has done"),
    LineCommand("stop", "NUMBER", "Cancel one subagent"),
    LineCommand("commands", "", "List the slash commands of the agent"),
    LineCommand("files", "WORDS", "Search the files that a prompt can mention"),
    LineCommand("open", "[FILE]", "Open the file that the agent works on in your editor, or FILE"),
    LineCommand("sessions", "[NUMBER]", "List the open sessions, or go to one"),
    LineCommand("next", "", "Go to the next open session"),
    LineCommand("new", "[AGENT]", "Open a new session"),
    LineCommand("close", "", "Close the session"),
    LineCommand("resume", "[NUMBER]", "List the earlier sessions of the agent, or open one"),
    LineCommand("memory", "[NUMBER]", "List the remembered permissions, or forget one"),
    LineCommand(
        "export", "[md|html|json]", "Write the conversation to a file; Markdown by default"
    ),
    LineCommand("traffic", "[COUNT]", "Read the last messages of the protocol, and stderr"),
    LineCommand("reconnect", "", "Start the agent again after a failure"),
    LineCommand("quit", "", "Quit; sessions and drafts are kept. Ctrl-D does it too"),
)


def find_command(word: str) -> LineCommand | list[LineCommand]:
    """Return the command with this name or beginning; a list unless it is exactly one."""
    named = [one for one in COMMANDS if one.name == word]
    found = named or [one for one in COMMANDS if word and one.name.startswith(word)]
    return found[0] if len(found) == 1 else found
