"""A proxy that hides secrets from the editor. The secrets are in the environment."""

import os

from accord import PermissionRequest, Proxy
from accord.client.events import Event

SECRETS = [value for name, value in os.environ.items() if name.endswith(("_TOKEN", "_API_KEY"))]


class Redact(Proxy):
    """Replaces secrets in everything that the agent shows."""

    def update(self, event: Event) -> Event:
        return event.redacted(SECRETS)

    async def decide_permission(self, request: PermissionRequest, forward):
        # A request shows the tool call, too: it is not passed on with a secret in it.
        if request.redacted(SECRETS) != request:
            return "reject"
        return await forward()


if __name__ == "__main__":
    Redact().run()
