"""Modules stay for good, so the collection of garbage leaves them out."""

from __future__ import annotations

import gc
from functools import cache


@cache
def leave_out_what_stays() -> None:
    """Call at the end of a run; does something at the end of the first run of a process only.

    Going through the 200,000 objects that imports make takes longer than a run of the script, and
    no session gets on meanwhile.
    """
    gc.collect()
    gc.freeze()
