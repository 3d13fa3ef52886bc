"""The files to read: written once a run by the Go codec, with values that the tests know."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def goldens(tmp_path_factory) -> pathlib.Path:
    """MILLRACE_GOLDENS names a folder that is already there; else it is written now."""
    if folder := os.environ.get("MILLRACE_GOLDENS"):
        return pathlib.Path(folder)
    folder = tmp_path_factory.mktemp("goldens")
    subprocess.run(["go", "run", "./internal/arrowfile/goldens", str(folder)], cwd=ROOT, check=True)
    return folder
