"""Which checkpoint serves a unit, decided in this process by a signed ruleset that Millrace serves.

    client = Client("https://millrace.example.com", token, [key])
    client.start()                                          # fetches now, and every ten seconds from then on
    a = client.assign("user-17", default="base-8")          # a new session
    a.version, a.experiment, a.arm, a.error

The rules are those of the Go package millrace/assignment; the same vectors hold both. `assign` never raises and never
waits: without a ruleset that is signed by a key of yours and still valid, it gives your default, and says why in `error`.
"""

import base64
import json
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Callable, Iterable, Optional

from .ed25519 import parse_key, verify

__all__ = [
    "Assignment", "Client", "Experiment", "Expired", "HoldBack", "Malformed", "NoRuleset", "NoUnit", "Ruleset", "RulesetError", "Unsupported",
    "Unreachable", "WrongSignature", "bucket", "parse_key", "verify_ruleset",
]

FORMAT = "millrace.ruleset/1"
HASH_VERSION = 2
BUCKETS = 10_000
_MAX_DOCUMENT = 1 << 20


class RulesetError(Exception):
    """Why nothing could be decided. `name` is the same in every language."""

    name = "error"


class Malformed(RulesetError):
    name = "malformed"


class Unsupported(RulesetError):
    name = "unsupported"


class WrongSignature(RulesetError):
    name = "signature"


class Expired(RulesetError):
    name = "expired"


class NoRuleset(RulesetError):
    name = "no_ruleset"


class NoUnit(RulesetError):
    name = "no_unit"


class Unreachable(RulesetError):
    name = "unreachable"


@dataclass(frozen=True)
class Assignment:
    version: str  # the policy version to serve
    variant: str  # live, hold_back, control, candidate, kept; default with an error
    experiment: str = ""  # report both in TurnStarted.context; empty outside experiments and the hold-back
    arm: str = ""
    error: Optional[RulesetError] = field(default=None, compare=False)


@dataclass(frozen=True)
class HoldBack:
    id: str
    salt: str
    buckets: int  # of 10,000, in each of its two groups
    version: str


@dataclass(frozen=True)
class Experiment:
    id: str
    salt: str
    coverage: int  # of 10,000
    control: str
    candidate: str
    starts_at: float  # seconds of the Unix epoch
    ends_at: float


def _fnv1a(data: bytes) -> int:
    h = 2166136261
    for byte in data:
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    return h


def _utf8(text: str) -> bytes:
    # Half a surrogate pair is U+FFFD, as it is wherever JSON is read into UTF-8.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def bucket(salt: str, unit: str) -> int:
    """The unit's place, 0 … 9,999, in the layer that the salt names."""
    return _fnv1a(b"%d" % _fnv1a(_utf8(salt) + _utf8(unit))) % BUCKETS


def _arm(salt: str, unit: str, coverage: int) -> str:
    place = bucket(salt, unit)
    if 2 * place < coverage:
        return "control"
    if place >= BUCKETS // 2 and 2 * (place - BUCKETS // 2) < coverage:
        return "candidate"
    return ""


@dataclass(frozen=True)
class Ruleset:
    live: str
    valid_until: float  # seconds of the Unix epoch
    hold_back: Optional[HoldBack] = None
    experiment: Optional[Experiment] = None
    kept: tuple[str, ...] = ()

    def assign(self, unit: str, checkpoint: str = "", experiment: str = "", now: Optional[float] = None) -> Assignment:
        """Which checkpoint serves the unit. A session under way says what checkpoint and experiment it began with.

        Raises Expired or NoUnit.
        """
        now = time.time() if now is None else now
        if now >= self.valid_until:
            raise Expired(f"ruleset has expired: it was valid until {datetime.fromtimestamp(self.valid_until, UTC).isoformat()}")
        if not unit:
            raise NoUnit("no unit given")
        fresh = self._fresh(unit, now)
        if not checkpoint or (checkpoint, experiment) == (fresh.version, fresh.experiment):
            return fresh
        if checkpoint == fresh.version or self._serves(unit, checkpoint):
            return Assignment(checkpoint, "kept")
        return fresh

    def _fresh(self, unit: str, now: float) -> Assignment:
        if h := self.hold_back:
            arm = _arm(h.salt, unit, 2 * h.buckets)
            if arm == "control":
                return Assignment(h.version, "hold_back", h.id, arm)
            if arm == "candidate":
                return Assignment(self.live, "live", h.id, arm)
        x = self.experiment
        if x and x.starts_at <= now < x.ends_at:
            arm = _arm(x.salt, unit, x.coverage)
            if arm:
                return Assignment(x.control if arm == "control" else x.candidate, arm, x.id, arm)
        return Assignment(self.live, "live")

    def _serves(self, unit: str, version: str) -> bool:
        x = self.experiment
        return (
            version == self.live
            or version in self.kept
            or (self.hold_back is not None and version == self.hold_back.version)
            or (x is not None and version == x.candidate and _arm(x.salt, unit, x.coverage) == "candidate")
        )


def _text(of: dict, name: str) -> str:
    value = of.get(name, "")
    if not isinstance(value, str):
        raise Malformed(f"malformed ruleset: {name} is no text")
    return value


def _needed(of: dict, what: str, *names: str) -> list[str]:
    values = [_text(of, name) for name in names]
    if not all(values):
        raise Malformed(f"malformed ruleset: {what}: {', '.join(names)} are all needed")
    return values


def _between(of: dict, name: str, least: int, most: int) -> int:
    value = of.get(name)
    if type(value) is not int or not least <= value <= most:
        raise Malformed(f"malformed ruleset: {name} is {value!r}, want {least} … {most}")
    return value


