"""Says which permissions were rejected because no one could be asked, and how to allow them."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accord.client.events import PermissionRequest

__all__ = ("rejected_lines",)

MAX_SHOWN = 5


def rejected_lines(requests: Sequence[PermissionRequest], why: str) -> list[str]:
    """Return what to tell the user, nothing where there is nothing to tell."""
    if not requests:
        return []
    import shlex

    from accord.cli.safe_text import relative_title

    lines = [f"accord ask: rejected without asking the user: {why}"]
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
    """Return a rule that `--allow` takes and that matches a request, the narrowest there is."""
    from accord.cli.safe_text import one_line, relative_path
    from accord.client.permissions import allow, command_of

    call = request.tool_call
    command = command_of(request)
    kind = "execute" if call is None else one_line(str(call.kind), 40)
    # Stars of a command or path are meant as they are.
    rules = [] if command is None else [f"execute:{glob.escape(one_line(command))}"]
    if call is not None and len(call.locations) == 1:
        rules.append(
            f"{kind}:{glob.escape(one_line(relative_path(call.locations[0].path, request.cwd)))}"
        )
    rules.append(kind)
    return next((rule for rule in rules if allow(rule)(request)), "*")
