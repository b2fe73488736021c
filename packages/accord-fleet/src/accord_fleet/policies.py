"""The permission policy of an attempt."""

from __future__ import annotations

from accord.client.permissions import Policy, allow, chain, deny
from accord_fleet.engine import RunSettings
from accord_fleet.types.task import Permissions


def policy_for(task: Permissions, settings: RunSettings) -> Policy | None:
    """Return the policy: what is denied first, then what is allowed; None denies everything."""
    both = (task, settings.permissions)
    policies: list[Policy] = [deny(*rules.deny) for rules in both if rules.deny]
    policies += [allow(*rules.allow) for rules in both if rules.allow]
    policies += settings.policy
    return chain(*policies) if policies else None