def _time(of: dict, name: str) -> float:
    try:
        at = datetime.fromisoformat(_text(of, name))
    except ValueError as e:
        raise Malformed(f"malformed ruleset: {name}: {e}") from e
    if at.tzinfo is None:
        raise Malformed(f"malformed ruleset: {name} has no time zone")
    return at.timestamp()


def _object(document, what: str) -> dict:
    try:
        value = json.loads(document)
    except (ValueError, RecursionError) as e:
        raise Malformed(f"malformed ruleset: {what}: {e}") from e
    if not isinstance(value, dict):
        raise Malformed(f"malformed ruleset: {what} is no object")
    return value


def verify_ruleset(document: bytes | str, keys: Iterable[bytes]) -> Ruleset:
    """The ruleset of a document that one of the keys has signed. Raises Malformed, WrongSignature or Unsupported."""
    if len(document) > _MAX_DOCUMENT:
        raise Malformed(f"malformed ruleset: {len(document)} bytes, want at most {_MAX_DOCUMENT}")
    signed = _object(document, "the document")
    text = _text(signed, "ruleset")
    try:
        signature = base64.b64decode(_text(signed, "signature"), validate=True)
    except ValueError:
        signature = b""
    message = FORMAT.encode() + b"\n" + _utf8(text)
    if not any(verify(key, message, signature) for key in keys):
        raise WrongSignature(f"ruleset is not signed by a trusted key: it names key {_text(signed, 'key_id')}")
    return _ruleset(_object(text, "the ruleset"))


def _ruleset(of: dict) -> Ruleset:
    if of.get("format") != FORMAT or of.get("hash_version") != HASH_VERSION:
        raise Unsupported(f"ruleset of another version: format {of.get('format')!r}, hash version {of.get('hash_version')!r}")
    (live,) = _needed(of, "what is live", "live")
    hold_back = experiment = None
    if (h := _part(of, "hold_back")) is not None:
        hold_back = HoldBack(*_needed(h, "hold_back", "id", "salt"), _between(h, "buckets", 1, BUCKETS // 2), *_needed(h, "hold_back", "version"))
    if (x := _part(of, "experiment")) is not None:
        id_, salt, control, candidate = _needed(x, "experiment", "id", "salt", "control", "candidate")
        experiment = Experiment(id_, salt, _between(x, "coverage", 0, BUCKETS), control, candidate, _time(x, "starts_at"), _time(x, "ends_at"))
    return Ruleset(live, _time(of, "valid_until"), hold_back, experiment, _kept(of))


def _part(of: dict, name: str) -> Optional[dict]:
    value = of.get(name)
    if value is not None and not isinstance(value, dict):
        raise Malformed(f"malformed ruleset: {name} is no object")
    return value


def _kept(of: dict) -> tuple[str, ...]:
    value = of.get("kept")
    if value is not None and not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
        raise Malformed("malformed ruleset: kept is no list of texts")
    return tuple(value or ())


class Client:
    """Keeps a ruleset current in a thread of its own, and decides with it. Safe for concurrent use."""

    def __init__(self, url: str, token: str, keys: Iterable[bytes | str], every: float = 10, timeout: float = 5, clock: Callable[[], float] = time.time):
        self._url, self._token, self._every, self._timeout, self._clock = url.rstrip("/"), token, every, timeout, clock
        self._keys = [parse_key(key) if isinstance(key, str) else key for key in keys]
        if not self._keys:
            raise ValueError("no key to trust; `millrace assignment key` prints it")
        self._ruleset: Optional[Ruleset] = None
        self._tag = ""
        self._trouble: Optional[RulesetError] = None
        self._stop = threading.Event()

    def start(self) -> "Client":
        """Fetches once, and then in the background until `stop`."""
        self.refresh()
        threading.Thread(target=self._run, name="millrace-ruleset", daemon=True).start()
        return self

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self.refresh()

    def refresh(self) -> Optional[RulesetError]:
        """Fetches once. The error is also in assignments, once there is no valid ruleset from before."""
        try:
            self._fetch()
            self._trouble = None
        except RulesetError as e:
            self._trouble = e
        return self._trouble

    def _fetch(self) -> None:
        request = urllib.request.Request(self._url + "/v1/ruleset", headers={"Authorization": "Bearer " + self._token})
        if self._tag:
            request.add_header("If-None-Match", self._tag)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                document, tag = response.read(_MAX_DOCUMENT + 1), response.headers.get("ETag", "")
        except urllib.error.HTTPError as e:
            with e:
                if e.code == 304 and self._tag:
                    return
                raise Unreachable(f"{self._url} answered {e.code}: {e.read(200).decode(errors='replace')}") from e
        except (OSError, ValueError) as e:
            raise Unreachable(f"{self._url}: {e}") from e
        rules = verify_ruleset(document, self._keys)
        if self._clock() >= rules.valid_until:
            raise Expired("ruleset has expired on arrival; compare the clocks")
        self._ruleset, self._tag = rules, tag

    def assign(self, unit: str, checkpoint: str = "", experiment: str = "", default: str = "") -> Assignment:
        """Which checkpoint serves the unit; the default, with an error, if that can't be said."""
        error: RulesetError = NoRuleset("no ruleset so far")
        if rules := self._ruleset:
            try:
                return rules.assign(unit, checkpoint, experiment, self._clock())
            except RulesetError as e:
                error = e
        if self._trouble is not None and not isinstance(error, NoUnit):
            error.__cause__ = self._trouble
        return Assignment(default, "default", error=error)
