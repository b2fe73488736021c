"""`accord session`: creates, uses and shows sessions that stay open.

A command is imported when it is called: most are in `control`, the others in the modules below.
"""

from __future__ import annotations

from importlib import import_module

import click

from accord.errors import AccordError

__all__ = ("command",)

_COMMANDS = {
    "new": "Create a session and start its agent.",
    "ensure": "Create a session unless it exists.",
    "list": "List the sessions.",
    "show": "Show a session, with its queue.",
    "prompt": "Send a prompt to a session and show the result.",
    "steer": "Say something to the agent in the running turn.",
    "watch": "Show what happens in a session, from a cursor on.",
    "history": "Show the turns of a session.",
    "cancel": "Cancel the running prompt, or withdraw a queued one.",
    "set": "Set the model, the mode or an option of a session.",
    "close": "Close a session: its agent ends.",
    "fork": "Start a session as a copy of another.",
    "export": "Write a session as Markdown, HTML or JSON.",
    "import": "Import sessions of acpx, or an export.",
    "prune": "Delete closed sessions.",
    "attach": "Be an agent on stdin and stdout, for editors.",
}
_MODULES = {  # of the commands that are not in `control`
    "prompt": "prompt",
    "steer": "steer",
    "watch": "watch",
    "list": "listing",
    "show": "listing",
    "history": "watch",
    "export": "transfer",
    "import": "transfer",
}


class _SessionGroup(click.Group):
    """Imports only the command that is called; the errors of sessions have exit statuses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_known = not args or args[0] in (*_COMMANDS, *ctx.help_option_names)
        if not is_known and not ctx.resilient_parsing:
            args = _of_acpx(args)
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "exec":  # of acpx: `accord ask` with the exit statuses of sessions
            ctx.obj = import_module("accord_terminal.sessions.cli.prompt").STATUSES
            return import_module("accord_terminal.ask.command").command
        if cmd_name not in _COMMANDS:
            return None
        module = _MODULES.get(cmd_name, "control")
        found = import_module(f"accord_terminal.sessions.cli.{module}")
        return getattr(found, f"{cmd_name}_command")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except AccordError as exc:
            from accord_terminal.sessions.records import SessionsError

            if not isinstance(exc, SessionsError):
                raise
            messages = import_module("accord_terminal.ask.views")
            lines = messages.failure_lines(
                messages.Failure(str(exc)), messages.LastLines.of(exc), "accord session"
            )
            click.echo("\n".join(lines), err=True)
            return exc.status


def _of_acpx(args: list[str]) -> list[str]:
    """Return the words of Accord for a command line of acpx, and other words as they are."""
    agents = import_module("accord_terminal.toolkit.agent_names").complete_name(None, None, "")
    acpx_words = import_module("accord_terminal.sessions.acpx")
    if acpx_words.is_of_acpx(args, agents):
        return acpx_words.words_of_acpx(args)
    return args


@click.group("session", cls=_SessionGroup)
def command() -> None:
    """Keep sessions open: their agents run in the background, and many clients use them.

    A session belongs to an agent, a directory and a name. It is found from its directory and from
    those below it, up to the root of the git repository. Without -s, the session without a name is
    meant.

    After `accord session`, command lines of acpx work too, except those that begin with prompt,
    cancel or set, which are commands of Accord with its own options.

    Exit status: 0 ok, 1 error, 2 usage error, 3 time limit, 4 no session, 5 permission denied,
    130 interrupted.
    """
