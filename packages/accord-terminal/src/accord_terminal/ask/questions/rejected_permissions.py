"""Reports which permission requests were rejected without asking, and how to allow them."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from accord.client.permissions import allows, command_of
from accord.types.tool_calls import rule_error
from accord_terminal.toolkit.safe_text import one_line, relative_path, relative_title

if TYPE_CHECKING:
    from accord.client.events import PermissionRequest


MAX_SHOWN = 5


def rejected_lines(
    requests: Sequence[PermissionRequest], reason: str, program: str = "accord ask"
) -> list[str]:
    """Return the report: the titles, and the options that would have allowed the actions."""
    lines = [f"{program}: rejected without asking the user: {reason}"]
    for request in requests[:MAX_SHOWN]:
        call = request.tool_call
        title = relative_title(request.title or (call.title if call else ""), request.cwd)
        lines.append(f"  {title}")
    if len(requests) > MAX_SHOWN:
        lines.append(f"  and {len(requests) - MAX_SHOWN} more")
    rules = dict.fromkeys(map(_narrowest_rule, requests[:MAX_SHOWN]))
    allowing = " ".join(f"--allow {shlex.quote(rule)}" for rule in rules)
    lines.append(f"  To allow it: {allowing}, or --yes for everything.")
    return lines


def _narrowest_rule(request: PermissionRequest) -> str:
    """Return the narrowest rule for `--allow` that matches a request."""
    call = request.tool_call
    command = command_of(request)
    kind = "execute" if call is None else one_line(str(call.kind), 40)
    # A rule is a pattern: the stars of a command or path are escaped.
    rules = [] if command is None else [f"execute:{glob.escape(one_line(command))}"]
    if call is not None and len(call.locations) == 1:
        path = relative_path(call.locations[0].path, request.cwd)
        rules.append(f"{kind}:{glob.escape(one_line(path))}")
    rules.append(kind)
    return next((rule for rule in rules if not rule_error([rule]) and allows(rule, request)), "*")
