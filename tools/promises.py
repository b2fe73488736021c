"""Lists what may not get less: the kit's rules and scenarios, test doubles, and tests of rules.

Collects all tests (without running them) and writes two files into a folder: `promises.json` has
the numbers and the names of the scenarios, `requirements.txt` how many tests name each rule.
A scenario is a function with the decorator `scenario`, in any package.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import layout

DOUBLES = "test_double_fails"
"""How the tests begin that run every double of a rule."""


def pytest_collection_finish(session: Any) -> None:
    """Write what each test marks: this module is also a plugin of pytest."""
    tests = [
        {
            "test": item.nodeid,
            "requirement": sorted(
                {name for mark in item.iter_markers("requirement") for name in mark.args}
            ),
            "quirk": sorted({name for mark in item.iter_markers("quirk") for name in mark.args}),
        }
        for item in session.items
    ]
    Path(os.environ["ACCORD_COLLECTED"]).write_text(json.dumps(tests), "utf-8")


def collected(root: Path) -> list[dict[str, Any]]:
    """Return all tests with the rules and quirks that they name."""
    folders = [name for name in ("tests",) if (root / name).is_dir()]
    folders += [path.relative_to(root).as_posix() for path in sorted(root.glob("packages/*/tests"))]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "tests.json"
        tools = str(Path(__file__).parent)
        paths = os.pathsep.join(filter(None, (tools, os.environ.get("PYTHONPATH"))))
        done = subprocess.run(
            [
                sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider",
                "-p", "promises", *folders,
            ],
            cwd=root, env=os.environ | {"ACCORD_COLLECTED": str(path), "PYTHONPATH": paths},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode or not path.is_file():
            raise SystemExit(f"promises: tests cannot be collected\n{done.stdout[-4000:]}")
        return json.loads(path.read_text("utf-8"))


def scenarios(root: Path, names: Iterable[str]) -> list[str]:
    """Return the names of the kit's scenarios, by their decorators."""
    found: list[str] = []
    for name in names:
        if not layout.import_package(name) or not name.endswith(".py"):
            continue
        text = (root / name).read_text("utf-8")
        if "scenario(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(
                    func=ast.Name(id="scenario") | ast.Attribute(attr="scenario"),
                    args=[ast.Constant(value=str(title)), *_],
                ):
                    found.append(title)
                case _:
                    pass
    return sorted(found)


def rules() -> list[dict[str, Any]]:
    """Return the kit's rules, as `accord check rules --json` prints them."""
    said = subprocess.run(
        [sys.executable, "-m", "accord", "check", "rules", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(said.stdout)


def function(test: str) -> str:
    """Return a test without its parameters."""
    return test.partition("[")[0]


def in_doubles(test: str) -> bool:
    return function(test).rpartition("::")[2].startswith(DOUBLES)


def promises(root: Path) -> tuple[dict[str, Any], str]:
    """Return the numbers, and the text of the list of rules with tests."""
    tests = collected(root)
    named: dict[str, set[str]] = defaultdict(set)
    quirks: dict[str, set[str]] = defaultdict(set)
    for one in tests:
        for rule in one["requirement"]:
            named[rule].add(function(one["test"]))
        for row in one["quirk"]:
            quirks[row].add(function(one["test"]))
    titles = scenarios(root, layout.tracked(root))
    doubles = Counter(one["test"].partition("::")[0] for one in tests if in_doubles(one["test"]))
    of_schema = [one for one in tests if "schema/test_" in one["test"]]
    known = rules()
    numbers = {
        "tests": len(tests),
        "test_functions": len({function(one["test"]) for one in tests}),
        "rules": len(known),
        "rules_by_judgement": dict(sorted(Counter(rule["how"] for rule in known).items())),
        "rules_that_tests_name": len(named),
        "quirks_that_tests_name": len(quirks),
        "schema_proof_tests": len(of_schema),
        "double_tests": sum(doubles.values()),
        "double_tests_by_file": dict(sorted(doubles.items())),
        "scenarios": len(titles),
        "scenario_names": titles,
    }
    lines = [f"{rule} {len(who)}" for rule, who in sorted(named.items())]
    lines += [f"quirk {row} {len(who)}" for row, who in sorted(quirks.items())]
    return numbers, "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="List rules, scenarios, doubles, tests of rules.")
    parser.add_argument("folder", type=Path, help="where promises.json and requirements.txt go")
    parser.add_argument("--root", type=Path, default=layout.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    numbers, named = promises(options.root)
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "promises.json").write_text(json.dumps(numbers, indent=1) + "\n", "utf-8")
    (options.folder / "requirements.txt").write_text(named, "utf-8")
    for name, number in numbers.items():
        if isinstance(number, int):
            print(f"{number:>6} {name.replace('_', ' ')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
