"""Posing as an agent: what a client under test starts, prompts and answers.

`Posing` is the agent as the client has it, `Watch` judges what the client does by itself,
`ClientRun` plays the scenarios of `scenes/` that a prompt names, each on a `Scene`.
"""

from __future__ import annotations

__all__ = ()
