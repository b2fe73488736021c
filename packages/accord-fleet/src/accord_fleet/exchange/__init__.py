"""Results of a run in the formats of evaluators, and theirs as a run: inspect-ai and Harbor.

`imports` makes a run of logs, `conversation` what an attempt has said of its recording. A format
is one file that does both directions: `inspect_log` and `harbor_job`; `logs` chooses one.
"""

from __future__ import annotations

__all__ = ()
