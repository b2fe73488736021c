"""What a plan means for its attempts."""

from __future__ import annotations

from accord_fleet.engine import RunSettings
from accord_fleet.plan import Plan


def settings_for(plan: Plan) -> RunSettings:
    """Return what all attempts of a run have in common."""
    return RunSettings(
        agents=plan.agents,
        permissions=plan.permissions,
        sandbox=plan.sandbox,
        providers=plan.providers,
        secrets=plan.secrets,
    )
