"""The options that all runs of scenarios have: versions, selection, reports and baseline."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct

from accord_conformance.cli.report_files import check_directory, check_writable, write_atomically
from accord_conformance.cli.show_run import show_result
from accord_conformance.reports.baseline import read_baseline, write_baseline
from accord_conformance.reports.formats import report_bytes
from accord_conformance.reports.run_result import RunResult, verdict

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_PATH = click.Path(dir_okay=False, path_type=Path)
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
        "--json", "json_file", type=_PATH, metavar="FILE", help="Write the report as JSON."
    ),
    click.option(
        "--junit", "junit_file", type=_PATH, metavar="FILE", help="Write the report as JUnit XML."
    ),
    click.option(
        "--markdown",
        "markdown_file",
        type=_PATH,
        metavar="FILE",
        help="Write the report as Markdown.",
    ),
    click.option(
        "--html", "html_file", type=_PATH, metavar="FILE", help="Write the report as HTML."
    ),
    click.option(
        "--trace",
        type=_DIRECTORY,
        metavar="DIRECTORY",
        help="Write the frames of each connection to a file.",
    ),
    click.option("--strict", is_flag=True, help="Fail on SHOULD rules too."),
    click.option(
        "--baseline", type=_PATH, metavar="FILE", help="Ignore failures listed in this file."
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
