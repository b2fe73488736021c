"""What this machine has: Python, extras of Accord, and programs that agents need."""

from __future__ import annotations

import asyncio
import platform
import re
import shutil
from importlib.util import find_spec

from msgspec import Struct

from accord.version import __version__
from accord_terminal.toolkit import settings

_TIME_LIMIT_S = 5.0
_PROGRAMS = ("node", "npm", "uv", "git")
# A module that only this extra needs, among the extras for users.
_EXTRAS = {
    "coder": "pydantic_ai",
    "fleet": "pyarrow",
    "inspector": "starlette",
    "mcp": "mcp",
    "remote": "h2",
    "tui": "textual",
}
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.-]*")


class Program(Struct, frozen=True):
    """A program in `PATH`; the version is None if it does not tell."""

    path: str
    version: str | None


class Machine(Struct, frozen=True):
    """The facts that matter when an agent does not start."""

    accord: str
    python: str
    system: str
    extras: dict[str, bool]
    programs: dict[str, Program | None]
    settings: str
    has_settings: bool  # the file exists
    settings_error: str | None


async def look_at_machine() -> Machine:
    """Return the facts; each program has 5 seconds to tell its version."""
    found = await asyncio.gather(*map(_program, _PROGRAMS))
    try:
        settings.load()
        error = None
    except settings.SettingsError as why:
        error = str(why)
    return Machine(
        accord=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        extras={extra: find_spec(module) is not None for extra, module in _EXTRAS.items()},
        programs=dict(zip(_PROGRAMS, found, strict=True)),
        settings=str(settings.path()),
        has_settings=settings.path().exists(),
        settings_error=error,
    )


async def _program(name: str) -> Program | None:
    path = shutil.which(name)
    if path is None:
        return None
    try:
        process = await asyncio.create_subprocess_exec(
            path,
            "--version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return Program(path, None)
    try:
        async with asyncio.timeout(_TIME_LIMIT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return Program(path, None)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    version = _VERSION.search(output.decode("utf-8", "replace"))
    return Program(path, version[0] if version else None)
