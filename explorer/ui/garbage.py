"""Modules stay for good, so the collection of garbage after each run leaves them out."""

from __future__ import annotations

import gc
from functools import cache


@cache
def leave_out_what_stays() -> None:
    """Call at the end of a run; does something at the end of the first run of a process only.

    Streamlit collects all garbage after every run of the script. Over the 200,000 objects that
    imports make, that takes longer than the run, and no other session gets on meanwhile.
    """
    gc.collect()
    gc.freeze()
