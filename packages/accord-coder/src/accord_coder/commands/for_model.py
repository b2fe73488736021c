"""Commands that prompt the model: `/init` writes AGENTS.md, `/review` reviews changes.

The demonstration model cannot do that, so both also have an answer without a language model.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from accord import ContentBlock
from accord_coder.commands.builtin import CommandCall, say, use_tool
from accord_coder.models.base import Prompt

if TYPE_CHECKING:
    from accord import Turn
    from accord_coder.session import CoderSession

_INIT_PROMPT = """\
Write AGENTS.md at the top of this project: what an agent or a newcomer must know to work on it.

Read first: README, CONTRIBUTING, the files that configure build, tests and linter, the outline of
the source. Then write, in at most a page: what the project is; the commands to set up, build, test
(also a single test) and lint; how the source is laid out; conventions that the code shows and
that are not obvious. Write only what you have seen. If AGENTS.md exists, improve it instead, and
keep what is still true.
"""
_LANGUAGES = {
    ".c": "C",
    ".cpp": "C++",
    ".cs": "C#",
    ".go": "Go",
    ".java": "Java",
    ".js": "JavaScript",
    ".jsx": "JavaScript",
    ".kt": "Kotlin",
    ".php": "PHP",
    ".py": "Python",
    ".rb": "Ruby",
    ".rs": "Rust",
    ".sh": "shell",
    ".swift": "Swift",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
}
_READ = ("README.md", "README.rst", "pyproject.toml", "package.json", "Makefile", "Cargo.toml")
_KNOWN = {
    "Cargo.toml": ("`cargo build`", "`cargo test`"),
    "go.mod": ("`go build ./...`", "`go test ./...`"),
    "pom.xml": ("`mvn compile`", "`mvn test`"),
}


def init_prompt(arguments: str) -> str:
    """Return the prompt for a language model."""
    return f"{_INIT_PROMPT}\n{arguments}\n" if arguments else _INIT_PROMPT


async def run_init(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Prompt the model; the demonstration model writes what the files show."""
    model = await state.hooks.session_model(state)
    if model.is_language_model:
        return (init_prompt(asked.arguments), *asked.attachments)
    state.messages.append(Prompt((init_prompt(asked.arguments),)))
    there = await use_tool(turn, state, "glob", pattern="**/*")
    if there.failed:
        await say(turn, state, f"Cannot list the files: {there.text}")
        return None
    paths = [line for line in there.text.splitlines() if line and not line.startswith("[")]
    if "AGENTS.md" in paths:
        await say(
            turn,
            state,
            "AGENTS.md already exists and was not changed: improving it requires a language model.",
        )
        return None
    texts: dict[str, str] = {}
    for name in _READ:
        if name in paths:
            result = await use_tool(turn, state, "read", path=name)
            if not result.failed:
                texts[name] = result.text
    text = describe_project(paths, texts, asked.arguments)
    written = await use_tool(turn, state, "write", path="AGENTS.md", text=text)
    if written.failed:
        await say(turn, state, f"AGENTS.md was not written: {written.text}")
    else:
        await say(
            turn,
            state,
            "AGENTS.md lists what the files show: languages, directories, commands. Add what only"
            " you know: the demonstration model does not understand code.",
        )
    return None


def describe_project(paths: list[str], texts: dict[str, str], arguments: str) -> str:
    """Describe a project from the names of its files and its usual files."""
    parts = ["# For agents\n", f"{_about(texts)}\n"]
    languages = Counter(_LANGUAGES.get(PurePosixPath(path).suffix, "") for path in paths)
    del languages[""]
    if languages:
        counted = ", ".join(
            f"{name} ({count} file{'s' * (count > 1)})" for name, count in languages.most_common(4)
        )
        parts.append(f"Written in {counted}.\n")
    if commands := _commands(paths, texts):
        parts += ["## Commands\n", "\n".join(f"- {command}" for command in commands) + "\n"]
    folders = Counter(path.split("/")[0] for path in paths if "/" in path and path[0] != ".")
    if folders:
        lines = (
            f"- `{name}/`: {count} file{'s' * (count > 1)}"
            for name, count in folders.most_common(12)
        )
        parts += ["## Folders\n", "\n".join(lines) + "\n"]
    if arguments:
        parts += ["## To mind\n", f"{arguments}\n"]
    return "\n".join(parts)


