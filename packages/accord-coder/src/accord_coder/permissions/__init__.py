"""Permissions: rules, modes, and the files that always require permission.

Read `decision` first: it decides about each access of a tool, by the rules of the project
(`rules`), the mode, and the user. `sensitive_files` has the secrets and the files that make
programs run code, `command_words` the analysis of commands, and `command_options` the table of
known commands. No rule of a project allows anything before this user has accepted it.
"""

__all__ = ()
