#!/bin/sh
# Installs the client of AG-UI for test_gateway_ag_ui.py; a second run does nothing.
set -eu
cd "$(dirname "$0")"
if ! cmp -s package.json node_modules/.installed; then
    npm install --no-package-lock --no-audit --no-fund --loglevel=error
    cp package.json node_modules/.installed
fi
