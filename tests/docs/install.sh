#!/bin/sh
# Installs what the recipes of docs/cookbook and the site need into .venv; a second run does nothing.
set -eu
cd "$(dirname "$0")/../.."
venv=${VENV:-.venv}
stamp="$venv/.docs"
if [ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt tests/docs/requirements.txt ]; then exit 0; fi
VENV=$venv make --no-print-directory "$venv/.dev"
VENV=$venv sh tools/venv.sh --group docs
VENV=$venv sh tools/venv.sh -r tests/docs/requirements.txt
# openai-agents asks for an older version, which it needs for voice only.
VENV=$venv sh tools/venv.sh --no-deps 'websockets>=17'
touch "$stamp"
