"""`accord ask`: sends one prompt to an agent and shows the turn."""
