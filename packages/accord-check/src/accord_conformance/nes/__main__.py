"""Serves the script agent with next edit suggestions on stdin and stdout."""

from __future__ import annotations

from accord_conformance.nes.script_agent import NextEditsScriptAgent

if __name__ == "__main__":
    NextEditsScriptAgent().run()
