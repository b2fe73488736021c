"""Results of a run in the formats of evaluators, and theirs as a run: inspect-ai and Harbor.

`imports` makes a run of logs; `conversation` is what an attempt has said, by its recording. A
format is one file that does both directions, `inspect_log` and `harbor_job`; `samples` is between.
"""

from __future__ import annotations

__all__ = ()
