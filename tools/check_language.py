"""Counts phrases that are hard to read, in comments, strings and docs: `make lint`.

Lines of Markdown that are too wide count as well: docs are wrapped after sentences and clauses.

`language.json` has the number of hits that each expression may have. A number may only fall:
`--update` lowers it to the hits of today and never raises it. Where it is zero, the phrase is an
error. With paths, the hits in these files are listed and nothing is compared.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import tokenize
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
BASELINE = Path(__file__).parent / "language.json"
# The expressions, and what to write instead.
EXPRESSIONS = {
    "L01": (
        r"(?<![Tt]here )\b(is|are|was|were|be) no "
        r"(?!longer\b|more\b|less\b|one\b|other\b|such\b|need\b|doubt\b)[a-z`]",
        "is not a …",
    ),
    "L02": (r"(?<![Tt]here )\b(is|are|was|were) none\b", "does not exist; is not one"),
    "L03": (r"\b[Ww]hoever\b|\b[Ww]homever\b", "the caller; the user; any client that"),
    "L04": (r"\b[Nn]obody\b(?! else)", "name the actor, or use the passive"),
    "L05": (r"\b[Ss]omebody\b|\b[Aa]nybody\b", "name the actor, or use the passive"),
    "L06": (r"\b([Tt]ells?|[Tt]old|[Tt]elling) of\b", "report, mention; is notified of"),
    "L07": (r"\b(told|tell|tells) (anew|again|at once)\b", "report again; notify at once"),
    "L08": (
        r"\bthat there (is|are|was|were)\b(?! (a|an|no|some|any|more|nothing|something)\b)",
        "existing, available; drop it",
    ),
    "L09": (
        r"\b(is|are|was|were) (not )?there\b(?! (a|an|any|no|is)\b)(?=[ ,.;:)`]|$)",
        "exists, does not exist; is present, is missing",
    ),
    "L10": (
        r"\bstand(s|ing)? (in|for|at|there|beside|behind|below|before|on)\b",
        "is in; represents",
    ),
    "L11": (
        r"\b(come|comes|came|coming) (to nothing|to no end|of it|of this|of that|behind)\b",
        "fails; has no result; is not exercised",
    ),
    "L12": (
        r"\b(lies?|waits?|came|goes?|text|comes?|append \w+|updates?|place|begins?|take[sn]?)"
        r" behind\b|\bbehind (the|a|its|their|it|them|what|`)(?= ?\w)",
        "after",
    ),
    "L13": (
        r"\bbeside (the|a|an|its|it|them|turns?|what|all)\b|\bbesides\b(?=[ ,.;:)])",
        "alongside; in addition to; other than",
    ),
    "L14": (r"\b(go|goes|going|went) on\b(?! (the|a|disk)\b)", "continue; keep running"),
    "L15": (r"\bas ([a-z]+ )?([a-z]+ )?(has|have) (it|them)\b", "in X's format; as defined by X"),
    "L16": (r"\b(of|one of) (ours|theirs|somebody's|its own kind)\b", "our; the peer's"),
    "L17": (r"\bfor ever\b|\bnot for ever\b", "indefinitely; permanently"),
    "L18": (r"\bmeanwhile\b", "while the block runs; during the call"),
    "L19": (r"\bafresh\b|\banew\b", "again; from the start"),
    "L21": (r"\bto (an|its|their) end\b|\bto no end\b|\bat an end\b", "ends; does not end"),
    "L23": (
        r"\b(has|have) (no|a) word (for|on|to)\b|\bwithout a word\b"
        r"|\bin (the|its|their) words of\b|\bin the words\b",
        "does not define; in terms of",
    ),
    "L24": (
        r"\b(what|how) (became|becomes|has become|came|comes|has come) of\b",
        "the result of",
    ),
    "L26": (r"\b[Tt]ell(s)? whether\b", "return whether; return True if"),
    "L27": (r", say[,.;)]", "for example"),
    "L28": (
        r"\b(that|which) (is|are) wanted\b|\bis wanted\b|\bif (it is )?wanted\b",
        "is required",
    ),
    "L29": (
        r"\bkeeps? the rules\b|\bthe rules (of the protocol )?are kept\b",
        "conforms to the protocol",
    ),
    "L30": (
        r"\bas (much|little|far|long) as (it|that|this|what|there)\b|\bas far as\b",
        "if; only what",
    ),
}
# About one hit in four of these is plain English: more hits than before are only a warning.
WEAK = {"L13", "L18", "L21", "L24", "L26", "L30"}
WIDE = "WIDE"
MAX_WIDTH = 120
INSTEAD = {name: instead for name, (_, instead) in EXPRESSIONS.items()} | {
    WIDE: f"at most {MAX_WIDTH} characters: break after a sentence or a clause"
}
PATTERNS = {name: re.compile(pattern) for name, (pattern, _) in EXPRESSIONS.items()}
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
CODE_SPAN = re.compile(r"(?<!`)`[^`\n]+`(?!`)")
MARKDOWN = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "changelog.d/*.md", "docs/**/*.md")
PYTHON = ("src/**/*.py", "docs/**/*.py", "examples/**/*.py")


@dataclass(frozen=True)
class Hit:
    """One match of an expression."""

    name: str
    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name} {self.text!r}: write {INSTEAD[self.name]!r}"


def main(argv: list[str] | None = None) -> int:
    """Compare the hits with the baseline, lower it, or list the hits of some files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--update", action="store_true", help="lower the baseline")
    parser.add_argument("paths", nargs="*", type=Path, help="list the hits in these")
    options = parser.parse_args(argv)
    if options.paths:
        hits = [hit for file in _expanded(options.paths) for hit in hits_in(file)]
        print(*hits, f"{len(hits)} hits", sep="\n")
        return 0
    hits = [hit for file in checked_files(ROOT) for hit in hits_in(file)]
    baseline: dict[str, int] = json.loads(BASELINE.read_text("utf-8"))
    if options.update:
        lowered = lower(baseline, hits)
        BASELINE.write_text(json.dumps(lowered, indent=2) + "\n", "utf-8")
        print(f"{sum(baseline.values())} -> {sum(lowered.values())}")
        return 0
    errors, warnings = compare(baseline, hits)
    print(*warnings, *errors, sep="\n", end="\n" if warnings or errors else "")
    print(f"Language: {len(hits)} hits, {sum(baseline.values())} in the baseline.")
    return bool(errors)


