"""Seeds of attacks: failed ones are saved in files and tried first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ("kept", "report", "small")

_FOLDER = Path(__file__).parent / "seeds"


def kept(attack: str) -> list[int]:
    """Return the seeds that failed earlier; `seeds/ATTACK.txt` has one per line."""
    file = _FOLDER / f"{attack}.txt"
    if not file.exists():
        return []
    lines = (line.partition("#")[0].strip() for line in file.read_text("utf-8").splitlines())
    return [int(line) for line in lines if line]


def small(attack: str, count: int) -> list[int]:
    """Return the seeds for tests: the saved ones, and the first few."""
    return list(dict.fromkeys([*kept(attack), *range(count)]))


def fresh(attack: str) -> Iterator[int]:
    """Yield the seeds for a long run: the saved ones, then new ones."""
    yield from kept(attack)
    while True:
        yield int.from_bytes(os.urandom(6))


def report(attack: str, seed: int) -> str:
    """Save a seed that failed; return the command that repeats it."""
    if seed not in kept(attack):
        with (_FOLDER / f"{attack}.txt").open("a", encoding="utf-8") as file:
            file.write(f"{seed}\n")
    return f"python packages/accord/tests/attack/run.py {attack} --seed {seed}"
