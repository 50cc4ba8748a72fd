"""Real remotes for DVC on this machine: a directory, an S3-compatible server, and a host behind sshd.

    with bucket(folder) as remote:
        shell("dvc", "remote", "add", "-d", "store", remote.url, cwd=repo)

Each says what DVC must be told of it (`settings`, and `secrets`, which are for `.dvc/config.local`) and lists what it
holds.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
RULES = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/mine.pub
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True)
class Remote:
    url: str
    paths: Callable[[], list[str]]  # of all that it holds
    settings: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    home: Path | None = None  # where the user's own files must be for it to be reached

    @property
    def objects(self) -> set[str]:
        """The hashes of the files that it holds, as DVC names them."""
        return {"".join(path.split("/")[-2:]) for path in self.paths()}


@contextmanager
def directory(folder: Path) -> Iterator[Remote]:
    yield Remote(str(folder / "store"), _below(folder / "store"))


@contextmanager
def bucket(folder: Path) -> Iterator[Remote]:
    """A bucket of moto's server, which speaks S3 over HTTP."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = "http://{}:{}".format(*server.get_host_and_port())
        urllib.request.urlopen(urllib.request.Request(f"{address}/leash", method="PUT")).close()
        keys = {"access_key_id": "nobody", "secret_access_key": "nothing"}
        settings = {"endpointurl": address, "region": "us-east-1"}
        yield Remote("s3://leash/run", lambda: _keys(f"{address}/leash"), settings, keys)
    finally:
        server.stop()


@contextmanager
def host(folder: Path) -> Iterator[Remote]:
    """This machine behind an sshd of its own, which lets in the current user by a key that was made for it."""
    assert SSHD
    for name in ("host", "mine"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port = _free_port()
    (folder / "rules").write_text(RULES.format(port=port, folder=folder))
    known = folder / ".ssh" / "known_hosts"
    known.parent.mkdir()
    known.write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # which sshd, run by root, wants to find empty
    with subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "rules"], stderr=subprocess.PIPE, text=True) as server:
        try:
            _await("Server listening", server)
            url = f"ssh://{getpass.getuser()}@127.0.0.1:{port}{folder}/store"
            yield Remote(url, _below(folder / "store"), secrets={"keyfile": str(folder / "mine")}, home=folder)
        finally:
            server.terminate()


def _below(folder: Path) -> Callable[[], list[str]]:
    return lambda: [str(path) for path in folder.rglob("*") if path.is_file()]


def _keys(address: str) -> list[str]:
    with urllib.request.urlopen(f"{address}?list-type=2") as answer:
        return re.findall("<Key>([^<]+)</Key>", answer.read().decode())


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port


def _await(words: str, server: subprocess.Popen[str]) -> None:
    """Read what a server says until it has said these words."""
    assert server.stderr
    said = []
    for line in server.stderr:
        said.append(line)
        if words in line:
            return
    raise AssertionError("".join(said))
