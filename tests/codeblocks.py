"""Finds the code blocks of a Markdown page, and runs or checks each.

Python blocks are run. A comment on the line before a block changes that:

    <!-- skip: reason -->      not run
    <!-- async -->             has `await` at its top level
    <!-- file: name.py -->     written to the page's directory; a later block runs or imports it
    <!-- run -->               console: the commands are run, the rest is their output
    <!-- run: python-1.0 -->   the same with the Python of this environment of tests/interop
    <!-- pytest -->            written to a test file, which pytest runs

A page whose packages are not installed for development says so at its top:
`<!-- needs: langgraph -->`.

In a console block without a comment, the names are checked: targets of the Makefile, commands and
options of `accord`, extras, files of the project. JSON and TOML are parsed. All other blocks need
a `skip`.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*([\w+-]*)[^\n`]*$")
NOTE = re.compile(r"^\s*<!--\s*(skip|async|file|run|pytest)\s*(?::\s*(.*?))?\s*-->\s*$")
COMMAND_SECONDS = 30
TRACEBACK_OF_HANGS = "faulthandler_timeout=20"
GROUPS = {"agents", "check", "fleet", "trace"}  # of `accord`, with commands of their own
# Plugins of other packages can take seconds to import.
FEW_PLUGINS = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "accord_conformance.pytest_entry,pytest_asyncio.plugin",
}
TEXT = {"", "text"}  # pictures, not code
TESTS = Path(__file__).parent
NEEDS = re.compile(r"^<!-- needs: (.+?) -->$", re.MULTILINE)


class NotInstalled(Exception):
    """A page or block needs a package that is not installed; the message says what to do."""


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is where its code begins, counted from 1."""

    language: str
    code: str
    line: int
    note: str = ""
    value: str = ""


