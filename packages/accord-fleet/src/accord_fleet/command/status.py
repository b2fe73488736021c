"""`accord fleet status`."""

from __future__ import annotations

import click

from accord.errors import AccordError


@click.command("status")
@click.argument("run", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--follow", is_flag=True, help="Print it every 5 seconds until the run has ended.")
def command(run: str, as_json: bool, follow: bool) -> int:
    """Show how far RUN is, also while it runs.

    RUN is the folder or address of a run.

    Exit status: 0 every attempt has a result, 1 error, 3 attempts remain.
    """
    from accord_fleet.command.show_status import show_status

    try:
        return show_status(run, as_json=as_json, follow=follow)
    except AccordError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{run} cannot be read: {error}") from None
    except KeyboardInterrupt:
        return 130
