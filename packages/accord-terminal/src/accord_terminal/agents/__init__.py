"""`accord agents` and `accord doctor`: agents from registries, and what starts here.

`registry` reads what a registry offers, `installation` installs it. `command` has the group of the
commands and those that need no registry, `registry_commands` the others.
"""

__all__ = ()
