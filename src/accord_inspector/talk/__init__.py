"""The conversation of the inspector: transcripts of recorded messages, and a live agent's client."""
