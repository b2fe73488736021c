"""Measures which share of small wrong changes the tests notice: `make mutation`.

1. `map` copies the tree, runs the tests of a package once with coverage, and keeps which test runs
   which line.
2. `run` takes mutants in the order of a seed (`mutants.py`) and runs the tests that reach each one,
   in a copy of the tree, until one fails. Each result is a line of a file; a later run continues.
3. `report` prints scores with their 95 % intervals, and the survivors.

Everything is written below `--work`, never in the tree. The order is random: a run that was stopped
is an estimate too. `equivalent_mutants.txt` has the mutants that change nothing, with the reason.

Maintained tools were not used: mutmut wraps functions, which tests of signatures and msgspec
notice, and cosmic-ray runs one test command for every mutant, which takes minutes each time here.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from queue import Empty, Queue
from typing import Any

import layout
import mutants
import mutation_server

SEED = 20_261
SAMPLE = {"accord": 300}
OTHERS = 150
# The folders (or modules) of `accord` that count.
ACCORD = {
    "agent", "client", "connection", "jsonrpc", "proxy", "remote", "roles", "rules", "transports",
    "wire",
}  # fmt: skip
EQUIVALENT = Path(__file__).parent / "equivalent_mutants.txt"
FIRST_TESTS = 25
"""A mutant's best tests, which run first: most mutants fail one of them."""
MOST_TESTS = 400
MOST_SECONDS = 60.0
"""How many tests run against one mutant at most, and how long they took without one."""


@dataclass
class Work:
    """The files of the measurement of one package."""

    folder: Path
    package: str

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    @property
    def results(self) -> Path:
        return self.folder / "results.jsonl"

    @property
    def map(self) -> Path:
        return self.folder / "map.json.gz"

    @cached_property
    def about(self) -> dict[str, Any]:
        path = self.folder / "about.json"
        if not path.is_file():
            raise SystemExit(f"mutation: {self.package} has no map: run `map` first")
        return json.loads(path.read_text("utf-8"))

    def read_results(self) -> list[dict[str, Any]]:
        """Return the results by mutant; a line that was cut when the run was stopped is dropped."""
        found: dict[str, dict[str, Any]] = {}
        if self.results.is_file():
            for line in self.results.read_text("utf-8").splitlines():
                try:
                    result = json.loads(line)
                except json.JSONDecodeError:
                    continue
                found[result["id"]] = result
        return list(found.values())


# Which lines count.


def measured_files(package: layout.Package, names: Iterable[str]) -> list[str]:
    """Return the source files of a package that get mutants, among tracked names."""
    files = [name for name in names if name.endswith(".py") and layout.below(name, package.source)]
    if package.name == "accord":
        parts = [
            name.partition("packages/accord/src/accord/")[2].partition("/")[0] for name in files
        ]
        files = [
            name
            for name, part in zip(files, parts, strict=True)
            if part.removesuffix(".py") in ACCORD
        ]
    return files


# The map: which test runs which line.


