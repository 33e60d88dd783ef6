"""The explorer in Chromium: how soon a circuit is drawn, how smoothly it moves, how soon Python answers, what it takes.

Each circuit is served as `wiregrad explore` serves it. Times to the first picture begin when the server begins to
answer, so that what Python measures of the circuit is counted; recording and running it are not. Frames are counted
while the picture is moved at every one of them; headless Chromium shows at most 60 a second.
"""

from __future__ import annotations

import gzip
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import numpy as np
from playwright.sync_api import Browser, CDPSession, Page, ViewportSize, sync_playwright

import wiregrad as wg
from benchmarks.layout import REACH, circuit
from benchmarks.measure import Report, Table, milliseconds
from wiregrad.cli.page_commands import PRESETS
from wiregrad.explorer.local_server import ExplorerServer
from wiregrad.explorer.page_data import ExplorerSession, read_static_file

SIZES = (1_000, 100_000, 1_000_000)
SERVED = 20_000
"""Up to so many nodes the page has all of them and searches itself."""
TARGETS = {1_000: 1.0, 100_000: 2.0, 1_000_000: 5.0}
"""Seconds to the first picture."""
SEARCH, FRAMES, MEMORY = 0.300, 30.0, 500e6
"""Seconds for a search, frames a second while moving, bytes of the process that shows the page."""
CROWD = 580
"""How many nodes can be drawn one by one: the page draws at most 600 boxes."""
QUERY = "op:tanh grad>1e-3"
TURNS = 5
PATIENCE = 120_000

TARGET_FIRST, TARGET_STEPS, TARGET_OPEN = 0.5, {40: 0.016, 1_000: 0.050}, 0.200
"""Seconds to the first picture of a preset, of a step by the number of boxes, and to open a group."""
TARGET_BUNDLE, TARGET_COMPRESSED = 220_000, 75_000
"""Bytes of the script that draws the first picture, minified and compressed."""
SCRIPTS = {
    "explorer.js": "first script of a page",
    "large.js": "first script of a large circuit",
    "drawers.js": "runs behind the first picture",
    "widget.js": "all of it, for notebooks",
    "explorer.css": "style",
}
"""Files of the page, and when they are used; a notebook gets one script with everything (decision 57)."""
FIRST_SCRIPTS = ("explorer.js", "large.js")
"""The scripts that a first picture waits for: those that the target is about."""
PRESET_NAMES = ("expression", "neuron", "mlp", "nan")
STEP_KEYS = 12
"""Steps that are measured one by one."""
STEP_REST = 800
"""Milliseconds between two of them: a step moves for 700."""
OPENED = 3
"""Groups that are opened."""

DRAWN = "[role=graphics-symbol]"
PRESS = """key => document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}))"""
STEP = """async () => {
  const start = performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true, cancelable: true}));
  // The page is changed in a microtask, which runs before what follows.
  await null;
  const changed = performance.now() - start;
  const frame = await new Promise(done => requestAnimationFrame(() => done(performance.now())));
  await new Promise(done => {
    const channel = new MessageChannel();
    channel.port1.onmessage = done;
    channel.port2.postMessage(0);
  });
  return (changed + performance.now() - frame) / 1000;
}"""
OPEN = """async () => {
  const titles = () => [...document.querySelectorAll(".board .title")].map(title => title.textContent).join();
  const before = titles();
  const start = performance.now();
  document.querySelector(".item.range, .item.group").dispatchEvent(new MouseEvent("click", {bubbles: true}));
  while (titles() === before) await new Promise(requestAnimationFrame);
  return (performance.now() - start) / 1000;
}"""
MOVE = """async () => {
  const circuit = document.querySelector("[aria-roledescription=circuit]");
  const start = performance.now();
  let frames = 0;
  while (performance.now() - start < 2000) {
    const by = frames % 60 < 30 ? 12 : -12;
    circuit.dispatchEvent(new WheelEvent("wheel", {deltaX: by, deltaY: by, bubbles: true, cancelable: true}));
    await new Promise(requestAnimationFrame);
    frames++;
  }
  return frames * 1000 / (performance.now() - start);
}"""
ASK = """async query => {
  const start = performance.now();
  const answer = await (await fetch("/find?q=" + encodeURIComponent(query))).json();
  return [(performance.now() - start) / 1000, answer.count];
}"""


WINDOWLESS = "chromium-headless-shell"
"""Chromium without the parts that draw its windows, which share two cores with the page."""


