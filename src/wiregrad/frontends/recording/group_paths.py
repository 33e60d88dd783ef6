"""The groups and source texts of a circuit's nodes, put together from where its nodes were recorded.

A path has one label for each call, `wg.group` block and loop step around a node, from the outside in. Calls are told
apart: the second call of `block` in the same group is `block 2`. A `for` statement over whole numbers gives one group
per step (`step 3`, `k=3`), unless that would add nothing: see `_is_useful`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

from wiregrad.frontends.recording.call_sites import CallSite, read_called_name, read_expression
from wiregrad.frontends.recording.trace_notes import TraceNotes
from wiregrad.ir import TABLE, Op

MAX_CALL_GROUPS = 100_000
"""More calls of one function in one group than this share a group."""


class GroupSegment(NamedTuple):
    """One label of a group path."""

    label: str
    identity: Hashable = None
    """What tells groups of one label apart: the call or the loop; None if equal labels are one group."""
    loop: Hashable = None
    """The loop and the steps of the loops around it; None if this is not the step of a loop."""


class GroupPaths:
    """The group path and the source text of every node of a recording."""

    def __init__(self, notes: TraceNotes, offsets: Iterable[int], op_at: Callable[[int], Op], *, inner: bool) -> None:
        self.notes = notes
        self.op_at = op_at
        self.library_groups: set[str] = set()
        """The paths of groups that are calls of composite functions."""
        self._key_numbers: dict[Hashable, int] = {}
        self._segments: dict[int, tuple[GroupSegment, ...]] = {}
        self._paths: dict[tuple[int, Hashable], str] = {}
        self._labels: dict[tuple[str, str], Hashable] = {}
        self._numbered: dict[tuple[str, str, Hashable], str] = {}
        self._latest_numbers: dict[tuple[str, str], int] = {}
        self._last_of_call = {call: offset for offset, call in notes.calls.items()}
        self._call_sizes = Counter(notes.calls.values())
        sites = {offset: notes.sites[offset] for offset in offsets if offset in notes.sites}
        self._last_at_site = {id(site): offset for offset, site in sites.items()}
        self._keys = {id(site): self._key_of(site) for site in sites.values()}
        counts = Counter([self._keys[id(site)] for site in sites.values()])
        self._skipped = _count_common(self._segments.values()) if inner else 0
        self._useless = _find_useless_loops(self._segments, counts)
        self._frequent = self._find_frequent_calls(sites)

    def path_of(self, offset: int) -> str:
        """Return the group path of a node."""
        site = self.notes.sites.get(offset)
        call = self.notes.calls.get(offset)
        if call is not None and self._call_sizes[call] < 2:
            call = None
        key = (0 if site is None else self._keys[id(site)], call)
        path = self._paths.get(key)
        if path is None:
            segments = () if site is None else self._segments[key[0]]
            shown = self._shown_segments(segments)
            if call is not None:
                shown.append(GroupSegment(call[0], call))
            path = self._join_segments(shown)
            if call is not None:
                self.library_groups.add(path)
            self._paths[key] = path
        return path

    def expression_of(self, offset: int) -> str | None:
        """Return the source text that a node is the result of; None if it is a part of it, or the text is not known."""
        site = self.notes.sites.get(offset)
        op = self.op_at(offset)
        if site is None or op is SPREAD:
            return None
        call = self.notes.calls.get(offset)
        code = site.call.code
        if call is not None:
            is_result = self._last_of_call[call] == offset
        else:
            called = read_called_name(code, site.offset)
            known = called is not None and (not called or called == op.name or called in op.aliases)
            is_result = known or self._last_at_site[id(site)] == offset
        return read_expression(code, site.offset) if is_result else None

    def _key_of(self, site: CallSite) -> int:
        """Return a number for what decides the path of a site, and store its segments."""
        key = (site.call, site.steps, site.blocks)
        number = self._key_numbers.setdefault(key, len(self._key_numbers) + 1)
        if number not in self._segments:
            self._segments[number] = _list_segments(site)
        return number

    def _find_frequent_calls(self, sites: Mapping[int, CallSite]) -> set[tuple[str, ...]]:
        """Return the labels of calls, with those around them, that are so many that they share one group."""
        calls: dict[tuple[str, ...], set[Hashable]] = {}
        labels: dict[int, tuple[str, ...]] = {}
        for key, segments in self._segments.items():
            around: tuple[str, ...] = ()
            for segment in self._shown_segments(segments):
                around = (*around, segment.label)
                if segment.identity is not None:
                    calls.setdefault(around, set()).add(segment.identity)
            labels[key] = around
        for offset, call in self.notes.calls.items():
            if offset in sites and self._call_sizes[call] > 1:
                calls.setdefault((*labels[self._keys[id(sites[offset])]], call[0]), set()).add(call)
        return {around for around, same in calls.items() if len(same) > MAX_CALL_GROUPS}

    def _shown_segments(self, segments: tuple[GroupSegment, ...]) -> list[GroupSegment]:
        """Return the segments that are labels of a path."""
        return [segment for segment in segments[self._skipped :] if segment.loop not in self._useless]

    def _join_segments(self, segments: Iterable[GroupSegment]) -> str:
        path = ""
        around: tuple[str, ...] = ()
        for segment in segments:
            around = (*around, segment.label)
            path = self._add_label(path, segment._replace(identity=None) if around in self._frequent else segment)
        return path

    def _add_label(self, parent: str, segment: GroupSegment) -> str:
        """Return the path of a group inside another; one whose label is taken by another call gets a number."""
        key = (parent, segment.label, segment.identity)
        if key not in self._numbered:
            label = segment.label
            number = self._latest_numbers.get((parent, label), 1)
            while self._labels.setdefault((parent, label), segment.identity) != segment.identity:
                number += 1
                label = f"{segment.label} {number}" if segment.loop is None else f"{segment.label} ({number})"
            self._latest_numbers[parent, segment.label] = number
            self._numbered[key] = f"{parent}/{label}" if parent else label
        return self._numbered[key]


SPREAD = TABLE["spread"]


def _list_segments(site: CallSite) -> tuple[GroupSegment, ...]:
    """Return the labels around a site, from the outside in; the group blocks are where they were entered."""
    chain = [site]
    while (parent := chain[-1].call.parent) is not None:
        chain.append(parent)
    entered = {at.call.frame_id for at in chain}
    segments = [GroupSegment(block.value) for block in site.blocks if block.entered[0] not in entered]
    for at in reversed(chain):
        if at.call.label and at.call.parent is not None:
            segments.append(GroupSegment(at.call.label, at.call.identity))
        inside = [(step[0].start, _make_step(at, k)) for k, step in enumerate(at.steps)]
        inside += [
            (block.entered[1], GroupSegment(block.value))
            for block in site.blocks
            if block.entered[0] == at.call.frame_id
        ]
        segments += [segment for _, segment in sorted(inside, key=lambda item: item[0]) if segment is not None]
    return tuple(segments)


def _make_step(site: CallSite, k: int) -> GroupSegment | None:
    """Return the label of a loop step: `step 3`, or `k=3` for a variable of one letter."""
    span, name, number = site.steps[k]
    if span in site.call.long_loops:
        return None
    word = "step" if not name.strip("_") else name
    label = f"{word}={number}" if len(word) == 1 else f"{word} {number}"
    return GroupSegment(label, (site.call.identity, span.start), (site.call, span.start, site.steps[:k]))


def _count_common(paths: Iterable[tuple[GroupSegment, ...]]) -> int:
    """Return how many segments all paths begin with."""
    shared: tuple[GroupSegment, ...] | None = None
    for path in paths:
        if shared is None:
            shared = path
        common = 0
        while common < min(len(shared), len(path)) and shared[common] == path[common]:
            common += 1
        shared = shared[:common]
    return len(shared or ())


class _StepTotals:
    """The nodes of one step of a loop."""

    __slots__ = ("child", "in_blocks", "nodes")

    def __init__(self) -> None:
        self.nodes = 0
        self.in_blocks = True
        """Whether every node is in a `wg.group` block inside the loop."""
        self.child: str | None = None
        """The label of the only group inside; empty if there are several, or nodes in none."""


def _find_useless_loops(paths: Mapping[int, tuple[GroupSegment, ...]], counts: Mapping[int, int]) -> set[Hashable]:
    """Return the loops whose steps are no groups."""
    loops: dict[Hashable, dict[str, _StepTotals]] = {}
    for key, path in paths.items():
        for k, segment in enumerate(path):
            if segment.loop is not None:
                totals = loops.setdefault(segment.loop, {}).setdefault(segment.label, _StepTotals())
                totals.nodes += counts[key]
                child = path[k + 1] if k + 1 < len(path) else GroupSegment("", ())
                totals.child = child.label if totals.child in (None, child.label) else ""
                totals.in_blocks = totals.in_blocks and child.identity is None
    return {loop for loop, steps in loops.items() if not _is_useful(steps)}


def _is_useful(steps: Mapping[str, _StepTotals]) -> bool:
    """Return whether groups for the steps of a loop say more than the picture without them.

    They do not if there is one step, or one node per step; if the user groups what the loop does; and if what the steps
    consist of is told apart by its own labels, as in `for k in range(3): x = self.layers[k](x)`.
    """
    if all(totals.in_blocks for totals in steps.values()):
        return False
    children = {totals.child for totals in steps.values()}
    told_apart = "" not in children and len(children) == len(steps)
    single = all(totals.nodes == 1 for totals in steps.values())
    return len(steps) > 1 and not single and not told_apart
