from __future__ import annotations

from collections.abc import Callable
from typing import Optional, Union

from .services_gen import Services
from .transport import Transport


class Client(Services):
    """Calls the API of the service at base_url. A Client can be shared by threads.

    Set either the api_key of a company or an OAuth access_token, as text or as a function that returns a valid one
    before each request. max_attempts limits how often a request is sent, retries included; 1 disables retries.
    timeout is the time limit of network operations in seconds.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: Optional[str] = None,
        access_token: Union[str, Callable[[], str], None] = None,
        max_attempts: int = 4,
        timeout: float = 60,
    ) -> None:
        if (api_key is None) == (access_token is None):
            raise TypeError("set either api_key or access_token")

        def authorization() -> str:
            if api_key is not None:
                return "Basic " + api_key
            return "Bearer " + (access_token() if callable(access_token) else str(access_token))

        super().__init__(Transport(base_url, authorization, max_attempts, timeout))