@contextmanager
def chromium(program: str | None = None) -> Iterator[Browser]:
    """Start the Chromium of the system, or another program."""
    program = program or shutil.which("chromium") or shutil.which("chromium-browser") or "/usr/bin/chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def resident(browser: Browser) -> int:
    """Return the bytes that the largest process with a page in it holds."""
    session = browser.new_browser_cdp_session()
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return max(_resident(process["id"]) for process in found if process["type"] == "renderer")


def _resident(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def heap(page: Page) -> int:
    """Return the bytes that the page's own objects take."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    metrics = session.send("Performance.getMetrics")["metrics"]
    return int(next(metric["value"] for metric in metrics if metric["name"] == "JSHeapUsedSize"))


def measured(browser: Browser, found: wg.Circuit) -> dict[str, float]:
    """Serve a circuit, look at it, and return what that took."""
    run = found.run([0.1] * 8)
    serving = ExplorerServer(ExplorerSession(found, run))
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    start = time.perf_counter()
    serving.start()
    try:
        page.goto(serving.url, timeout=PATIENCE, wait_until="commit")
        page.locator(DRAWN).first.wait_for(state="attached", timeout=PATIENCE)
        figures = {"first picture": time.perf_counter() - start}
        figures["frames a second"] = page.evaluate(MOVE)
        if found.size > SERVED:
            figures["search"] = statistics.median(page.evaluate(ASK, QUERY)[0] for _ in range(TURNS))
        return figures | {"heap": heap(page), "process": resident(browser)}
    finally:
        page.close()
        serving.stop()


def loop(size: int) -> wg.Run:
    """Return a run of a loop in plain Python of about so many nodes."""

    def move(x: float, t: int) -> float:
        return x + 0.1 * np.cos(0.1 * t) * x

    def track(x: float) -> object:
        total = 0.0
        for t in range(size // 5):
            x = move(x, t)
            total = total + np.tanh(x)
        return total

    return wg.run(track, 0.5)


class Took(NamedTuple):
    """Seconds by the clock, and of processor time: a machine that is busy with other work changes the first only."""

    clock: float
    processor: float


def find_median(taken: Sequence[Took]) -> Took:
    """Return the medians of both times."""
    return Took(statistics.median(took.clock for took in taken), statistics.median(took.processor for took in taken))


def opened(browser: Browser, run: wg.Run, *, act: Callable[[Page, CDPSession], Took]) -> tuple[Took, Took]:
    """Serve a run, wait for its first picture, do something; return what both took.

    The processor time of a first picture is that of Python and of the page's own thread.
    """
    serving = ExplorerServer(ExplorerSession(run.circuit, run))
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    start, python = time.perf_counter(), time.process_time()
    serving.start()
    try:
        page.goto(serving.url, timeout=PATIENCE, wait_until="commit")
        page.locator(DRAWN).first.wait_for(state="attached", timeout=PATIENCE)
        clock = time.perf_counter() - start
        first = Took(clock, time.process_time() - python + _thread_seconds(session))
        return first, act(page, session)
    finally:
        page.close()
        serving.stop()


def step_seconds(page: Page, session: CDPSession) -> Took:
    """Return the seconds of one step: what the key does, and the frame that shows it.

    The wait for that frame, up to 17 ms, is no part of it: the page does nothing then.
    """
    page.evaluate(PRESS, "Home")
    taken = []
    for _ in range(STEP_KEYS):
        page.wait_for_timeout(STEP_REST)
        before = _thread_seconds(session)
        clock: float = page.evaluate(STEP)
        taken.append(Took(clock, _thread_seconds(session) - before))
    return find_median(taken)


def do_nothing(page: Page, session: CDPSession) -> Took:
    """Take no time after the first picture."""
    return Took(0.0, 0.0)


def open_seconds(page: Page, session: CDPSession) -> Took:
    """Return the seconds to open a group."""
    before = _thread_seconds(session)
    clock = statistics.median(page.evaluate(OPEN) for _ in range(OPENED))
    return Took(clock, (_thread_seconds(session) - before) / OPENED)


def presets(browser: Browser) -> dict[str, Took]:
    """Return the seconds to the first picture of some presets, and of a step at 40 and at 1,000 boxes."""
    figures = {}
    for name in PRESET_NAMES:
        preset = PRESETS[name]
        run = wg.circuit(preset.formula).run(preset.leaves)
        figures[f"first picture, {name}"] = time_first_picture(browser, run)
        if name == "mlp":
            figures["step, 40 boxes"] = opened(browser, run, act=step_seconds)[1]
    many = circuit(1_000)
    figures["step, 1,000 boxes"] = opened(browser, many.run([0.1] * 8), act=step_seconds)[1]
    return figures


def time_first_picture(browser: Browser, run: wg.Run) -> Took:
    """Return the seconds to the first picture of a run."""
    return find_median([opened(browser, run, act=do_nothing)[0] for _ in range(TURNS)])


def open_without_windows() -> dict[str, Took]:
    """Return the seconds to the first picture of the presets in a browser that has no windows, if it is installed."""
    program = shutil.which(WINDOWLESS)
    if program is None:
        return {}
    runs = {name: wg.circuit(PRESETS[name].formula).run(PRESETS[name].leaves) for name in PRESET_NAMES}
    with chromium(program) as browser:
        return {
            f"first picture, {name}, in {WINDOWLESS}": time_first_picture(browser, run) for name, run in runs.items()
        }


def groups(browser: Browser) -> dict[str, Took]:
    """Return the seconds to open a group and to step in a loop of 100,000 nodes."""
    run = loop(100_000)
    first, took = opened(browser, run, act=open_seconds)
    step = opened(browser, run, act=step_seconds)[1]
    return {"first picture, 100,000 nodes": first, "open a group, 100,000 nodes": took, "step, 100,000 nodes": step}


def bundles() -> dict[str, tuple[int, int]]:
    """Return the bytes of every file of the page, as it is and compressed."""
    texts = {name: read_static_file(name).encode() for name in SCRIPTS}
    return {name: (len(text), len(gzip.compress(text, 9))) for name, text in texts.items()}


def target_rows(figures: dict[str, Took]) -> list[list[str]]:
    """Return what was measured beside the targets of the page."""
    aims = {"first picture": TARGET_FIRST, "open a group": TARGET_OPEN, "step, 40 boxes": TARGET_STEPS[40]}
    rows = []
    for name, took in figures.items():
        aim = next((aim for start, aim in aims.items() if name.startswith(start)), TARGET_STEPS[1_000])
        aim = TARGETS[100_000] if name == "first picture, 100,000 nodes" else aim
        rows.append([name, milliseconds(took.clock), milliseconds(took.processor), milliseconds(aim)])
    for name, (size, packed) in bundles().items():
        aim_text = f"{TARGET_BUNDLE / 1e3:.0f} kB, {TARGET_COMPRESSED / 1e3:.0f} kB compressed"
        measured_text = f"{size / 1e3:.0f} kB, {packed / 1e3:.0f} kB compressed"
        rows.append([f"{name}: {SCRIPTS[name]}", measured_text, "", aim_text if name in FIRST_SCRIPTS else "none"])
    return rows


LOAD = """async text => {
  const start = performance.now();
  const address = URL.createObjectURL(new Blob([text], {type: "text/javascript"}));
  await import(address);
  URL.revokeObjectURL(address);
  return performance.now() - start;
}"""


def measure_scripts(browser: Browser) -> dict[str, float]:
    """Return the processor seconds in which an empty page reads and runs each of two scripts, each time a new page."""
    times: dict[str, list[float]] = {"explorer.js": [], "widget.js": []}
    for _ in range(TURNS):
        for name, found in times.items():
            page = browser.new_page()
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            before = _thread_seconds(session)
            page.evaluate(LOAD, read_static_file(name))
            found.append(_thread_seconds(session) - before)
            page.close()
    return {name: statistics.median(found) for name, found in times.items()}


def _thread_seconds(session: CDPSession) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


AXE = Path(__file__).parents[1] / "web" / "node_modules" / "axe-core" / "axe.min.js"
WINDOWS = ((1440, 900), (1024, 768), (390, 844))
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def count_violations(browser: Browser) -> int:
    """Return what axe objects to in some presets after their run, at three sizes, light and dark."""
    run = wg.circuit(PRESETS["expression"].formula).run(PRESETS["expression"].leaves)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        run.to_html(file)
        looks = [(size, scheme) for size in WINDOWS for scheme in SCHEMES]
        return sum(_count_objections(browser, file, size, scheme) for size, scheme in looks)


def _count_objections(browser: Browser, file: Path, size: tuple[int, int], scheme: Literal["light", "dark"]) -> int:
    found = 0
    viewport: ViewportSize = {"width": size[0], "height": size[1]}
    page = browser.new_page(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
    for name in PRESET_NAMES:
        page.goto("about:blank")
        page.goto(f"{file.as_uri()}#v=1&p={name}&s=d", timeout=PATIENCE)
        page.locator(DRAWN).first.wait_for(state="attached", timeout=PATIENCE)
        page.evaluate(AXE.read_text("utf8"))
        found += page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations.length")
    page.close()
    return found


def halves() -> wg.Circuit:
    """Return a random circuit in two groups."""
    rng = np.random.default_rng(CROWD)
    builder = wg.Builder()
    ports = [builder.input(f"x{k}") for k in range(8)]
    for k in range(CROWD):
        i, j = rng.integers(max(0, len(ports) - REACH), len(ports), 2).tolist()
        with builder.at(None, "first" if k < CROWD // 2 else "second"):
            ports.append(builder.tanh(ports[i]) if k % 3 == 0 else builder.add(ports[i], ports[j]))
    return builder.build(ports[-1])


def crowded(browser: Browser) -> float:
    """Return the frames a second of the largest picture that the page draws: every node, all groups open."""
    found = halves()
    serving = ExplorerServer(ExplorerSession(found, found.run([0.1] * 8)))
    serving.start()
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    try:
        page.goto(serving.url, timeout=PATIENCE)
        view = page.locator("details.menu", has=page.locator("summary", has_text="View"))
        view.locator("summary").click()
        view.get_by_label("Outline", exact=True).check()
        for name in ("first", "second"):
            page.get_by_role("region", name="Outline").get_by_role("button", name=name, exact=True).click()
            page.get_by_role("button", name="Open", exact=True).click()
        page.locator(DRAWN).nth(CROWD).wait_for(state="attached", timeout=PATIENCE)
        frames: float = page.evaluate(MOVE)
        return frames
    finally:
        page.close()
        serving.stop()


def row(size: int, figures: dict[str, float]) -> list[str]:
    """Return a row of the table."""
    return [
        f"{size:,}",
        f"{milliseconds(figures['first picture'])} (target {milliseconds(TARGETS[size])})",
        f"{figures['frames a second']:.0f}",
        milliseconds(figures["search"]) if "search" in figures else "in the page",
        f"{figures['heap'] / 1e6:.1f} MB",
        f"{figures['process'] / 1e6:.0f} MB",
    ]


def describe_load() -> str:
    """Say how busy the machine was with other work when the measurement began."""
    return f"When the measurement began, {os.getloadavg()[0]:.1f} processes were waiting for {os.cpu_count()} cores."


def run() -> Report:
    """Measure circuits of all sizes, each in a browser of its own."""
    table = Table(
        f"A search should take at most {milliseconds(SEARCH)}, a picture that is moved show at least {FRAMES:.0f} "
        f"frames a second, and the page take at most {MEMORY / 1e6:.0f} MB.",
        ["nodes", "first picture", "frames a second", "search", "objects of the page", "its process"],
    )
    crowd = Table("The largest picture, every node a box of its own.", ["boxes", "frames a second"])
    targets = Table(
        f"The targets of the page, which are meant for an idle machine. {describe_load()}",
        ["what", "measured", "processor time", "target"],
    )
    report = Report([targets, table, crowd], {})
    windowless = open_without_windows()
    with chromium() as browser:
        times = presets(browser) | groups(browser) | windowless
        targets.rows += target_rows(times)
        scripts = measure_scripts(browser)
        targets.rows += [[f"read and run {name}", "", milliseconds(scripts[name]), "none"] for name in scripts]
        if AXE.exists():
            where = f"axe violations, {len(PRESET_NAMES)} presets after a run, at 3 sizes, light and dark"
            targets.rows.append([where, str(count_violations(browser)), "", "0"])
        report.figures["targets"] = {name: took.clock for name, took in times.items()}
        report.figures["processor time"] = {name: took.processor for name, took in times.items()} | scripts
    with chromium() as browser:
        frames = crowded(browser)
    crowd.rows.append([str(CROWD), f"{frames:.0f}"])
    report.figures[f"{CROWD} boxes"] = {"frames a second": frames}
    for size in SIZES:
        with chromium() as browser:
            figures = measured(browser, circuit(size))
        table.rows.append(row(size, figures))
        report.figures[f"{size:,} nodes"] = figures
    return report
