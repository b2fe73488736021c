"""The bundled coding agent: `accord agent`, built only on Accord's public API.

A client's requests and prompts go in; messages, tool calls and permission requests come out, and
changes of files. Read `agent` first: the class `Coder`, with what a client can ask of it. A prompt
goes to `prompt`, which runs a slash command (`commands`) or a turn (`turn`): the model (`models`)
answers and uses tools (`tools`), each after a permission check (`permissions.decision`). `session`
has the state of a session, and the conversation as the model knows it.

`command` is the program, without click; `completion` describes it for click. An editor waits for
the start: what a session or a prompt needs is imported when the first of them comes.
"""

from __future__ import annotations

__all__ = ()
