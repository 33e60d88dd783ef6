"""The page of a training: the loss as a timeline, gradients and parameters beside it, and the step where it broke.

A `TrainingSession` holds a flight, which may still be growing in another thread. The page asks for its state and gets a
new one over server-sent events whenever steps were added. `RequestGuard` decides which requests reach the app.

Invariants: an answer is small whatever the number of steps; a training that waits because of the page goes on when the
page is closed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from threading import Condition, Lock
from typing import Any

import numpy as np

from wiregrad.backends import RunRecord
from wiregrad.errors import InputError, WiregradError, require_package
from wiregrad.explorer import json_encoding
from wiregrad.explorer.html_page import dump_json, render_served_page
from wiregrad.explorer.local_server import ExplorerServer, RequestGuard, build_starlette, respond_json, serve_json
from wiregrad.explorer.page_data import ExplorerSession
from wiregrad.inspect.flight_recorder import Band, CurveBand, Event, Flight, GroupRecord
from wiregrad.ir import strict_json

with require_package("starlette", "the explorer's server"):
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

MAX_CURVE_POINTS = 240
"""Maximum number of points of a curve in the page."""
MAX_SHOWN_GROUPS = 40
"""Maximum number of groups of parameters in the page."""
MAX_SHOWN_EVENTS = 200
"""Maximum number of events in the page."""
MAX_OPEN_CIRCUITS = 4
"""Maximum number of circuits of steps that are served at a time; the oldest is closed for another one."""
POLL_SECONDS = 0.25
"""Seconds between two looks at a growing flight."""
RUNNING_SECONDS = 2.0
"""A training whose last step was longer ago than this is shown as waiting."""
StepRunner = Callable[[int], RunRecord]


class TrainingSession:
    """A flight that a page shows; `run_step` returns the run of one of the steps that `list_steps` lists.

    The thread that trains calls `record_step` around each step, and `wait_while_paused` after it.
    """

    def __init__(
        self,
        flight: Flight,
        *,
        name: str = "training",
        run_step: StepRunner | None = None,
        list_steps: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        self.flight = flight
        self.name = name
        self.lock = Lock()
        """Held while a step is recorded or the flight is read."""
        self._run_step = run_step
        self._list_steps = list_steps
        self._turn = Condition()
        self._paused = False
        self._permits = 0
        self._pages = 0
        self._latest = -math.inf
        self._servers: list[ExplorerServer] = []

    def note_step(self) -> None:
        """Note that a step was recorded just now."""
        self._latest = time.monotonic()

    def wait_while_paused(self) -> None:
        """Wait until the page lets the training go on; return at once where no page is open. Ctrl-C interrupts it."""
        with self._turn:
            while self._paused and self._pages:
                if self._permits:
                    self._permits -= 1
                    return
                self._turn.wait(0.2)

    def set_paused(self, paused: bool, permits: int = 0) -> dict[str, Any]:
        """Pause or resume the training, or let it take some steps while it is paused."""
        with self._turn:
            self._paused = paused
            self._permits = permits if paused else 0
            self._turn.notify_all()
        return {"paused": paused}

    def add_page(self, count: int) -> None:
        """Count the pages that watch; without any, the training is not held up."""
        with self._turn:
            self._pages += count
            if not self._pages:
                self._paused = False
            self._turn.notify_all()

    @property
    def version(self) -> tuple[int, bool, bool]:
        """A value that changes when there is something new to show."""
        return self.flight.steps, self._paused, self._is_running

    @property
    def _is_running(self) -> bool:
        return time.monotonic() - self._latest < RUNNING_SECONDS

    def encode_state(self) -> dict[str, Any]:
        """Return what the page shows: curves, events, and which steps can be opened."""
        with self.lock:
            state = encode_flight(self.flight)
            kept = list(self._list_steps())
        state["name"] = self.name
        state["state"] = "paused" if self._paused else "running" if self._is_running else "idle"
        return state | {"live": self._latest > -math.inf or not self.flight.steps, "kept": kept}

    def encode_record(self, step: int) -> dict[str, Any]:
        """Return the record that covers a step."""
        with self.lock:
            record = self.flight[step]
        return {
            "first": record.first,
            "last": record.last,
            "loss": _encode_band(record.loss),
            "lost": record.lost,
            "groups": {name: _encode_group(group) for name, group in record.groups.items()},
        }

    def open_step(self, step: int) -> dict[str, str]:
        """Serve the circuit of a step whose parameters were kept; return the address that opens it once."""
        if self._run_step is None:
            raise InputError("to open the circuits of steps, record with wg.record(function=loss, keep=5)")
        with np.errstate(all="ignore"):
            # What is not finite is what the page is opened for.
            run = self._run_step(step)
        serving = ExplorerServer(ExplorerSession(run.circuit, run, source=True))
        serving.start()
        self._servers.append(serving)
        for old in self._servers[:-MAX_OPEN_CIRCUITS]:
            old.stop()
        self._servers = self._servers[-MAX_OPEN_CIRCUITS:]
        return {"url": serving.url}


def encode_flight(flight: Flight) -> dict[str, Any]:
    """Return the curves and events of a flight as JSON.

    >>> flight = Flight()
    >>> events = flight.step(2.0, {"w": 1.0}, {"w": 0.5})
    >>> state = encode_flight(flight)
    >>> state["loss"]["mean"], [group["name"] for group in state["groups"]]
    ([2.0], ['w'])
    """
    groups = flight.groups[:MAX_SHOWN_GROUPS]
    return {
        "steps": flight.steps,
        "loss": _encode_curve(flight.curve(most=MAX_CURVE_POINTS)) if flight.steps else _encode_curve(NO_CURVE),
        "groups": [
            {
                "name": name,
                **{
                    metric: _encode_curve(flight.curve(metric, name, most=MAX_CURVE_POINTS))
                    for metric in ("gradient", "largest", "parameter")
                },
            }
            for name in groups
        ],
        "left_out": len(flight.groups) - len(groups),
        "bad": [list(stretch) for stretch in flight.nonfinite_stretches()],
        "events": [_encode_event(event) for event in flight.events[:MAX_SHOWN_EVENTS]],
    }


NO_CURVE = CurveBand([], [], [], [])


def _encode_curve(curve: CurveBand) -> dict[str, Any]:
    return {
        "steps": curve.steps,
        "low": _encode_numbers(curve.low),
        "mean": _encode_numbers(curve.mean),
        "high": _encode_numbers(curve.high),
    }


def _encode_numbers(numbers: Sequence[float]) -> list[float | None]:
    """Return numbers for a curve, rounded, since a curve has few pixels; None for what is not finite."""
    return [float(f"{number:.5g}") if math.isfinite(number) else None for number in numbers]


def _encode_event(event: Event) -> dict[str, Any]:
    return {
        "kind": event.kind,
        "what": event.what,
        "group": event.group,
        "step": event.step,
        "text": str(event),
    }


def _encode_band(band: Band) -> list[Any]:
    return [json_encoding.encode_number(number) for number in band]


def _encode_group(group: GroupRecord) -> dict[str, Any]:
    return {
        "gradient": _encode_band(group.gradient),
        "largest": _encode_band(group.largest),
        "parameter": _encode_band(group.parameter),
        "update": _encode_band(group.update),
        "nonfinite": group.nonfinite + group.broken,
    }


def build_training_app(session: TrainingSession, authority: str) -> RequestGuard:
    """Return the web application of a training, behind its request guard; `authority` is HOST:PORT.

    >>> app = build_training_app(TrainingSession(Flight()), "127.0.0.1:8000")
    >>> app.launch_url.partition("=")[0]
    'http://127.0.0.1:8000/?token'
    """
    routes = [
        Route("/", lambda request: _respond_page(session), methods=["GET"]),
        Route("/state", serve_json(lambda request: session.encode_state()), methods=["GET"]),
        Route(
            "/record/{step:int}", serve_json(lambda r: session.encode_record(r.path_params["step"])), methods=["GET"]
        ),
        Route("/changes", lambda request: _respond_changes(session), methods=["GET"]),
        Route("/pause", _serve_pause(session), methods=["POST"]),
        Route("/open", _serve_open(session), methods=["POST"]),
    ]
    return RequestGuard(build_starlette(routes), authority)


def _respond_page(session: TrainingSession) -> Response:
    data = {"schema": json_encoding.PAGE_SCHEMA, "training": session.encode_state()}
    return Response(render_served_page(data, session.name), media_type="text/html")


def _respond_changes(session: TrainingSession) -> Response:
    return StreamingResponse(_stream_changes(session), media_type="text/event-stream")


async def _stream_changes(session: TrainingSession) -> AsyncIterator[str]:
    """Yield the state as server-sent events, whenever it has changed, until the page is closed."""
    session.add_page(1)
    seen: object = None
    try:
        while True:
            version = session.version
            if version != seen:
                seen = version
                state = await run_in_threadpool(session.encode_state)
                yield f"data: {dump_json(state)}\n\n"
            await asyncio.sleep(POLL_SECONDS)
    finally:
        session.add_page(-1)


def _serve_pause(session: TrainingSession) -> Callable[[Request], Awaitable[Response]]:
    async def pause(request: Request) -> Response:
        wish = _parse_object(await request.body())
        paused = wish.get("paused")
        steps = wish.get("steps", 0)
        if not isinstance(paused, bool) or isinstance(steps, bool) or not isinstance(steps, int):
            raise InputError('wanted {"paused": true or false, "steps": NUMBER}')
        return respond_json(session.set_paused(paused, max(0, min(steps, 1_000_000))))

    return pause


def _serve_open(session: TrainingSession) -> Callable[[Request], Awaitable[Response]]:
    async def open_step(request: Request) -> Response:
        step = _parse_object(await request.body()).get("step")
        if isinstance(step, bool) or not isinstance(step, int):
            raise InputError('wanted {"step": NUMBER}')
        try:
            return respond_json(await run_in_threadpool(session.open_step, step))
        except WiregradError:
            raise
        except Exception as error:
            # The user's function failed: that is an answer too, not a failure of the server.
            raise InputError(f"the function raised {type(error).__name__}: {error}") from None

    return open_step


def _parse_object(body: bytes) -> dict[str, Any]:
    document = strict_json.read_strict_json(body)
    if not isinstance(document, dict):
        raise InputError("wanted a JSON object")
    return document
