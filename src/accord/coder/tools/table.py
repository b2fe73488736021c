"""All the tools there are."""

from __future__ import annotations

from typing import Any

from accord.coder.tools.base import Tool
from accord.coder.tools.read import Read

__all__ = ("TOOLS",)

TOOLS: tuple[Tool[Any], ...] = (Read(),)
