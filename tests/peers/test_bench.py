"""The benchmarks beside other frameworks: all of them take part, and all of them agree."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wiregrad.cli import bench


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> bench.PeerEntrants:
    # The benchmarks are no part of the package.
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    from benchmarks import peers

    found: bench.PeerEntrants = peers.PEERS
    return found


def test_every_peer_takes_part_with_the_same_answers(peers: bench.PeerEntrants) -> None:
    limit = sys.getrecursionlimit()
    found = bench.run_suite(bench.TINY_SIZES, peers)
    everybody = {entrant.name for race in (peers.compile, peers.point, peers.batch, peers.call) for entrant in race}

    assert everybody <= {name for section in found.sections for result in section.results for name in result.times}
    assert not any(result.missing for section in found.sections for result in section.results)
    assert sys.getrecursionlimit() == limit
