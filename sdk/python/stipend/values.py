"""Conversions between JSON and the types of the API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Optional, Union, get_args, get_origin, get_type_hints

from . import names_gen
from .events import Event

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def encode(value: Any, shape: Optional[str] = None) -> str:
    """Returns value as JSON. shape names its type, whose decimals become numbers. Members that are None are omitted."""
    if isinstance(value, Mapping):
        shapes = names_gen.DECIMALS.get(shape or "", {})
        members = (
            f"{json.dumps(name)}:{encode(member, shapes.get(name))}"
            for name, member in value.items()
            if member is not None
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(encode(item, shape) for item in value) + "]"
    if shape == "#" and isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise ValueError(f'{value!r} is not an amount: write Decimal("1250.50") or "1250.50"')
        return text(Decimal(value))
    if isinstance(value, (Decimal, float)):
        return text(value)
    if isinstance(value, datetime):
        return json.dumps(text(value))
    return json.dumps(value)


def text(value: Any) -> str:
    """Returns value as the text of a query parameter."""
    if isinstance(value, float):
        raise TypeError(f"{value!r} is a float, which is not exact: use decimal.Decimal")
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not an amount")
        return format(value, "f")
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time needs a time zone: for example, datetime.now(timezone.utc)")
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def build(kind: Any, value: Any) -> Any:
    """Returns value, which was decoded from JSON, as kind."""
    if value is None:
        return None
    if get_origin(kind) is Union:  # Optional
        kind = get_args(kind)[0]
    if get_origin(kind) is list:
        return [build(get_args(kind)[0], item) for item in value]
    if kind is Decimal:
        return Decimal(value)
    if kind is datetime:
        return _time(value)
    if not isinstance(kind, type) or not is_dataclass(kind):
        return value
    fields = {name: build(hint, value.get(name.rstrip("_"))) for name, hint in _hints(kind).items()}
    if kind is Event:
        fields["data"] = build(names_gen.EVENT_DATA.get(value["event"]), value["data"])
    return kind(**fields)


@lru_cache(maxsize=None)
def _hints(kind: type) -> dict[str, Any]:
    if kind is Event:
        return {**dict.fromkeys(Event.__dataclass_fields__), "created": datetime}
    return get_type_hints(kind)


def _time(value: str) -> datetime:
    # Before Python 3.11 fromisoformat reads neither Z nor every number of digits.
    head, _, fraction = value.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{head}.{fraction:0<6.6}+00:00" if fraction else head + "+00:00")
