"""How wires run, and how far apart ranks must be for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wiregrad.export.board import Board
from wiregrad.export.shapes import Layout, Point, Route


@dataclass(slots=True)
class Channel:
    """The gap before a rank: the tracks in it, and the track of each item's wires."""

    tracks: list[list[tuple[int, int]]] = field(default_factory=list)
    """The intervals that are taken, for each track."""
    of: dict[int, int] = field(default_factory=dict)
    """The track of the wires that leave each item."""


def route(board: Board, *, straight: bool) -> Layout:
    """Route the wires of a board whose items have their places across, and return the finished layout."""
    ways = [_way(board, k) for k in range(len(board.joints))]
    channels = [Channel() for _ in range(len(board.rows) + 1)]
    if not straight:
        _assign(board, ways, channels)
    starts, ends, total = _place_along(board, channels)
    corners = []
    for box, shape in enumerate(board.shapes):
        corners.append((starts[board.rank[box]], int(board.middle[box]) - shape.across // 2))
    routes = [
        _stub(board, k, starts) if way is None else _route(board, k, way, channels, starts, ends, straight)
        for k, way in enumerate(ways)
    ]
    ranks = tuple(board.rank[: board.boxes])
    bands = tuple(board.bands[rank] for rank in ranks)
    return Layout(total, _extent(board), ranks, tuple(corners), tuple(routes), bands)


def _extent(board: Board) -> int:
    last = [row[-1] for row in board.rows if row]
    return max((int(board.middle[item]) - board.sizes[item] // 2 + board.sizes[item] for item in last), default=0)


def port_at(board: Board, wire: int) -> int:
    """Return the place across of the port at which a wire ends."""
    target = board.joints[wire].target
    corner = int(board.middle[target]) - board.shapes[target].across // 2
    return corner + board.port_offset(board.port[wire], target)


def _way(board: Board, wire: int) -> list[int] | None:
    """Return the place across of a wire in each rank from its source to its target; None for a stub."""
    chain = board.bends[wire]
    if chain is None:
        return None
    at = int(board.middle[board.joints[wire].source])
    places = [at]
    for wanted in (*(int(board.middle[item]) for item in chain), port_at(board, wire)):
        at = at if abs(wanted - at) <= board.metrics.near else wanted
        places.append(at)
    return places


def _assign(board: Board, ways: Sequence[list[int] | None], channels: Sequence[Channel]) -> None:
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
        _fill(channel, nets)


def _fill(channel: Channel, nets: dict[int, list[int]]) -> None:
    """Choose tracks so that wires in one direction do not cross: the one that starts nearer its end turns first."""
    for sign in (1, -1):
        going = [item for item, span in nets.items() if (sum(span[1:]) >= span[0] * (len(span) - 1)) == (sign > 0)]
        least: list[tuple[int, int, int]] = []
        for item in sorted(going, key=lambda item: (-sign * nets[item][0], item)):
            low = min(nets[item])
            high = max(nets[item])
            after = max((track + 1 for a, b, track in least if a <= high and low <= b), default=0)
            track = _first_free(channel, after, low, high)
            channel.of[item] = track
            least.append((low, high, track))


def _first_free(channel: Channel, after: int, low: int, high: int) -> int:
    track = after
    while track < len(channel.tracks) and any(a <= high and low <= b for a, b in channel.tracks[track]):
        track += 1
    channel.tracks += [[] for _ in range(track + 1 - len(channel.tracks))]
    channel.tracks[track].append((low, high))
    return track


def _place_along(board: Board, channels: Sequence[Channel]) -> tuple[list[int], list[int], int]:
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
            at += after + 2 * board.metrics.lead + _spread(board, channels[rank]) + board.labels[rank]
        starts.append(at)
        at += max((board.shapes[item].along for item in row if item < board.boxes), default=0)
        ends.append(at)
        after = max((_behind(board, item, starts[-1], at) for item in row if item < board.boxes), default=0)
    return starts, ends, max(total, at + after)


def _behind(board: Board, item: int, start: int, end: int) -> int:
    """Return the room that a box needs behind the end of its rank."""
    return max(0, start + board.shapes[item].along + board.after[item] - end)


def _step(board: Board, channel: Channel) -> int:
    """Return the distance of the tracks in a channel; many tracks are closer together."""
    metrics = board.metrics
    gaps = max(1, len(channel.tracks) - 1)
    return max(metrics.narrow, min(metrics.track, metrics.crowd // gaps))


def _spread(board: Board, channel: Channel) -> int:
    return max(0, len(channel.tracks) - 1) * _step(board, channel)


def _stub(board: Board, wire: int, starts: Sequence[int]) -> Route:
    joint = board.joints[wire]
    source = joint.source
    target = joint.target
    start = (starts[board.rank[source]] + board.shapes[source].along, int(board.middle[source]))
    return Route((start, (starts[board.rank[target]], port_at(board, wire))), stub=True)


def _route(
    board: Board,
    wire: int,
    way: Sequence[int],
    channels: Sequence[Channel],
    starts: Sequence[int],
    ends: Sequence[int],
    straight: bool,
) -> Route:
    """Return the points of a wire: at right angles along its tracks, or straight from rank to rank."""
    joint = board.joints[wire]
    chain = board.bends[wire] or []
    rank = board.rank[joint.source]
    points: list[Point] = [(starts[rank] + board.shapes[joint.source].along, way[0])]
    for hop, item in enumerate((joint.source, *chain)):
        if straight:
            points += [(ends[rank + hop], way[hop]), (starts[rank + hop + 1], way[hop + 1])]
        elif way[hop] != way[hop + 1]:
            channel = channels[rank + hop + 1]
            at = _first_track(board, channels, starts, rank + hop + 1) + channel.of[item] * _step(board, channel)
            points += [(at, way[hop]), (at, way[hop + 1])]
    points.append((starts[board.rank[joint.target]], way[-1]))
    return Route(_without_repeats(points))


def _first_track(board: Board, channels: Sequence[Channel], starts: Sequence[int], rank: int) -> int:
    return starts[rank] - board.labels[rank] - board.metrics.lead - _spread(board, channels[rank])


def _without_repeats(points: Sequence[Point]) -> tuple[Point, ...]:
    return tuple(point for k, point in enumerate(points) if not k or point != points[k - 1])
