"""Finds what other packages add to the program, by the entry points of installed distributions.

`importlib.metadata` takes a fifth of the time of a short command, so Accord's own entry points are
looked up in the one file that has them.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from accord.version import __version__

__all__ = ("load_entry_point",)

_OWN_FILE = os.path.join(f"accord-{__version__}.dist-info", "entry_points.txt")  # noqa: PTH118  # pathlib is slow to import


def load_entry_point(group: str, name: str) -> Any:
    """Import and return the object of an entry point; None if it is not installed."""
    own = _own_value(group, name)
    if own is not None:
        module, _, attribute = own.partition(":")
        return getattr(import_module(module), attribute)
    from importlib.metadata import entry_points

    for entry in entry_points(group=group, name=name):
        return entry.load()
    return None


def _own_value(group: str, name: str) -> str | None:
    """Return the value of an entry point of Accord, `module:attribute`."""
    for folder in sys.path:
        try:
            with open(os.path.join(folder, _OWN_FILE), encoding="utf-8") as file:  # noqa: PTH118, PTH123  # as above
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        section = ""
        for line in map(str.strip, lines):
            if line.startswith("["):
                section = line.strip("[]")
            elif section == group:
                key, is_pair, value = line.partition("=")
                if is_pair and key.strip() == name:
                    return value.strip()
    return None
