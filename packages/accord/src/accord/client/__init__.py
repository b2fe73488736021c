"""The client's side of one API over both versions.

To read: `connect` starts an agent and opens a `session`, whose turns yield `events`; `transcript`
is what a session has received. `handlers` serve what the agent requests, with `permissions`,
`elicitation` and `files`. `agent_adapter` is what the modules of the versions, `v1` and `v2`,
implement. `reconnect` continues sessions after a lost connection.
"""

__all__: tuple[str, ...] = ()
