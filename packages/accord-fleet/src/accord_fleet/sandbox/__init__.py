"""Runs agents in a sandbox of bubblewrap: files, processes and network."""

__all__ = ()
