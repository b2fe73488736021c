#!/bin/sh
# Installs the peers that the interop tests talk to; a second run does nothing.
#   tests/interop/install.sh          the official SDKs
#   tests/interop/install.sh real     also the agents of tests/interop/real
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-../../.venv/bin/python}
command -v "$python" >/dev/null || python=python3

venv() { # name, requirement
    stamp=".venvs/$1/.installed"
    if [ "$(cat "$stamp" 2>/dev/null)" = "$2" ]; then return; fi
    "$python" -m venv --clear ".venvs/$1"
    ".venvs/$1/bin/python" -m pip install --quiet --disable-pip-version-check "$2"
    echo "$2" >"$stamp"
}

if ! cmp -s package.json node_modules/.installed; then
    npm install --no-package-lock --no-audit --no-fund --loglevel=error
    cp package.json node_modules/.installed
fi
venv python-0.12 "agent-client-protocol==0.12.1"
venv python-1.0 "agent-client-protocol==1.0.0rc3"

if [ "${1:-}" = real ]; then
    venv minion "minion-code"
    for newer in python3.14 python3.13 "$python"; do
        if "$newer" -c 'import sys; sys.exit(sys.version_info < (3, 13))' 2>/dev/null; then
            python=$newer
            venv fast-agent "fast-agent-mcp"
            exit 0
        fi
    done
    echo "fast-agent is left out: it needs Python 3.13" >&2
fi
