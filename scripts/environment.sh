# Makes the virtual environments of scripts/test and scripts/quickstart; they source this file and name themselves in $0.

# For every pip that they start, and those that pip itself starts.
export PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_RETRIES=2

fail() {
    echo "$(basename "$0"): $1" >&2
    exit 1
}

# Prints the Python that $PYTHON names, otherwise the first of the usual ones that is new enough.
find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "${PYTHON:-python3} is not Python 3.10 or newer: name one that is, as in PYTHON=python3.12 bash $0."
}

# Usage: make_environment FOLDER WHAT_PIP_INSTALLS... An environment that is there and works is brought up to date.
make_environment() {
    local folder=$1 python
    shift
    python=$(find_python) || exit 1
    if ! "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
        "$python" -m venv --clear "$folder" ||
            fail "$python cannot make a virtual environment: install its venv module (Debian: python3-venv) and run this again."
    fi
    "$folder/bin/python" -m pip install -qq "$@" ||
        fail "pip could not install what is needed, for the reason above: see that the package index is reachable and run this again."
}
