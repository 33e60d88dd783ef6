"""Blocks and recordings of tasks, generators and threads that take turns: each is as if it ran alone."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.frontends.recording.tape import GROUPS, PAUSES, STATE, RecordingBlock, Tape
from wiregrad.ir.columns import CHOSEN_CONVENTIONS
from wiregrad.settings import SettingBlock

from ..support.limits import wait_for_thread
from ..support.threads import run_in_threads

Steps = Generator[None, None, None]


def records() -> bool:
    """Return whether ops on values are recorded here."""
    product = wg.Value(2.0) * 3.0
    array = wg.Value(np.ones(2)) * 3.0
    assert (product._tape is None) == (array._tape is None)
    return product._tape is not None


def slope() -> float:
    """Return the slope of maximum(x, 0) at 0, which tells the convention: 0 by min_norm, 0.5 by torch."""
    x = wg.Value(0.0)
    wg.maximum(x, 0.0).backward()
    found = wg.grad(lambda x: wg.maximum(x, 0.0))(0.0)
    assert found == x.grad
    return found


def group() -> str:
    """Return the group that a node belongs to here."""
    return wg.trace(lambda x: x * x, 2.0)["f"].group


@pytest.fixture(autouse=True)
def nothing_left_over() -> Iterator[None]:
    yield
    assert records()
    assert slope() == 0.0
    assert group() == ""
    assert STATE.tape is None
    assert not PAUSES.active_blocks()
    assert not GROUPS.active_blocks()
    assert not CHOSEN_CONVENTIONS.active_blocks()


def strand(seed: int, results: list[Any]) -> Steps:
    """Compute with values, transforms and blocks, and yield between all steps."""
    rng = random.Random(seed)
    while True:
        x, w = wg.Value(rng.uniform(0.5, 2.0)), wg.Value(np.array([rng.uniform(0.5, 2.0) for _ in range(3)]))
        name = rng.choice(["min_norm", "torch"])
        yield
        y = x * x
        yield
        z = np.sin(x) * y + x
        yield
        with wg.no_grad():
            yield
            results.append((z * x)._tape is None)
            yield
            results.append((w * 2.0)._tape is None)
            results.append(wg.grad(lambda t: t * t)(3.0))
        yield
        u = np.sum(w * w) * z
        with wg.convention(name), wg.group(f"g{seed}"):
            yield
            kink = wg.maximum(x - x.data, 0.0)
            results.append(wg.grad(lambda t: wg.maximum(t, 0.0))(0.0))
            yield
            with wg.group("inner"), wg.convention("jax"):
                yield
                results.append(wg.grad(abs)(0.0))
                results.append(group())
            yield
            results.append(group())
        yield
        v = u * y + kink
        yield
        v.backward()
        yield
        results.append(wg.grad(lambda t: wg.grad(lambda s: s * s * t)(t))(rng.uniform(1.0, 2.0)))
        yield
        results.append([x.grad, w.grad.tolist(), y.grad, z.grad, u.grad, v.grad, kink.grad])
        yield
        z.backward()
        yield
        results.append([x.grad, y.grad, z.grad, u.grad])


def alone(seed: int, count: int) -> list[Any]:
    """Return the results of one strand that runs alone for so many steps."""
    results: list[Any] = []
    running = strand(seed, results)
    for _ in range(count):
        next(running)
    return results


def check_turns(seed: int, counts: list[int], found: list[list[Any]]) -> None:
    for k, (count, results) in enumerate(zip(counts, found, strict=True)):
        wanted = alone(100 * seed + k, count)
        assert len(results) == len(wanted)
        for number, (one, two) in enumerate(zip(results, wanted, strict=True)):
            assert one == two, f"strand {k}, result {number}"


def take_turns_as_generators(seed: int, switches: int) -> None:
    rng = random.Random(seed)
    found: list[list[Any]] = [[] for _ in range(8)]
    strands = [strand(100 * seed + k, results) for k, results in enumerate(found)]
    counts = [0] * 8
    for _ in range(switches):
        k = rng.randrange(8)
        next(strands[k])
        counts[k] += 1
    for running in strands:
        running.close()
    check_turns(seed, counts, found)


async def as_task(running: Steps, count: int, rng: random.Random) -> None:
    """Run a strand as a task: the blocks are entered in a generator that a coroutine drives."""
    for _ in range(count):
        next(running)
        for _ in range(rng.randrange(3)):
            await asyncio.sleep(0)


async def own_blocks(seed: int, switches: int, found: list[Any]) -> None:
    """Enter blocks in a coroutine, and let others run inside them."""
    rng = random.Random(seed)
    for _ in range(switches // 8):
        name = rng.choice(["min_norm", "torch"])
        with contextlib.ExitStack() as stack:
            paused = rng.random() < 0.5
            if paused:
                stack.enter_context(wg.no_grad())
            with wg.convention(name), wg.group(f"g{seed}"):
                x = wg.Value(2.0)
                for _ in range(rng.randrange(3)):
                    await asyncio.sleep(0)
                y = x * x
                await asyncio.sleep(0)
                assert (y._tape is None) == paused
                # A value that is not recorded tells nothing of the convention.
                assert wg.grad(lambda t: wg.maximum(t, 0.0))(0.0) == (0.5 if name == "torch" else 0.0)
                await asyncio.sleep(0)
                assert group() == f"g{seed}"
        await asyncio.sleep(0)
        assert records()
        assert group() == ""
        found.append(slope())


def take_turns_as_tasks(seed: int, switches: int) -> None:
    rng = random.Random(seed)
    found: list[list[Any]] = [[] for _ in range(8)]
    counts = [switches // 8] * 8

    async def main() -> list[float]:
        slopes: list[float] = []
        strands = [as_task(strand(100 * seed + k, found[k]), counts[k], rng) for k in range(8)]
        await asyncio.gather(*strands, *[own_blocks(k, switches // 8, slopes) for k in range(8)])
        return slopes

    assert set(asyncio.run(main())) == {0.0}
    check_turns(seed, counts, found)


def take_turns_as_threads(seed: int, switches: int) -> None:
    found: list[list[Any]] = [[] for _ in range(8)]
    counts = [switches // 8] * 8

    def work(k: int) -> None:
        running = strand(100 * seed + k, found[k])
        for _ in range(counts[k]):
            next(running)

    run_in_threads(work, range(8), interval=1e-5)
    check_turns(seed, counts, found)


TURNS = [take_turns_as_generators, take_turns_as_tasks, take_turns_as_threads]


@pytest.mark.parametrize("take_turns", TURNS)
def test_strands_that_take_turns_are_as_if_they_ran_alone(take_turns: Callable[[int, int], None]) -> None:
    take_turns(1, 600)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("take_turns", TURNS)
def test_ten_thousand_turns_are_as_if_every_strand_ran_alone(take_turns: Callable[[int, int], None], seed: int) -> None:
    take_turns(seed, 10_000)


BLOCKS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "no_grad": (wg.no_grad, records),
    "convention": (lambda: wg.convention("torch"), slope),
    "group": (lambda: wg.group("a"), group),
    "anomaly": (wg.anomaly, lambda: STATE.watch is not None),
}
every_block = pytest.mark.parametrize(("block", "state"), BLOCKS.values(), ids=BLOCKS)


def states(block: Callable[[], Any], state: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what holds outside and inside a block."""
    with block():
        inside = state()
    outside = state()
    assert inside != outside
    return outside, inside


