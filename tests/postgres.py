"""A real PostgreSQL server for the tests: Debian's, on the loopback, in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from tests.browser import free_port

DEBIAN = Path("/usr/lib/postgresql")
UNPRIVILEGED = ("postgres", "nobody")
PATIENCE_S = 60
USER, PASSWORD = "explorer", "pass:w/ord {x}%"  # what has a meaning in an address


@dataclass(frozen=True)
class Postgres:
    """A running server."""

    port: int
    log: Path

    def address(self, database: str, user: str = USER, password: str | None = PASSWORD) -> str:
        """Return the address of a database."""
        secret = "" if password is None else f":{quoted(password)}"
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/{quoted(database)}"

    def create(self, database: str) -> str:
        """Make an empty database and return its address."""
        self.execute("postgres", sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        return self.address(database)

    def execute(self, database: str, statement: Any) -> list[tuple[Any, ...]]:
        """Run one statement as the server's owner; return its rows."""
        with psycopg.connect(
            self.address(database), autocommit=True, client_encoding="utf8"
        ) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []


def quoted(text: str) -> str:
    """Return a name or a password as an address takes it."""
    return quote(text, safe="")


def programs() -> Path | None:
    """Return the folder with the server's programs, if it is installed."""
    found = shutil.which("initdb")
    versions = sorted(
        DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].partition(".")[0])
    )
    candidates = [*versions[-1:], *([Path(found)] if found else [])]
    return candidates[0].resolve().parent if candidates else None


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Run a server while the block lasts, and end it by its own process."""
    with postgres_data() as serving, serving() as server:
        yield server


@contextmanager
def postgres_data() -> Iterator[Callable[[], AbstractContextManager[Postgres]]]:
    """Make the data of a server; what is given runs it, as often as it is called, on one port."""
    bin_folder = programs()
    if bin_folder is None:
        raise RuntimeError("PostgreSQL is not installed")
    # Not pytest's folder, which only the user who runs the tests may enter.
    with tempfile.TemporaryDirectory(prefix="explorer-", ignore_cleanup_errors=True) as home:
        root = Path(home)
        secret = root / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        user = _server_user()
        if user is not None:
            for path in (root, secret):
                shutil.chown(path, user)
        data = root / "data"
        _run(
            [
                bin_folder / "initdb", "--pgdata", data, "--username", USER, "--no-sync",
                "--auth=scram-sha-256", "--pwfile", secret, "--locale=C",
            ],
            user, root,
        )  # fmt: skip
        port = free_port()
        yield lambda: _serving(bin_folder, data, root, port, user)


@contextmanager
def _serving(
    bin_folder: Path, data: Path, root: Path, port: int, user: str | None
) -> Iterator[Postgres]:
    settings = {
        "port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": root,
        "fsync": "off", "shared_buffers": "32MB", "max_connections": 60,
    }  # fmt: skip
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    log = root / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [bin_folder / "postgres", "-D", data, *options],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            cwd=root, **_identity(user),
        )  # fmt: skip
    server = Postgres(port, log)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not _answers(server):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL gave no answer:\n{log.read_text()}")
            time.sleep(0.05)
        yield server
    finally:
        # A fast shutdown: open sessions are ended.
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(server: Postgres) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        return server.execute("postgres", "SELECT 1") == [(1,)]
    return False


def _server_user() -> str | None:
    """Return the user to run the server as, None for the one who runs the tests.

    PostgreSQL refuses to run as root.
    """
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in UNPRIVILEGED if name in known)


def _identity(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": ()}


def _run(command: Sequence[Any], user: str | None, cwd: Path) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=cwd,
        timeout=PATIENCE_S, **_identity(user),
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stderr}")
