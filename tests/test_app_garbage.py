"""What imports made is left out of the collection of garbage."""

from __future__ import annotations

import gc

import pytest

from explorer.ui.garbage import leave_out_what_stays
from tests.test_app_pages import opened


def test_the_first_run_leaves_out_what_stays_and_later_ones_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    freeze, frozen = gc.freeze, []

    def counted() -> None:
        freeze()
        frozen.append((gc.get_freeze_count(), len(gc.get_objects())))

    gc.unfreeze()
    leave_out_what_stays.cache_clear()
    monkeypatch.setattr(gc, "freeze", counted)
    app = opened()
    app.run()
    assert not app.exception
    ((left_out, examined),) = frozen
    assert left_out > 50_000 > 10 * examined
