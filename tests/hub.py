"""A hub on localhost: a real HTTP server that speaks as much of the hub's protocol as `huggingface_hub` asks for.

    with Hub({"math-ai/aime25": {"test.jsonl": b"…"}}) as hub:
        ...  # HF_ENDPOINT=hub.url

Repositories have one commit, COMMIT, which is also `main`. `breaking` says of which file how many transfers end in the
middle.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    def __init__(self, repos: Mapping[str, Mapping[str, bytes]], breaking: dict[str, int] | None = None) -> None:
        self.asked: list[str] = []
        handler = type("Handler", (_Handler,), {"repos": repos, "breaking": breaking or {}, "asked": self.asked})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Hub:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    repos: Mapping[str, Mapping[str, bytes]]
    breaking: dict[str, int]
    asked: list[str]

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.asked.append(f"{self.command} {path}")
        if path.startswith(("/api/datasets/", "/api/models/")):
            self._api(path.split("/")[3:])
        else:
            self._file(path.removeprefix("/datasets").split("/")[1:], body=body)

    def _api(self, parts: list[str]) -> None:
        """/api/datasets/OWNER/NAME/revision/REVISION (or models), and /tree/ for the files."""
        repo, asked_for, revision = "/".join(parts[:2]), parts[2:3], parts[3:4]
        if repo not in self.repos:
            self._refuse(404, "RepoNotFound", "Repository not found")
        elif revision and revision[0] not in ("main", COMMIT):
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision[0]}")
        elif asked_for == ["tree"]:
            self._send([_entry(name, content) for name, content in self.repos[repo].items()])
        else:
            self._send({"id": repo, "sha": COMMIT, "siblings": [{"rfilename": name} for name in self.repos[repo]]})

    def _file(self, parts: list[str], *, body: bool) -> None:
        """/datasets/OWNER/NAME/resolve/REVISION/FILE, of models without the first part"""
        repo, name = "/".join(parts[:2]), "/".join(parts[4:])
        content = self.repos.get(repo, {}).get(name)
        if content is None:
            self._refuse(404, "EntryNotFound", "Entry not found")
            return
        begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.send_response(206 if begin else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{_blob(content)}"')
        self.send_header("Accept-Ranges", "bytes")
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        if body and self.breaking.get(name):
            self.breaking[name] -= 1
            self.wfile.write(content[begin : (begin + len(content)) // 2])
            self.close_connection = True
        elif body:
            self.wfile.write(content[begin:])

    def _send(self, value: Any, status: int = 200, **headers: str) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {**headers, "Content-Type": "application/json", "Content-Length": str(len(content))}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(content if self.command == "GET" else b"")

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._send({"error": message}, status, **{"X-Error-Code": code, "X-Error-Message": message})

    def log_message(self, *_: object) -> None:
        """Nothing: tests print enough."""


def _blob(content: bytes) -> str:
    """A file's name in git."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _entry(name: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "path": name, "size": len(content), "oid": _blob(content)}
