"""Who has left: told by the connection, with a grace, by a clock that nobody sets."""

from __future__ import annotations

from explorer.ui.presence import GRACE_SECONDS, LOOK_SECONDS, Leaving, leaving


class Window:
    """A window whose connection and clock are ours."""

    def __init__(self) -> None:
        self.connected, self.now, self.looks = True, 0.0, 0
        self.gone = Leaving(self.look, lambda: self.now)

    def look(self) -> bool:
        self.looks += 1
        return self.connected

    def after(self, seconds: float) -> bool:
        self.now += seconds
        return self.gone()


def test_who_stays_has_not_left_however_seldom_it_is_asked() -> None:
    window = Window()
    assert not any(window.after(seconds) for seconds in (0, 1, 1000, 1e6))


def test_who_goes_has_left_after_the_grace_and_not_before() -> None:
    window = Window()
    assert not window.after(1000)
    window.connected = False
    assert not window.after(1000)
    assert not window.after(GRACE_SECONDS - 0.01)
    assert window.after(0.02)
    assert window.after(1)


def test_who_comes_back_within_the_grace_has_not_left() -> None:
    window = Window()
    for _ in range(5):
        window.connected = False
        assert not window.after(1)
        assert not window.after(GRACE_SECONDS - 1)
        window.connected = True
        assert not window.after(LOOK_SECONDS)


def test_the_server_is_asked_seldom() -> None:
    window = Window()
    for _ in range(1000):
        window.after(LOOK_SECONDS / 100)
    assert window.looks <= 12


def test_without_a_server_nobody_leaves() -> None:
    assert not leaving()()
