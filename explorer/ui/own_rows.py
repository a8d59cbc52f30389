"""Measurements that a person brought into this session: a CSV file, a pasted profile."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from explorer.config.errors import InputError
from explorer.fidelity.measurements import Measurement, measurements_csv, parse_measurements
from explorer.fidelity.profile_text import parse_profile
from explorer.ui import uploads

OWN, PROFILE = "own_measurements", "own_profile"
PROFILE_NAME = "pasted profile"


@dataclass(frozen=True)
class PastedProfile:
    """A profile that was understood: its rows as a CSV file, and what was left aside."""

    content: bytes
    heading: str
    notes: tuple[str, ...]


def own_files() -> tuple[tuple[str, bytes], ...]:
    """Return name and content of every CSV file that the session holds, the pasted one last."""
    own: tuple[str, bytes] | None = st.session_state.get(OWN)
    pasted = pasted_profile()
    files = [own] if own is not None else []
    if pasted is not None:
        files.append((f"{PROFILE_NAME}.csv", pasted.content))
    return tuple(files)


def own_measurements(files: tuple[tuple[str, bytes], ...]) -> tuple[Measurement, ...]:
    """Return the rows of files that were accepted when they came."""
    return tuple(row for name, content in files for row in parse_measurements(content, name))


def pasted_profile() -> PastedProfile | None:
    """Return the profile that was pasted into this session."""
    value: PastedProfile | None = st.session_state.get(PROFILE)
    return value


def take_upload(widget: str, refused: str) -> bool:
    """Take the file of an uploader, once, when it arrives; return whether it is used.

    A file that is taken back is left out again.

    Args:
        widget: key of the uploader.
        refused: where reasons are kept for which a file was not used.
    """
    st.session_state.pop(OWN, None)
    read = uploads.read_upload(widget, refused, _accepted)
    if read is None:
        return False
    st.session_state[OWN] = read
    return True


def _accepted(content: bytes, name: str) -> tuple[str, bytes]:
    parse_measurements(content, name)
    return name, content


def forget_file() -> None:
    """Leave the uploaded file out again."""
    st.session_state.pop(OWN, None)


def take_profile(text: str, rows: int | None, wall: float | None, refused: str) -> None:
    """Take a pasted profile, or keep the reasons for which it was not understood."""
    st.session_state.pop(refused, None)
    st.session_state.pop(PROFILE, None)
    if not text.strip():
        return
    try:
        found = parse_profile(text, PROFILE_NAME, rows=rows, wall_seconds=wall)
    except InputError as error:
        st.session_state[refused] = uploads.reasons(error, "The profile was not used")
        return
    runs = "; ".join(
        f"{run.rows:,} rows: the timed block is that of line {run.first_line}, of {found.blocks}"
        for run in found.timed
    )
    content = measurements_csv(found.measurements).encode()
    st.session_state[PROFILE] = PastedProfile(content, runs, found.notes)
