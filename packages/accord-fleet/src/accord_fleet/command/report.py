"""`accord fleet report`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from accord.errors import AccordError


@click.command("report")
@click.argument("run")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a page, one file that loads nothing.",
)
@click.option("--json", "as_json", is_flag=True, help="Write everything as JSON on stdout.")
def command(run: str, html: Path | None, as_json: bool) -> int:
    """Show success, cost, time and failures of a run, and compare its agents.

    RUN is a folder or an address of fsspec. The run may still be in progress.

    Exit status: 0 shown or written, 1 error.
    """
    from accord_fleet.report.read import read_report

    try:
        report = read_report(run)
    except AccordError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{run} cannot be read: {error}") from None
    if html is not None:
        from accord_fleet.report.page import report_page

        try:
            with html.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(report_page(report))
        except OSError as error:
            raise click.ClickException(f"{html}: {error.strerror or error}") from None
    if as_json:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    elif html is None:
        from accord_fleet.report.terminal import print_report

        print_report(report)
    else:
        click.echo(f"{report.results:,} results: {html}")
    return 0
