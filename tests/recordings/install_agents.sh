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
install() { # name, requirements
    folder=$venvs/$1
    shift
    if [ "$(cat "$folder/.installed" 2>/dev/null)" = "$*" ]; then return; fi
    "$newer" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    echo "$*" >"$folder/.installed"
}
install vibe mistral-vibe==3.0.2
install gptme gptme-acp==0.35.1
install kimi kimi-cli==1.5 # later versions end at once
install hermes "hermes-agent[acp,mcp]==0.19.0"
install deepagents deepagents-acp==0.0.13 langchain-openai
install crow crow-cli==0.1.48
install bub bub==0.5.1 bub-acp-server==0.1.1
install agentao "agentao[cli]==0.5.17"
install openhands openhands==1.16.0
install yycode yycode==0.3.7
