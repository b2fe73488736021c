"""Tests an agent: starts it, runs scenarios, reports.

`run` plays the scenarios of `scenarios/` several at a time, as `settings` say. Each gets an
`AgentContext` (`context`) with a `ScenarioClient` (`scenario_client`), which speaks one version, or
with an `HttpProbe`, which sends single requests to a server.
"""

__all__ = ()