@every_block
def test_a_block_of_a_generator_holds_only_while_that_runs(block: Any, state: Any) -> None:
    outside, inside = states(block, state)

    def generator() -> Iterator[Any]:
        yield state()
        with block():
            yield state()
            yield state()
        yield state()

    running = generator()
    assert [(next(running), state()) for _ in range(4)] == [
        (outside, outside),
        (inside, outside),
        (inside, outside),
        (outside, outside),
    ]


@every_block
def test_a_generator_that_is_dropped_inside_a_block_leaves_nothing(block: Any, state: Any) -> None:
    outside, _ = states(block, state)

    def generator() -> Iterator[None]:
        with block():
            yield

    running = generator()
    next(running)
    del running

    assert state() == outside
    assert not PAUSES.opened


@every_block
def test_delegation_keeps_the_blocks_of_all_generators(block: Any, state: Any) -> None:
    outside, inside = states(block, state)

    def inner() -> Iterator[Any]:
        yield state()

    def outer() -> Iterator[Any]:
        with block():
            yield from inner()
        yield from inner()

    def outermost() -> Iterator[Any]:
        yield from outer()

    running = outermost()
    assert [(next(running), state()) for _ in range(2)] == [(inside, outside), (outside, outside)]


@every_block
def test_a_block_of_a_generator_that_delegates_to_ends_with_it(block: Any, state: Any) -> None:
    outside, inside = states(block, state)

    def inner() -> Iterator[Any]:
        with block():
            yield state()
            yield state()

    def outer() -> Iterator[Any]:
        yield from inner()
        yield state()

    running = outer()
    assert [(next(running), state()) for _ in range(3)] == [(inside, outside), (inside, outside), (outside, outside)]