def make_map(work: Work, package: layout.Package, options: argparse.Namespace) -> None:
    """Copy the tree, run the tests of the package with coverage, and write the map."""
    root: Path = options.root
    measure = work.folder / "measure"
    if not measure.is_dir():
        shutil.rmtree(work.folder, ignore_errors=True)
        measure.mkdir(parents=True)
        copy_tree(root, work.tree, layout.tracked(root))
        (work.folder / "commit").write_text(commit(root), "utf-8")
    names = [path.relative_to(work.tree).as_posix() for path in work.tree.rglob("*.py")]
    files = sorted(measured_files(package, names))
    if not files:
        raise SystemExit(f"mutation: {package.name} has no source files")
    (measure / "sitecustomize.py").write_text("import coverage\n\ncoverage.process_startup()\n")
    folders = sorted({f"{work.tree / name}".rpartition("/")[0] for name in files})
    settings = measure / "coveragerc"
    settings.write_text(
        "[run]\nparallel = true\ncontext = ${COVERAGE_CONTEXT-}\n"
        f"data_file = {measure / 'data'}\n"
        "disable_warnings = no-data-collected,module-not-imported,module-not-measured,"
        "couldnt-parse,include-ignored\n"
        "include =\n" + "".join(f"    {folder}/*\n" for folder in folders)
    )
    report, done = measure / "outcomes.jsonl", measure / "done.json"
    ran = {test for tests in read_coverage(measure, work.tree, files).values() for test in tests}
    done.write_text(json.dumps(sorted(ran)), "utf-8")
    environment = test_environment(work.tree, measure, boot(work)) | {
        "COVERAGE_PROCESS_START": str(settings),
        "COVERAGE_CONTEXT": "",
        "MUTATION_REPORT": str(report),
        "MUTATION_DONE": str(done),
    }
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "mutation_server", "-p", "no:cacheprovider",
        "-m", options.marks, "-o", f"timeout={options.timeout}",
        *(["-n", str(options.jobs), "--dist", "worksteal"] if options.jobs > 1 else []),
        package.tests,
    ]  # fmt: skip
    started = time.monotonic()
    with (work.folder / "map.log").open("a") as log:
        ended = subprocess.run(
            command, cwd=work.tree, env=environment, stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, check=False, preexec_fn=mutation_server.default_signals,
            start_new_session=True,
        )  # fmt: skip
    outcomes = mutation_server.read_report(report)
    if ended.returncode < 0 or outcomes["exit"] not in (0, 1, 5):
        raise SystemExit(
            f"mutation: the tests ended with {ended.returncode}, see {work.folder / 'map.log'}; "
            "`map` again continues"
        )
    lines = read_coverage(measure, work.tree, files)
    tests = outcomes["passed"] | outcomes["failed"]
    for test in {test for ran in lines.values() for test in ran} - {"", *tests}:
        tests[test] = 0.3  # it was saved before its end was written down
    with gzip.open(work.map, "wt", encoding="utf-8") as out:
        json.dump({"tests": tests, "files": compact(lines, tests)}, out)
    about = {
        "package": package.name,
        "commit": (work.folder / "commit").read_text("utf-8"),
        "sources": digest(work.tree, files),
        "files": files,
        "tests": [package.tests],
        "marks": options.marks,
        "counts": {name: len(outcomes[name]) for name in ("passed", "failed", "skipped")},
        "failed_with_coverage": sorted(outcomes["failed"]),
        "seconds": round(time.monotonic() - started),
    }
    (work.folder / "about.json").write_text(json.dumps(about, indent=1) + "\n", "utf-8")
    shutil.rmtree(measure)
    print(f"{package.name}: {len(tests)} tests, map of {len(lines)} files, {about['seconds']} s")


def copy_tree(root: Path, target: Path, names: Iterable[str]) -> None:
    """Copy the tracked files, and link the folders of packages that tests need."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target / name, follow_symlinks=False)
    for pattern in (".venv", "tests/*/node_modules", "packages/*/tests/*/node_modules"):
        for folder in root.glob(pattern):
            link = target / folder.relative_to(root)
            if link.parent.is_dir():
                link.symlink_to(folder)


def boot(work: Work) -> Path:
    """Return a folder with a copy of the module that runs tests: a long run needs it unchanged."""
    folder = work.folder / "boot"
    folder.mkdir(exist_ok=True)
    shutil.copy2(mutation_server.__file__, folder)
    return folder


def test_environment(tree: Path, *first: Path) -> dict[str, str]:
    """Return the environment in which tests use the sources of a copy of the tree."""
    paths = [*first, *(tree / package.source for package in layout.packages(tree))]
    outer = ("COVERAGE_", "PYTEST_", "MUTATION_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
    return kept | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        # Generated examples are the same in each run.
        "CI": "1",
    }


def read_coverage(measure: Path, tree: Path, files: list[str]) -> dict[str, dict[str, set[int]]]:
    """Return the lines that each test ran, by file."""
    from coverage import CoverageData

    found: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    wanted = {str(tree / name): name for name in files}
    for path in sorted(measure.glob("data*")):
        data = CoverageData(str(path))
        try:
            data.read()
            for measured in data.measured_files():
                if name := wanted.get(measured):
                    for line, contexts in data.contexts_by_lineno(measured).items():
                        for context in contexts:
                            found[name][context].add(line)
        except Exception as error:  # noqa: BLE001  # a process was killed while it wrote
            print(f"left out {path.name}: {error}", file=sys.stderr)
        finally:
            data.close()
    return found


def compact(
    lines: dict[str, dict[str, set[int]]], tests: dict[str, float]
) -> dict[str, list[tuple[list[int], list[int]]]]:
    """Return for each file the sets of lines, each with the numbers of the tests that ran it."""
    numbers = {name: number for number, name in enumerate(tests)}
    found: dict[str, list[tuple[list[int], list[int]]]] = {}
    for file, by_test in sorted(lines.items()):
        same: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for test, ran in by_test.items():
            if test in numbers:
                same[tuple(sorted(ran))].append(numbers[test])
        found[file] = [(list(ran), sorted(who)) for ran, who in sorted(same.items())]
    return found


def commit(root: Path) -> str:
    """Return the commit of the tree, marked if files differ from it."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*"],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return said.stdout.strip()


