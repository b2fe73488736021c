"""Values that clients and agents use, independent of the protocol version.

`session`, `content`, `tool_calls`, `permission` and `mcp` have the values; `convert_v1` and
`convert_v2` convert content to the types of a version. `validation` checks arguments of users, and
`must_await` reports a coroutine that they forgot to await.
"""

__all__ = ()
