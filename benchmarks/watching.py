"""What `wg.watch` costs: a PyTorch training step with and without it, in time and in the bytes of its tensors.

With it go the circuit of the step and its run, forward and backward, every value kept.

Steps are forward, backward and AdamW, in float32, on one thread and after warming up. Bytes are the largest sum of
storages that are alive during a step, counted when each op ends, parameters and optimizer state included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import wiregrad as wg
from benchmarks.measure import Report, Table, interleaved, milliseconds, time_calls

MAX_TIME_RATIO = 5.0
MAX_MEMORY_RATIO = 3.0
MAX_CIRCUIT_RATIO = 15.0
REPEATS = 9


class ResidualBlock(nn.Module):
    """Two convolutions with batch normalization, and what came in added to them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.first_norm(self.first(x)), inplace=True)
        return functional.relu(x + self.second_norm(self.second(y)))


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.after = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.after(x))


class Tagger(nn.Module):
    """An LSTM that gives each word a tag."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, 64)
        self.lstm = nn.LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, 12)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.table(words))[0]).flatten(0, 1)


@dataclass(frozen=True)
class WatchedModel:
    """A model, its data and its labels."""

    title: str
    model: nn.Module
    inputs: torch.Tensor
    labels: torch.Tensor

    def make_step(self) -> Callable[[], None]:
        """Return a training step."""
        optimizer = torch.optim.AdamW(self.model.parameters())

        def step() -> None:
            optimizer.zero_grad()
            functional.cross_entropy(self.model(self.inputs), self.labels).backward()
            optimizer.step()

        return step


def build_models() -> list[WatchedModel]:
    """Return the models that are measured."""
    torch.manual_seed(0)
    residual = [ResidualBlock(32) for _ in range(8)]
    pictures = nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2), nn.ReLU(), *residual, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
    )
    words = torch.randint(0, 500, (8, 64))
    language = nn.Sequential(
        nn.Embedding(500, 128), *[Block(128) for _ in range(4)], nn.Linear(128, 500), nn.Flatten(0, 1)
    )
    dense = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    return [
        WatchedModel("8 residual blocks, 8 pictures", pictures, torch.randn(8, 3, 32, 32), torch.arange(8)),
        WatchedModel("4 transformer blocks, 512 words", language, words, words.flatten()),
        WatchedModel("LSTM tagger, 512 words", Tagger(), words, words.flatten() % 12),
        WatchedModel("dense 64-256-256-10, 128 rows", dense, torch.randn(128, 64), torch.arange(128) % 10),
    ]


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
    return Report([table], {title: ratios for title, (_, ratios) in found.items()})
