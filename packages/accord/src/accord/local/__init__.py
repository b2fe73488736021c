"""Files and processes of this machine, within bounds; both sides use them to serve requests.

`files` has `Roots`, the directories that may be read and written; `command` runs a command and
stops it with its children; `run` runs a program until a signal ends it; `state` has the folder of
what programs keep for a user.
"""

__all__ = ()
