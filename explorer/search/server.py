"""Studies in a PostgreSQL database: Optuna's tables, with signs of life and retries."""

from __future__ import annotations

import warnings
from typing import Any

import sqlalchemy
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

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
    options: dict[str, Any] = {
        "connect_args": {name: value for name, value in given.items() if name not in url.query},
    }
    try:
        engine = sqlalchemy.create_engine(url, **options)
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text(f"SELECT pg_advisory_lock({OPENING})"))
            if not create and not sqlalchemy.inspect(connection).has_table("studies"):
                raise refuse("storage", label, "this database holds no studies")
            server = _opened(url, options, heartbeat_seconds, grace_seconds)
        engine.dispose()
        return server
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


def _opened(
    url: URL, options: dict[str, Any], heartbeat_seconds: int, grace_seconds: int
) -> RDBStorage:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return RDBStorage(
            # Optuna takes braces in an address as its own.
            url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}"),
            engine_kwargs=options,
            heartbeat_interval=heartbeat_seconds,
            grace_period=grace_seconds,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
        )


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
