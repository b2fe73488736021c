#!/bin/sh
# Installs frameworks and evaluators for test_frameworks.py, each with Accord in an environment of its own:
# their requirements exclude each other's, and some of Accord's. A second run does nothing.
set -eu
cd "$(dirname "$0")"
root=../../../..

# Prints the first interpreter that is new enough.
find_python() {
    for found in python3 python3.14 python3.13 python3.12 \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3 \
        "$(uv python find '>=3.12' 2>/dev/null || true)"; do
        if [ -n "$found" ] && "$found" -c "import sys; sys.exit(sys.version_info < $1)" 2>/dev/null
        then
            echo "$found"
            return
        fi
    done
}

venv() { # name, oldest Python, requirements
    folder=.venvs/$1
    oldest=$2
    shift 2
    if [ "$(cat "$folder/.installed" 2>/dev/null)" = "$*" ]; then return; fi
    python=$(find_python "$oldest")
    if [ -z "$python" ]; then
        echo "${folder#.venvs/} needs a newer Python, and this machine has none" >&2
        return
    fi
    if command -v uv >/dev/null; then
        uv venv --quiet --clear --python "$(command -v "$python")" "$folder"
        uv pip install --quiet --python "$folder/bin/python" "$@"
    else
        "$python" -m venv --clear "$folder"
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    fi
    echo "$*" >"$folder/.installed"
}

both="pytest pytest-asyncio -e $root/packages/accord -e $root/packages/accord-trace -e $root/packages/accord-coder"
# shellcheck disable=SC2086  # a list of words
venv inspect "(3, 11)" inspect-ai==0.3.285 $both -e $root/packages/accord-bridges \
    -e $root/packages/accord-terminal -e $root/packages/accord-fleet
# shellcheck disable=SC2086  # a list of words
venv harbor "(3, 12)" harbor==0.26.0 $both -e $root/packages/accord-bridges

# The frameworks take minutes: `sh install.sh frameworks` makes their environments, too.
if [ "${1:-}" != frameworks ]; then exit 0; fi

bridges="pytest pytest-asyncio -e $root/packages/accord[mcp] -e $root/packages/accord-bridges"
# shellcheck disable=SC2086  # a list of words
venv pydantic_ai "(3, 11)" "pydantic-ai-slim[mcp]==2.68.0" $bridges
# shellcheck disable=SC2086  # a list of words
venv langgraph "(3, 11)" langgraph langgraph-checkpoint-sqlite langchain deepagents $bridges
# shellcheck disable=SC2086  # a list of words
venv openai_agents "(3, 11)" openai-agents==0.24.0 $bridges
# shellcheck disable=SC2086  # a list of words
venv agno "(3, 11)" "agno[mcp]==3.1.0" $bridges
# shellcheck disable=SC2086  # a list of words
venv claude_agent_sdk "(3, 11)" claude-agent-sdk==0.2.189 $bridges
# shellcheck disable=SC2086  # a list of words
venv google_adk "(3, 11)" "google-adk[mcp]==2.13.0" $bridges
# shellcheck disable=SC2086  # a list of words
venv smolagents "(3, 11)" "smolagents[openai]==1.26.0" $bridges
# shellcheck disable=SC2086  # a list of words
venv agent_framework "(3, 11)" agent-framework-core==1.23.0 agent-framework-openai tenacity $bridges
