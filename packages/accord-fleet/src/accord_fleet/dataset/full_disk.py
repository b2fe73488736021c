"""What a run writes while the disk is full, and what it says."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from accord_fleet.dataset.errors import DatasetWriteFailed
from accord_fleet.dataset.journal import Journal

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def parts_that_fit(journal: Journal, lines: list[bytes]) -> Iterator[list[bytes]]:
    """Write lines and yield what was written: all at once, or one by one while the disk is full."""
    if not lines:
        return
    try:
        journal.commit(lines)
    except OSError as error:
        if error.errno not in _FULL or len(lines) == 1:
            raise
        for line in lines:
            journal.commit([line])
            yield [line]
    else:
        yield lines


def write_failed(address: str, what: str, error: OSError) -> DatasetWriteFailed:
    """Return the error for what was not written."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        reason += "; make space and run `accord fleet resume`"
    return DatasetWriteFailed(f"{address}: {what}: {reason}", error)
