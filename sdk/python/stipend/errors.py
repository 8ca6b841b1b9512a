from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from .names_gen import ErrorCode


@dataclass(frozen=True)
class FieldError:
    """One problem of a request."""

    code: ErrorCode
    in_: str
    """body, query, path or header"""
    pointer: str
    """JSON pointer into the body, or the parameter's name."""
    message: str


class Error(Exception):
    """An error response of the API (RFC 9457 problem details)."""

    status: int
    """HTTP status."""
    code: ErrorCode
    type: str
    """URL of the page that explains the code."""
    title: str
    """Short summary of the code."""
    detail: str
    """What went wrong, for people."""
    request_id: str
    """Identifies the request in the service's log."""
    errors: list[FieldError]
    """Every problem of the request; code and detail repeat the first."""
    missing: list[str]
    """The missing fields and documents, with profile_incomplete and documents_incomplete."""
    hints: dict[str, str]
    """Further members, such as payroll_id with external_id_conflict."""
    retry_after: Optional[int]
    """The pause in seconds that the service requests, or None."""

    def __init__(self, status: int, request_id: str, body: bytes, retry_after: Optional[int]) -> None:
        problem: Any = None
        try:
            problem = json.loads(body)
        except ValueError:
            pass  # not from the service: for example, from a proxy
        if not isinstance(problem, dict) or not isinstance(problem.get("code"), str):
            title = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
            problem = {"code": "unexpected_response", "title": title, "detail": "unexpected response"}
        problem.pop("status", None)
        self.status = status
        self.code = problem.pop("code")
        self.type = problem.pop("type", "")
        self.title = problem.pop("title", "")
        self.detail = problem.pop("detail", "")
        self.request_id = problem.pop("request_id", request_id)
        self.errors = [
            FieldError(e.get("code", ""), e.get("in", ""), e.get("pointer", ""), e.get("message", ""))
            for e in problem.pop("errors", [])
        ]
        self.missing = problem.pop("missing", [])
        self.hints = {name: value for name, value in problem.items() if isinstance(value, str)}
        self.retry_after = retry_after
        places = ", ".join(e.pointer for e in self.errors if e.pointer)
        at = f" at {places}" if places else ""
        super().__init__(f"{self.detail} ({status} {self.code}{at}, request {self.request_id})")
