"""Workspaces: the folders that attempts work in, prepared, compared and removed.

`prepare` makes a workspace for a task, and finds what an agent has changed in it. `contents` fills
it from folders and archives, `git` from repositories. Nothing in a workspace is executed or
followed: neither hooks and filters of git nor links.
"""

__all__ = ()
