"""The conformance kit in tests: what the plugin for pytest, `accord_pytest`, gives to them.

`rules` makes a test of each rule, `agent` and `client` are the fixtures for either side.
"""

from __future__ import annotations

__all__ = ()