def of_contextlib(block: Any) -> Any:
    @contextlib.contextmanager
    def manager() -> Iterator[None]:
        with block():
            yield

    return manager()


def of_two_levels(block: Any) -> Any:
    @contextlib.contextmanager
    def manager() -> Iterator[None]:
        with of_contextlib(block):
            yield

    return manager()


def of_a_stack(block: Any) -> Any:
    @contextlib.contextmanager
    def manager() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(of_contextlib(block))
            yield

    return manager()


class Manager:
    """A context manager of a user's own."""

    def __init__(self, block: Any) -> None:
        self.block = block()

    def __enter__(self) -> None:
        self.block.__enter__()

    def __exit__(self, *error: object) -> None:
        self.block.__exit__(*error)


MANAGERS = [of_contextlib, of_two_levels, of_a_stack, Manager]


@every_block
@pytest.mark.parametrize("manager", MANAGERS)
def test_a_context_manager_of_ones_own_holds_for_its_body(block: Any, state: Any, manager: Any) -> None:
    outside, inside = states(block, state)
    with manager(block):
        assert state() == inside
    assert state() == outside


@every_block
@pytest.mark.parametrize("manager", MANAGERS)
def test_a_context_manager_that_a_generator_enters_belongs_to_it(block: Any, state: Any, manager: Any) -> None:
    outside, inside = states(block, state)

    def generator() -> Iterator[Any]:
        with manager(block):
            yield state()
            yield state()

    running = generator()
    assert [(next(running), state()) for _ in range(2)] == [(inside, outside)] * 2
    running.close()  # type: ignore[attr-defined]


@every_block
def test_a_stack_holds_until_it_is_closed(block: Any, state: Any) -> None:
    outside, inside = states(block, state)
    stack = contextlib.ExitStack()
    stack.enter_context(block())
    assert state() == inside
    stack.close()
    assert state() == outside


@every_block
def test_a_decorated_function_runs_inside_a_block_every_time(block: Any, state: Any) -> None:
    outside, inside = states(block, state)
    decorated = block()(state)

    assert [decorated(), state(), decorated(), state()] == [inside, outside, inside, outside]


@every_block
def test_a_block_that_raised_is_left(block: Any, state: Any) -> None:
    outside, _ = states(block, state)
    with pytest.raises(ZeroDivisionError), block():
        raise ZeroDivisionError

    assert state() == outside


def test_a_block_is_entered_once() -> None:
    block = wg.no_grad()
    with block:
        with pytest.raises(RuntimeError, match="once"), block:
            pass
        assert not records()
    with pytest.raises(RuntimeError, match="once"), block:
        pass
    assert records()


@every_block
def test_tasks_do_not_see_each_others_blocks(block: Any, state: Any) -> None:
    outside, inside = states(block, state)

    async def first(entered: asyncio.Event, done: asyncio.Event) -> Any:
        with block():
            entered.set()
            await done.wait()
            return state()

    async def second(entered: asyncio.Event, done: asyncio.Event) -> Any:
        await entered.wait()
        seen = state()
        done.set()
        return seen

    async def main() -> list[Any]:
        events = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(first(*events), second(*events))

    assert asyncio.run(main()) == [inside, outside]


