"""The screen of `accord ask` for people: Markdown, tool calls, diffs, the plan, a spinner."""
