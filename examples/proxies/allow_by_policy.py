"""A proxy that decides permission requests by rules, and asks the user about the others."""

from accord import PermissionRequest, Proxy
from accord.client.permissions import allow, chain, deny

policy = chain(
    deny("edit:.git/*", "execute:git push*"),
    allow("read", "search", "execute:pytest*"),
)


class Policy(Proxy):
    """The first rule that matches decides; without one, the user does."""

    async def decide_permission(self, request: PermissionRequest, forward):
        return await policy(request) or await forward()


if __name__ == "__main__":
    Policy().run()
