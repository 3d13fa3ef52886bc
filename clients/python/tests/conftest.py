"""The files to read: written once a run by the Go codec, with values that the tests know."""

import json
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


class Gateway:
    """A gateway that serves assignments and nothing else: no Postgres, no Kafka, no control plane."""

    def __init__(self):
        self._process = subprocess.Popen(
            ["go", "run", "./clients/testserver"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        where = json.loads(self._process.stdout.readline())
        self.url, self.token, self.key = where["url"], where["token"], where["key"]

    def tell(self, command: str) -> None:
        """ "live VERSION" promotes; "away" answers 503 from now on."""
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def close(self) -> None:
        self._process.stdin.close()
        assert self._process.wait(10) == 0


@pytest.fixture
def gateway():
    g = Gateway()
    yield g
    g.close()
