"""Studies in a PostgreSQL database: Optuna's tables, with signs of life and retries."""

from __future__ import annotations

from typing import Any

import sqlalchemy
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from explorer.config.errors import refuse

SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
DRIVER = "postgresql+psycopg"
FORM = "expected a journal file or postgresql://user@host:port/database"
OPENING = 0x6578706C
"""Key of the advisory lock under which tables are made: two at once would trip over each other."""

CONNECT_SECONDS = 10
SILENCE_MILLISECONDS = 30_000
LONGEST_REASON = 240


def open_server(
    address: str, label: str, heartbeat_seconds: int, grace_seconds: int, create: bool
) -> RDBStorage:
    """Return the studies in a database.

    Args:
        address: ``postgresql://user:password@host:port/database``; a password may also come from
            PGPASSWORD or ~/.pgpass.
        label: the address as it may be shown.
        heartbeat_seconds: how often a running trial gives a sign of life.
        grace_seconds: without one for so long, it is given to another worker.
        create: whether tables may be made where there are none.

    Raises:
        InputError: when the address is none, the server cannot be reached or denies access, or
            the database holds no studies, or those of another version of Optuna.
    """
    url = _url(address, label)
    given = {
        "connect_timeout": CONNECT_SECONDS,
        # A server that vanished without a word is noticed, not waited for.
        "tcp_user_timeout": SILENCE_MILLISECONDS,
        # Without it, names from a database made under the C locale would arrive as bytes.
        "client_encoding": "utf8",
        "application_name": "explorer",
    }
    connect = {name: value for name, value in given.items() if name not in url.query}
    try:
        engine = sqlalchemy.create_engine(url, connect_args=connect, poolclass=NullPool)
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(f"SELECT pg_advisory_xact_lock({OPENING})"))
            if not create and not sqlalchemy.inspect(connection).has_table("studies"):
                raise refuse("storage", label, "this database holds no studies")
            # First without a pool: what fails here leaves no connection behind.
            _storage(url, {"connect_args": connect, "poolclass": NullPool})
        return _storage(
            url,
            {"connect_args": connect},
            heartbeat_interval=heartbeat_seconds,
            grace_period=grace_seconds,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
        )
    except (SQLAlchemyError, StorageInternalError) as error:
        raise refuse("storage", label, f"cannot be used: {reason(error, _secret(url))}") from None
    except ImportError:
        raise refuse("storage", label, "needs the Python package psycopg[binary]") from None
    except (RuntimeError, AssertionError):
        words = "its tables were made by another version of Optuna; expected another database"
        raise refuse("storage", label, words) from None


def reason(error: Exception, password: str | None = None) -> str:
    """Return why a database call failed, in the server's words, on one line."""
    cause = error.__cause__ or error
    original = getattr(cause, "orig", None) or cause
    text = " ".join(str(original).split())
    if password:
        text = text.replace(password, "***")
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 3] + "..."


def _storage(url: URL, engine: dict[str, Any], **options: Any) -> RDBStorage:
    # Optuna takes braces in an address as its own.
    address = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    return RDBStorage(address, engine_kwargs=engine, **options)


def _secret(url: URL) -> str | None:
    """Return the password in an address, wherever it stands."""
    return url.password or next(iter(url.normalized_query.get("password", ())), None)


def _url(address: str, label: str) -> URL:
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        url = None
    if url is None or url.drivername not in SCHEMES or not url.database:
        raise refuse("storage", label, FORM)
    return url.set(drivername=DRIVER)
