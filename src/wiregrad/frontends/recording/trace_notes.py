"""What a recording notes beside its rows: where its nodes were written, and whether it may be replayed.

`TraceNotes` has the names, source lines and groups of nodes, for circuits and messages. `ReplayGuard` has what steered
Python while a function was traced: a circuit stands for its function only where all of this would be the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from types import CodeType, FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.frontends.recording.user_code import (
    CallSite,
    CallTracker,
    GroupBlock,
    IdentityScan,
    LoopStep,
    UserCall,
    decode_steps,
    find_instruction,
    find_lines,
    find_recording_frame,
    list_user_frames,
    place_in_code,
    user_place,
)
from wiregrad.ir import Certificate, Op, Place
from wiregrad.lazy import NamedTuple

make_place: Callable[[tuple[str, int, int]], Place] = partial(tuple.__new__, Place)
ROW_SIZE = 34
"""The size of a packed row, in bytes: offsets of nodes are multiples of it."""


class TraceNotes:
    """The names of nodes, and the places in the user's code where they were recorded."""

    __slots__ = (
        "call_count",
        "call_frame",
        "calls",
        "derived",
        "names",
        "places",
        "recorded_sites",
        "sites",
        "tracker",
    )

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
        self.recorded_sites: RecordedSites | None = None
        """Where nodes were recorded, if the C recorder notes it: then `sites` is empty."""

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
            self.sites[offset] = CallSite(UserCall(None, frame.f_code), find_instruction(frame))
        return frame

    def place_at(self, offset: int) -> Place | None:
        """Return the source line of a node."""
        if self.recorded_sites is not None:
            place = self.recorded_sites.place_at(offset)
            return self.places.get(offset) if place is None else place
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
        if self.recorded_sites is not None:
            self.recorded_sites.columns.forget_frames()

    def collect_sites(self, row_count: int) -> SiteTable:
        """Return where the rows of the tape were recorded, as a table."""
        if self.recorded_sites is not None:
            return self.recorded_sites.make_table(row_count)
        return SiteTable.from_sites(self.sites, row_count)


class SiteKey(NamedTuple):
    """What decides the group of a site."""

    call: UserCall
    steps: tuple[LoopStep, ...]
    blocks: tuple[GroupBlock, ...]


make_key: Callable[[tuple[Any, ...]], SiteKey] = partial(tuple.__new__, SiteKey)


