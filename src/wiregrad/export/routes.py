"""How wires run, and how far apart ranks must be for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wiregrad.export.board import LayoutBoard
from wiregrad.export.shapes import Layout, LayoutPoint, WireRoute


@dataclass(slots=True)
class TrackChannel:
    """The gap before a rank: the tracks in it, and the track of each item's wires."""

    tracks: list[list[tuple[int, int]]] = field(default_factory=list)
    """The intervals that are taken, for each track."""
    of: dict[int, int] = field(default_factory=dict)
    """The track of the wires that leave each item."""


def route_wires(board: LayoutBoard, *, straight: bool) -> Layout:
    """Route the wires of a board whose items have their places across, and return the finished layout."""
    ways = [_trace_wire(board, k) for k in range(len(board.joints))]
    channels = [TrackChannel() for _ in range(len(board.rows) + 1)]
    if not straight:
        _assign_tracks(board, ways, channels)
    starts, ends, total = _place_along(board, channels)
    corners = []
    for box, shape in enumerate(board.shapes):
        corners.append((starts[board.rank[box]], int(board.middle[box]) - shape.across // 2))
    routes = [
        _route_stub(board, k, starts) if way is None else _route_wire(board, k, way, channels, starts, ends, straight)
        for k, way in enumerate(ways)
    ]
    ranks = tuple(board.rank[: board.boxes])
    bands = tuple(board.bands[rank] for rank in ranks)
    return Layout(total, _total_extent(board), ranks, tuple(corners), tuple(routes), bands)


def _total_extent(board: LayoutBoard) -> int:
    last = [row[-1] for row in board.rows if row]
    return max((int(board.middle[item]) - board.sizes[item] // 2 + board.sizes[item] for item in last), default=0)


def locate_port(board: LayoutBoard, wire: int) -> int:
    """Return the place across of the port at which a wire ends."""
    target = board.joints[wire].target
    corner = int(board.middle[target]) - board.shapes[target].across // 2
    return corner + board.port_offset(board.port[wire], target)


def _trace_wire(board: LayoutBoard, wire: int) -> list[int] | None:
    """Return the place across of a wire in each rank from its source to its target; None for a stub."""
    chain = board.bends[wire]
    if chain is None:
        return None
    at = int(board.middle[board.joints[wire].source])
    places = [at]
    for wanted in (*(int(board.middle[item]) for item in chain), locate_port(board, wire)):
        at = at if abs(wanted - at) <= board.metrics.near else wanted
        places.append(at)
    return places


def _assign_tracks(board: LayoutBoard, ways: Sequence[list[int] | None], channels: Sequence[TrackChannel]) -> None:
    """Give a track in the gap behind it to every item whose wires change their place across."""
    spans: list[dict[int, list[int]]] = [{} for _ in channels]
    for k, way in enumerate(ways):
        if way is None:
            continue
        chain = board.bends[k] or []
        for hop, item in enumerate((board.joints[k].source, *chain)):
            if way[hop] != way[hop + 1]:
                span = spans[board.rank[item] + 1].setdefault(item, [way[hop]])
                span.append(way[hop + 1])
    for channel, nets in zip(channels, spans, strict=True):
        _fill_channel(channel, nets)


def _fill_channel(channel: TrackChannel, nets: dict[int, list[int]]) -> None:
    """Choose tracks so that wires in one direction do not cross: the one that starts nearer its end turns first."""
    for sign in (1, -1):
        going = [item for item, span in nets.items() if (sum(span[1:]) >= span[0] * (len(span) - 1)) == (sign > 0)]
        least: list[tuple[int, int, int]] = []
        for item in sorted(going, key=lambda item: (-sign * nets[item][0], item)):
            low = min(nets[item])
            high = max(nets[item])
            after = max((track + 1 for a, b, track in least if a <= high and low <= b), default=0)
            track = _take_free_track(channel, after, low, high)
            channel.of[item] = track
            least.append((low, high, track))


def _take_free_track(channel: TrackChannel, after: int, low: int, high: int) -> int:
    track = after
    while track < len(channel.tracks) and any(a <= high and low <= b for a, b in channel.tracks[track]):
        track += 1
    channel.tracks += [[] for _ in range(track + 1 - len(channel.tracks))]
    channel.tracks[track].append((low, high))
    return track


def _place_along(board: LayoutBoard, channels: Sequence[TrackChannel]) -> tuple[list[int], list[int], int]:
    """Return the start and the end of every rank along, and the total extent; every band starts at 0."""
    starts = []
    ends = []
    after = 0
    at = 0
    total = 0
    for rank, row in enumerate(board.rows):
        if rank and board.bands[rank] != board.bands[rank - 1]:
            total = max(total, at + after)
            at = board.labels[rank]
        elif rank:
            at += after + 2 * board.metrics.lead + _tracks_room(board, channels[rank]) + board.labels[rank]
        starts.append(at)
        at += max((board.shapes[item].along for item in row if item < board.boxes), default=0)
        ends.append(at)
        after = max((_room_behind(board, item, starts[-1], at) for item in row if item < board.boxes), default=0)
    return starts, ends, max(total, at + after)


def _room_behind(board: LayoutBoard, item: int, start: int, end: int) -> int:
    """Return the room that a box needs behind the end of its rank."""
    return max(0, start + board.shapes[item].along + board.after[item] - end)


def _track_step(board: LayoutBoard, channel: TrackChannel) -> int:
    """Return the distance of the tracks in a channel; many tracks are closer together."""
    metrics = board.metrics
    gaps = max(1, len(channel.tracks) - 1)
    return max(metrics.narrow, min(metrics.track, metrics.crowd // gaps))


def _tracks_room(board: LayoutBoard, channel: TrackChannel) -> int:
    return max(0, len(channel.tracks) - 1) * _track_step(board, channel)


def _route_stub(board: LayoutBoard, wire: int, starts: Sequence[int]) -> WireRoute:
    joint = board.joints[wire]
    source = joint.source
    target = joint.target
    start = (starts[board.rank[source]] + board.shapes[source].along, int(board.middle[source]))
    return WireRoute((start, (starts[board.rank[target]], locate_port(board, wire))), stub=True)


def _route_wire(
    board: LayoutBoard,
    wire: int,
    way: Sequence[int],
    channels: Sequence[TrackChannel],
    starts: Sequence[int],
    ends: Sequence[int],
    straight: bool,
) -> WireRoute:
    """Return the points of a wire: at right angles along its tracks, or straight from rank to rank."""
    joint = board.joints[wire]
    chain = board.bends[wire] or []
    rank = board.rank[joint.source]
    points: list[LayoutPoint] = [(starts[rank] + board.shapes[joint.source].along, way[0])]
    for hop, item in enumerate((joint.source, *chain)):
        if straight:
            points += [(ends[rank + hop], way[hop]), (starts[rank + hop + 1], way[hop + 1])]
        elif way[hop] != way[hop + 1]:
            channel = channels[rank + hop + 1]
            at = _locate_first_track(board, channels, starts, rank + hop + 1) + channel.of[item] * _track_step(board, channel)
            points += [(at, way[hop]), (at, way[hop + 1])]
    points.append((starts[board.rank[joint.target]], way[-1]))
    return WireRoute(_drop_repeats(points))


def _locate_first_track(board: LayoutBoard, channels: Sequence[TrackChannel], starts: Sequence[int], rank: int) -> int:
    return starts[rank] - board.labels[rank] - board.metrics.lead - _tracks_room(board, channels[rank])


def _drop_repeats(points: Sequence[LayoutPoint]) -> tuple[LayoutPoint, ...]:
    return tuple(point for k, point in enumerate(points) if not k or point != points[k - 1])
