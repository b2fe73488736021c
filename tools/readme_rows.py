"""Prints the rows of the README's table of performance, and where each is in the results.

`make bench` and `make bench-remote` measure them again, and write `benchmarks/RESULTS.md` and
`RESULTS_REMOTE.md`; the README's table is copied from these by hand.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import layout

TITLE = "## Performance"


def rows(text: str) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the first table below the title."""
    _, _, section = text.partition(f"\n{TITLE}\n")
    lines = section.partition("\n## ")[0].splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith("|")), len(lines))
    table: list[list[str]] = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    if len(table) < 3:
        raise LookupError(f"README.md has no table below {TITLE!r}")
    return table[0], table[2:]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print the README's performance rows as JSON.")
    parser.add_argument("--root", type=Path, default=layout.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    head, found = rows((options.root / "README.md").read_text("utf-8"))
    names = ["row", *head[1:]]
    print(
        json.dumps(
            [dict(zip(names, row, strict=True)) for row in found], indent=1, ensure_ascii=False
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
