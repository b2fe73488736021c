"""The options of the commands that record messages; none of them imports what records."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import click

Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

no_redact_option: Option = click.option(
    "--no-redact", is_flag=True, help="Keep secrets: environment, headers, logins."
)
max_size_option: Option = click.option(
    "--max-size",
    type=click.FloatRange(0, min_open=True),
    metavar="MB",
    help="Continue in a new file after this size.",
)
_MEGABYTE = 1_000_000


def own_path(path: Path) -> Path:
    """Return the path with `{pid}` replaced by the number of this process."""
    return path.with_name(path.name.replace("{pid}", str(os.getpid())))


def bytes_of(max_size: float | None) -> int | None:
    """Return a size in megabytes as bytes."""
    return None if max_size is None else round(max_size * _MEGABYTE)
