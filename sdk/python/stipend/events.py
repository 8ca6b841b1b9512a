from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from .names_gen import EventData

_TOLERANCE = 300  # seconds; it prevents replays


@dataclass(frozen=True)
class Event:
    """A state change of an object. An event can be delivered more than once: store the IDs of processed events."""

    event: str
    """Name of the event, for example payroll.created."""
    id: str
    created: datetime
    """When the change was committed."""
    environment: str
    """sandbox or production"""
    api_version: str
    company_id: str
    """Company whose event it is, or ""."""
    user_id: str
    """User whose event it is, who connected the app, or ""."""
    sequence: int
    """Increases with each event of the object."""
    data: Union[EventData, dict[str, Any]]
    """The object, for example a PayrollData. A dict for an event that this version of the SDK does not know."""


class InvalidSignature(Exception):
    """A webhook delivery was not signed with any of the given secrets, or not recently."""


def verify_webhook(body: bytes, headers: Mapping[str, str], *secrets: str) -> Event:
    """Checks the signature of a webhook delivery (Standard Webhooks 1.0) and parses its event.

    body is the request body exactly as received. During a rotation pass the old and the new secret. Raises
    InvalidSignature unless the delivery was signed with one of the secrets less than five minutes ago.
    """
    sent = {name.lower(): value for name, value in headers.items()}
    id, timestamp = sent.get("webhook-id", ""), sent.get("webhook-timestamp", "")
    if id and timestamp.isdecimal() and abs(time.time() - int(timestamp)) <= _TOLERANCE:
        for secret in secrets:
            try:
                key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
            except binascii.Error:
                key = b""
            if not key:
                raise ValueError("a webhook secret must be whsec_ followed by base64")
            mac = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
            want = b"v1," + base64.b64encode(mac)
            for signature in sent.get("webhook-signature", "").split():
                if hmac.compare_digest(signature.encode(), want):
                    return parse_event(body)
    raise InvalidSignature("invalid webhook signature")


def parse_event(body: Union[bytes, str]) -> Event:
    """Parses an event whose origin is already trusted, for example an item of a queue."""
    from .values import build

    event: Event = build(Event, json.loads(body, parse_float=Decimal))
    return event
