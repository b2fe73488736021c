#!/bin/sh
# Installs what the recipes of docs/cookbook and the site need into .venv; a second run does nothing.
set -eu
cd "$(dirname "$0")/../.."
venv=${VENV:-.venv}
stamp="$venv/.docs"
if [ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt tests/docs/requirements.txt ]; then exit 0; fi
VENV=$venv sh tools/venv.sh -e '.[dev,docs]' -r tests/docs/requirements.txt
touch "$stamp"
