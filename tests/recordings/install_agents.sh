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
for one in vibe:mistral-vibe==3.0.2 gptme:gptme-acp==0.35.1 kimi:kimi-cli==1.5; do
    folder=$venvs/${one%%:*} package=${one#*:}
    if [ "$(cat "$folder/.installed" 2>/dev/null)" = "$package" ]; then continue; fi
    "$newer" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$package"
    echo "$package" >"$folder/.installed"
done
