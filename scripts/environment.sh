# Functions of scripts/test and scripts/quickstart, which source this file, to create their virtual environments.

# These variables also reach the pip processes that pip itself starts.
export PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_RETRIES=2

fail() {
    echo "$(basename "$0"): $1" >&2
    exit 1
}

# Prints $PYTHON if it is set, otherwise python3 or python: the first that is new enough.
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

# Usage: make_environment FOLDER PIP_ARGUMENTS... Creates an environment, or updates one that works.
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
