"""Reports about a run: success, cost, time, failures and comparisons of its agents."""

__all__ = ()
