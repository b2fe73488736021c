"""Sums the seconds of tests by folder, from the reports of `pytest --junitxml`.

`make test ARGS=--junitxml=build/tests.xml`, then `python tools/test_times.py build/tests.xml`.
Several reports are added up. The seconds are those of all workers together, set-up included.
With `--ci`, the file is what `.ci/run` printed, and the seconds of its steps are listed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import layout

SLOWEST = 30


@dataclass
class Case:
    """One test that ran."""

    file: str
    name: str
    seconds: float


def read(reports: Iterable[Path], files: set[str]) -> list[Case]:
    """Return the tests of reports; `files` are the known files, from which folders follow."""
    by_module = {name.removesuffix(".py").replace("/", "."): name for name in files}
    found: list[Case] = []
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            parts = case.get("classname", "").split(".")
            while len(parts) > 1 and ".".join(parts) not in by_module:
                parts.pop()  # a class of tests
            file = by_module.get(".".join(parts), case.get("classname", ""))
            found.append(Case(file, case.get("name", ""), float(case.get("time", 0))))
    return found


def by_folder(cases: Iterable[Case]) -> dict[str, tuple[int, float]]:
    """Return the number of tests and their seconds by folder, the longest first."""
    found: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for case in cases:
        folder = layout.test_folder(case.file) or case.file
        count, seconds = found[folder]
        found[folder] = count + 1, seconds + case.seconds
    return dict(sorted(found.items(), key=lambda pair: -pair[1][1]))


def steps(printed: str) -> list[tuple[str, int]]:
    """Return the steps of `.ci/run` with their seconds; the last one only marks the end."""
    found = re.findall(r"^== (.*) \((\d+)s\)$", printed, re.MULTILINE)
    ends = [int(seconds) for _, seconds in found[1:]]
    return [(name, end - int(start)) for (name, start), end in zip(found, ends, strict=False)]


def table_of_steps(found: list[tuple[str, int]]) -> str:
    """Return the steps as a Markdown table."""
    lines = ["| step of .ci/run | seconds |", "|---|--:|"]
    lines += [f"| {name} | {seconds:,} |" for name, seconds in found]
    lines.append(f"| **total** | {sum(seconds for _, seconds in found):,} |")
    return "\n".join(lines)


def tables(cases: list[Case], slowest: int) -> str:
    """Return two Markdown tables: folders, and the slowest tests."""
    lines = ["| tests | number | seconds |", "|---|--:|--:|"]
    for folder, (count, seconds) in by_folder(cases).items():
        lines.append(f"| {folder} | {count:,} | {seconds:,.1f} |")
    lines.append(f"| **total** | {len(cases):,} | {sum(case.seconds for case in cases):,.1f} |")
    lines += ["", "| slowest tests | seconds |", "|---|--:|"]
    for case in sorted(cases, key=lambda case: -case.seconds)[:slowest]:
        name = case.name.replace("|", "\\|")
        lines.append(f"| {case.file}::{name} | {case.seconds:.1f} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Sum the seconds of tests by folder.")
    parser.add_argument("reports", nargs="+", type=Path, help="files of `pytest --junitxml`")
    parser.add_argument("--slowest", type=int, default=SLOWEST, help="how many tests to list")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the sums there as well")
    parser.add_argument("--root", type=Path, default=layout.ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--ci", action="store_true", help="the file has the output of .ci/run")
    options = parser.parse_args(arguments)
    if options.ci:
        print(table_of_steps(steps("\n".join(path.read_text() for path in options.reports))))
        return 0
    cases = read(options.reports, set(layout.tracked(options.root)))
    print(tables(cases, options.slowest))
    if options.json:
        sums = {
            folder: {"tests": count, "seconds": round(seconds, 1)}
            for folder, (count, seconds) in by_folder(cases).items()
        }
        options.json.write_text(json.dumps(sums, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