class SiteTable:
    """Where the rows of a tape were recorded: for each row a site, for each site its instruction and its key.

    Keys are found when they are asked for: only groups need them, and a loop has one for each of its steps.
    """

    def __init__(
        self,
        rows: NDArray[np.int32],
        instructions: NDArray[np.int32],
        codes: Sequence[CodeType],
        code_of_site: NDArray[np.int64],
        find_keys: Callable[[], tuple[list[SiteKey], NDArray[np.int64]]],
    ) -> None:
        self.rows = rows
        """The site of each row; -1 for a row that was not recorded in the user's code."""
        self.instructions = instructions
        """The offset in the bytecode, by site."""
        numbers: dict[int, int] = {}
        distinct = np.array([numbers.setdefault(id(code), len(numbers)) for code in codes], np.int64)
        self.codes = list({id(code): code for code in codes}.values())
        self.code_of_site: NDArray[np.int64] = distinct[code_of_site]
        """The number of the code object, by site."""
        self.find_keys = find_keys
        """Returns the distinct keys, and the number of each site's."""

    @classmethod
    def from_sites(cls, sites: Mapping[int, CallSite], row_count: int) -> SiteTable:
        """Return a table of sites by offset."""
        rows = np.full(row_count, -1, np.int32)
        numbers: dict[int, int] = {}
        keys: dict[SiteKey, int] = {}
        instructions: list[int] = []
        key_of_site: list[int] = []
        for offset, site in sites.items():
            number = numbers.setdefault(id(site), len(numbers))
            if number == len(instructions):
                instructions.append(site.offset)
                key = SiteKey(site.call, site.steps, site.blocks)
                key_of_site.append(keys.setdefault(key, len(keys)))
            rows[offset // ROW_SIZE] = number
        codes = [key.call.code for key in keys]
        known = list(keys), np.array(key_of_site, np.int64)
        return cls(rows, np.array(instructions, np.int32), codes, known[1], lambda: known)

    def find_places(self) -> tuple[tuple[Place, ...], NDArray[np.int64]]:
        """Return the distinct places of all sites, and for each site the number of its place."""
        lines = np.zeros(len(self.instructions), np.int64)
        for number, code in enumerate(self.codes):
            there = self.code_of_site == number
            lines[there] = find_lines(code, self.instructions[there])
        distinct, place_of_site = np.unique(self.code_of_site << 32 | lines, return_inverse=True)
        files = [code.co_filename for code in self.codes]
        places = [make_place((files[k >> 32], k & 0xFFFFFFFF, 0)) for k in distinct.tolist()]
        return tuple(places), place_of_site.reshape(-1)


class RecordedSites:
    """The sites that the C recorder notes during a trace."""

    def __init__(self, columns: Any, tracker: CallTracker) -> None:
        self.columns = columns
        """The recorder's object."""
        self.tracker = tracker

    def place_at(self, offset: int) -> Place | None:
        """Return the source line of the row at an offset."""
        found = self.columns.site_at(offset)
        if found is None:
            return None
        if isinstance(found, int):
            return list(self.tracker.other_sites.values())[found][1].place
        return place_in_code(*found)

    def make_table(self, row_count: int) -> SiteTable:
        """Return the sites as a table."""
        rows, calls, instructions, blocks, codes_of_sites, steps, pool, block_list, codes = self.columns.export()
        row_sites = np.full(row_count, -1, np.int32)
        noted = np.frombuffer(rows, np.int32)[:row_count]
        row_sites[: len(noted)] = noted
        offsets = np.frombuffer(instructions, np.int32)
        code_of_site = np.frombuffer(codes_of_sites, np.int32).astype(np.int64)
        codes = list(codes)
        others = [site for _, site in self.tracker.other_sites.values()]
        if others:
            # The sites in generators come behind the others.
            elsewhere = row_sites <= FIRST_OTHER_SITE
            row_sites[elsewhere] = len(offsets) + FIRST_OTHER_SITE - row_sites[elsewhere]
            offsets = np.concatenate([offsets, np.array([site.offset for site in others], np.int32)])
            code_of_site = np.concatenate([code_of_site, len(codes) + np.arange(len(others))])
            codes += [site.call.code for site in others]
        columns = np.stack(
            [np.frombuffer(calls, np.int32), np.frombuffer(blocks, np.int32), np.frombuffer(steps, np.int64)]
        )
        find_keys = partial(self._find_keys, columns, np.frombuffer(pool, np.int64), block_list, others)
        return SiteTable(row_sites, offsets, codes, code_of_site, find_keys)

    def _find_keys(
        self,
        columns: NDArray[np.int64],
        pool: NDArray[np.int64],
        block_list: Sequence[tuple[GroupBlock, ...]],
        others: Sequence[CallSite],
    ) -> tuple[list[SiteKey], NDArray[np.int64]]:
        """Return the distinct keys, and the number of each site's; `columns` are call, blocks and steps of each."""
        distinct, key_of_site = number_columns(columns)
        numbers = pool.tolist()
        keys = []
        for number, block, at in distinct.T.tolist():
            call = self.tracker.call_at(number)
            steps = () if at < 0 else decode_steps(call.code, numbers[at + 1 : at + 1 + numbers[at]])
            keys.append(make_key((call, steps, block_list[block])))
        key_of_site = np.concatenate([key_of_site, len(keys) + np.arange(len(others))])
        return keys + [SiteKey(site.call, site.steps, site.blocks) for site in others], key_of_site


FIRST_OTHER_SITE = -2
"""`FIRST_OTHER_SITE - k` in a column of sites stands for site k of those that the C recorder did not find itself."""


def number_columns(columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct columns of a table, and for each column the number of the equal one.

    >>> distinct, numbers = number_columns(np.array([[0, 2, 0], [-1, 5, -1]]))
    >>> distinct.tolist(), numbers.tolist()
    ([[0, 2], [-1, 5]], [0, 1, 0])
    """
    if not columns.shape[1]:
        return columns, np.zeros(0, np.int64)
    least = columns.min(axis=1)
    sizes = (columns.max(axis=1) - least + 1).tolist()
    if prod(sizes) >= 1 << 63:
        distinct, numbers = np.unique(columns, axis=1, return_inverse=True)
        return distinct, numbers.reshape(-1)
    # One number for each column is sorted much faster.
    packed = np.zeros(columns.shape[1], np.int64)
    for row, low, size in zip(columns, least, sizes, strict=True):
        packed = packed * size + (row - low)
    _, first, numbers = np.unique(packed, return_index=True, return_inverse=True)
    return columns[:, first], numbers.reshape(-1)


class ReplayGuard:
    """What decides whether the recording of a traced function may be replayed, and for which inputs."""

    __slots__ = ("certificates", "dropped", "error_settings", "escapes", "identity_scan", "leak", "refusal")

    def __init__(
        self, *, error_settings: Mapping[str, object] | None = None, identity_scan: IdentityScan | None = None
    ) -> None:
        self.certificates: list[Certificate] = []
        """The recorded numbers that Python code has read, and so may have branched on."""
        self.dropped: list[int] = []
        """The nodes that functions returned to transforms inside, such as `grad`, which returns gradients only."""
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
