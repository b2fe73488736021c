#!/bin/sh
# Installs the agents of which record.py makes recordings; a second run does nothing.
set -eu
cd "$(dirname "$0")"
sh ../interop/install.sh real
if ! cmp -s package.json node_modules/.installed; then
    npm install --no-package-lock --no-audit --no-fund --loglevel=error
    cp package.json node_modules/.installed
fi
