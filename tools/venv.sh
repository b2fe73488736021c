#!/bin/sh
# Makes .venv (or $VENV) with a Python that is new enough and installs there what pip is told to.
# Usage: tools/venv.sh -e packages/accord -e packages/accord-trace --group dev
set -eu

venv=${VENV:-.venv}
wanted="3.11"

version_of() {
    "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

can_make_venvs() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null
}

# Sets python to the first interpreter that will do, and seen to those that will not.
find_python() {
    python=
    seen=
    without_pip=
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        found=$(version_of "$candidate") || continue
        [ -n "$found" ] || continue
        if ! new_enough "$candidate"; then
            seen="$seen $candidate=$found"
        elif [ -z "$have_uv" ] && ! can_make_venvs "$candidate"; then
            without_pip="$without_pip $candidate=$found"
        else
            python=$candidate
            return
        fi
    done
}

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

have_uv=
if command -v uv >/dev/null 2>&1; then have_uv=yes; fi

if [ -x "$venv/bin/python" ] && new_enough "$venv/bin/python"; then
    :
else
    find_python
    if [ -n "$python" ]; then
        echo "Making $venv with $python ($(version_of "$python"))"
        if [ -n "$have_uv" ]; then
            uv venv --quiet --clear --python "$(command -v "$python")" "$venv"
        else
            "$python" -m venv --clear "$venv"
        fi
    elif [ -n "$have_uv" ]; then
        echo "Making $venv with a Python that uv finds"
        uv venv --quiet --clear --python ">=$wanted" "$venv"
    elif [ -n "$without_pip" ]; then
        fail "Found$without_pip, but without the modules venv and ensurepip." \
            "On Debian and Ubuntu: apt-get install python3-venv   (or install uv)"
    else
        fail "Accord needs Python $wanted or newer; found:${seen:- no Python at all}." \
            "Install one, or name one: make PYTHON=/path/to/python3.12"
    fi
fi

# Packages in this folder are built by what is installed here: one for all, not one for each.
build=
case " $* " in *" -e "*) build="--no-build-isolation" ;; esac

install() {
    if [ -n "$have_uv" ]; then
        uv pip install --quiet --python "$venv/bin/python" "$@"
    else
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    fi
}

if [ -z "$have_uv" ]; then
    if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        "$venv/bin/python" -m ensurepip --upgrade >/dev/null
    fi
    case " $* " in *" --group "*) install 'pip>=25.1' ;; esac
fi
if [ -n "$build" ]; then install hatchling editables; fi
install $build "$@"
