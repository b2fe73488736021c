"""What the commands that run scenarios share: options, baseline, report files, progress."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from msgspec import Struct

from accord_conformance.cli.report_files import check_directory, check_writable, write_atomically
from accord_conformance.cli.show_report import show_result
from accord_conformance.reports.formats import report_bytes
from accord_conformance.reports.report import RunResult, read_baseline, verdict, write_baseline

if TYPE_CHECKING:
    from typing import Self

    from accord_conformance.reports.report import ScenarioResult

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

SECONDS = click.FloatRange(0, min_open=True)
FILE = click.Path(dir_okay=False, path_type=Path)
_DIRECTORY = click.Path(file_okay=False, path_type=Path)

_SELECTION = (
    click.option(
        "--version",
        type=click.Choice(["1", "2", "both"]),
        default="both",
        show_default=True,
        help="Protocol versions to test.",
    ),
    click.option(
        "--only",
        "--area",
        "only",
        metavar="NAME",
        multiple=True,
        help="Only run this scenario, area or rule. Repeatable.",
    ),
)
_REPORTS = (
    click.option(
        "--json", "json_file", type=FILE, metavar="FILE", help="Write the report as JSON."
    ),
    click.option(
        "--junit", "junit_file", type=FILE, metavar="FILE", help="Write the report as JUnit XML."
    ),
    click.option(
        "--markdown",
        "markdown_file",
        type=FILE,
        metavar="FILE",
        help="Write the report as Markdown.",
    ),
    click.option(
        "--html", "html_file", type=FILE, metavar="FILE", help="Write the report as HTML."
    ),
    click.option(
        "--trace",
        type=_DIRECTORY,
        metavar="DIRECTORY",
        help="Write the frames of each connection to a file.",
    ),
    click.option("--strict", is_flag=True, help="Fail on SHOULD rules too."),
    click.option(
        "--baseline", type=FILE, metavar="FILE", help="Ignore failures listed in this file."
    ),
    click.option(
        "--update-baseline", is_flag=True, help="Rewrite the baseline with the current failures."
    ),
)


def selection_options(command: CommandT) -> CommandT:
    """Add the options that select versions and scenarios."""
    for option in reversed(_SELECTION):
        command = option(command)
    return command


def report_options(command: CommandT) -> CommandT:
    """Add the options of reports; the command passes them to `RunOptions.check`."""
    for option in reversed(_REPORTS):
        command = option(command)
    return command


class RunOptions(Struct, kw_only=True):
    """The values of `report_options`: `files` are the reports by format."""

    files: dict[str, Path | None]
    trace: Path | None
    strict: bool
    baseline: Path | None
    update_baseline: bool
    known: set[tuple[str, int]]

    @classmethod
    def check(cls, options: dict[str, Any]) -> RunOptions:
        """Return the options; raise `click.UsageError` if a file cannot be read or written."""
        baseline: Path | None = options["baseline"]
        trace: Path | None = options["trace"]
        update: bool = options["update_baseline"]
        if update and baseline is None:
            raise click.UsageError("--update-baseline needs --baseline")
        known = _read_baseline(baseline, may_be_new=update)
        files: dict[str, Path | None] = {
            name.removesuffix("_file"): path
            for name, path in options.items()
            if name.endswith("_file")
        }
        reports = {f"--{name}": path for name, path in files.items()}
        check_writable(reports | ({"--baseline": baseline} if update else {}))
        if trace is not None:
            check_directory(trace, "--trace")
        return cls(
            files=files,
            trace=trace,
            strict=options["strict"],
            baseline=baseline,
            update_baseline=update,
            known=known,
        )

    def finish(self, result: RunResult, faults: list[str]) -> int:
        """Write the reports, show the result and return the exit status.

        `faults` are errors in writing traces. Raise `click.UsageError` if there are any, or if a
        report cannot be written.
        """
        result.strict, result.baseline = self.strict, self.known
        # Before showing the result: the reader of stdout may be gone.
        faults = faults + self._write(result)
        broken = set(result.failed_rules(strict=self.strict))
        show_result(result, self.known & broken, self.known & result.passed_rules())
        if faults:
            raise click.UsageError("; ".join(faults))
        tested = bool(result.supported) and not result.kit_errors
        if self.update_baseline and self.baseline is not None and tested:
            self._update(result, self.baseline, broken)
            return 0
        return verdict(result).status

    def _update(self, result: RunResult, path: Path, broken: set[tuple[str, int]]) -> None:
        try:
            # Rules that were not exercised this time stay in the baseline.
            write_baseline(path, broken | (self.known - result.passed_rules()))
        except OSError as error:
            raise click.UsageError(f"Cannot write {path}: {error.strerror}") from None

    def _write(self, result: RunResult) -> list[str]:
        """Write every report that can be written; return error messages for the others."""
        wrong: list[str] = []
        for name, path in self.files.items():
            if path is None:
                continue
            try:
                write_atomically(path, report_bytes(name, result))
            except OSError as error:
                wrong.append(f"Cannot write {path}: {error.strerror}")
        return wrong


def finite(option: str, seconds: float) -> float:
    """Return a number of seconds; raise `click.UsageError` if it is not a number."""
    if math.isnan(seconds):
        raise click.UsageError(f"{option} must be a number of seconds, not nan")
    return seconds


def _read_baseline(baseline: Path | None, *, may_be_new: bool) -> set[tuple[str, int]]:
    if baseline is None or (may_be_new and not baseline.exists()):
        return set()
    try:
        return read_baseline(baseline)
    except OSError as error:
        why = f"Cannot read the baseline {baseline}: {error.strerror}"
        raise click.UsageError(f"{why}; --update-baseline creates one") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None


# Progress of a run: a status line at a terminal, a line every few seconds elsewhere.

_AT_A_TERMINAL_S = 0.5
_ELSEWHERE_S = 10.0
_MAX_NAMED = 2
_CLEAR = "\r\x1b[K"


class Progress:
    """Writes to `stream` while entered: the number of finished scenarios, and those that run."""

    def __init__(
        self, stream: TextIO, *, budget_s: float | None = None, every_s: float | None = None
    ) -> None:
        self.total = 0
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._every_s = every_s or (_AT_A_TERMINAL_S if self._is_terminal else _ELSEWHERE_S)
        self._budget_s = budget_s
        self._began = time.monotonic()
        self._version = 0
        self._over = 0
        self._playing: dict[str, float] = {}  # start times
        self._task: asyncio.Task[None] | None = None

    def on_start(self, version: int, name: str) -> None:
        """Record that a scenario, or the handshake of a version, begins."""
        self._version = version
        self._playing[name] = time.monotonic()

    def on_result(self, played: ScenarioResult) -> None:
        """Record that a scenario has ended."""
        self._over += 1
        self._playing.pop("handshake", None)
        self._playing.pop(played.scenario, None)

    def line(self) -> str:
        """Return the status line."""
        now = time.monotonic()
        oldest = sorted(self._playing.items(), key=lambda item: item[1])[:_MAX_NAMED]
        names = ", ".join(f"{name} ({now - since:.0f} s)" for name, since in oldest)
        of = f" of {self.total}" if self.total else ""
        budget = f" (limit {self._budget_s:g} s)" if self._budget_s else ""
        return (
            f"{now - self._began:.0f} s{budget}: version {self._version}, "
            f"{self._over}{of} scenarios done; now {names or 'nothing'}"
        )

    async def __aenter__(self) -> Self:
        self._task = asyncio.get_running_loop().create_task(self._write())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if self._is_terminal:
            self._say(_CLEAR)

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            self._say(f"{_CLEAR}{self.line()[:78]}" if self._is_terminal else f"{self.line()}\n")

    def _say(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the reader is gone
            self._stream.write(text)
            self._stream.flush()