def digest(root: Path, files: Iterable[str]) -> str:
    """Return a hash of source files."""
    total = hashlib.sha256()
    for name in files:
        total.update(name.encode() + b"\0" + (root / name).read_bytes())
    return total.hexdigest()[:16]


class Tests:
    """The tests of a map, and which of them reach a mutant."""

    def __init__(self, path: Path) -> None:
        with gzip.open(path, "rt", encoding="utf-8") as text:
            data = json.load(text)
        self._names = list(data["tests"])
        self.seconds: dict[str, float] = data["tests"]
        self._files: dict[str, list[tuple[set[int], list[int]]]] = {
            file: [(set(ran), who) for ran, who in sets] for file, sets in data["files"].items()
        }

    def reaching(self, mutant: mutants.Mutant) -> list[str]:
        """Return the tests that run the mutant's lines, the best first.

        What runs at import is reached by all tests that use the module. If coverage saw none, the
        tests of the folder with the same name are taken.
        """
        sets = self._files.get(mutant.file, [])
        lines = set(range(mutant.first, mutant.last + 1))
        found = {
            self._names[number]
            for ran, who in sets
            if mutant.at_import or ran & lines
            for number in who
        }
        if mutant.at_import and not found:
            folder = PurePosixPath(mutant.file).parent.name
            found = {name for name in self._names if folder in PurePosixPath(_file(name)).parts}
        return sorted(
            found, key=lambda name: (_distance(name, mutant.file), self.seconds[name], name)
        )


def _file(test: str) -> str:
    return test.partition("::")[0]


def _distance(test: str, file: str) -> int:
    """Return 0 for a test of the module itself, 1 for one of its folder, and 2 for others."""
    source, tests = PurePosixPath(file), PurePosixPath(_file(test))
    if tests.stem == f"test_{source.stem.removeprefix('_')}":
        return 0
    return 1 if source.parent.name in tests.parts else 2


def batches(tests: list[str], seconds: dict[str, float]) -> tuple[list[list[str]], bool]:
    """Return the tests to run, the first ones apart, and whether the limits left out some."""
    kept: list[str] = []
    left = MOST_SECONDS
    for name in tests:
        if len(kept) == MOST_TESTS or (kept and seconds[name] > left):
            continue
        kept.append(name)
        left -= seconds[name]
    parts = [part for part in (kept[:FIRST_TESTS], kept[FIRST_TESTS:]) if part]
    return parts, len(kept) < len(tests)


# Running mutants.


