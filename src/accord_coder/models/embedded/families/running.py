"""Requests that run something: a command, the tests, git, a download."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Generator

from accord_coder.loop.messages import ToolResult
from accord_coder.models.embedded.kit import (
    bullets,
    could_not,
    fenced,
    lines_of,
    plural,
    shortened,
    tick,
    whole,
)
from accord_coder.models.embedded.recipe import Found, Recipe, Say, Think, Use, use
from accord_coder.models.embedded.request import Asked, Request
from accord_coder.models.embedded.slots import is_prose

__all__ = ("RUNNING",)

_HEAD, _TAIL = 8, 24  # lines of an output
_TESTS_S = 600  # seconds that tests may take
_STATUS = re.compile(r"\n?\[(exit status -?\d+|timed out after [\d.]+ s|ended by \w+)\]\s*\Z")
_SUMMARY = re.compile(
    r"=*\s*(\d+ (?:passed|failed|errors?|skipped)[^=\n]*?)\s*=*|"
    r"(test result: .*)|(OK(?: \(.*\))?|FAILED \(.*\))|(Ran \d+ tests? .*)|(Tests?:? .*\d.*)|"
    r"(ok\s+\S+\s+[\d.]+s.*|FAIL\s+\S+.*)"
)
_NO_TESTS = "exit status 5"  # of pytest, and of unittest
# A program that ran some tests says so.
_RAN = re.compile(
    r"\b[1-9]\d* (?:tests?|specs?|examples?|assertions?|passed|passing|ok|scenarios?)\b"
    r"|^ok[ \t]+(?!.*\[no tests to run\])\S|\b(?:pass|tests?) [1-9]\d*\b",
    re.MULTILINE | re.IGNORECASE,
)
_FAILED = re.compile(
    r"(?:FAILED|ERROR)\s+\S+.*|--- FAIL: .*|test \S+ \.\.\. FAILED|\s*(?:✕|✗|×) .*"
)


def _command(asked: Asked) -> tuple[str, bool]:
    """Return the command, and whether it was marked as one."""
    command, sure = asked.held["command"]
    return f"{asked.text('program')} {command}".strip(), sure


def _doubt_run(asked: Asked) -> str:
    command, sure = _command(asked)
    if command and (sure or ("\n" not in command and not is_prose(command))):
        return ""
    return (
        f"I understood that something is to be run, but {tick(command)} does not look like a"
        " command. Nothing was run. Put the command in backticks: run `make docs`."
    )


def _run(asked: Asked) -> Recipe:
    command, sure = _command(asked)
    words = command.split()
    if len(words) == 1 and re.fullmatch(r"[\w./-]+\.py", command) and not sure:
        if re.match(r"(?:.*/)?test_[^/]*$", command):
            return (yield from _run_tests(asked, command, ""))
        command = f"python3 {command}"
    arguments = {"command": command}
    if (cwd := asked.held.get("cwd")) is not None:
        arguments["cwd"] = cwd.path
    result = yield from use("execute", **arguments)
    output, ended = _output(result.text)
    if result.failed and not ended:
        yield could_not(f"run {tick(command)}", result)
        return False
    yield Say(_told(command, output, ended))
    return not ended


def _output(text: str) -> tuple[str, str]:
    """Return what a command has printed, and how it ended if not well."""
    found = _STATUS.search(text)
    return (text[: found.start()], found[1]) if found else (text, "")


def _told(command: str, output: str, ended: str) -> str:
    how = f"ended with {ended}" if ended.startswith("exit") else ended or "ended well"
    how = f"was {how}" if how.startswith("ended by") else how
    lines = output.strip("\n").splitlines()
    if not any(line.strip() for line in lines):
        return f"{tick(command)} {how} and printed nothing."
    return f"{tick(command)} {how}. It printed:\n\n{fenced(_ends(lines))}"


def _ends(lines: list[str]) -> str:
    """Return the first and the last lines."""
    lines = [shortened(line, 300) for line in lines]
    if len(lines) > _HEAD + _TAIL + 1:
        left = len(lines) - _HEAD - _TAIL
        lines = [*lines[:_HEAD], f"… {plural(left, 'line')} …", *lines[-_TAIL:]]
    return "\n".join(lines)


def _tests(asked: Asked) -> Recipe:
    path = asked.held["path"].path if "path" in asked.held else ""
    return (yield from _run_tests(asked, "" if path == "." else path, asked.text("name")))


def _run_tests(asked: Asked, path: str, name: str) -> Recipe:
    found = yield from _how(asked, path, name)
    if isinstance(found, ToolResult):
        yield could_not("look how the tests are run", found)
        return False
    command, why = found
    if not command:
        yield Say(
            "I found no tests: there is no pytest in `pyproject.toml`, no `tests` folder, no target"
            " `test` in a Makefile, no `package.json`, `Cargo.toml` or `go.mod` with tests."
            " Tell me the command: run `…`."
        )
        return False
    if (path or name) and "pytest" not in command:
        yield Say(f"I can choose tests with pytest alone; here {why}, so I run them all.")
    yield Think(f"The tests: {command}, since {why}.")
    result = yield from use("execute", command=command, timeout_s=_TESTS_S)
    output, ended = _output(result.text)
    if result.failed and not ended:
        yield could_not(f"run the tests with {tick(command)}", result)
        return False
    yield Say(_verdict(command, why, output, ended))
    return True


def _verdict(command: str, why: str, output: str, ended: str) -> str:
    lines = output.strip().splitlines()
    summaries = [line.strip(" =") for line in lines[-40:] if _SUMMARY.fullmatch(line.strip())]
    summary = f" ({tick(summaries[-1])})" if summaries else ""
    with_what = f"I ran them with {tick(command)}, since {why}."
    if ended in ("", _NO_TESTS) and not _RAN.search(output):
        said = "**No tests ran**" if ended else "**It ended well, but does not say that tests ran**"
        return f"{said}{summary}. {with_what}" + (f"\n\n{fenced(_ends(lines))}" if lines else "")
    if not ended:
        return f"**The tests pass**{summary}. {with_what}"
    if not ended.startswith("exit"):
        return f"**The tests did not end**: {ended}. {with_what}\n\n{fenced(_ends(lines))}"
    if "No module named pytest" in output:
        said = "**The tests were not run**: this Python has no pytest."
        return f"{said} {with_what} Install it, or tell me the command: run `…`."
    said = f"**The tests fail**{summary}, with {ended}. {with_what}"
    failed = list(dict.fromkeys(line.strip() for line in lines if _FAILED.fullmatch(line)))
    if failed:
        said += "\n\n" + bullets([tick(shortened(line, 160)) for line in failed], 15)
    return f"{said}\n\n{fenced(_ends(lines[-_TAIL:]))}"


def _how(
    asked: Asked, path: str, name: str
) -> Generator[tuple[Use, ...], Found, tuple[str, str] | ToolResult]:
    """Find out how the tests of the project are run: the command, and why that one."""
    listed = yield from use("list", path=".", depth=1)
    if listed.failed:
        return listed
    entries = {line.removeprefix("./") for line in lines_of(listed)}
    why = yield from _why_pytest(asked, entries)
    if why:
        python = yield from _python(entries)
        words = [python, "-m", "pytest", "-q", *([path] if path else [])]
        return shlex.join([*words, "-k", name] if name else words), why
    for makefile in sorted(entries & {"Makefile", "GNUmakefile", "makefile"}):
        text = yield from whole(asked, makefile)
        if isinstance(text, str) and re.search(r"^test\s*:", text, re.MULTILINE):
            return "make test", f"{tick(makefile)} has a target `test`"
    if "package.json" in entries:
        text = yield from whole(asked, "package.json")
        if isinstance(text, str) and re.search(r'"test"\s*:', text):
            lock = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun run"}
            tool = next((lock[name] for name in lock if name in entries), "npm")
            return f"{tool} test", "`package.json` has a script `test`"
    if "Cargo.toml" in entries:
        return "cargo test", "there is a `Cargo.toml`"
    if "go.mod" in entries:
        return "go test ./...", "there is a `go.mod`"
    if "tests/" in entries or "test/" in entries:
        python = yield from _python(entries)
        return f"{python} -m unittest discover", "there is a folder of tests and no word of pytest"
    return "", ""


def _why_pytest(asked: Asked, entries: set[str]) -> Generator[tuple[Use, ...], Found, str]:
    for name in ("pytest.ini", ".pytest.ini", "conftest.py"):
        if name in entries:
            return f"there is a {tick(name)}"
    for name in ("pyproject.toml", "tox.ini", "setup.cfg"):
        if name in entries:
            text = yield from whole(asked, name)
            if isinstance(text, str) and "pytest" in text:
                return f"{tick(name)} speaks of pytest"
    if "tests/" in entries:
        found = yield from use("grep", pattern=r"^(import|from) pytest", path="tests", limit=1)
        if not found.failed and lines_of(found):
            return "files in `tests/` import pytest"
    if any(re.fullmatch(r"test_\w+\.py", name) for name in entries):
        return "there are files `test_*.py`"
    return ""


def _python(entries: set[str]) -> Generator[tuple[Use, ...], Found, str]:
    """Return the Python of the project's own environment, if it has one."""
    yield from ()
    for folder in (".venv", "venv"):
        if f"{folder}/" in entries:
            return rf"{folder}\Scripts\python" if os.name == "nt" else f"{folder}/bin/python"
    return "python" if os.name == "nt" else "python3"


