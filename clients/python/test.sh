#!/bin/sh
# Runs the reader tests with the real packages, in a virtual environment of their own (.venv, made once).
# Needs python3 with venv, and go for the files to read. Arguments go to pytest.
set -eu
cd "$(dirname "$0")"
if ! cmp -s requirements-test.txt .venv/installed.txt 2>/dev/null; then
  python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-test.txt
  cp requirements-test.txt .venv/installed.txt
fi
exec .venv/bin/python -m pytest -q -p no:cacheprovider tests "$@"
