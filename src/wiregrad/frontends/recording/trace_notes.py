"""What a recording notes beside its rows: where its nodes were written, and whether it may be replayed.

`TraceNotes` has the names, source lines and groups of nodes, for circuits and messages. `ReplayGuard` has what steered
Python while a function was traced: a circuit stands for its function only where all of this would be the same again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import Any

import numpy as np

from wiregrad.frontends.recording.user_code import (
    CallSite,
    CallTracker,
    GroupBlock,
    IdentityScan,
    UserCall,
    find_recording_frame,
    list_user_frames,
    user_place,
)
from wiregrad.ir import Certificate, Op, Place


class TraceNotes:
    """The names of nodes, and the places in the user's code where they were recorded."""

    __slots__ = ("call_count", "call_frame", "calls", "derived", "names", "places", "sites", "tracker")

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        """The names that users gave to recorded values, by offset."""
        self.sites: dict[int, CallSite] = {}
        """Where in the user's code nodes were recorded, by offset."""
        self.places: dict[int, Place] = {}
        """The source lines of nodes that derivative rules recorded, by offset."""
        self.calls: dict[int, tuple[str, int]] = {}
        """For a node by offset: the composite function that recorded it, and the number of that call."""
        self.call_frame: FrameType | None = None
        """The frame of the latest call of a composite function."""
        self.call_count = 0
        """How many calls of composite functions recorded something."""
        self.derived: dict[int, Op] = {}
        """In anomaly mode: the op whose derivative rule recorded a node, by offset."""
        self.tracker: CallTracker | None = None
        """While groups and names are collected: the calls of user functions that recorded something."""

    def note_call_site(self, offset: int, blocks: list[GroupBlock]) -> FrameType | None:
        """Note where a node was recorded, and the active `wg.group` blocks.

        Returns the innermost frame of the user's code.
        """
        frame, call = find_recording_frame()
        if call is not None:
            self.calls[offset] = call[0], self._number_call(call[1])
        if frame is not None and self.tracker is not None:
            self.sites[offset] = self.tracker.locate(frame, tuple(blocks))
        elif frame is not None:
            self.sites[offset] = CallSite(UserCall(None, frame.f_code), frame.f_lasti)
        return frame

    def place_at(self, offset: int) -> Place | None:
        """Return the source line of a node."""
        site = self.sites.get(offset)
        return self.places.get(offset) if site is None else site.place

    def _number_call(self, frame: FrameType) -> int:
        """Return the number of a composite function's call, by its frame.

        The frame is kept until the next call: the id of a frame that is gone may be that of the next one.
        """
        if frame is not self.call_frame:
            self.call_frame = frame
            self.call_count += 1
        return self.call_count

    def forget_frames(self) -> None:
        """Let go of all frames: they refer to values, and values to the tape, which is a reference cycle."""
        if self.tracker is not None:
            self.tracker.forget_frames()
        self.tracker = None
        self.call_frame = None


class ReplayGuard:
    """What decides whether the recording of a traced function may be replayed, and for which inputs."""

    __slots__ = ("certificates", "error_settings", "escapes", "identity_scan", "leak", "refusal")

    def __init__(
        self, *, error_settings: Mapping[str, object] | None = None, identity_scan: IdentityScan | None = None
    ) -> None:
        self.certificates: list[Certificate] = []
        """The recorded numbers that Python code has read, and so may have branched on."""
        self.escapes: list[tuple[Any, Any, Place | None]] = []
        """Values from outside that were read as plain numbers during the trace: the value, the number and the line."""
        self.refusal: str | None = None
        """Why not even the results of this recording may be used: the function could tell that it is recorded."""
        self.leak: str | None = None
        """Why a replay could be wrong without notice: values steered Python, and no certificate records how."""
        self.error_settings = error_settings
        """NumPy's error settings when recording began; None if the recording is not replayed by `wg.compile`."""
        self.identity_scan = identity_scan
        """The search for code that tests `condition is True`, which is never true of a recorded one."""

    def certify_read(self, offset: int, outcome: object) -> None:
        """Note that the user's code has read the number of a node."""
        self.certificates.append(Certificate(offset, outcome, user_place()))

    def note_outside_read(self, value: object, outcome: object) -> None:
        """Note that the user's code has read the number of a value from outside."""
        self.escapes.append((value, outcome, user_place()))

    def check_error_settings(self) -> None:
        """Note a leak if NumPy's error settings let the recorded function see floating-point errors."""
        if self.error_settings is None:
            return
        settings = np.geterr()
        modes = set(settings.values())
        if "raise" in modes or (settings != self.error_settings and modes != {"ignore"}):
            self.leak = "it uses np.errstate(...), under which numbers may raise or warn"

    def needs_plain_condition(self, frame: FrameType | None) -> bool:
        """Return whether a condition recorded in a frame must be a plain bool, because code tests what it is."""
        return self.identity_scan is not None and self.identity_scan.look(list_user_frames(frame))

    @property
    def late_identity_test(self) -> str | None:
        """The message about an identity test found after conditions had been recorded; None if there is none."""
        return None if self.identity_scan is None else self.identity_scan.unforeseen