def _about(texts: dict[str, str]) -> str:
    """Return the sentence that describes the project."""
    for text in (_project(texts), _table(texts, "package.json")):
        if isinstance(about := text.get("description"), str) and about.strip():
            return about.strip()
    readme = texts.get("README.md") or texts.get("README.rst") or ""
    for block in re.split(r"\n\s*\n", readme):
        plain = " ".join(block.split())
        if plain and plain[0].isalnum():
            return plain.partition(". ")[0].rstrip(".") + "."
    return "Describe the purpose of this project here."


def _commands(paths: list[str], texts: dict[str, str]) -> list[str]:
    found: list[str] = []
    make = re.findall(
        r"^([A-Za-z][\w-]*):(?!=)(?:[^\n#]*##\s*([^\n]*))?", texts.get("Makefile", ""), re.M
    )
    found += [f"`make {name}`" + (f" — {does}" if does else "") for name, does in make[:20]]
    scripts = _table(texts, "package.json").get("scripts")
    if isinstance(scripts, dict):
        found += [f"`npm run {name}`" for name in list(scripts)[:20]]  # type: ignore[arg-type]  # JSON
    for name, commands in _KNOWN.items():
        if name in paths:
            found += commands
    if not make and any(re.search(r"(^|/)test_\w+\.py$", path) for path in paths):
        found.append("`python -m pytest`")
    return found


def _project(texts: dict[str, str]) -> dict[str, Any]:
    try:
        document = tomllib.loads(texts.get("pyproject.toml", ""))
        return msgspec.convert(document.get("project", {}), dict[str, Any])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError):
        return {}


