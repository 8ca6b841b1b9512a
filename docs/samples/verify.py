"""Verifies a delivery of a webhook. Needs Python 3.8 or later and no package."""

import base64
import binascii
import hashlib
import hmac
import sys
import time

TOLERANCE = 5 * 60  # seconds


def verify(secret: str, headers: dict, raw_body: bytes, now: float = None) -> bool:
    """raw_body is the body as it came, before any JSON parser; headers have lower-case names."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    now = time.time() if now is None else now
    if not message_id or not timestamp.isdecimal() or abs(now - int(timestamp)) > TOLERANCE:
        return False
    key = base64.b64decode(secret[len("whsec_"):] if secret.startswith("whsec_") else secret)
    expected = hmac.new(key, f"{message_id}.{timestamp}.".encode() + raw_body, hashlib.sha256).digest()
    for part in headers.get("webhook-signature", "").split(" "):
        version, _, signature = part.partition(",")
        try:
            given = base64.b64decode(signature)
        except binascii.Error:
            continue
        if version == "v1" and hmac.compare_digest(given, expected):
            return True
    return False


# On the command line: python3 verify.py SECRET ID TIMESTAMP SIGNATURE < body
if __name__ == "__main__":
    secret, message_id, timestamp, signature = sys.argv[1:5]
    given = {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": signature}
    sys.exit(0 if verify(secret, given, sys.stdin.buffer.read()) else 1)
