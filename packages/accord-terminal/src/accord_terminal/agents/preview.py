"""What installing an agent would do, in words, before it is done."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from accord_terminal.agents.index import Entry, Kind
from accord_terminal.agents.installation import own_target
from accord_terminal.toolkit.safe_text import one_line

MAX_TEXT = 400
_VERSION = re.compile(r"(?<=.)@|==|\[")


def source_text(entry: Entry, kind: Kind) -> str:
    """Return what is installed, and the arguments with which it is started."""
    if kind == "binary":
        found = entry.binary.get(own_target())
        if found is None:
            return f"for {', '.join(sorted(entry.binary))}"
        checked = "" if found.sha256 else " (without a checksum)"
        return f"{one_line(found.archive, MAX_TEXT)}{checked}"
    package = entry.uvx if kind == "uvx" else entry.npx
    assert package is not None
    return one_line(shlex.join([package.package, *package.args]), MAX_TEXT)


def install_steps(entry: Entry, kind: Kind) -> Iterator[tuple[str, str]]:
    """Yield what is run to install an agent that has this kind here, and then to start it."""
    if kind == "binary":
        found = entry.binary[own_target()]
        yield "Download", one_line(found.archive, MAX_TEXT)
        yield "Check", f"sha256 {found.sha256}" if found.sha256 else "nothing: it has no checksum"
        program, args, env = found.cmd, found.args, found.env
    else:
        package = entry.uvx if kind == "uvx" else entry.npx
        assert package is not None
        command = ("uv", "tool", "install") if kind == "uvx" else ("npm", "install")
        yield "Run", shlex.join((*command, package.package))
        yield "From", "PyPI" if kind == "uvx" else "npm, with the install scripts of its packages"
        program = package.cmd or _VERSION.split(package.package)[0].rpartition("/")[2]
        args, env = package.args, package.env
    yield "Start", one_line(shlex.join((program, *args)), MAX_TEXT)
    for name, value in env.items():
        yield "Variable", one_line(f"{name}={value}", MAX_TEXT)
