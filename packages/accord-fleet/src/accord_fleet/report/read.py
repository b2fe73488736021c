"""Makes the report of a dataset."""

from __future__ import annotations

from accord_fleet.dataset.dataset import Dataset
from accord_fleet.report.aggregate import report_of
from accord_fleet.report.summary import Report


def read_report(address: str) -> Report:
    """Return the report of the dataset at a path or an address, as it is now.

    Raises `DatasetError` if it is not a dataset.
    """
    dataset = Dataset.open(address)
    graded = {task.id for task in dataset.tasks() if task.grader is not None}
    return report_of(
        lambda: dataset.results(texts=False),
        address.rstrip("/"),
        whole=lambda tasks: dataset.results(tasks=tasks),
        planned=dataset.plan.total,
        has_grader=graded.__contains__,
    )
