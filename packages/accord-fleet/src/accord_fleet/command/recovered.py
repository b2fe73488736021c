"""What `accord fleet resume` says before it begins."""

from __future__ import annotations

from collections.abc import Iterator

from accord_fleet.dataset.writer import DatasetWriter


def recovered_lines(dataset: DatasetWriter) -> Iterator[str]:
    """Yield lines about what is done, and what the run before has left."""
    found = dataset.recovered
    total = dataset.plan.total
    yield f"{len(dataset):,} of {total:,} attempts have a result; {total - len(dataset):,} to run"
    if found.cancelled:
        yield f"{found.cancelled:,} cancelled attempts are run again"
    if found.from_journals:
        yield f"the run before ended early; {found.from_journals:,} results were recovered"
    if found.torn:
        yield f"{found.torn:,} incomplete results were dropped; their attempts are run again"
    if found.lost:
        yield (
            f"{found.lost:,} attempts began and may have changed something outside their workspace;"
            " they are lost, and repeated only with --repeat-lost"
        )
    if found.repeated:
        yield f"{found.repeated:,} lost attempts are run again"
    if found.twice:
        yield f"{found.twice:,} second results of attempts were dropped"
