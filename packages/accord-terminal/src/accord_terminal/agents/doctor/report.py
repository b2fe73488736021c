"""The report of `accord doctor` as text, readable in 80 columns."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence

from accord_terminal.agents.doctor.machine import Machine
from accord_terminal.agents.doctor.probe import Probe
from accord_terminal.toolkit.settings import MISSING

_HEAD = 10  # columns of a heading
_SEARCHED = re.compile(r"(?<=not found in PATH) \(.*\)")
_HINTS = {  # what helps, by a part of the error
    "not found in PATH": "Install it, or set its absolute path in the settings file.",
    "did not respond": "Run its command in a terminal: it may wait for a login or a download.",
    "closed the connection": "Run its command in a terminal: it exited before it responded.",
}


def machine_lines(machine: Machine, columns: int) -> Iterator[str]:
    """Yield the facts of the machine."""
    yield f"Accord {machine.accord}, Python {machine.python}, {machine.system}"
    programs = [
        f"{name} {'not found' if found is None else found.version or 'of unknown version'}"
        for name, found in machine.programs.items()
    ]
    extras = [
        f"{name}{'' if there else ' not installed'}" for name, there in machine.extras.items()
    ]
    yield from _row("Programs", ", ".join(programs), columns)
    yield from _row("Extras", ", ".join(extras), columns)
    there = "" if machine.has_settings else MISSING
    yield from _row("Settings", machine.settings + there, columns)
    if machine.settings_error is not None:
        yield from _row("", f"✗ {machine.settings_error}", columns)


def overview_lines(probes: Sequence[Probe], missing: Sequence[str], columns: int) -> Iterator[str]:
    """Yield a line for each agent that was started, and the names of the others."""
    width = max((len(found.name) for found in probes), default=0)
    for found in sorted(probes, key=lambda one: (not one.works, one.name)):
        if found.works:
            facts = [
                f"{found.title} {found.version}".strip(),
                f"ACP v{found.protocol}",
                f"started in {found.initialize_s:.1f} s",
                "login required" if found.login == "required" else "ready",
            ]
            yield from _hanging(f"✓ {found.name:<{width}}  ", ", ".join(facts), columns)
        else:
            short = _SEARCHED.sub("", found.error or "")
            yield from _hanging(f"✗ {found.name:<{width}}  ", short, columns)
            hint = _hint(found) or f"Details: accord doctor {found.name}"
            yield from _hanging(" " * (width + 4), hint, columns)
        if names := [row.id for row in found.quirks]:
            yield from _hanging(" " * (width + 4), f"quirks: {', '.join(names)}", columns)
    if missing:
        yield ""
        yield from _hanging("Not installed: ", ", ".join(missing), columns)


def agent_lines(found: Probe, columns: int) -> Iterator[str]:
    """Yield all that is known of one agent."""
    yield f"{'✓' if found.works else '✗'} {found.name}"
    # In one piece, to be copied.
    yield f"{'Command':<{_HEAD}}{shlex.join(found.command)}"
    yield from _row("Source", found.source, columns)
    if found.error is not None:
        yield from _row("Problem", found.error, columns)
        if hint := _hint(found):
            yield from _row("Try", hint, columns)
    if found.initialize_s is not None:
        name = f"{found.title} {found.version}".strip()
        shown = name if found.info_name in ("", found.title) else f"{name} ({found.info_name})"
        yield from _row("Agent", shown, columns)
        yield from _row("Protocol", f"version {found.protocol}", columns)
        times = f"{found.initialize_s:.2f} s until the response to `initialize`"
        if found.session_s is not None:
            times += f", {found.session_s:.2f} s more for `session/new`"
        yield from _row("Time", times, columns)
        logins = ", ".join(
            f"{login.id}{' (at the terminal)' if login.terminal else ''}" for login in found.logins
        )
        yield from _row(
            "Login", f"{found.login}{f'; auth methods: {logins}' if logins else ''}", columns
        )
        if found.login == "required" and found.logins:
            yield from _row("", f"accord agents login {found.name}", columns)
        yield from _row("Supports", ", ".join(found.offers) or "no optional methods", columns)
    for heading, lines in (("Stdout", found.noise), ("Stderr", found.stderr)):
        for number, line in enumerate(lines):
            yield from _row(heading if number == 0 else "", line, columns)
    for number, row in enumerate(found.quirks):
        when = "seen now" if row.seen else "known of this agent"
        yield from _row("Quirks" if number == 0 else "", f"{row.id} ({when}): {row.does}", columns)
        yield from _row("", f"Accord {row.response}", columns)


def _hint(found: Probe) -> str | None:
    if found.noise and found.initialize_s is None:
        return f"It writes {found.noise[-1]!r} to stdout: check that this is its command for ACP."
    for part, hint in _HINTS.items():
        if part in (found.error or ""):
            return hint
    return None


def _row(heading: str, text: str, columns: int) -> Iterator[str]:
    yield from _hanging(f"{heading:<{_HEAD}}", text, columns)


def _hanging(head: str, text: str, columns: int) -> Iterator[str]:
    """Yield a text in lines that begin below each other."""
    width = max(columns - len(head), 20)
    lines = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        yield f"{head if number == 0 else ' ' * len(head)}{line}".rstrip()
