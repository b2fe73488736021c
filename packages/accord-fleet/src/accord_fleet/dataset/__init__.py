"""The folder of a run: plan, tasks, results as Parquet parts, and recordings."""

__all__ = ()
