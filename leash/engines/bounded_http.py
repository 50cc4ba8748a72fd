"""An HTTP client whose requests end: within their timeout, and within a size.

The timeouts of HTTP libraries are for a single read, so a server that sends a byte now and then holds a request for
ever. Here the read timeout of a request is also the time that all of it may take, from connecting to the last byte.

    openai.OpenAI(http_client=BoundedClient(), …)

A server that drips even its headers leaves a thread behind that waits for it. It ends with the process or the server.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from contextlib import closing
from typing import Any

import httpx2
import openai

# The longest completions have some 100,000 tokens, at less than 200 bytes each with their log-probability.
MAX_RESPONSE_BYTES = 256 * 2**20
# What would no longer be true of a body that is decoded and complete.
BODY_HEADERS = {"content-encoding", "content-length", "transfer-encoding"}


class BoundedClient(openai.DefaultHttpxClient):
    def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        limit = request.extensions.get("timeout", {}).get("read")
        if stream or limit is None:
            return super().send(request, stream=stream, **options)
        deadline, arrived = time.monotonic() + limit, Future[httpx2.Response]()
        begin = super().send

        def receive() -> None:
            try:
                arrived.set_result(_read_all(begin(request, stream=True, **options), request, deadline))
            except BaseException as error:
                arrived.set_exception(error)

        # Reading can't be interrupted, so another thread reads, and is left alone if it is too late.
        threading.Thread(target=receive, daemon=True).start()
        try:
            return arrived.result(limit)
        except TimeoutError:
            raise _too_slow(request) from None


def _read_all(response: httpx2.Response, request: httpx2.Request, deadline: float) -> httpx2.Response:
    """The response with its whole body."""
    content = bytearray()
    with closing(response):
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > MAX_RESPONSE_BYTES:
                raise httpx2.RemoteProtocolError(f"it sent more than {MAX_RESPONSE_BYTES:,} bytes", request=request)
            if time.monotonic() > deadline:
                raise _too_slow(request)
    headers = [header for header in response.headers.multi_items() if header[0].lower() not in BODY_HEADERS]
    return httpx2.Response(response.status_code, headers=headers, content=bytes(content), request=request)


def _too_slow(request: httpx2.Request) -> httpx2.ReadTimeout:
    return httpx2.ReadTimeout("the response did not end in time", request=request)
