#!/bin/sh
# Fetches the official schemas for the proof; writes nothing that git would track.
set -eu
npm install --prefix "$(dirname "$0")" --no-package-lock --no-audit --no-fund --loglevel=error
