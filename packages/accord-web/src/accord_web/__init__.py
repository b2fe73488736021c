"""`accord web`: the sessions of this machine on a page, for a browser and a phone.

The journals of the sessions go in, a page with its JSON API comes out. Read `app` first: who may do
what, and the stream of each page. `sessions` reads the journals, for which nothing is started;
`live` is a device as a client of a session's owner, when it answers or says something; `devices`
are the codes, the tokens and the roles. The conversation is that of `accord_terminal.conversation`.
"""

from __future__ import annotations

__all__ = ()
