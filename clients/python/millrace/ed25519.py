"""Ed25519 verification (RFC 8032, section 5.1), in plain Python: it runs once a ruleset, and takes a few milliseconds.

Only public values are worked on, so it needs no constant time. Nothing can be signed with it.
"""

import base64
import hashlib

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)  # of -1

# Points are extended homogeneous coordinates (X, Y, Z, T): x = X/Z, y = Y/Z, xy = T/Z.
_NEUTRAL = (0, 1, 1, 0)


def _add(p, q):
    a = (p[1] - p[0]) * (q[1] - q[0]) % _P
    b = (p[1] + p[0]) * (q[1] + q[0]) % _P
    c = 2 * p[3] * q[3] * _D % _P
    d = 2 * p[2] * q[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def _times(n, p):
    result = _NEUTRAL
    while n:
        if n & 1:
            result = _add(result, p)
        p = _add(p, p)
        n >>= 1
    return result


def _encode(p):
    inverse = pow(p[2], _P - 2, _P)
    x, y = p[0] * inverse % _P, p[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _decode(raw):
    """The point of 32 bytes, None if there is none."""
    y = int.from_bytes(raw, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT % _P
    if (x * x - square) % _P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = _P - x
    return (x, y, 1, x * y % _P)


_BASE = _decode((4 * pow(5, _P - 2, _P) % _P).to_bytes(32, "little"))


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the signature of the message is by the key: 32 and 64 bytes."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    key = _decode(public_key)
    s = int.from_bytes(signature[32:], "little")
    if key is None or s >= _L:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % _L
    minus = (_P - key[0], key[1], 1, _P - key[3])
    return _encode(_add(_times(s, _BASE), _times(h, minus))) == signature[:32]


def parse_key(text: str) -> bytes:
    """A public key as `millrace assignment key` prints it: base64 of 32 bytes."""
    try:
        raw = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise ValueError(f"{text!r} is no public key: want base64 of 32 bytes, as `millrace assignment key` prints it")
    return raw
