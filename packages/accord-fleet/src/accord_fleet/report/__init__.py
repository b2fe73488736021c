"""Reports about a run: success, cost, time, failures and comparisons of its agents.

`summary` has the values of a report, the statistics behind them and how they are written;
`aggregate` makes a report of the results in a dataset; `page` and `terminal` show it.

Others use `read_report`, and of `summary` the kinds of failures and the texts of numbers.
"""

__all__ = ()
