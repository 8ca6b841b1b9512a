from __future__ import annotations

import http.client
import json
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Optional

from .errors import Error
from .values import build, encode, text

_API_VERSION = "2.0"
_MAX_PAUSE = 30.0  # seconds


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Keeps credentials from going to another host."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


class Transport:
    """Sends requests for all services."""

    def __init__(self, base_url: str, authorization: Callable[[], str], max_attempts: int, timeout: float) -> None:
        self._base = base_url.rstrip("/")
        self._authorization = authorization
        self._attempts = max_attempts
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirects)

    def send(
        self,
        method: str,
        path: str,
        query: Optional[Mapping[str, Any]],
        body: Optional[Mapping[str, Any]],
        key: Optional[str],
        shape: Optional[str] = None,
    ) -> bytes:
        """Returns the body of the response. Retries while that is safe and useful."""
        url = self._base + path
        asked: dict[str, str] = {}
        for name, value in (query or {}).items():
            if isinstance(value, Mapping):
                asked.update({f"{_wire(name)}[{key}]": text(one) for key, one in value.items()})
            elif value is not None:
                asked[_wire(name)] = text(value)
        if asked:
            url += "?" + urllib.parse.urlencode(asked)
        headers = {"Api-Version": _API_VERSION, "User-Agent": "stipend-python"}
        data = None
        if body is not None:
            data = encode({_wire(name): value for name, value in body.items()}, shape).encode()
            headers["Content-Type"] = "application/json"
        if method != "GET":
            headers["Idempotency-Key"] = key or secrets.token_hex(16)
        attempt = 0
        while True:
            attempt += 1
            headers["Authorization"] = self._authorization()
            request = urllib.request.Request(url, data, headers, method=method)
            pause: Optional[float] = 0.1 * 2**attempt
            error: Exception
            try:
                with self._opener.open(request, timeout=self._timeout) as response:
                    result: bytes = response.read()
                    return result
            except urllib.error.HTTPError as failure:
                with failure:
                    requested = failure.headers.get("Retry-After", "")
                    after = int(requested) if requested.isdecimal() else None
                    content = failure.read()
                    error = Error(failure.code, failure.headers.get("X-Request-Id", ""), content, after)
                # A conflict is final unless the request with the same key still runs.
                if failure.code not in (429, 503) and (failure.code != 409 or after is None):
                    pause = None
                elif after is not None:
                    pause = min(after, _MAX_PAUSE)
            except (OSError, http.client.HTTPException) as failure:
                error = failure  # no response
            if pause is None or attempt >= self._attempts:
                raise error
            time.sleep(pause)


def _wire(name: str) -> str:
    """Returns the name of a parameter; one that is a keyword of Python has an underscore."""
    return name.removesuffix("_")


class Service:
    """A group of operations."""

    def __init__(self, t: Transport) -> None:
        self._t = t

    def _call(self, result: Any, method: str, path: str, **request: Any) -> Any:
        return build(result, json.loads(self._send(method, path, **request), parse_float=Decimal))

    def _text(self, method: str, path: str, **request: Any) -> str:
        return self._send(method, path, **request).decode()

    def _bytes(self, method: str, path: str, **request: Any) -> bytes:
        return self._send(method, path, **request)

    def _send(
        self, method: str, path: str, query: Any = None, body: Any = None, key: Any = None, shape: Any = None
    ) -> bytes:
        return self._t.send(method, path, query, body, key, shape)

    @staticmethod
    def _path(template: str, **params: str) -> str:
        return template.format(**{name: urllib.parse.quote(value, safe="") for name, value in params.items()})

    @staticmethod
    def _each(fetch: Callable[..., Any], *args: str, **params: Any) -> Iterator[Any]:
        while True:
            page = fetch(*args, **params)
            yield from page.data
            meta = getattr(page, "meta", None)
            if meta is not None and meta.next_cursor:
                params["cursor"] = meta.next_cursor
            elif getattr(page, "has_more", False) and page.next_after != params.get("after"):
                params["after"] = page.next_after
            else:
                return
