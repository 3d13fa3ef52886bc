"""OpenFeature's own SDK and OFREP provider, as published, against a gateway."""

import json
import pathlib
import re
import urllib.request

import pytest
from millrace import assignment
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason

FLAG = "composer-checkpoint"
ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def client(gateway):
    api.set_provider(OFREPProvider(gateway.url, headers_factory=lambda: {"Authorization": "Bearer " + gateway.token}))
    yield api.get_client()
    api.clear_providers()


def ask(client, unit, default="mine", flag=FLAG, **attributes):
    return client.get_string_details(flag, default, EvaluationContext(targeting_key=unit, attributes=attributes))


def test_evaluates_as_the_ruleset_does(gateway, client):
    local = assignment.Client(gateway.url, gateway.token, [gateway.key])
    assert local.refresh() is None
    seen = set()
    for unit in [f"user-{i}" for i in range(60)] + ["👩‍💻-42", "Zoë", "Zoe\u0308", "χρήστης-7", "a\x00b", " "]:
        here, there = local.assign(unit), ask(client, unit)
        seen.add(here.variant)
        assert there.error_code is None, there.error_message
        assert (there.value, there.variant) == (here.version, here.variant)
        expected = {"hash_version": 2} | ({"experiment": here.experiment, "arm": here.arm} if here.arm else {})
        metadata = dict(there.flag_metadata)
        assert ("valid_until" in metadata) == (here.variant in ("control", "candidate"))
        metadata.pop("valid_until", None)
        assert metadata == expected
        assert there.reason == (Reason.SPLIT if here.arm else Reason.STATIC)
    assert seen == {"live", "hold_back", "control", "candidate"}


def test_a_session_keeps_its_checkpoint(gateway, client):
    unit = next(f"user-{i}" for i in range(100) if ask(client, f"user-{i}").variant == "live")
    began = ask(client, unit, sessionId="s1").value
    gateway.tell("live cand-10")
    assert ask(client, unit, sessionId="s1").value == began == "base-8"
    assert ask(client, unit, sessionId="s2").value == "cand-10"
    kept = ask(client, unit, sessionId="s3", currentCheckpoint="base-8", currentExperiment="")
    assert (kept.value, kept.variant) == ("base-8", "kept"), "a gateway that doesn't remember the session is told"


def test_errors_give_the_default(gateway, client):
    for details, code in (
        (ask(client, ""), ErrorCode.TARGETING_KEY_MISSING),
        (ask(client, "u", flag="colour"), ErrorCode.FLAG_NOT_FOUND),
        (ask(client, "u", sessionId=7), ErrorCode.INVALID_CONTEXT),
        (client.get_boolean_details(FLAG, False, EvaluationContext(targeting_key="u")), ErrorCode.TYPE_MISMATCH),
    ):
        assert details.error_code == code, details
        assert details.value in ("mine", False)
        assert details.error_message or code == ErrorCode.TYPE_MISMATCH
    gateway.tell("away")
    away = ask(client, "user-17")
    assert (away.value, away.error_code, away.reason) == ("mine", ErrorCode.GENERAL, Reason.ERROR)


def test_bulk(gateway):
    """The Python provider has no bulk call; the protocol does: an ETag, and 304 until something changes."""

    def bulk(tag=None):
        request = urllib.request.Request(
            gateway.url + "/ofrep/v1/evaluate/flags",
            json.dumps({"context": {"targetingKey": "user-17"}}).encode(),
            {"Authorization": "Bearer " + gateway.token, "Content-Type": "application/json"} | ({"If-None-Match": tag} if tag else {}),
        )
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, response.headers["ETag"], json.load(response)
        except urllib.error.HTTPError as e:
            with e:
                return e.code, e.headers["ETag"], None

    status, tag, body = bulk()
    assert status == 200 and [f["key"] for f in body["flags"]] == [FLAG]
    assert bulk(tag)[:2] == (304, tag)
    assert bulk('"another"')[0] == 200


def test_the_examples_of_the_manual(gateway):
    manual = (ROOT / "docs/assignment.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", manual, re.DOTALL)
    assert len(examples) == 2
    names = {"token": gateway.token, "key": gateway.key, "assignment": assignment}
    for example in examples:
        exec(example.replace("https://millrace.example.com", gateway.url), names)
    names["client"].stop()
    api.clear_providers()
    assert names["answer"].error_code is None and names["a"].error is None
    assert names["answer"].value == names["a"].version
