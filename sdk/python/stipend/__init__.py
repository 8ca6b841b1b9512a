"""The Python client of the Stipend API, version 2.0.

A Client has one attribute per resource::

    client = stipend.Client("https://api.example.com", api_key=key)
    payroll = client.payrolls.create(
        currency="USD",
        to_pay=[{"user_id": "usr_…", "amount_fiat": Decimal("1250.50")}],
        idempotency_key="run-2026-09",
    )

Every write carries an Idempotency-Key, a random one unless the caller supplies one. The client therefore retries
safely: after a broken connection, a 429 or a 503, and after a 409 with Retry-After. An error of the API is an Error.
Methods named all… iterate over the pages of a list. Amounts are Decimal, which keeps every digit; a float raises a
TypeError. verify_webhook checks and parses a webhook delivery.
"""

from .client import Client
from .errors import Error, FieldError
from .events import Event, InvalidSignature, parse_event, verify_webhook
from .names_gen import EVENT_DATA, ErrorCode, EventData
from .types_gen import *  # noqa: F403