class Server:
    """A process that runs tests in one copy of the tree (`mutation_server.py`)."""

    def __init__(self, tree: Path, boot: Path, log: Path) -> None:
        self._log = log
        reading, writing = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, str(boot / "mutation_server.py")],
            cwd=tree, stdin=subprocess.PIPE, pass_fds=[writing],
            env=test_environment(tree, boot) | {"MUTATION_REPLIES": str(writing)},
        )  # fmt: skip
        os.close(writing)
        self._replies = os.fdopen(reading)

    def run(self, tests: list[str], seconds: float, *options: str) -> dict[str, Any]:
        """Run tests until one fails, or until they have taken too long."""
        args = [
            "-x", "-q", "-p", "no:cacheprovider", "--tb=short", "-o", f"timeout={seconds:.0f}",
            *options, *tests,
        ]  # fmt: skip
        request = {"args": args, "seconds": seconds + 5, "log": str(self._log)}
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        reply = json.loads(self._replies.readline() or "{}")
        if reply.get("exit") == "no namespace":
            raise SystemExit("mutation: mutants need Linux with PID namespaces")
        return reply

    def close(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()
        self._replies.close()


class Runner:
    """Runs mutants in one copy of the tree."""

    def __init__(self, work: Work, number: int, tests: Tests, trusted: dict[str, bool]) -> None:
        self._tree = work.folder / f"job-{number}"
        shutil.rmtree(self._tree, ignore_errors=True)
        shutil.copytree(work.tree, self._tree, symlinks=True)
        self._log = work.folder / f"job-{number}.log"
        self._server = Server(self._tree, boot(work), self._log)
        self._tests = tests
        self._trusted = trusted
        self._clock = int(time.time()) - 10_000_000

    def judge(self, mutant: mutants.Mutant) -> dict[str, Any]:
        """Return whether the tests notice a mutant, and which one does."""
        started = time.monotonic()
        reaching = [test for test in self._tests.reaching(mutant) if self._trusted.get(test, True)]
        parts, left_out = batches(reaching, self._tests.seconds)
        result: dict[str, Any] = mutant.record() | {
            "outcome": "survived" if parts else "not reached",
            "by": "", "reaching": len(reaching), "ran": 0, "left_out": left_out,
        }  # fmt: skip
        for part in parts:
            outcome, by, ran = self._part(mutant, part)
            result["ran"] += ran
            if outcome:
                result |= {"outcome": outcome, "by": by}
                break
        return result | {"seconds": round(time.monotonic() - started, 1)}

    def _part(self, mutant: mutants.Mutant, tests: list[str]) -> tuple[str, str, int]:
        """Run tests against a mutant.

        A test that fails without it as well is left out from now on, and one that passes the second
        time for this mutant.
        """
        tests = list(tests)
        while tests:
            found = self._mutated(mutant, tests)
            ran = len(found["passed"]) + len(found["failed"])
            failed = next(iter(found["failed"]), "")
            if failed:
                again = (
                    [] if self._fails_anyway(failed) else self._mutated(mutant, [failed])["failed"]
                )
                if again:
                    return "noticed", failed, ran
                tests = [test for test in tests if test != failed and test not in found["passed"]]
                continue
            if found["exit"] == 0:
                return "", "", ran
            usual = sum(self._tests.seconds[test] for test in tests)
            unchanged = self._server.run(tests, 60 + 4 * usual)
            if unchanged["exit"] == 0:
                return ("too slow" if found["late"] else "noticed"), "", ran
            if unchanged["exit"] is None and not unchanged["late"]:
                raise SystemExit(f"mutation: the tests cannot run any more, see {self._log}")
            tests = [test for test in tests if not self._fails_anyway(test)]
            if all(self._trusted.get(test) for test in tests):
                return "", "", ran  # they fail together only
        return "", "", 0

    def _mutated(self, mutant: mutants.Mutant, tests: list[str]) -> dict[str, Any]:
        """Run tests against a mutant, which exists during the run only, in the copy."""
        usual = sum(self._tests.seconds[test] for test in tests)
        path = self._tree / mutant.file
        original = path.read_text("utf-8")
        self._write(path, mutants.apply(original, mutant))
        try:
            found = self._server.run(tests, 20 + 4 * usual)
        finally:
            self._write(path, original)
        self._tests.seconds.update(found["passed"])
        return found

    def _fails_anyway(self, test: str) -> bool:
        """Return whether a test fails without a mutant, when it runs alone."""
        if test not in self._trusted:
            usual = self._tests.seconds[test]
            self._trusted[test] = self._server.run([test], 60 + 4 * usual)["exit"] == 0
        return not self._trusted[test]

    def _write(self, path: Path, text: str) -> None:
        """Write a file with a time of its own, so that no compiled file is taken for it."""
        self._clock += 2
        path.write_text(text, "utf-8")
        os.utime(path, (self._clock, self._clock))

    def close(self) -> None:
        self._server.close()
        shutil.rmtree(self._tree, ignore_errors=True)


def run(work: Work, options: argparse.Namespace) -> None:
    """Judge the mutants of the sample that have no result yet."""
    count = options.count or SAMPLE.get(work.package, OTHERS)
    files = mutants.read(work.tree, work.about["files"])
    sample = list(mutants.chosen(files, options.seed, count))
    done = {result["id"] for result in work.read_results()}
    if work.results.is_file() and not work.results.read_bytes().endswith(b"\n"):
        with work.results.open("a", encoding="utf-8") as out:
            out.write("\n")  # the next result does not join a line that was cut
    waiting: Queue[mutants.Mutant] = Queue()
    for mutant in sample:
        if mutant.id not in done:
            waiting.put(mutant)
    if work.about["sources"] != digest(options.root, present(options.root, work.about["files"])):
        print(f"{work.package}: measures the copy of {work.about['commit']}; the tree has changed")
    print(f"{work.package}: {len(sample)} mutants, {waiting.qsize()} of them to run", flush=True)
    tests = Tests(work.map)
    trusted: dict[str, bool] = {}
    writing = threading.Lock()
    errors: list[BaseException] = []

    def work_on(number: int) -> None:
        runner = Runner(work, number, tests, trusted)
        try:
            while not errors:
                mutant = waiting.get_nowait()
                result = runner.judge(mutant) | {"seed": options.seed}
                with writing, work.results.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(result) + "\n")
                print(line_of(result), flush=True)
        except Empty:
            pass
        except BaseException as error:  # noqa: BLE001  # raised by the main thread
            errors.append(error)
        finally:
            runner.close()

    threads = [threading.Thread(target=work_on, args=(number,)) for number in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    print(report(work))


def present(root: Path, files: Iterable[str]) -> list[str]:
    return [name for name in files if (root / name).is_file()]


# The report.


def equivalent() -> dict[str, str]:
    """Return the mutants that change nothing that a test could see, with the reason."""
    if not EQUIVALENT.is_file():
        return {}
    lines = [line for line in EQUIVALENT.read_text("utf-8").splitlines() if line and line[0] != "#"]
    return {name: why for name, _, why in (line.partition(" ") for line in lines)}


def line_of(result: dict[str, Any]) -> str:
    """Return one line about a result."""
    old, new = (" ".join(str(result[part]).split()) for part in ("old", "new"))
    change = f"{old[:70]} -> {new[:70]}"
    by = f"  by {result['by']}" if result["by"] else ""
    place = f"{result['id']} {result['file']}:{result['line']}"
    return f"{result['outcome']:<11} {place} {result['operator']}: {change}{by}"


def counted(work: Work) -> dict[str, int]:
    """Return how many mutants have which outcome, equivalent ones apart."""
    same = equivalent()
    return Counter(
        "equivalent"
        if result["id"] in same and result["outcome"] in ("survived", "not reached")
        else result["outcome"]
        for result in work.read_results()
    )


def interval(noticed: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson)."""
    if not total:
        return 0.0, 1.0
    z, share = 1.96, noticed / total
    middle = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return (middle - spread) / scale, (middle + spread) / scale


HEAD = (
    "| package | mutants | noticed | too slow | survived | not reached | equivalent "
    "| score | 95 % |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def report(*works: Work) -> str:
    """Return the scores as a table, and the survivors of each package."""
    rows = [HEAD]
    survivors: list[str] = []
    for work in works:
        count = counted(work)
        noticed = count["noticed"] + count["too slow"]
        total = sum(count.values()) - count["equivalent"]
        low, high = interval(noticed, total)
        score = f"{noticed / total:.1%}" if total else "-"
        kinds = ("noticed", "too slow", "survived", "not reached", "equivalent")
        cells = " | ".join(str(count[kind]) for kind in kinds)
        rows.append(f"| {work.package} | {total} | {cells} | {score} | {low:.0%}–{high:.0%} |")
        same = equivalent()
        survivors += ["", f"{work.package}, {work.about['commit']}, seed {seeds(work)}:", ""]
        survivors += [
            f"    {line_of(result)}"
            for result in sorted(work.read_results(), key=lambda one: (one["file"], one["line"]))
            if result["outcome"] in ("survived", "not reached") and result["id"] not in same
        ]
    return "\n".join([*rows, *survivors])


def seeds(work: Work) -> str:
    return ", ".join(sorted({str(result["seed"]) for result in work.read_results()})) or "-"


def works(options: argparse.Namespace) -> Iterator[tuple[Work, layout.Package]]:
    """Yield the packages that were named, or all."""
    known = {package.name: package for package in layout.packages(options.root)}
    for name in options.package or known:
        if name not in known:
            raise SystemExit(
                f"mutation: unknown package {name!r}: expected one of {', '.join(known)}"
            )
        yield Work(options.work.absolute() / name, name), known[name]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("step", choices=["map", "run", "report", "all"])
    parser.add_argument(
        "--package", action="append", help="one of packages/; repeatable; default: all"
    )
    parser.add_argument("--jobs", type=int, default=1, help="tests that run side by side")
    parser.add_argument("--count", type=int, default=0, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--marks", default="not slow and not programs", help="pytest -m, for `map`")
    parser.add_argument("--timeout", type=int, default=180, help="seconds of a test, for `map`")
    parser.add_argument("--work", type=Path, default=layout.ROOT / "build" / "mutation")
    parser.add_argument("--root", type=Path, default=layout.ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.step == "report":
        print(report(*(work for work, _ in works(options) if work.results.is_file())))
        return 0
    for work, package in works(options):
        if options.step == "map" or (options.step == "all" and not work.map.is_file()):
            make_map(work, package, options)
        if options.step in ("run", "all"):
            run(work, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
