"""Wildcard patterns: what they match, and that matching is fast for all of them."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from accord_coder.search import matcher, walk
from accord_coder.wildcards import (
    MAX_CHARACTERS,
    PatternTooLong,
    Wildcards,
    git_pattern,
    path_pattern,
    text_pattern,
)

# A backtracking matcher takes too long for each of these.
KILLERS = [
    ("*a" * 30 + "b", "a" * 250),
    ("*a*" * 30 + "b", "a" * 250),
    ("**/" + "*a" * 100 + "b", ("a" * 100 + "/") * 40),
    ("**/" * 300 + "b", "a/" * 2000),
    ("**/a/" * 190 + "b", "a/" * 2000 + "c"),
    ("**/*a/" * 150 + "b", "aa/" * 1300 + "c"),
    ("**" * 450 + "b", "a" * 4000),
    ("**a" * 300 + "b", "a" * 4000),
    ("*?" * 450 + "b", "a" * 4000),
    ("[a-z]*" * 150 + "0", "a" * 4000),
    ("*[!b]" * 180 + "b", "a" * 4000),
    ("?" * 900, "\U0001f600" * 4000),
    ("*" + "a" * 900 + "b", "a" * 4000),
    ("{" * 900, "{" * 900),
    ("{a,b}" * 190, "ab" * 190),
    ("[" * 900, "[" * 900),
    ("[[:alpha:]]" * 90, "a" * 4000),
]
MAX_SECONDS = 1.0  # for matches that take milliseconds


def git(pattern: str) -> Callable[[str], bool]:
    found = git_pattern(pattern)
    return (lambda _: False) if found is None else found.matches


READERS: dict[str, Callable[[str], Callable[[str], bool]]] = {
    "git": git,
    "glob": matcher,
    "paths": lambda pattern: path_pattern(pattern).matches,
    "rejected paths": lambda pattern: path_pattern(pattern, ignore_case=True).matches,
    "names": lambda pattern: text_pattern(pattern).matches,
}


def test_matching_is_fast_for_any_pattern() -> None:
    for reader in READERS:
        for pattern, text in KILLERS:
            began = time.process_time()
            READERS[reader](pattern)(text)
            assert time.process_time() - began < MAX_SECONDS, (reader, pattern, text)


def test_length_of_a_pattern_is_limited() -> None:
    for reader in READERS:
        with pytest.raises(PatternTooLong, match="1001 characters"):
            READERS[reader]("a" * (MAX_CHARACTERS + 1))


def test_pattern_matches_as_in_git() -> None:
    for pattern, text, matches in [
        ("*.py", "a.py", True),
        ("*.py", "b/a.py", False),
        ("a*c*e", "abcde", True),
        ("a*c*e", "ace", True),
        ("a*c*e", "aec", False),
        ("**/x", "x", True),
        ("**/x", "a/b/x", True),
        ("**/x", "ax", False),
        ("a/**/x", "a/x", True),
        ("a/**/x", "a/b/c/x", True),
        ("a/**/x", "a/bx", False),
        ("a/**", "a", False),
        ("a/**", "a/b/c", True),
        ("**/**/x", "x", True),
        ("a**b", "a/b", False),
        ("a**b", "axxb", True),
        ("\\*a", "*a", True),
        ("\\*a", "ba", False),
        ("a\\", "a\\", False),
        ("[ab]", "b", True),
        ("[!ab]", "b", False),
        ("[^ab]", "c", True),
        ("[]]", "]", True),
        ("[!]a]", "]", False),
        ("[a-c-e]", "-", True),
        ("[-a]", "-", True),
        ("[\\]]", "]", True),
        ("a[/]b", "a/b", False),
        ("[[:digit:]]x", "7x", True),
        ("[[:digit:]]x", "ax", False),
        ("[[:digit:]a]", "a", True),
        ("[![:space:]]", " ", False),
        ("[[:upper:][:digit:]]", "A", True),
        ("[[:nonsense:]]", "n", False),
        ("[[:digit:", "1", False),
        ("[a", "[a", False),
    ]:
        assert git(pattern)(text) is matches, (pattern, text, matches)


def test_unclosed_brackets_of_a_model_are_literal() -> None:
    assert matcher("a[b")("a[b")
    assert matcher("{a,[}b")("[b")


def test_name_pattern_ignores_separators() -> None:
    assert text_pattern("server/*").matches("server/a/b")
    assert text_pattern("s?*").matches("s//")
    assert not text_pattern("S*").matches("server")
    assert text_pattern("S*", ignore_case=True).matches("SERVER")


def plainly(pattern: str, text: str) -> bool:
    """Match a path pattern by trying everything: slow, but obviously correct."""
    if not pattern:
        return not text
    if pattern.startswith("**/"):
        rest = pattern[3:]
        return plainly(rest, text) or any(
            plainly(rest, text[at + 1 :]) for at in range(len(text)) if text[at] == "/"
        )
    if pattern.startswith("**"):
        return any(plainly(pattern[2:], text[at:]) for at in range(len(text) + 1))
    if pattern[0] == "*":
        most = text.find("/") if "/" in text else len(text)
        return any(plainly(pattern[1:], text[at:]) for at in range(most + 1))
    if not text:
        return False
    if pattern[0] == "?":
        return text[0] != "/" and plainly(pattern[1:], text[1:])
    return pattern[0] == text[0] and plainly(pattern[1:], text[1:])


def test_path_patterns_match_as_by_brute_force() -> None:
    chance = random.Random(9)
    for _ in range(4000):
        pieces = chance.choices(["a", "b", "/", "*", "?", "/**/", "**"], k=chance.randint(1, 6))
        pattern = "".join(pieces).replace("***", "*").replace("**a", "*a").replace("**b", "*b")
        pattern = pattern.replace("a**", "a*").replace("b**", "b*").replace("?**", "?")
        text = "/".join(
            "".join(chance.choices("ab", k=chance.randint(1, 3)))
            for _ in range(chance.randint(1, 4))
        )
        if "***" in pattern or "//" in pattern:
            continue
        assert path_pattern(pattern).matches(text) is plainly(pattern, text), (pattern, text)


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")
def test_ignore_files_apply_as_in_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    chance = random.Random(7)
    for folder in ("a", "b", "a/b", "a/2", "b/a b"):
        (tmp_path / folder).mkdir(exist_ok=True)
        for name in ("a", "b.c", "1", "#x", "x]", "-", "a*", "A"):
            path = tmp_path / folder / name
            if not path.exists():
                path.touch()
    pieces = ["a", "b", "1", "*", "?", "/", "**", "**/", "[a-b]", "[[:digit:]]", "[!a]", "[]x]"]
    pieces += [".c", "\\*", "[[:upper:]", "]", "[", "#", "!", " ", "\\"]
    for _ in range(60):
        lines = ["".join(chance.choices(pieces, k=chance.randint(1, 4))) for _ in range(6)]
        # Git omits untracked directories that are ignored, with everything in them.
        (tmp_path / ".gitignore").write_text("\n".join(lines) + "\n")
        ours = {
            entry.path
            for entry in walk(str(tmp_path))
            if not entry.is_folder and not entry.is_ignored
        }
        reported = subprocess.run(
            ["git", "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"],
            cwd=tmp_path,
            capture_output=True,
            check=True,
        ).stdout
        theirs = {name for name in reported.decode().split("\0") if name}
        assert ours == theirs, lines


def test_literal_pattern_is_compared_completely() -> None:
    assert Wildcards(list("abc")).matches("abc")
    assert not Wildcards(list("abc")).matches("abcd")
