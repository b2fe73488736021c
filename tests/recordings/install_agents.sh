#!/bin/sh
# Installs the agents of which record.py makes recordings and which use_chat.py uses;
# a second run does nothing.
set -eu
cd "$(dirname "$0")"
sh ../interop/install.sh real
if ! cmp -s package.json node_modules/.installed; then
    npm install --no-package-lock --no-audit --no-fund --loglevel=error
    cp package.json node_modules/.installed
fi

venvs=../interop/.venvs
newer=$venvs/fast-agent/bin/python # needs a new Python, as the following do
[ -e "$newer" ] || exit 0
status=0
python=$newer
install() { # name, requirements; a failure does not keep the others from being installed
    folder=$venvs/$1
    shift
    if [ "$(cat "$folder/.installed" 2>/dev/null)" = "$*" ]; then return; fi
    if "$python" -m venv --clear "$folder" &&
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; then
        echo "$*" >"$folder/.installed"
    else
        echo "$folder: not installed" >&2
        status=1
    fi
}

# Prints an interpreter of Python 3.12, if there is one.
find_312() {
    for found in python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python3 \
        "$(uv python find 3.12 2>/dev/null || true)"; do
        if [ -n "$found" ] && "$found" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' \
            2>/dev/null; then
            echo "$found"
            return
        fi
    done
}

install vibe mistral-vibe==3.0.2
install gptme gptme-acp==0.35.1
install kimi kimi-cli==1.5 # later versions end at once
install hermes "hermes-agent[acp,mcp]==0.19.0"
install deepagents deepagents-acp==0.0.13 langchain-openai
install crow crow-cli==0.1.48
install bub bub==0.5.1 bub-acp-server==0.1.1
install agentao "agentao[cli]==0.5.17"
install yycode yycode==0.3.7

python=$(find_312)
if [ -n "$python" ]; then
    install openhands openhands==1.16.0
else
    echo "OpenHands needs Python 3.12, and this machine has none" >&2
fi
exit "$status"