@every_block
def test_a_task_is_inside_the_blocks_around_the_place_where_it_was_created_until_they_are_left(
    block: Any, state: Any
) -> None:
    outside, inside = states(block, state)

    async def asks() -> Any:
        await asyncio.sleep(0)
        return state()

    def create() -> asyncio.Task[Any]:
        with block():
            return asyncio.create_task(asks())

    async def main() -> list[Any]:
        with block():
            found = [*await asyncio.gather(asks(), asks()), await asyncio.create_task(asks())]
            task = asyncio.create_task(asks())
        return [*found, await task, await create(), state(), await asks()]

    assert asyncio.run(main()) == [inside] * 3 + [outside] * 4


@every_block
def test_an_asynchronous_generator_keeps_its_blocks_to_itself(block: Any, state: Any) -> None:
    outside, inside = states(block, state)

    async def generator() -> AsyncIterator[Any]:
        with block():
            yield state()
            await asyncio.sleep(0)
            yield state()

    @contextlib.asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        with block():
            await asyncio.sleep(0)
            yield

    async def main() -> list[Any]:
        found = [(seen, state()) async for seen in generator()]
        async with manager():
            await asyncio.sleep(0)
            found.append((state(), outside))
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(manager())
            found.append((state(), outside))
        return [*found, (inside, state())]

    assert asyncio.run(main()) == [(inside, outside)] * 5


@every_block
def test_coroutines_that_are_driven_by_hand_keep_their_blocks_to_themselves(block: Any, state: Any) -> None:
    outside, inside = states(block, state)

    class Switch:
        def __await__(self) -> Iterator[None]:
            yield

    async def inner(seen: list[Any]) -> None:
        await Switch()
        seen.append(state())

    async def outer(seen: list[Any]) -> None:
        with block():
            await inner(seen)
            await Switch()
            seen.append(state())

    def drive(coroutines: list[Coroutine[Any, Any, None]]) -> list[Any]:
        found: list[Any] = []
        while coroutines:
            for coroutine in list(coroutines):
                try:
                    coroutine.send(None)
                except StopIteration:
                    coroutines.remove(coroutine)
                found.append(state())
        return found

    async def in_a_task(seen: list[Any]) -> list[Any]:
        return drive([outer(seen), outer(seen)])

    for run in (drive([outer(first := []), outer(first)]), asyncio.run(in_a_task(first))):
        assert set(run) == {outside}
    assert first == [inside] * 8


@every_block
def test_a_generator_that_another_thread_or_task_goes_on_with_keeps_its_blocks(block: Any, state: Any) -> None:
    outside, inside = states(block, state)

    def generator() -> Iterator[Any]:
        with block():
            while True:
                yield state()

    running = generator()
    found = [next(running), state()]

    def go_on() -> None:
        found.extend([next(running), state()])

    thread = threading.Thread(target=go_on)
    thread.start()
    wait_for_thread(thread)

    async def as_task() -> None:
        go_on()

    asyncio.run(as_task())
    assert found == [inside, outside] * 3
    running.close()  # type: ignore[attr-defined]


def test_the_blocks_of_a_generator_are_inside_those_of_who_runs_it() -> None:
    def generator() -> Iterator[tuple[float, str]]:
        with wg.convention("torch"), wg.group("inner"):
            while True:
                yield slope(), group()

    def helper() -> tuple[float, str]:
        with wg.convention("min_norm"), wg.group("helper"):
            return slope(), group()

    def calls_a_helper() -> Iterator[tuple[float, str]]:
        with wg.convention("torch"), wg.group("generator"):
            while True:
                yield helper()

    first, second = generator(), calls_a_helper()
    assert next(first) == (0.5, "inner")
    assert next(second) == (0.0, "generator/helper")
    with wg.convention("min_norm"), wg.group("outer"):
        assert next(first) == (0.5, "outer/inner")
        assert next(second) == (0.0, "outer/generator/helper")
        assert (slope(), group()) == (0.0, "outer")


def test_a_generator_that_a_transform_runs_pauses_only_itself() -> None:
    def generator() -> Iterator[Any]:
        x = yield
        with wg.no_grad():
            while True:
                x = yield x * x

    running = generator()
    next(running)
    running.send(2.0)  # type: ignore[attr-defined]

    def f(x: Any) -> Any:
        return x * running.send(x) + x * x  # type: ignore[attr-defined]

    assert wg.grad(f)(3.0) == 9.0 + 6.0
    with wg.no_grad():
        assert wg.grad(f)(3.0) == 9.0 + 6.0