def _table(texts: dict[str, str], name: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(texts.get(name, "{}"), type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return {}


_REVIEW_PROMPT = """\
Review the changes in this git repository that are not committed yet (`git status`, `git diff
HEAD`); if there are none, those of the last commit. Read the code around them if you need it.

Report, most serious first, each with path:line, what goes wrong and when, and how to fix it: bugs,
cases not handled, security, missing tests, violations of the conventions here. No praise, no
taste, nothing that a formatter would do. Change nothing. If there is nothing to report, say so.
"""
_DIFF = "git --no-pager diff --no-ext-diff --no-color HEAD"
_CHECKS: tuple[tuple[str, str], ...] = (
    (r"^(<{7}|>{7})( |$)|^={7}$", "a conflict is not resolved"),
    (
        r"\bbreakpoint\(\)|\bpdb\.set_trace\(\)|^\s*import pdb\b|\bdebugger;",
        "a debugger is started",
    ),
    (r"\bconsole\.log\(|\bvar_dump\(|\bdbg!\(", "it prints for debugging"),
    (r"\b(TODO|FIXME|XXX|HACK)\b", "something is left to do"),
    (r"\.only\(|@pytest\.mark\.skip\b|\bxit\(|\bfdescribe\(", "tests are left out"),
    (r"except\s*:\s*(pass)?\s*$|except (Base)?Exception:\s*pass", "errors are swallowed"),
    (r"\beval\(|\bexec\(|shell=True|verify=False", "it may be unsafe"),
    (
        r"(?i)(api[_-]?key|secret|passw(or)?d|token)\w*\s*[:=]\s*['\"][^'\"\s]{8,}['\"]"
        r"|-----BEGIN [A-Z ]*PRIVATE KEY|AKIA[0-9A-Z]{16}",
        "it looks like a secret",
    ),
)
_CODE = re.compile(r"\.(py|js|ts|tsx|jsx|go|rs|java|rb|c|cpp|cs|php|kt|swift)$")
_MAX_FINDINGS = 50
_MAX_CHARACTERS = 500  # of a line that is searched


class Finding(Struct, frozen=True):
    """A finding in a changed line."""

    path: str
    line: int
    message: str


def review_prompt(arguments: str) -> str:
    """Return the prompt for a language model."""
    return f"{_REVIEW_PROMPT}\nLook above all at: {arguments}\n" if arguments else _REVIEW_PROMPT


async def run_review(
    asked: CommandCall, turn: Turn, state: CoderSession
) -> tuple[ContentBlock, ...] | None:
    """Prompt the model; the demonstration model lists the changes and what patterns find."""
    model = await state.hooks.session_model(state)
    if model.is_language_model:
        return (review_prompt(asked.arguments), *asked.attachments)
    state.messages.append(Prompt((review_prompt(asked.arguments),)))
    result = await use_tool(turn, state, "execute", command=_DIFF)
    if result.failed or re.search(r"^\[(exit status|timed out)", result.text, re.MULTILINE):
        why = result.text.strip().partition("\n")[0]  # git may add all of its help
        await say(turn, state, f"Cannot read the changes: {why}")
        return None
    await say(turn, state, format_review(result.text))
    return None


def format_review(diff: str) -> str:
    """Return a report about a diff."""
    changed = _changed_files(diff)
    if not changed:
        return "No changes since the last commit. (Files that git does not track are not included.)"
    lines = ["Changed since the last commit:", ""]
    lines += [f"- `{path}`: +{added} −{gone}" for path, (added, gone) in changed.items()]
    found = list(findings(diff))
    code = [path for path in changed if _CODE.search(path)]
    tests = [path for path in code if re.search(r"(^|/|_|\.)(tests?|spec)(/|_|\.)", path)]
    lines += ["", "What patterns find in the new lines:", ""]
    lines += [f"- `{one.path}:{one.line}`: {one.message}" for one in found[:_MAX_FINDINGS]]
    if len(found) > _MAX_FINDINGS:
        lines.append(f"- and {len(found) - _MAX_FINDINGS} more")
    if code and not tests:
        lines.append("- code has changed, but no test")
    if lines[-1] == "":
        lines.append("Nothing.")
    lines += ["", "The demonstration model cannot judge whether the changes are correct."]
    return "\n".join(lines)


def findings(diff: str) -> Iterator[Finding]:
    """Yield the findings in the lines that a diff adds."""
    for path, number, text in _added_lines(diff):
        start = text[:_MAX_CHARACTERS]  # expressions are slow on long lines
        for pattern, what in _CHECKS:
            if re.search(pattern, start):
                yield Finding(path, number, what)
                break
        else:
            if text.endswith((" ", "\t")):
                yield Finding(path, number, "white space at the end of the line")


def _added_lines(diff: str) -> Iterator[tuple[str, int, str]]:
    """Yield path, line and text of each line that a diff adds."""
    path, number, left = "", 0, 0
    for line in diff.split("\n"):
        if left <= 0 and line.startswith("+++ "):
            path = line[4:].removeprefix("b/").rstrip("\t")
        elif found := re.match(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            number = int(found[2])
            left = int(found[1] or 1) + int(found[3] or 1)
        elif left > 0 and line[:1] == "+":
            yield path, number, line[1:].rstrip("\r")
            number, left = number + 1, left - 1
        elif left > 0 and line[:1] == "-":
            left -= 1
        elif left > 0 and line[:1] in (" ", ""):
            number, left = number + 1, left - 2


def _changed_files(diff: str) -> dict[str, tuple[int, int]]:
    """Return the changed files with the counts of lines added and removed."""
    found: dict[str, tuple[int, int]] = {}
    path = ""
    for line in diff.split("\n"):
        if head := re.match(r"diff --git a/.* b/(.*)$", line):
            path = head[1]
            found[path] = 0, 0
        elif path and line.startswith("+") and not line.startswith("+++ "):
            found[path] = found[path][0] + 1, found[path][1]
        elif path and line.startswith("-") and not line.startswith("--- "):
            found[path] = found[path][0], found[path][1] + 1
    return found
