"""Chains: proxies between a client and an agent, and the conductor that connects them.

To follow one update of the agent to `Proxy.update` and on to the client, read three files in this
order. `hop.py`: `Hop.frames_received` reads frames from a connection and gives them to a port.
`handlers.py`: a port leads to `ProxyStage`, which keeps the order of the session's messages and
finds the handler. `hooks.py`: `UpdateHook.edit` makes events of the update, calls the hook, and
edits the JSON by what it returned. The result goes to the next port, at last to
`Hop.send_notification`, back in `hop.py`. Ports and requests are described in `stage.py`.

`updates.py` reads and changes the updates of both versions. `proxy.py` handles requests, and has
`Proxy`. `conductor.py` has the kinds of connections, and starts and ends a chain. `chain.py` is for
users: components, `chain`, `chain.toml`, and what `accord chain --explain` shows.

What no proxy changes passes as the bytes that were received. The messages of a session stay in
their order; the other sessions and the other direction do not wait (R-PROXY-18, R-PROXY-19).
"""

__all__ = ()