def extract(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    blocks: list[Block] = []
    lines = page.splitlines()
    note = value = ""
    at = 0
    while at < len(lines):
        if noted := NOTE.match(lines[at]):
            note, value = noted[1], noted[2] or ""
            if note in {"skip", "file"} and not value:
                raise ValueError(f"line {at + 1}: `{note}` needs a word after the colon")
        elif opened := FENCE.match(lines[at]):
            indent, fence, language = opened.groups()
            start = at + 1
            at = start
            while at < len(lines) and lines[at].strip() != fence:
                at += 1
            if at == len(lines):
                raise ValueError(f"line {start}: the block has no end")
            code = "".join(f"{line.removeprefix(indent)}\n" for line in lines[start:at])
            blocks.append(Block(language, code, start + 1, note, value))
            note = value = ""
        elif lines[at].strip() and note:
            raise ValueError(f"line {at}: no block follows `{note}`")
        at += 1
    return blocks


def missing(page: str) -> list[str]:
    """Return the packages that a page needs and that are not installed."""
    names = [name for match in NEEDS.finditer(page) for name in match[1].split(", ")]
    return [name for name in names if find_spec(name) is None]


def wanted(block: Block) -> bool:
    """Return whether a block is run, parsed or checked."""
    return block.note != "skip" and block.language not in TEXT


class Page:
    """Runs the blocks of one page in order, in one namespace and one directory."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.namespace: dict[str, object] = {"__name__": "__docs__"}

    def run(self, blocks: list[Block]) -> None:
        """Run all blocks; raise `NotInstalled` at the end if a block was not run."""
        not_installed: NotInstalled | None = None
        with asyncio.Runner() as runner:
            for block in filter(wanted, blocks):
                match block:
                    case Block(note="file", value=name, code=code):
                        self._check(block)
                        (self.folder / name).write_text(code, "utf-8")
                    case Block(note="run", value=""):
                        self._console(block, sys.executable)
                    case Block(note="run", value=names):
                        for name in names.split():
                            try:
                                self._console(block, interop_python(name))
                            except NotInstalled as exc:
                                not_installed = exc
                    case Block(note="pytest"):
                        self._pytest(block)
                    case Block(language="console"):
                        for command, _ in commands(block):
                            look_up(command)
                    case Block(language="json"):
                        json.loads(block.code)
                    case Block(language="toml"):
                        tomllib.loads(block.code)
                    case Block(language="python"):
                        self._python(block, runner)
                    case Block(language=language, line=line):
                        raise ValueError(f"{self.name}:{line}: {language} can only be skipped")
        if not_installed is not None:
            raise not_installed

    def _check(self, block: Block) -> None:
        if block.language == "python":
            compile(block.code, f"{self.name}:{block.line}", "exec")

    def _python(self, block: Block, runner: asyncio.Runner) -> None:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if block.note == "async" else 0
        # Blank lines in front correct the line numbers of tracebacks.
        source = "\n" * (block.line - 1) + block.code
        code = compile(source, self.name, "exec", flags=flags)
        result = eval(code, self.namespace)  # noqa: S307  # our own pages
        if inspect.iscoroutine(result):
            runner.run(result)

    def _console(self, block: Block, python: str) -> None:
        for command, expected in commands(block):
            match shlex.split(command, comments=True):
                case ["python" | "python3", *words]:
                    pass
                case ["accord", *words]:
                    words = ["-m", "accord", *words]
                case _:
                    where = f"{self.name}:{block.line}"
                    raise ValueError(f"{where}: only `$ python …` and `$ accord …` can be run")
            output = self._run(block, *words, python=python)
            if expected:
                assert output.rstrip() == expected.rstrip(), f"{self.name}: {command}"

    def _pytest(self, block: Block) -> None:
        (self.folder / "test_of_page.py").write_text(block.code, "utf-8")
        # It has a folder of its own: at its end pytest removes those of earlier runs.
        options = ["-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-o", TRACEBACK_OF_HANGS]
        options += ["-o", f"pythonpath={TESTS}"]
        self._run(block, "-m", "pytest", "-q", *options, f"--basetemp={self.folder}.tmp", ".")

    def _run(self, block: Block, *words: str, python: str = sys.executable) -> str:
        # `python` in the command is the Python that runs the tests.
        path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
        try:
            done = subprocess.run(
                [python, *words],
                cwd=self.folder,
                env={**os.environ, **FEW_PLUGINS, "PATH": path},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS,
            )
        except subprocess.TimeoutExpired as exc:
            raise AssertionError(
                f"{self.name}:{block.line}: {shlex.join(words)} does not end\n"
                f"{(exc.stdout or b'').decode()}{(exc.stderr or b'').decode()}"
            ) from None
        reported = f"{self.name}:{block.line}: {shlex.join(words)}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, reported
        return done.stdout


def interop_python(name: str) -> str:
    """Return the Python of an environment of tests/interop."""
    folder = TESTS / "interop" / ".venvs" / name
    for file in (folder / "bin" / "python", folder / "Scripts" / "python.exe"):
        if file.exists():
            return str(file)
    raise NotInstalled(f"{name} is not installed: sh tests/interop/install.sh")


def look_up(command: str) -> None:
    """Raise ValueError if a shown command does not exist."""
    root = TESTS.parent
    match words := shlex.split(command, comments=True):
        case ["make", *rest]:
            makefile = (root / "Makefile").read_text("utf-8")
            for verb in (word for word in rest if "=" not in word):
                if not re.search(rf"^{verb}:", makefile, re.MULTILINE):
                    raise ValueError(f"make {verb}: no such verb")
        case ["accord", *rest]:
            ours = rest[: rest.index("--")] if "--" in rest else rest
            verbs = 2 if ours[0] in GROUPS else 1
            shown = _help(*ours[:verbs])
            for option in (word for word in ours[verbs:] if word.startswith("--")):
                if option not in shown:
                    raise ValueError(f"accord {shlex.join(ours[:verbs])} {option}: no such option")
        case ["python", "-m", module, *rest]:
            done = subprocess.run(
                [sys.executable, "-m", module, *rest], capture_output=True, timeout=COMMAND_SECONDS
            )
            if done.returncode:
                raise ValueError(f"{command}: {done.stderr.decode()}")
        case ["bash" | "sh", script, *_] if (root / script).is_file():
            pass
        case ["python3", "-m", "venv", ".venv"] | ["source", ".venv/bin/activate"]:
            pass
        case ["pip", "install", what] | ["pip", "install", "-c", "dist/constraints.txt", what]:
            extra = re.fullmatch(r"(\.|accord[\w-]*)(?:\[([\w,-]+)\])?", what)
            name = "accord" if extra is None or extra[1] == "." else extra[1]
            project = root / "packages" / name / "pyproject.toml"
            project = tomllib.loads(project.read_text("utf-8"))["project"]
            wanted = (extra[2] or "").split(",") if extra else [what]
            if not {*wanted} <= {"", *project["optional-dependencies"]}:
                raise ValueError(f"{command}: no such extra")
        case [
            "PIP_CONSTRAINT=dist/constraints.txt",
            "UV_CONSTRAINT=dist/constraints.txt",
            "pipx",
            "install",
            what,
        ]:
            look_up(f"pip install {shlex.quote(what)}")
        case ["uvx", "-c", "dist/constraints.txt", "--from", what, *rest]:
            look_up(f"pip install {shlex.quote(what)}")
            look_up(shlex.join(rest))
        case _:
            raise ValueError(f"{words}: cannot be looked up; skip it or run it")


@cache
def _help(*verbs: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "accord", *verbs, "--help"],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    if done.returncode:
        raise ValueError(f"accord {shlex.join(verbs)}: no such command")
    return done.stdout


def commands(block: Block) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with its output."""
    found: list[tuple[str, str]] = []
    for line in block.code.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif found:
            command, output = found[-1]
            found[-1] = (command, f"{output}{line}\n")
    return found
