"""The models: language models of providers and local servers, and a demonstration model.

`base` is what a model is: a `Request` goes in, pieces of an answer come out. `selection` finds the
model of a name and opens it: `remote` (pydantic-ai) or `demo`. `providers` is the table of
providers and local servers, `keys` has the API keys; a key is never logged and never part of an
error.
"""

from __future__ import annotations

__all__ = ()
