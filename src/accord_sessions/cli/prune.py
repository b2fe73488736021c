"""`accord session prune`: deletes closed sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from accord_sessions.owners import has_owner
from accord_sessions.records import Record, Store

__all__ = ("prune_command",)


@click.command("prune")
@click.option("--older-than", "days", metavar="DAYS", type=click.FloatRange(min=0))
@click.option("--before", metavar="DATE", type=click.DateTime(["%Y-%m-%d"]))
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
def prune_command(days: float | None, before: datetime | None, dry_run: bool) -> int:
    """Delete closed sessions and their journals; with a limit, those last used before it."""
    store = Store()
    limit = None if before is None else before.astimezone(UTC)
    if days is not None:
        limit = datetime.now(UTC) - timedelta(days=days)
    count = 0
    for record in store:
        if not record.closed or has_owner(record.id) or not _is_before(record, limit):
            continue
        count += 1
        if dry_run:
            click.echo(f"{record.id}  {record.label}  {record.used_at}")
        else:
            store.delete(record.id)
    click.echo(f"{'would delete' if dry_run else 'deleted'} {count} session{'s' * (count != 1)}")
    return 0


def _is_before(record: Record, limit: datetime | None) -> bool:
    if limit is None:
        return True
    try:
        return datetime.fromisoformat(record.used_at) < limit
    except (ValueError, TypeError):
        return False
