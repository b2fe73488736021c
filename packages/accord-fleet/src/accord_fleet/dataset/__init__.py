"""The folder of a run: plan, tasks, results as Parquet parts, and recordings.

Read `segments` first: how a result is stored, exactly once, whenever its process is killed. Then
`writer`: one process at a time (`lock`) appends results; `recovery` makes parts of what a run that
died has left. `run_file` has the plan and the tasks, and `dataset` is the side of readers.

Others use `DatasetWriter`, `Dataset` and `run_status`. The format is docs/reference/fleet-dataset.
"""

__all__ = ()
