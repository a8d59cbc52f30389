"""The ``schema`` command: print a JSON Schema, or write all of them where they are published."""

from __future__ import annotations

import argparse
from typing import Any

from explorer.config.errors import refuse
from explorer.serving.schemas import DOCUMENTS, json_schema, schema_path, schema_text


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "name", nargs="?", default="scenario", metavar="NAME", help=f"one of {', '.join(DOCUMENTS)}"
    )
    parser.add_argument(
        "--write", action="store_true", help="also write all of them to presets/schemas"
    )


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Return the schema that is asked for; raises InputError for an unknown name."""
    schema = json_schema(options.name)
    if options.write:
        for name in DOCUMENTS:
            path = schema_path(name)
            try:
                path.parent.mkdir(exist_ok=True)
                path.write_text(schema_text(name), encoding="utf-8")
            except OSError as error:
                raise refuse("--write", path.name, f"cannot be written: {error.strerror}") from None
    return schema
