"""The ways in which `accord ask` shows a turn; the one for people is in `screen`."""
