#!/bin/sh
# Installs the peers that the interop tests talk to; a second run does nothing.
#   tests/interop/install.sh          the official SDKs
#   tests/interop/install.sh real     also the agents of tests/interop/real
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-../../.venv/bin/python}
command -v "$python" >/dev/null || python=python3

venv() { # name, requirements
    folder=".venvs/$1"
    shift
    if [ "$(cat "$folder/.installed" 2>/dev/null)" = "$*" ]; then return; fi
    "$python" -m venv --clear "$folder" &&
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" &&
        echo "$*" >"$folder/.installed"
}

if ! cmp -s package.json node_modules/.installed; then
    npm install --no-package-lock --no-audit --no-fund --loglevel=error
    cp package.json node_modules/.installed
fi
venv python-0.12 "agent-client-protocol==0.12.1"
venv python-1.0 "agent-client-protocol[http]==1.0.0rc3" "hypercorn==0.18.0"

[ "${1:-}" = real ] || exit 0

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 13))' 2>/dev/null
}

# Prints an interpreter that fast-agent runs on, if there is one.
find_newer() {
    for newer in "$python" python3.14 python3.13 python3 \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[3-9]*/bin/python3 \
        "$(uv python find '>=3.13' 2>/dev/null || true)"; do
        if [ -n "$newer" ] && new_enough "$newer"; then
            echo "$newer"
            return
        fi
    done
}

if ! cmp -s real/package.json real/node_modules/.installed; then
    npm install --prefix real --no-package-lock --no-audit --no-fund --loglevel=error
    cp real/package.json real/node_modules/.installed
fi

left_out=.venvs/fast-agent.left-out # says why the tests skip it
rm -f "$left_out"
venv fastmcp "fastmcp==4.2.3"
venv minion "minion-code==0.1.45" &
minion=$!
newer=$(find_newer)
status=0
if [ -z "$newer" ]; then
    echo "fast-agent needs Python 3.13, and this machine has none" | tee "$left_out" >&2
else
    python=$newer
    venv fast-agent "fast-agent-mcp==0.10.46" || status=$?
fi
wait "$minion" || status=$?
exit "$status"
