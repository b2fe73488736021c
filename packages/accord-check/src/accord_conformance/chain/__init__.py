"""Tests the parts of a chain: proxies and conductors.

`line` is a connection on which two ends speak. `proxy_context` and `conductor_context` play what is
around the program under test, `proxy_scenarios` and `conductor_scenarios` have what they play, and
`run` plays all of it, several scenarios at a time.
"""

from __future__ import annotations

__all__ = ()