def _git(command: str) -> Generator[tuple[Use, ...], Found, str | ToolResult]:
    result = yield from use("execute", command=command)
    output, ended = _output(result.text)
    if result.failed and not ended:
        return result
    if ended:
        return ToolResult(
            result.use_id, result.name, (output.strip().partition("\n")[0] or ended,), failed=True
        )
    return output


def _status(asked: Asked) -> Recipe:
    text = yield from _git("git status --short --branch")
    if isinstance(text, ToolResult):
        yield could_not("ask git", text)
        return False
    lines = [line for line in text.splitlines() if line.strip()]
    branch = lines.pop(0).removeprefix("## ") if lines and lines[0].startswith("##") else ""
    on = f"On {tick(branch.partition('...')[0])}. " if branch else ""
    if not lines:
        yield Say(f"{on}Nothing has changed since the last commit.")
        return True
    new = sum(line.startswith("??") for line in lines)
    said = f"{on}{plural(len(lines) - new, 'file')} changed, {new:,} not known to git:"
    yield Say(f"{said}\n\n{fenced(_ends(lines))}")
    return True


def _diff(asked: Asked) -> Recipe:
    command = "git diff"
    if "path" in asked.held and asked.place().path != ".":
        command = shlex.join(["git", "diff", "--", asked.place().path])
    text = yield from _git(command)
    if isinstance(text, ToolResult):
        yield could_not("ask git", text)
        return False
    lines = text.splitlines()
    if not lines:
        yield Say("There is no difference to what git has staged or committed.")
        return True
    files = sum(line.startswith("diff --git ") for line in lines)
    more = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    less = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    shown = "\n".join(shortened(line, 300) for line in lines[:150])
    said = f"{plural(files, 'file')} changed, {plural(more, 'line')} added, {less:,} removed:"
    yield Say(f"{said}\n\n{fenced(shown, 'diff')}")
    if len(lines) > 150:
        yield Say(f"… {plural(len(lines) - 150, 'more line')}.")
    return True


