"""Files and processes of this machine, within bounds; both sides use them to serve requests.

`files` has `Roots`, the directories that may be read and written; `command` runs a command and
stops it with its children; `run` runs a program until a signal ends it.
"""

__all__ = ()
