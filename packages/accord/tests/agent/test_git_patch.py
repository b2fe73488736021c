"""Patches: they apply, and computing them takes bounded time."""

from __future__ import annotations

import random
import re
import time

from accord.types.diffs import git_patch


def applied(patch: str, old: str) -> str:
    """Apply a patch to a text that ends in a line feed, check every line, and return the result."""
    before = old.split("\n")
    after: list[str] = []
    at = 0
    lines = patch.split("\n")[:-1]
    body = [line for line in lines if not line.startswith(("diff --git", "--- /", "+++ /"))]
    for line in body:
        if head := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            begin = int(head[1]) - (0 if head[2] == "0" else 1)
            after += before[at:begin]
            assert len(after) == int(head[3]) - (0 if head[4] == "0" else 1)
            at = begin
            continue
        if line[0] in " -":
            assert before[at] == line[1:]
            at += 1
        if line[0] in " +":
            after.append(line[1:])
    return "\n".join([*after, *before[at:]])


def test_patch_turns_the_old_text_into_the_new() -> None:
    chance = random.Random(3)
    for _ in range(2000):
        lines = [chance.choice("abcde\t") for _ in range(chance.randrange(30))]
        changed = list(lines)
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(changed) + 1)
            new = [chance.choice("abcxy") for _ in range(chance.randrange(3))]
            changed[at : at + chance.randrange(3)] = new
        old, new_text = "".join(f"{line}\n" for line in lines), "".join(f"{x}\n" for x in changed)
        assert applied(git_patch("/a", old, new_text), old) == new_text


def test_patch_of_many_equal_lines_takes_bounded_time() -> None:
    chance = random.Random(1)
    lines = [f"{chance.randrange(150)}\n" for _ in range(50_000)]
    other = [f"{chance.randrange(150)}\n" for _ in range(50_000)]
    begun = time.process_time()
    git_patch("/a", "".join(lines), "".join(other))
    git_patch("/a", "".join(lines), "".join(["x\n", *lines[1:-1], "y\n"]))
    assert time.process_time() - begun < 5  # Comparing every pair would take minutes.


def test_patch_has_three_context_lines() -> None:
    old = "".join(f"{number}\n" for number in range(20))
    patch = git_patch("/a", old, old.replace("\n10\n", "\nten\n").removesuffix("\n"))
    assert patch.split("\n", 3)[3] == (
        "@@ -8,7 +8,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n"
        "@@ -17,4 +17,4 @@\n 16\n 17\n 18\n-19\n+19\n\\ No newline at end of file\n"
    )