def test_a_task_that_was_created_inside_a_transform_does_not_record_there() -> None:
    leaf = wg.Value(3.0)
    tasks: list[asyncio.Task[Any]] = []

    async def later() -> Any:
        await asyncio.sleep(0)
        y = leaf * leaf
        y.backward()
        return leaf.grad, wg.grad(lambda x: x * x)(1.0), STATE.tape

    def f(x: Any) -> Any:
        tasks.append(asyncio.create_task(later()))
        with wg.group("inside"):
            tasks.append(asyncio.create_task(later()))
        return x * x * leaf

    async def main() -> list[Any]:
        assert wg.grad(f)(2.0).data == 12.0
        assert wg.grad(lambda x: x * wg.grad(f)(x))(1.0).data == 12.0
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == [(6.0 * k, 2.0, None) for k in range(1, 5)]


def test_a_sweep_leaves_alone_what_it_has_nothing_to_do_with() -> None:
    a, b = wg.Value(2.0), wg.Value(3.0)
    y, z = a * a, b * b
    u, v = y * 5.0, z.relu() * 7.0
    blocked = (z * -1.0).relu()
    u.backward()
    v.backward()

    assert (y.grad, z.grad, u.grad, v.grad) == (5.0, 7.0, 1.0, 1.0)
    blocked.backward()
    assert (y.grad, z.grad, u.grad, v.grad) == (5.0, 0.0, 1.0, None)
    y.backward()
    assert (y.grad, z.grad, u.grad, v.grad, blocked.grad) == (1.0, 0.0, None, None, 1.0)


def test_many_sweeps_over_one_recording_take_little_memory() -> None:
    leaf = wg.Value(2.0)
    losses = [leaf * float(k) * leaf for k in range(300)]
    for loss in losses:
        loss.backward()

    assert leaf.grad == 4.0 * sum(range(300))
    assert [loss.grad for loss in losses] == [1.0] * 300


def test_a_block_on_an_exit_stack_in_a_generator_holds_only_while_it_runs() -> None:
    def numbers() -> Iterator[float]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(wg.convention("jax"))
            yield wg.grad(abs)(0.0)
            yield wg.grad(abs)(0.0)

    inside = numbers()

    assert [next(inside), wg.grad(abs)(0.0), next(inside), wg.grad(abs)(0.0)] == [1.0, 0.0, 1.0, 0.0]


class LookedAtExit:
    """An `__exit__` that does something when it is looked up: after `__enter__` was, and before that is called."""

    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look

    def __get__(self, entry: Any, owner: type) -> Any:
        self.look()
        return entry.held.__exit__


def raise_interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interrupt_while_a_recording_block_is_entered_leaves_no_tape() -> None:
    class Block(RecordingBlock):
        __slots__ = ()
        __exit__ = LookedAtExit(raise_interrupt)

    with pytest.raises(KeyboardInterrupt), Block(Tape()):
        pass

    assert STATE.tape is None
    assert STATE.block is None


def test_an_interrupt_while_no_grad_is_entered_leaves_no_block() -> None:
    class Block(SettingBlock[None]):
        __slots__ = ()
        __exit__ = LookedAtExit(raise_interrupt)

    with pytest.raises(KeyboardInterrupt), Block(PAUSES, None):
        pass

    assert records()
    assert not PAUSES.active_blocks()
    assert not PAUSES.opened


def test_a_block_counts_while_it_is_entered() -> None:
    """A signal handler may use wiregrad at that moment, and so may other threads."""
    tape = Tape()
    seen: list[Any] = []

    def look() -> None:
        seen.append(STATE.tape)
        run_in_threads(lambda _: PAUSES.active_blocks(), [None])

    class Recording(RecordingBlock):
        __slots__ = ()
        __exit__ = LookedAtExit(look)

    class Pause(SettingBlock[None]):
        __slots__ = ()
        __exit__ = LookedAtExit(look)

    with Recording(tape):
        seen.append(STATE.tape)
    with Pause(PAUSES, None):
        assert not records()

    assert seen == [tape, tape, None]
