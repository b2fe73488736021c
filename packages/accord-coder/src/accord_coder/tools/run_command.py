"""The tool `execute`: runs commands, in the client's terminal if it supports that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from accord_coder.permissions.command_words import argv_of
from accord_coder.tool_results import (
    Access,
    Outcome,
    ToolFailed,
    cut_middle,
    escape_lines,
    fenced,
    one_line,
)
from accord_coder.tools import Tool, command_environment

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.decision import ToolContext


_MAX_CHARACTERS = 30_000  # of the output, for the model
_KEPT_BYTES = 256 * 1024  # of the end of the output
# Shell builtins, which do not exist as programs or have no effect.
_SHELL_BUILTINS = frozenset(
    """
    . : [ alias bg case cd command eval exec exit export fg for hash if jobs local read readonly
    return set shift source times trap type ulimit umask unalias unset until wait while
    """.split()  # noqa: SIM905  # a list of words
)


class ExecuteArguments(Struct, frozen=True):
    """The arguments of `execute`."""

    command: Annotated[str, Meta(min_length=1, description="The command line")]
    cwd: Annotated[
        str | None, Meta(description="The directory to run in; by default the session's")
    ] = None
    timeout_s: Annotated[
        int, Meta(ge=1, le=3600, description="Seconds until it and its child processes are stopped")
    ] = 120


class Execute(Tool[ExecuteArguments]):
    """Runs a command."""

    name = "execute"
    kind = "execute"
    description = (
        "Run a command and return its stdout and stderr together, with `[exit status N]` unless "
        "it is 0. There is no input, and git runs no hooks. Shell syntax runs in sh. Each "
        "command starts in `cwd`; processes that it leaves running are stopped."
    )
    arguments_type = ExecuteArguments
    cancellable = True

    def title(self, args: ExecuteArguments, context: ToolContext) -> str:
        """Return the command as the title."""
        return one_line(args.command)

    def access(self, args: ExecuteArguments, context: ToolContext) -> Access:
        """Return an execution of the command."""
        cwd = context.files.absolute(args.cwd or ".")
        return Access("execute", (cwd,), subject=args.command)

    async def preview(
        self, args: ExecuteArguments, call: ToolCallHandle, context: ToolContext
    ) -> None:
        """Show the whole command if the title cannot; refuse a `cwd` that terminals cannot use."""
        if args.cwd is not None and not await context.files.is_reachable(args.cwd):
            raise ToolFailed(
                f"`cwd` {args.cwd} is outside the session's directories. Leave it out, and use"
                " `cd` in the command if necessary."
            )
        if one_line(args.command) != args.command:
            await call.add_content(fenced(escape_lines(args.command), "sh"))

    async def run(
        self, args: ExecuteArguments, call: ToolCallHandle, context: ToolContext
    ) -> Outcome:
        """Run the command until it ends."""
        ran = await context.session.terminals.run(
            *_argv(args.command),
            cwd=context.files.absolute(args.cwd or "."),
            env=command_environment(),
            timeout_s=args.timeout_s,
            output_bytes=_KEPT_BYTES,
        )
        output = cut_middle(ran.output, _MAX_CHARACTERS)
        if ran.truncated:
            output = f"[… the beginning is left out …]\n{output}"
        remark = ""
        if ran.timed_out:
            remark = f"[timed out after {args.timeout_s} s]"
        elif ran.signal is not None:
            remark = f"[ended by {ran.signal}]"
        elif ran.exit_code != 0:
            remark = f"[exit status {ran.exit_code}]"
        if remark:
            output += remark if not output or output.endswith("\n") else f"\n{remark}"
        raw = {"exit_code": ran.exit_code, "signal": ran.signal, "timed_out": ran.timed_out}
        return Outcome((output,), raw, failed=not ran.ok)


def _argv(command: str) -> tuple[str, ...]:
    """Return the words of a simple command, or a shell with the text of another one."""
    if not command.strip():
        raise ToolFailed("The command is empty.")
    words = argv_of(command)
    if words is None or words[0] in _SHELL_BUILTINS:
        return ("sh", "-c", command)
    return words