def compare(baseline: dict[str, int], hits: Iterable[Hit]) -> tuple[list[str], list[str]]:
    """Return errors and warnings for the expressions with more hits than the baseline allows."""
    errors: list[str] = []
    warnings: list[str] = []
    by_name: dict[str, list[Hit]] = {}
    for hit in hits:
        by_name.setdefault(hit.name, []).append(hit)
    for name, found in sorted(by_name.items()):
        allowed = baseline.get(name, 0)
        if len(found) > allowed:
            report = warnings if name in WEAK else errors
            report += map(str, found)
            level = "warning" if name in WEAK else "error"
            report.append(f"{level}: {name} has {len(found)} hits, at most {allowed} are allowed")
    return errors, warnings


def lower(baseline: dict[str, int], hits: Iterable[Hit]) -> dict[str, int]:
    """Return the baseline with each number lowered to the hits of today."""
    counts = Counter(hit.name for hit in hits)
    return {name: min(baseline.get(name, 0), counts[name]) for name in INSTEAD}


def checked_files(root: Path) -> Iterator[Path]:
    """Yield the files that the expressions apply to."""
    for pattern in (*MARKDOWN, *PYTHON):
        for file in sorted(root.glob(pattern)):
            yield file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


def _expanded(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.suffix in {".py", ".md"})
        else:
            yield path


def hits_in(file: Path) -> Iterator[Hit]:
    """Yield the hits in a file, by line."""
    text = file.read_text("utf-8")
    found: list[Hit] = []
    for line, passage in passages(text) if file.suffix == ".py" else paragraphs(text):
        starts, joined = _joined(passage)
        for name, pattern in PATTERNS.items():
            for match in pattern.finditer(joined):
                at = line + bisect_right(starts, match.start()) - 1
                found.append(Hit(name, file, at, match[0]))
    if file.suffix == ".md" and file.parent.name != "changelog.d":
        found += [Hit(WIDE, file, line, f"{text[:40]}…") for line, text in wide_lines(text)]
    yield from sorted(found, key=lambda hit: (hit.line, hit.name))


def passages(source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings and comments of a Python file, adjacent comment lines as one."""
    comments: list[str] = []
    first = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            if comments and line != first + len(comments):
                yield first, "\n".join(comments)
                comments = []
            if not comments:
                first = line
            comments.append(token.string.lstrip("#"))
        elif token.type in STRINGS:
            yield line, token.string
    if comments:
        yield first, "\n".join(comments)


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of a Markdown page, with code spans made empty."""
    lines: list[str] = []
    for number, line in enumerate([*CODE_SPAN.sub("`x`", page).splitlines(), ""], 1):
        if line.strip():
            lines.append(line)
        elif lines:
            yield number - len(lines), "\n".join(lines)
            lines = []


def wide_lines(page: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of prose that are too wide; code and tables cannot be wrapped."""
    fence = ""
    for number, line in enumerate(page.splitlines(), 1):
        mark = re.match(r"\s*(`{3,})", line)
        if mark and fence in ("", line.strip()):
            fence = "" if fence else mark[1]
        elif not fence and len(line) > MAX_WIDTH and not line.lstrip().startswith(("|", "![")):
            yield number, line.strip()


def _joined(passage: str) -> tuple[list[int], str]:
    """Return where each line begins, and the lines joined by one space: phrases may wrap."""
    starts: list[int] = []
    joined = ""
    for line in passage.split("\n"):
        starts.append(len(joined))
        joined += f"{line.strip()} "
    return starts, joined.rstrip()


if __name__ == "__main__":
    sys.exit(main())
