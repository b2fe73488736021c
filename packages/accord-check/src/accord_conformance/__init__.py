"""The conformance kit: tests agents and clients against the rules of the protocol.

In come frames, of a recording or of a program that the kit runs; out comes a `Report`. Read first
`rules/manifest.py` (what a rule is), `judges/base.py` (what sees the messages and judges them) and
`harness.py` (a connection to a program under test, and a scenario on it).

`rules` has the rules and `traffic` reads messages. An `Observer` of `judges` takes the frames of
one connection and fills a `Report` of `reports`. It does no I/O, so it can judge a recording, a
connection of any program, or one that the kit runs itself. `agent`, `client` and `chain` run
scenarios against an agent, a client, and a proxy or conductor; `harness` is their common part, and
`network` their raw HTTP. `cli` has the commands and `pytest_plugin` the fixtures of pytest.

To judge another rule:

1. Find the rule in `rules/data/`. The entry names its versions and the side that has to obey it:
   `Judge.judge` ignores other versions and attributes a failure to that side.
2. If a field has a wrong type or value, add a `FieldRule` in `judges/fields.py`: every message is
   read strictly already. Otherwise override `on_request`, `on_response`, … in the
   judge of the area, and name the rule in its `rules`. State that several judges need belongs in
   `ConnectionState` or `Session`, other state in the judge.
3. Call `judge` with True if the rule applied and was obeyed, or with False and the messages that
   show it. If messages of both sides may have crossed, or the recording may have
   begun after the connection, do not judge: a false alarm costs more than a missed finding.
4. Set `how = "observed"` in the rule's entry, and write a double in `tests/conformance/doubles/`:
   a valid conversation with one change that breaks this rule and no other.

The rules that are `checked` are judged by scenarios, which add their findings to the same `Report`.
The reports of several connections are joined by `Report.merge`.

A scenario for clients is in `client/scenarios/`: it sends something and judges the reaction, in a
`ClientContext`. Its double in `tests/conformance/client/` is Accord's client with one change.
A client may disconnect at any time: that is a finding only while it waits for the end of a turn, or
for the response to `initialize`.

A package can add a protocol family to the kit: see `extension`.
"""

from __future__ import annotations

__all__ = ()
