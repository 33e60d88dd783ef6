"""What `wg.watch` costs: a PyTorch training step with and without it, in time and in the bytes of its tensors.

With it go the circuit of the step and its run, forward and backward, every value kept.

Steps are forward, backward and AdamW, in float32 and under autocast, on one thread and after warming up. Bytes are the
largest sum of storages that are alive during a step, counted when each op ends, parameters and optimizer state
included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

import wiregrad as wg
from benchmarks.measure import Report, Table, interleaved, milliseconds, time_calls
from tests.peers.torch_models import Gpt, GraphNetwork, ResNet, Tagger, UNet, Vae

MAX_TIME_RATIO = 5.0
MAX_MEMORY_RATIO = 3.0
MAX_CIRCUIT_RATIO = 15.0
REPEATS = 9
MODES = ("auto", "all", "summaries")
"""What is kept of the values of a step."""
STEPS = 10


@dataclass(frozen=True)
class WatchedModel:
    """A model that computes a loss, its arguments, and whether it runs under autocast."""

    title: str
    model: nn.Module
    batch: tuple[torch.Tensor, ...]
    is_cast: bool

    def make_step(self) -> Callable[[], None]:
        """Return a training step."""
        optimizer = torch.optim.AdamW(self.model.parameters())

        def step() -> None:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=self.is_cast):
                loss = self.model(*self.batch)
            loss.backward()
            optimizer.step()

        return step


def draw_graph(nodes: int, edges: int) -> tuple[torch.Tensor, ...]:
    """Return features, edges, the graph of each node, and a target for each of two graphs."""
    graph = (torch.arange(nodes) >= nodes // 2).long()
    return torch.randn(nodes, 3), torch.randint(0, nodes, (2, edges)), graph, torch.randn(2)


def build_models() -> Iterator[WatchedModel]:
    """Yield the models that are measured, those of the tests in larger sizes, in float32 and under autocast."""
    torch.manual_seed(0)
    words = torch.randint(1, 1000, (8, 64))
    models: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
        "ResNet-18, width 16, 8 pictures": (ResNet(16, 10), (torch.randn(8, 3, 64, 64), torch.arange(8))),
        "GPT, 4 blocks, 512 words": (Gpt(500, 64, 128, 4, 4), (torch.randint(0, 500, (8, 65)),)),
        "U-Net, width 16, 4 pictures": (UNet(16), (torch.randn(4, 1, 64, 64), torch.rand(4, 1, 64, 64).round())),
        "VAE 784-256-20, 128 pictures": (Vae(784, 256, 20), (torch.rand(128, 784),)),
        "LSTM tagger, both ways, 512 words": (Tagger(1000, 64, 128, 12), (words, words % 12)),
        "graph network, 4,096 edges": (GraphNetwork(64), draw_graph(1024, 4096)),
    }
    for is_cast in (False, True):
        for title, (model, batch) in models.items():
            yield WatchedModel(f"{title}, autocast" if is_cast else title, model, batch, is_cast)


class PeakCounter(TorchDispatchMode):
    """Counts the bytes of all storages that ops returned and that are alive, and remembers the largest sum."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0
        self._add(list(tensors))

    def _add(self, values: Any) -> None:
        for value in values if isinstance(values, list | tuple) else [values]:
            if isinstance(value, torch.Tensor):
                storage = value.untyped_storage()
                self.alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._add(result)
        self.alive = {key: entry for key, entry in self.alive.items() if not entry[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.alive.values()))
        return result


def measure_peak(task: Callable[[], object], tensors: Iterable[torch.Tensor]) -> int:
    """Return the largest sum of bytes that are alive during a call, with some tensors that exist before it."""
    counter = PeakCounter(tensors)
    with counter:
        task()
    return counter.peak


def measure_model(watched: WatchedModel, repeats: int) -> tuple[list[str], dict[str, float]]:
    """Return the row of a model, and its ratios."""
    step = watched.make_step()

    def watch_step() -> None:
        with wg.watch(watched.model):
            step()

    def run_circuit() -> None:
        with wg.watch(watched.model, keep="all") as seen:
            step()
        seen.circuit().run()

    for task in (step, watch_step, run_circuit, step, watch_step, run_circuit):
        task()
    turns = {
        "plain": lambda: time_calls(step, 3),
        "watched": lambda: time_calls(watch_step, 3),
        "circuit": lambda: time_calls(run_circuit, 1),
    }
    times = interleaved(turns, repeats)
    size = measure_peak(step, watched.model.parameters())
    ratios = {
        "time": times["watched"] / times["plain"],
        "memory": measure_peak(watch_step, watched.model.parameters()) / size,
        "circuit": times["circuit"] / times["plain"],
    }
    row = [milliseconds(times["plain"]), f"{ratios['time']:.2f}", f"{ratios['circuit']:.1f}"]
    return [watched.title, *row, f"{size / 1e6:.1f} MB", f"{ratios['memory']:.2f}"], ratios


