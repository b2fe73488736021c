"""Tasks: read from files and Python, checked before anything runs.

`read` has `check_tasks`, which all callers use: it takes the rows of a source (`rows`: files,
columns of tables, defaults), checks every field, path and reference, and stores the tasks in a
temporary file. `problems` collects everything that is wrong into one `TaskErrors`.
"""

__all__ = ()
