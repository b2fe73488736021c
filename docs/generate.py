"""Writes the pages of the reference that are read off the code: `make docs`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, get_args, get_origin

from accord.v1 import methods as v1_methods
from accord.v2 import methods as v2_methods
from accord.wire.base import Members
from accord.wire.method import Method

METHODS_PAGE = Path(__file__).parent / "reference" / "methods.md"
COMMANDS_PAGE = Path(__file__).parent / "reference" / "commands.md"
COMMANDS = (["accord"], ["accord", "ask"], ["accord", "agent"], ["accord.schema"])

INTRO = """\
# Methods

<!-- Written by docs/generate.py from the method tables; `make docs` does it again. -->

Every method that Accord speaks: as it is called on the wire and in Python, what goes in and comes
out, who serves it, and the capability (*gate*) without which it must not be called. A call whose
gate the peer did not offer raises `NotOffered` before anything is sent; one that comes in although
this side did not offer it is answered with -32601.

A method without a result is a notification. *Unstable* methods are sent only by those who opted in.
"""


COMMANDS_INTRO = """\
# Commands

<!-- Written by docs/generate.py from the programs' own help; `make docs` does it again. -->

`accord ask` needs the extra `cli` (`pip install 'accord[cli]'`); `accord agent` and
`python -m accord.schema` need nothing.

With `--json`, `accord ask` writes one JSON object per line; `event` says what it is: first
`session`, then what happens in the turn (`text`, `tool_call`, `plan`, …), last `end`.
"""


def methods_page() -> str:
    """Return the text of `docs/reference/methods.md`."""
    return "\n".join([INTRO, *_version("v1", v1_methods), *_version("v2", v2_methods)])


def _version(title: str, module: ModuleType) -> Iterator[str]:
    methods: tuple[Method, ...] = module.METHODS
    for stable in (True, False):
        rows = [method for method in methods if method.unstable is not stable]
        if rows:
            yield f"## {title}, {'stable' if stable else 'unstable'}"
            yield ""
            yield from _table(rows)
            yield ""


def _table(methods: Iterable[Method]) -> Iterator[str]:
    yield "| Method | In Python | Params | Result | Served by | Gate |"
    yield "|---|---|---|---|---|---|"
    for method in methods:
        cells = [
            f"`{method.name}`",
            f"`{method.call}`",
            f"`{_type(method.params)}`",
            f"`{_type(method.result)}`" if method.is_request else "–",
            "both" if method.to == "protocol" else method.to,
            f"`{method.gate}`" if method.gate else "–",
        ]
        yield f"| {' | '.join(cells)} |"


def _type(value: object) -> str:
    return " or ".join(member.__name__ for member in _members(value))


def _members(value: object) -> Iterator[type]:
    """Yield the classes of a union, through all marks."""
    if isinstance(value, type):
        yield value
    elif get_origin(value) is Annotated:
        inner, *marks = get_args(value)
        unions = [mark.union for mark in marks if isinstance(mark, Members)]
        yield from _members(unions[0] if unions else inner)
    else:
        for member in get_args(value):
            yield from _members(member)


def commands_page() -> str:
    """Return the text of `docs/reference/commands.md`."""
    return "\n".join([COMMANDS_INTRO, *(part for words in COMMANDS for part in _command(words))])


def _command(words: list[str]) -> Iterator[str]:
    name = " ".join(words) if words[0] == "accord" else f"python -m {words[0]}"
    yield f"## {name}"
    yield ""
    yield "```text"
    yield _help(words).strip()
    yield "```"
    yield ""


def _help(words: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words, "--help"],
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


if __name__ == "__main__":
    METHODS_PAGE.write_text(methods_page(), "utf-8")
    COMMANDS_PAGE.write_text(commands_page(), "utf-8")
