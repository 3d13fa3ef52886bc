#!/bin/sh
# Builds confseq into .venv, which tests/gate_test.py then compares the gate with: it has no wheels, and its own build
# pins tools that a current Python refuses. Needs a C++ compiler and Boost's headers (apt-get install libboost-dev; or
# BOOST_ROOT). Run ./test.sh once before.
set -eu
cd "$(dirname "$0")"
pip="$PWD/.venv/bin/python -m pip install --quiet --disable-pip-version-check"
PATH="$PWD/.venv/bin:$PATH"
$pip 'pybind11<2.12' scikit-build cmake ninja 'setuptools<70' wheel
CMAKE_ARGS="-DBoost_INCLUDE_DIR=${BOOST_ROOT:-/usr}/include -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -Dpybind11_DIR=$(.venv/bin/python -m pybind11 --cmakedir)" \
  $pip --no-build-isolation confseq==0.0.11
