"""The same vectors as the Go package's and the TypeScript one's, and a client against a real gateway."""

import base64
import json
import pathlib
from datetime import datetime

import pytest
from millrace import assignment, ed25519

ROOT = pathlib.Path(__file__).resolve().parents[3]
VECTORS = json.loads((ROOT / "assignment/testdata/vectors.json").read_text())
HASH = json.loads((ROOT / "internal/unithash/testdata/hash.json").read_text())["hash"]["cases"]
KEYS = {name: assignment.parse_key(key) for name, key in VECTORS["keys"].items()}


def rules(document):
    return assignment.verify_ruleset(VECTORS["documents"][document], [KEYS["former"], KEYS["trusted"]])


def at(text):
    return datetime.fromisoformat(text).timestamp()


def test_hash():
    cases = [c for c in HASH if c["version"] == assignment.HASH_VERSION]
    assert len(cases) == 5
    for c in cases:
        assert assignment.bucket(c["seed"], c["value"]) == round(c["expected"] * assignment.BUCKETS), c


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda c: f"{c['name']}, {c['document']}, {c['unit'][:12]!a}")
def test_vectors(case):
    def assign():
        return rules(case["document"]).assign(case["unit"], case.get("checkpoint", ""), case.get("experiment", ""), at(case["now"]))

    if "error" in case:
        with pytest.raises(assignment.RulesetError) as raised:
            assign()
        assert raised.value.name == case["error"]
    else:
        assert assign() == assignment.Assignment(**case["expected"])


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda c: f"{c['document']}, {c['keys']}")
def test_refused(case):
    with pytest.raises(assignment.RulesetError) as raised:
        assignment.verify_ruleset(VECTORS["documents"][case["document"]], [KEYS[name] for name in case["keys"] or []])
    assert raised.value.name == case["error"]


@pytest.mark.parametrize("document", VECTORS["groups"])
def test_ten_thousand_units(document):
    r, now, count = rules(document), at(VECTORS["now"]), {}
    for i in range(assignment.BUCKETS):
        a = r.assign(f"unit-{i}", now=now)
        group = f"{a.variant} {a.version} {a.arm}".strip()
        count[group] = count.get(group, 0) + 1
    assert count == VECTORS["groups"][document]


def test_half_an_emoji_is_a_unit_too():
    assert assignment.bucket("s", "u-\ud83d") == assignment.bucket("s", "u-\ufffd")
    assert assignment.bucket("s", "\ud83d\ude00") == assignment.bucket("s", "😀")


def test_signatures_of_rfc_8032():
    # Section 7.1, tests 2 and 3.
    for key, message, signature in (
        (
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
        (
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ),
    ):
        k, m, s = bytes.fromhex(key), bytes.fromhex(message), bytes.fromhex(signature)
        assert ed25519.verify(k, m, s)
        for i in (0, 31, 32, 63):
            assert not ed25519.verify(k, m, s[:i] + bytes([s[i] ^ 1]) + s[i + 1 :])
        assert not ed25519.verify(k, m + b"x", s)
        assert not ed25519.verify(k, m, s[:32] + (int.from_bytes(s[32:], "little") + ed25519._L).to_bytes(32, "little"))
        assert not ed25519.verify(k[:31], m, s) and not ed25519.verify(k, m, s[:63])
    with pytest.raises(ValueError, match="millrace assignment key"):
        assignment.parse_key(base64.b64encode(b"short").decode())


def test_client(gateway):
    client = assignment.Client(gateway.url, gateway.token, [gateway.key])
    before = client.assign("user-17", default="mine")
    assert (before.version, before.variant, before.error.name) == ("mine", "default", "no_ruleset")

    client.start()
    try:
        seen = {client.assign(f"user-{i}", default="mine").variant for i in range(200)}
        assert seen == {"live", "control", "candidate", "hold_back"}
        assert client.assign("", default="mine").error.name == "no_unit"
        gateway.tell("live cand-10")
        assert client.refresh() is None
        live = {client.assign(f"user-{i}", default="mine").version for i in range(500)}
        assert "cand-10" in live
        gateway.tell("away")
        assert client.refresh().name == "unreachable"
        assert client.assign("user-17", default="mine").error is None, "what was fetched holds until its end"
    finally:
        client.stop()

    stranger = assignment.Client(gateway.url, gateway.token, [KEYS["strange"]])
    assert stranger.refresh().name == "unreachable"


def test_client_gives_the_default_rather_than_a_wrong_arm(gateway):
    stranger = assignment.Client(gateway.url, gateway.token, [KEYS["strange"]])
    assert stranger.refresh().name == "signature"
    a = stranger.assign("user-17", default="mine")
    assert (a.version, a.experiment, a.error.name, a.error.__cause__.name) == ("mine", "", "no_ruleset", "signature")

    now = [0.0]
    late = assignment.Client(gateway.url, gateway.token, [gateway.key], clock=lambda: now[0])
    assert late.refresh() is None
    assert late.assign("user-17", default="mine").error is None
    now[0] = 1e12
    assert late.assign("user-17", default="mine") == assignment.Assignment("mine", "default")
    assert late.assign("user-17", default="mine").error.name == "expired"
    unknown = assignment.Client(gateway.url, "mr_other", [gateway.key])
    assert "401" in str(unknown.refresh())
