"""Runs commands: in the client's terminal where it offers one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from accord_coder.permissions.command_line import argv_of
from accord_coder.tools.base import Tool
from accord_coder.tools.environment import command_environment
from accord_coder.tools.formatting import cut_middle, escape_lines, fenced, one_line
from accord_coder.tools.result import Access, Outcome, ToolFailed

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.tools.context import ToolContext

__all__ = ("Execute", "ExecuteArguments")

_MAX_CHARACTERS = 30_000  # of the output, for the model
_KEPT_BYTES = 256 * 1024  # of the output: its end
# What only a shell knows; as programs they are missing, or do nothing.
_SHELL_BUILTINS = frozenset(
    """
    . : [ alias bg case cd command eval exec exit export fg for hash if jobs local read readonly
    return set shift source times trap type ulimit umask unalias unset until wait while
    """.split()  # noqa: SIM905  # a list of words
)


class ExecuteArguments(Struct, frozen=True):
    """What to run."""

    command: Annotated[str, Meta(min_length=1, description="The command line")]
    cwd: Annotated[
        str | None, Meta(description="The directory to run in; by default the session's")
    ] = None
    timeout_s: Annotated[
        int, Meta(ge=1, le=3600, description="Seconds until it is ended with all it has started")
    ] = 120


class Execute(Tool[ExecuteArguments]):
    """See the module."""

    name = "execute"
    kind = "execute"
    description = (
        "Run a command and get its output, stdout and stderr in one, with `[exit status N]` unless "
        "that is 0. There is no input, and git runs no hooks. Pipes and the like run in sh. Each "
        "command starts anew in `cwd`; what it leaves running is ended."
    )
    arguments_type = ExecuteArguments
    cancellable = True

    def title(self, args: ExecuteArguments, context: ToolContext) -> str:
        """Name the command."""
        return one_line(args.command)

    def access(self, args: ExecuteArguments, context: ToolContext) -> Access:
        """Runs the command."""
        cwd = context.files.absolute(args.cwd or ".")
        return Access("execute", (cwd,), subject=args.command)

    async def preview(
        self, args: ExecuteArguments, call: ToolCallHandle, context: ToolContext
    ) -> None:
        """Show all of a command whose title does not; refuse what terminals do not do."""
        if args.cwd is not None and not await context.files.is_reachable(args.cwd):
            raise ToolFailed(
                f"`cwd` {args.cwd} is outside of the session's directories. Leave it out, and go "
                "there in the command if it has to be."
            )
        if one_line(args.command) != args.command:
            await call.add_content(fenced(escape_lines(args.command), "sh"))

    async def run(
        self, args: ExecuteArguments, call: ToolCallHandle, context: ToolContext
    ) -> Outcome:
        """Run it to its end."""
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
    """Return the words of a plain command, or a shell with the text of one that needs it."""
    if not command.strip():
        raise ToolFailed("There is no command.")
    words = argv_of(command)
    if words is None or words[0] in _SHELL_BUILTINS:
        return ("sh", "-c", command)
    return words
