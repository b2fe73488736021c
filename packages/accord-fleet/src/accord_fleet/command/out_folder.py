"""Whether a run can store its results at a path."""

from __future__ import annotations

import os
from pathlib import Path

from accord.text.excerpt import one_line
from accord_fleet.dataset.run_file import RUN

# What a run that died before it had a plan has left.
_BEGUN = {"lock", "lock.json", "tasks.jsonl"}
_NAMED = 3


def why_not_a_run(out: str, *, is_new: bool = False) -> str | None:
    """Return why a run cannot be stored at a path: a file, or a folder with files of others.

    None if it can, or if it is an address. A folder with a run is wrong with `is_new` only: what
    begins a run refuses it, and says whether it has the same tasks.
    """
    scheme, separator, place = out.partition("://")
    if separator and scheme not in ("file", "local"):
        return None
    if not out.strip():
        return "expected a folder or an address, got nothing"
    folder = Path(place if separator else out)
    try:
        if (folder / RUN).is_file():
            return f"{out}: expected a new or empty folder, it has a run" if is_new else None
        names = sorted(os.listdir(folder))  # noqa: PTH208  # names only
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return f"{out}: expected a folder, it is a file"
    except OSError as error:
        return f"{out}: expected a folder that can be read: {error.strerror}"
    names = [name for name in names if not name.endswith(".tmp")]
    if not names or ("lock" in names and _BEGUN.issuperset(names)):
        return None
    shown = ", ".join(one_line(name, 40) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{out}: expected a new or empty folder, it has other files: {shown}{more}"
