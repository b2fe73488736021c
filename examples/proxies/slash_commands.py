"""A proxy that adds slash commands: one that it answers itself, one that becomes a prompt."""

from accord import AvailableCommand, Proxy, ProxyTurn


class Commands(Proxy):
    """Adds /branch and /review to any agent."""

    commands = (
        AvailableCommand("branch", "Says how branches are named", hint="topic"),
        AvailableCommand("review", "Reviews the last commit"),
    )

    async def prompt(self, turn: ProxyTurn, forward):
        match turn.command:
            case "branch":
                await turn.say(f"Name it `topic/{turn.argument or 'what-it-does'}`.")
                return "end_turn"
            case "review":
                turn.replace("Review the last commit. List defects only, the worst first.")
            case _:
                pass
        return await forward()

    async def steer(self, turn: ProxyTurn, forward):
        names = [command.name for command in self.commands]
        # A command that is said while a turn runs is the prompt after it.
        return "promptRequired" if turn.command in names else await forward()


if __name__ == "__main__":
    Commands().run()
