"""Sessions of the app without a browser: Streamlit's own messages over a real web socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from http import HTTPStatus
from http.client import HTTPConnection
from http.cookies import SimpleCookie
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect

Result = TypeVar("Result")
PATIENCE_S = 60
XSRF = "_streamlit_xsrf"
LARGEST_MESSAGE = 64 * 2**20
DONE = (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)
AGAIN = ForwardMsg.FINISHED_EARLY_FOR_RERUN


class Session:
    """One window of the app: what it shows, and the widgets that can be moved.

    It sends what a browser sends and keeps what a browser keeps. Every fault that the page shows,
    and every end of a run that is none, is an AssertionError.
    """

    def __init__(self, url: str, page: str = "", query: str = "", origin: str = "") -> None:
        """Prepare a window on a page of the app; entering the context opens it."""
        self._url, self._page, self._query = url, page, query
        self._origin = origin or url
        self._socket: ClientConnection | None = None
        self._values: dict[str, WidgetState] = {}
        self._known: dict[str, ForwardMsg] = {}
        self._fresh: dict[str, ForwardMsg] = {}
        self._hash = ""
        self._places: Any = None
        self.elements: dict[tuple[int, ...], Any] = {}
        self.repeating: dict[str, float] = {}
        self.id = ""

    async def __aenter__(self) -> Self:
        address = f"ws://{urlsplit(self._url).netloc}{urlsplit(self._url).path}/_stcore/stream"
        self._socket = await connect(
            address,
            origin=f"{urlsplit(self._origin).scheme}://{urlsplit(self._origin).netloc}",
            subprotocols=["streamlit"],
            max_size=LARGEST_MESSAGE,
            open_timeout=PATIENCE_S,
            proxy=None,
        )
        await self.rerun()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._socket is not None
        await self._socket.close()

    async def rerun(self, pressed: Iterable[WidgetState] = (), fragment: str = "") -> float:
        """Run the script, or one fragment of it; return the seconds until its end."""
        assert self._socket is not None
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_script_hash = self._query, self._hash
        state.page_name, state.fragment_id = self._page, fragment
        state.is_auto_rerun = bool(fragment)
        state.widget_states.widgets.extend([*self._values.values(), *pressed])
        state.cached_message_hashes.extend(self._known)
        started = time.perf_counter()
        await self._socket.send(message.SerializeToString())
        async with asyncio.timeout(PATIENCE_S):
            while not await self._receive():
                pass
        return time.perf_counter() - started

    async def move(self, label: str, place: int) -> float:
        """Put a slider of words on one of its options, and run the script."""
        slider = self.widget("slider", label)
        state = WidgetState(id=slider.id)
        state.string_array_value.data.append(slider.options[place % len(slider.options)])
        self._values[slider.id] = state
        return await self.rerun()

    async def type(self, label: str, text: str) -> float:
        """Put text into a field, and run the script."""
        field = self.widget("text_input", label)
        self._values[field.id] = WidgetState(id=field.id, string_value=text)
        return await self.rerun()

    async def press(self, label: str) -> float:
        """Press a button, and run the script."""
        return await self.rerun(
            [WidgetState(id=self.widget("button", label).id, trigger_value=True)]
        )

    async def go_to(self, page: str) -> float:
        """Open another page of the app in this session."""
        self._page, self._hash = page, ""
        return await self.rerun()

    async def upload(self, label: str, name: str, content: bytes) -> float:
        """Give a file to an uploader, and run the script."""
        assert self._socket is not None
        message = BackMsg()
        message.file_urls_request.session_id = self.id
        message.file_urls_request.request_id = name
        message.file_urls_request.file_names.append(name)
        await self._socket.send(message.SerializeToString())
        async with asyncio.timeout(PATIENCE_S):
            while self._places is None:
                await self._receive()
        places, self._places = self._places, None
        status = await asyncio.to_thread(put_file, self._url, places.upload_url, name, content)
        assert status == HTTPStatus.NO_CONTENT, status
        uploader = self.widget("file_uploader", label)
        state = WidgetState(id=uploader.id)
        state.file_uploader_state_value.uploaded_file_info.add(
            name=name, size=len(content), file_id=places.file_id, file_urls=places
        )
        self._values[uploader.id] = state
        return await self.rerun()

    def widget(self, kind: str, label: str) -> Any:
        """Return a widget by its label."""
        return next(found for found in self.all(kind) if found.label.startswith(label))

    def sliders(self) -> list[str]:
        """Return the labels of all sliders of words that can be moved."""
        return [s.label for s in self.all("slider") if len(s.options) > 1 and not s.disabled]

    def all(self, kind: str) -> list[Any]:
        """Return all elements of a kind that are shown."""
        shown = self.elements.values()
        return [getattr(e, kind) for e in shown if e.WhichOneof("type") == kind]

    def words(self) -> str:
        """Return everything that is shown, for those who look for something in it."""
        return "\n".join(map(str, self.elements.values()))

    async def _receive(self) -> bool:
        """Take in one message; return whether it ends the run."""
        assert self._socket is not None
        received = await self._socket.recv()
        assert isinstance(received, bytes)
        message = ForwardMsg.FromString(received)
        if message.WhichOneof("type") == "ref_hash":
            whole = ForwardMsg()
            known = message.ref_hash
            whole.CopyFrom(self._fresh.get(known) or self._known[known])
            whole.metadata.CopyFrom(message.metadata)
            self._fresh[known] = message = whole
        elif message.metadata.cacheable:
            self._fresh[message.hash] = message
        return self._take(message, message.WhichOneof("type"))

    def _take(self, message: ForwardMsg, kind: str | None) -> bool:
        if kind == "new_session":
            self.id = message.new_session.initialize.session_id or self.id
            if not message.metadata.run.fragment_ids:
                self.elements.clear()
                self.repeating.clear()
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            element = message.delta.new_element
            assert element.WhichOneof("type") != "exception", element.exception
            self._show(tuple(message.metadata.delta_path), element)
        elif kind == "navigation":
            self._hash = message.navigation.page_script_hash
        elif kind == "auto_rerun":
            self.repeating[message.auto_rerun.fragment_id] = message.auto_rerun.interval
        elif kind == "file_urls_response":
            self._places = message.file_urls_response.file_urls[0]
        elif kind == "script_finished":
            assert message.script_finished in (*DONE, AGAIN), message
            self._forget(message.script_finished)
            return message.script_finished in DONE
        return False

    def _forget(self, end: int) -> None:
        """Forget, as a browser does, the messages that a whole run had no use for."""
        whole = end == ForwardMsg.FINISHED_SUCCESSFULLY
        self._known = self._fresh if whole else {**self._known, **self._fresh}
        self._fresh = {}

    def _show(self, place: tuple[int, ...], element: Any) -> None:
        self.elements[place] = element
        found = getattr(element, element.WhichOneof("type"))
        if getattr(found, "set_value", False):
            # The server has put another value into it: what was typed here is no more.
            self._values.pop(found.id, None)


def put_file(url: str, place: str, name: str, content: bytes, token: str | None = None) -> int:
    """Send a file as a browser does, with the server's own XSRF token or another one.

    Returns the status of the answer.
    """
    own = xsrf_token(url)
    head = f'Content-Disposition: form-data; name="{name}"; filename="{name}"'
    body = b"\r\n".join(
        [b"--part", head.encode(), b"Content-Type: text/plain", b"", content, b"--part--", b""]
    )
    headers = {
        "Content-Type": "multipart/form-data; boundary=part",
        "Cookie": f"{XSRF}={own}",
        "X-Xsrftoken": own if token is None else token,
    }
    path = f"{urlsplit(url).path}/{place.lstrip('/')}"
    return asked(url, "PUT", path, body, headers)[0]


def xsrf_token(url: str) -> str:
    """Return the token that the server gives to a new browser."""
    _, headers = asked(url, "GET", f"{urlsplit(url).path}/_stcore/health")
    cookies = SimpleCookie(headers["Set-Cookie"])
    return cookies[XSRF].value


def asked(
    url: str, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> tuple[int, Message]:
    """Ask the server for something over HTTP; return status and headers of its answer."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers
    finally:
        connection.close()


def finished(work: Coroutine[Any, Any, Result]) -> Result:
    """Run what sessions do to its end, in a thread of its own: this one may have a loop already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def placed(values: Sequence[float], share: float) -> float:
    """Return the value that a share of the others is not above."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
