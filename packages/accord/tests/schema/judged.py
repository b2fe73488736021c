"""The file format of schema/data: one NDJSON file per version, one judged instance per line.

A line is an object with these keys:

- `type`: the name of the type in the schema
- `verdict`: `good`, `bad`, `lenient` or `strict`; `generate.py` explains them
- `about`: what distinguishes the instance; unique for its type and verdict
- `value`: the instance
- `means`: only if lenient: the JSON that has the same meaning and that the schema accepts
- `valid`: only if lenient, and `true`: the schema accepts `value` as well
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parent / "data"


class Judged(NamedTuple):
    """One instance of a type with its verdict."""

    version: str
    type: str
    verdict: str
    about: str
    value: Any
    means: Any = None
    valid: bool = False

    @property
    def name(self) -> str:
        """The name of the instance in test failures and lists of exceptions."""
        return f"{self.type}/{self.verdict}-{self.about}"

    @property
    def accepted(self) -> bool:
        """Whether the official schema accepts the instance."""
        return self.valid or self.verdict in ("good", "strict")


def load(folder: Path = DATA) -> list[Judged]:
    """Return the instances of both versions."""
    instances: list[Judged] = []
    for path in sorted(folder.glob("*.ndjson")):
        with path.open(encoding="utf-8") as lines:
            instances += [Judged(version=path.stem, **json.loads(line)) for line in lines]
    return instances


def save(folder: Path, instances: Iterable[Judged]) -> None:
    """Write one file per version, sorted by type, verdict and name."""
    folder.mkdir(parents=True, exist_ok=True)
    by_version: dict[str, list[Judged]] = {}
    for instance in instances:
        by_version.setdefault(instance.version, []).append(instance)
    for version, rows in by_version.items():
        names = [row.name for row in rows]
        assert len(names) == len(set(names)), "two instances have the same name"
        lines = [_line(row) for row in sorted(rows, key=lambda row: row.name)]
        (folder / f"{version}.ndjson").write_text("".join(lines), "utf-8", newline="\n")


def _line(row: Judged) -> str:
    keys = {"type": row.type, "verdict": row.verdict, "about": row.about, "value": row.value}
    if row.verdict == "lenient":
        keys["means"] = row.means
        if row.valid:
            keys["valid"] = True
    return json.dumps(keys, separators=(",", ":")) + "\n"


@cache
def by_type() -> dict[tuple[str, str], list[Judged]]:
    """Return the stored instances by version and type."""
    groups: dict[tuple[str, str], list[Judged]] = {}
    for instance in load():
        groups.setdefault((instance.version, instance.type), []).append(instance)
    return groups
