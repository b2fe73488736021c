"""Loads the packages that add rules, judges and scenarios to the kit."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

# An installed package names its module under this group of entry points.
GROUP = "accord_conformance.extensions"
_OF_ACCORD = ("accord_conformance.nes.conformance",)

_is_loaded = False


def load_extensions() -> None:
    """Import each extension once; it registers what it adds by `add_extension`."""
    global _is_loaded  # once per process
    if _is_loaded:
        return
    _is_loaded = True  # before the imports: extensions read what they extend
    for name in _OF_ACCORD:
        importlib.import_module(name)
    for entry in entry_points(group=GROUP):
        entry.load()