class Mlp(nn.Module):
    """Four linear layers with rectifiers between them, and a mean square as the loss."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = [layer for _ in range(3) for layer in (nn.Linear(width, width), nn.ReLU())]
        self.layers = nn.Sequential(*inner, nn.Linear(width, 1))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(self.layers(x), y)


def measure_modes(width: int, rows: int, repeats: int) -> list[str]:
    """Return the row of a network: its step, and how many times as long it takes in each mode of the watch."""
    torch.manual_seed(0)
    watched = WatchedModel(
        f"MLP, width {width}, {rows} rows", Mlp(width), (torch.randn(rows, width), torch.randn(rows, 1)), False
    )
    step = watched.make_step()

    def watch_steps(keep: str) -> None:
        with wg.watch(watched.model, keep=keep):
            for _ in range(STEPS):
                step()

    def time_mode(keep: str) -> float:
        return time_calls(partial(watch_steps, keep), 1) / STEPS

    turns: dict[str, Callable[[], float]] = {"plain": lambda: time_calls(step, STEPS)}
    turns |= {keep: partial(time_mode, keep) for keep in MODES}
    for turn in turns.values():
        turn()
    times = interleaved(turns, repeats)
    return [watched.title, milliseconds(times["plain"]), *(f"{times[keep] / times['plain']:.1f}" for keep in MODES)]


def measure_flight(width: int, rows: int, repeats: int) -> list[str]:
    """Return the row of a network of `wg.nn`: its step, and how many times as long it takes with a flight recorder."""
    rng = np.random.default_rng(0)
    inner = [layer for _ in range(3) for layer in (wg.nn.Linear(width, width, rng=rng), wg.nn.ReLU())]
    model = wg.nn.Sequential(*inner, wg.nn.Linear(width, 1, rng=rng))
    x, y = rng.normal(size=(rows, width)), rng.normal(size=(rows, 1))
    optimizer = wg.optim.Adam(model.parameters())

    def step(flight: Any = None) -> None:
        optimizer.zero_grad()
        loss = wg.nn.mse_loss(model(x), y)
        loss.backward()
        if flight is not None:
            flight.step(loss, model.parameters())
        optimizer.step()

    flights = {"plain": None, "all": wg.record(), "exploded": wg.record(watch="exploded")}
    times = interleaved(
        {name: partial(time_calls, partial(step, each), STEPS) for name, each in flights.items()}, repeats
    )
    ratios = [f"{times[name] / times['plain']:.2f}" for name in ("all", "exploded")]
    return [f"MLP of wg.nn, width {width}, {rows} rows", milliseconds(times["plain"]), *ratios]


def run(*, quick: bool = False) -> Report:
    """Measure every model."""
    torch.set_num_threads(1)
    found = {watched.title: measure_model(watched, 3 if quick else REPEATS) for watched in build_models()}
    wanted = (
        f"wanted: at most {MAX_TIME_RATIO:g} times the time and {MAX_MEMORY_RATIO:g} times the bytes, and with the "
        f"circuit and its run {MAX_CIRCUIT_RATIO:g} times the time"
    )
    heading = ["training step", "plain", "watched, times", "with circuit and run, times", "bytes", "watched, times"]
    table = Table(f"A step under `wg.watch`; {wanted}.", heading, [row for row, _ in found.values()])
    modes = [measure_modes(width, rows, 3 if quick else REPEATS) for width, rows in ((64, 64), (512, 256))]
    heading = ["training step", "plain", *(f'keep="{keep}", times' for keep in MODES)]
    table_of_modes = Table("The modes of `wg.watch`, ten steps in one block.", heading, modes)
    flights = [measure_flight(width, rows, 3 if quick else REPEATS) for width, rows in ((64, 64), (512, 256))]
    heading = ["training step", "plain", "wg.record(), times", 'watch="exploded", times']
    table_of_flights = Table("A step with a flight recorder.", heading, flights)
    return Report([table, table_of_modes, table_of_flights], {title: ratios for title, (_, ratios) in found.items()})
