"""`accord session prune`: deletes closed sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from accord_terminal.sessions.cli.options import json_option, print_result
from accord_terminal.sessions.errors import FAILED, StoreError
from accord_terminal.sessions.owners import has_owner
from accord_terminal.sessions.records import Record, Store
from accord_terminal.toolkit.text import one_line


@click.command("prune")
@click.option(
    "--older-than",
    "days",
    metavar="DAYS",
    type=click.FloatRange(min=0),
    help="Only sessions that were not used for so many days.",
)
@click.option(
    "--before",
    metavar="DATE",
    type=click.DateTime(["%Y-%m-%d"]),
    help="Only sessions that were last used before this day, such as 2026-11-30.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@json_option
def prune_command(days: float | None, before: datetime | None, dry_run: bool, as_json: bool) -> int:
    """Delete closed sessions and their journals. Open sessions stay."""
    store = Store()
    limit = _limit(days, before)
    found: list[Record] = []
    errors: list[str] = []
    for record in store:
        if not record.closed or has_owner(record.id) or not _is_before(record, limit):
            continue
        if not dry_run:
            try:
                store.delete(record.id)
            except StoreError as exc:
                errors.append(str(exc))
                continue
        elif not as_json:
            click.echo(f"{record.id}  {record.used_at}  {one_line(record.label)}")
        found.append(record)
    for error in (*store.unreadable, *errors):
        click.echo(f"accord session prune: {one_line(error)}", err=True)
    result = [{"id": record.id, "name": record.name} for record in found]
    what = "would delete" if dry_run else "deleted"
    text = f"{what} {len(found)} session{'s' * (len(found) != 1)}"
    print_result({"dryRun": dry_run, "deleted": result}, text, as_json=as_json)
    return FAILED if errors else 0


def _limit(days: float | None, before: datetime | None) -> datetime | None:
    """Return the time before which sessions must have been used last."""
    limits: list[datetime] = []
    try:
        if days is not None:
            limits.append(datetime.now(UTC) - timedelta(days=days))
        if before is not None:
            limits.append(before.astimezone(UTC))
    except (OverflowError, ValueError):
        raise click.UsageError("--older-than or --before is not a day of the calendar") from None
    return min(limits, default=None)


def _is_before(record: Record, limit: datetime | None) -> bool:
    if limit is None:
        return True
    try:
        return datetime.fromisoformat(record.used_at) < limit
    except (ValueError, TypeError):
        return False
