"""The ``worker`` command: joins a search that a storage keeps."""

from __future__ import annotations

import argparse
from typing import Any

from explorer import storage_options
from explorer.config.errors import refuse
from explorer.search.studies import join
from explorer.search_command import trial_progress
from explorer.search_report import search_document, search_text


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    storage_options.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Work until the search is complete; return its document and its text.

    Raises:
        InputError: when the options name no search that this version can join.
    """
    storage = storage_options.opened(options, create=False)
    if storage is None:
        raise refuse("--study", "", "expected the name of a search in the storage")
    result, study = storage_options.take_part(
        storage, lambda: join(storage, options.study), trial_progress
    )
    document = search_document(result.space.base, result, None, study)
    return document, search_text(document)