def _log(asked: Asked) -> Recipe:
    count = min(asked.get("count", int) or 10, 100)
    text = yield from _git(f"git log --oneline -n {count}")
    if isinstance(text, ToolResult):
        yield could_not("ask git", text)
        return False
    yield Say(f"The last commits:\n\n{fenced(text)}")
    return True


def _fetch(asked: Asked) -> Recipe:
    url = asked.text("url")
    if "fetch" not in asked.tools:
        yield Say(f"I may not reach the network, so {tick(url)} was not fetched.")
        return False
    result = yield from use("fetch", url=url)
    if result.failed:
        yield could_not(f"fetch {tick(url)}", result)
        return False
    lines = result.text.splitlines()
    yield Say(f"{tick(url)}, {plural(len(lines), 'line')}:\n\n{fenced(_ends(lines))}")
    return True


RUNNING = (
    Request(
        "tests",
        "Runs the tests: finds out how (pytest, a Makefile, npm, cargo, go), and says what it chose.",
        ("run the tests", "run the tests in tests/test_app.py", "do the tests pass?"),
        (
            "(run|execute|start|rerun) [all|unit|every] tests|test|specs [suite] [again] [(in|of|from) [file|folder] <path:place>]",
            "(run|execute) tests|test [named|called|matching] <name:name> [in <path:place>]",
            "(do|does|did|are) [all|unit] (tests|test) [suite] (pass|passing|green|ok|work|succeed) [still|now]",
            "(check|see|verify|test|make) [sure] (that|whether|if) [all] tests [still] (pass|work|succeed|green|ok)",
            "test [everything|it|this|project|code]",
            "make|npm|cargo test",
        ),
        "run",
        _tests,
    ),
    Request(
        "git status",
        "Shows what git says has changed.",
        ("git status", "what has changed?"),
        (
            "[show|check|print|run|get|see|give] git status",
            "[show] status of git|repository|repo|checkout|tree",
            "(what has | what's | what | which files have | which files) [been] (changed|modified|new) [here]",
            "(what|which) branch (is this | am i on | are we on | is it)",
            "(is) [working] tree|checkout|repo clean",
            "(show|list) [all] changed|modified files",
            "git branch",
        ),
        "run",
        _status,
    ),
    Request(
        "git diff",
        "Shows the differences to what git has staged or committed, of all files or one.",
        ("git diff", "show the diff of src/app.py"),
        (
            "[show|print|run|see|view|give|display] [git] diff [(of|for|in) [file] <path:place>]",
            "git diff <path:place>",
            "[show|see|display|print|view] (changes|differences) [(of|in|to|for) [file] <path:place>]",
            "(what has | what's | what) changed in [file] <path:place>",
        ),
        "run",
        _diff,
    ),
    Request(
        "git log",
        "Shows the last commits.",
        ("git log", "show the last 5 commits"),
        (
            "[show|print|run|see|list] git log|history",
            "(show|list|see | what are) [last|latest|recent|newest] [<count:number>] commits",
        ),
        "run",
        _log,
    ),
    Request(
        "fetch",
        "Fetches an address, where the agent may.",
        ("fetch https://example.com/notes.txt",),
        ("(fetch|download|get|open|read|curl) [url|page|address] <url:url>",),
        "run",
        _fetch,
    ),
    Request(
        "run",
        "Runs a command; best in backticks.",
        ("run `make docs`", "run python3 --version", "$ ls -la", "git fetch --all"),
        (
            "(run|execute|exec|start|launch|call) [command|program|script|shell] [command] <command:fenced> [(in|inside) [folder|directory] <cwd:place>]",
            "(run|execute|exec|launch|$|!) [command] <command:command>",
            "<program:program> <command:command>",
            "<program:program> <command:empty>",
        ),
        "run",
        _run,
        doubt=_doubt_run,
    ),
)
