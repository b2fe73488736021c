"""Runs agents in a sandbox of bubblewrap: files, processes and network.

`settings` is what users choose, which is stored in the plan of a run. `bubblewrap` makes it a
command on this machine. `inside` is the first program in the sandbox, with the standard library
only.
"""

__all__ = ()
