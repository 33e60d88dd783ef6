"""Gradient flow, histograms and the plots of both."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wiregrad as wg
from wiregrad.draw.layout.boxes import count_columns
from wiregrad.draw.palette import THEMES, contrast_ratio
from wiregrad.draw.plots import (
    CURVE_COLOURS,
    BarRow,
    CurvePanel,
    HistogramColumn,
    PlotAxis,
    PlotCanvas,
    PlotCurve,
    StepMark,
    draw_bars,
    draw_curves,
    draw_histogram,
)
from wiregrad.errors import InputError, UnknownNameError
from wiregrad.inspect.flow import BLOCK_SIZE, MAX_BINS_PER_SIGN, flow, histogram, join_tallies, tally_numbers
from wiregrad.inspect.report import RunIndex

from ..support.random_circuits import random_circuit, random_point

HOSTILE = [
    "</svg><script>alert(1)</script>", "<b>&amp;", "]]>", "-->", '"', "'", "a\x00b", "a\nb", "\x1b[31m", "\u202eabc",
    "\ud800", "\ufffe", "&#0;", "数据" * 40, "{}", "url(#x)", "</style>", "]]><", "\\", "%s{0}",
]  # fmt: skip
ALLOWED = {"svg", "title", "desc", "style", "defs", "pattern", "rect", "path", "text"}


def elements(svg: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter())


def texts(svg: str) -> list[str]:
    return [
        (found.text or "") + "".join(part.tail or "" for part in found)
        for found in elements(svg)
        if found.tag.endswith("text")
    ]


def check_svg(svg: str) -> None:
    """Fail unless a plot is well-formed, says what it is, and holds nothing but shapes and words."""
    found = elements(svg)
    names = {element.tag.partition("}")[2] for element in found}
    assert names <= ALLOWED
    assert found[0].get("role") == "img"
    assert {"title", "desc"} <= names
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    boxes = [float(found[0].get(name, "0")) for name in ("width", "height")]
    assert all(math.isfinite(size) and size > 0 for size in boxes)
    assert "nan" not in "".join(element.get("d", "") + element.get("x", "") for element in found)


def chain(layers: int, scale: float, x: np.ndarray) -> wg.Run:
    """Run a chain of groups, each of which multiplies the gradient by `scale`."""

    def f(x):
        for k in range(layers):
            with wg.group(f"layer{k}"):
                x = x * scale
        with wg.group("loss"):
            return np.sum(x)

    return wg.run(f, x)


@given(st.lists(st.floats(width=64), max_size=40), st.sampled_from(["float64", "float32", "float16", "complex128"]))
@settings(max_examples=200, deadline=None)
def test_a_tally_counts_what_a_loop_counts(numbers: list[float], dtype: str) -> None:
    with np.errstate(all="ignore"):
        array = np.array(numbers).astype(dtype)
    sizes = [abs(complex(x)) for x in array.tolist()]
    finite = [x for x in sizes if math.isfinite(x)]
    found = tally_numbers(array)

    assert found.size == len(sizes)
    assert found.zeros == sum(x == 0 for x in sizes)
    assert found.nans == sum(math.isnan(x) for x in np.abs(array).astype(float).tolist())
    assert found.nonfinite == len(sizes) - len(finite)
    if finite:
        assert found.high == pytest.approx(max(finite), rel=1e-6, abs=0)
        high = max(finite) or 1.0
        mean = math.fsum((x / high) ** 2 for x in finite) / len(finite)
        assert found.rms == pytest.approx(high * math.sqrt(mean), rel=1e-5, abs=1e-323)
    else:
        assert math.isnan(found.rms)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1.0, 1e160, 1.7e308])
def test_sizes_neither_overflow_nor_underflow(size: float) -> None:
    assert tally_numbers(np.full(3, size)).rms == pytest.approx(size)
    assert tally_numbers(np.full(3, size)).high == size


def test_a_large_array_is_tallied_in_blocks_like_a_small_one() -> None:
    array = np.random.default_rng(0).normal(size=(3, BLOCK_SIZE))
    array[1, 5], array[2, 7], array[0, :9] = np.nan, -np.inf, 0.0
    found = tally_numbers(array)
    finite = array[np.isfinite(array)]

    assert (found.size, found.zeros, found.nans, found.infs) == (array.size, 9, 1, 1)
    assert found.rms == pytest.approx(math.sqrt(np.mean(finite**2)))
    assert found.high == np.abs(finite).max()


def test_parts_together_are_tallied_like_the_whole() -> None:
    array = np.random.default_rng(0).normal(size=1000)
    array[::10], array[7] = 0.0, np.inf
    parts = join_tallies(tally_numbers(part) for part in (array[:3], array[3:400], array[400:400], array[400:]))

    assert parts.rms == pytest.approx(tally_numbers(array).rms)
    assert (parts.size, parts.zeros, parts.infs, parts.high) == (1000, 100, 1, tally_numbers(array).high)


def test_layers_are_groups_from_the_output_back() -> None:
    found = flow(chain(4, 0.5, np.ones(3)))

    assert [layer.name for layer in found.layers] == ["loss", "layer3", "layer2", "layer1", "layer0"]
    assert [layer.rms for layer in found.layers[1:4]] == [1.0, 0.5, 0.25]


def test_an_input_belongs_to_the_layer_that_reads_it() -> None:
    def f(w, v, x):
        with wg.group("hidden"):
            x = np.tanh(x @ w)
        with wg.group("readout"):
            return np.sum(x @ v)

    found = flow(wg.run(f, np.ones((2, 3)), np.ones(3), np.ones((4, 2))))

    assert found["hidden"].gradient.size == 6 + 8 + 12 + 12
    assert found["readout"].gradient.size >= 3 + 4 + 1


def test_layers_are_compared_per_number_so_that_width_does_not_count() -> None:
    narrow, wide = (flow(chain(2, 0.5, np.ones(n)))["layer0"].rms for n in (2, 2000))

    assert narrow == pytest.approx(wide)


@pytest.mark.parametrize(("scale", "kind"), [(1e-2, "vanishes"), (1e2, "explodes"), (1.1, "steady")])
def test_the_flow_says_whether_it_vanishes_or_explodes(scale: float, kind: str) -> None:
    finding = flow(chain(5, scale, np.ones(3))).findings[0]

    assert finding.kind == kind
    # The last layer holds the input too, one step further.
    last = math.hypot(scale**4, scale**5) / math.sqrt(2)
    assert finding.ratio == pytest.approx(last)


def test_a_fall_beyond_what_a_float_can_say_is_said_in_words() -> None:
    def f(x):
        for name in "abc":
            with wg.group(name):
                x = x * 1e-155
        return x * 1e150

    sentence = str(flow(wg.run(f, np.float64(1.0))).findings[0])

    assert "over 1e308 times smaller" in sentence


def test_the_steepest_step_is_named() -> None:
    def f(x):
        for k, scale in enumerate([2.0, 1e-6, 3.0, 0.5]):
            with wg.group(f"layer{k}"):
                x = x * scale
        return np.sum(x)

    sentence = str(flow(wg.run(f, np.ones(4))).findings[0])

    assert "vanishes" in sentence
    assert "the steepest step is from layer1 to layer0" in sentence


def test_a_number_that_is_not_finite_is_found_where_it_first_comes() -> None:
    def f(x):
        with wg.group("root"):
            y = np.sqrt(x)
        with wg.group("total"):
            return np.sum(y * 0.0)

    found = flow(wg.run(f, np.array([0.0, 1.0])))

    assert found.findings[0].kind == "nonfinite"
    assert found.findings[0].layer == "root"
    assert found["root"].gradient.nans == 1
    assert found["total"].gradient.nonfinite == 0


def test_absent_and_zero_gradients_are_told_apart() -> None:
    def f(x, z):
        with wg.group("cut"):
            a = np.maximum(x, 0.0)
        with wg.group("nought"):
            b = z * 0.0
        return np.sum(a) + np.sum(b)

    found = flow(wg.run(f, np.array([-1.0, -2.0]), np.ones(2)))
    cut, nought = found["cut"], found["nought"]

    assert cut.absent == 2
    assert (nought.absent, nought.zero_share) == (0, 0.5)
    assert cut.absent_share == 0.5


def test_a_layer_without_any_gradient_is_reported() -> None:
    def f(x, w):
        with wg.group("before"):
            y = x * 2.0
        with wg.group("cut"):
            z = wg.stop_gradient(y) * w
        return np.sum(z)

    findings = flow(wg.run(f, np.ones(3), np.ones(3))).findings

    assert any(finding.kind == "zero" and finding.layer == "before" for finding in findings)


def test_an_input_that_feeds_nothing_is_reported_and_makes_no_layer() -> None:
    found = flow(wg.run(lambda x, unused: x * x, 2.0, 3.0))

    assert found.findings[-1].kind == "unused"
    assert "unused" in str(found.findings[-1])
    assert all(layer.name != "unused" for layer in found.layers)


def test_without_groups_layers_go_by_distance_from_the_output() -> None:
    circuit = wg.circuit("a = x * y; b = tanh(a); c = b * 3")
    run = circuit.run(x=1.0, y=2.0)
    found = flow(run)

    assert RunIndex(run).ranks[circuit.index("x")] == 3
    assert [layer.name for layer in found.layers] == ["c", "b", "a", "depth 3"]
    assert found["depth 3"].nodes == 2


def test_one_function_around_everything_is_no_layer() -> None:
    def layer(x):
        return np.tanh(x * 1.5)

    def f(x):
        return np.sum(layer(x))

    assert all(found.name.startswith(("depth", "x", "f")) for found in flow(wg.run(f, np.ones(2))).layers)


def test_layers_can_be_inputs() -> None:
    found = flow(wg.run(lambda w, b: np.sum(np.tanh(w * 2.0 + b)), np.ones(3), np.zeros(3)), by="input")

    assert {layer.name for layer in found.layers} == {"w", "b"}
    assert found["w"].rms == pytest.approx(2 * found["b"].rms)


def test_a_group_that_is_called_like_a_stretch_loses_no_node() -> None:
    def f(x):
        with wg.group("depth 0"):
            y = x * 2.0
        with wg.group("b"):
            z = y * 3.0
        return z * 4.0

    run = wg.run(f, 1.0)

    assert sum(layer.nodes for layer in flow(run).layers) == sum(run.circuit.active())


@pytest.mark.parametrize("seed", range(40))
def test_every_moving_number_is_in_one_layer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    circuit = random_circuit(rng)
    run = circuit.run(random_point(rng, circuit))
    ranks = RunIndex(run).ranks
    moving = [node for node, moves in enumerate(circuit.active()) if moves and ranks[node] >= 0]
    for by in ("group", "rank"):
        found = flow(run, by=by)

        assert sum(layer.gradient.size for layer in found.layers) == len(moving)
        assert sum(layer.absent for layer in found.layers) == sum(run.flows[node] is None for node in moving)
        assert str(found)
    assert histogram(run).size == sum(circuit.active())


@pytest.mark.parametrize("options", [{"by": "layer"}, {"depth": 0}, {"depth": 1.5}, {"depth": True}])
def test_settings_that_mean_nothing_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="got"):
        flow(wg.circuit("x * y").run(x=1.0, y=2.0), **options)


def test_a_flow_of_a_circuit_that_nothing_moves_is_empty() -> None:
    found = flow(wg.circuit("1 + 2").run())

    assert found.layers == ()
    check_svg(found.to_svg())


def test_a_histogram_counts_every_number_once() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=500) * 10.0 ** rng.integers(-30, 30, 500)
    x[:50] = 0.0
    run = wg.run(lambda w: np.sum(w * x), np.ones(500))
    found = histogram(run, "w")

    assert found.size == 500
    assert found.zeros == 50
    for row in found.bins:
        inside = (row.low <= row.sign * x) & (row.sign * x < row.high)
        assert row.count == int(np.count_nonzero(inside))


@pytest.mark.parametrize("power", range(-300, 301, 25))
def test_a_power_of_ten_begins_its_bin(power: int) -> None:
    size = float(f"1e{power}")
    found = histogram(wg.run(lambda w: w * size, 1.0), "w")

    assert [row.low for row in found.bins if row.count] == [size]


def test_a_histogram_of_extremes_stays_small_and_loses_nothing() -> None:
    x = np.array([5e-324, 1e308, -1e-310, -1.7e308, 0.0, np.nan, np.inf, -np.inf])
    with np.errstate(all="ignore"):
        found = histogram(wg.run(lambda w: np.sum(w * 1.0), x), "w", of="value")

    assert found.size == 8
    assert (found.zeros, found.nans, found.infs) == (1, 1, 2)
    assert len(found.bins) <= 2 * MAX_BINS_PER_SIGN
    assert sum(row.count for row in found.bins) == 4
    check_svg(found.to_svg())


def test_absent_gradients_have_a_bin_of_their_own() -> None:
    found = histogram(wg.run(lambda x: np.sum(np.maximum(x, 0.0)), np.array([-1.0, 2.0, 0.5])), "x")

    assert found.absent == 1
    assert found.zeros == 0
    assert "no gradient" in str(found)


def test_a_histogram_of_nothing_known_is_refused() -> None:
    run = wg.circuit("x * y").run(x=1.0, y=2.0)

    with pytest.raises(InputError, match="grad or value"):
        histogram(run, of="slope")
    with pytest.raises(UnknownNameError):
        histogram(run, "z")


def awkward() -> list[wg.Run]:
    """Return runs of every kind of value that must not upset an answer."""
    functions = [
        (lambda x: np.sum(np.abs(x)), np.array([1 + 2j, np.nan + 0j])),
        (lambda x: np.sum(x * 2), np.ones(3, np.float32)),
        (np.sum, np.zeros((0, 3))),
        (np.sum, np.array(2.0)),
        (lambda x: np.sum(np.log(x)), np.array([0.0, -1.0, 1e-320])),
        (lambda x: np.where(x > 0, x, 0.0) * 1e300 * 1e300, -1.0),
        (lambda x: x > 0, 1.0),
    ]
    with np.errstate(all="ignore"):
        return [wg.run(f, x) for f, x in functions]


def test_no_value_upsets_an_answer() -> None:
    for run in awkward():
        for answer in (flow(run), flow(run, by="input"), histogram(run), histogram(run, of="value")):
            assert str(answer) == repr(answer)
            for theme in ("light", "dark", "auto"):
                check_svg(answer.to_svg(theme=theme))


def test_a_spoilt_layer_is_hatched_and_named() -> None:
    svg = flow(wg.run(lambda x: np.sum(np.sqrt(x) * 0.0), np.zeros(3))).to_svg(theme="light")

    assert any(element.get("class") == "hatch" for element in elements(svg))
    assert any("NaN" in text for text in texts(svg))


def test_values_of_the_flow_are_written_in_the_picture() -> None:
    found = flow(chain(3, 0.5, np.ones(3)))
    written = texts(found.to_svg(theme="light"))

    assert {layer.name for layer in found.layers} <= set(written)
    assert "0.5" in written


@pytest.mark.parametrize("label", HOSTILE)
def test_no_label_breaks_out_of_a_plot(label: str) -> None:
    curve = PlotCurve(label, [0, 1], [1, 2], [1, 2], [1, 2])
    for svg in (
        draw_bars(
            [BarRow(label, 1.0, note=label)], title=label, description=label, axis=label, other=label, theme="auto"
        ),
        draw_histogram([HistogramColumn(label, 3)], title=label, description=label, axis=label, theme="dark"),
        draw_curves(
            [CurvePanel(label, [curve])],
            [StepMark(1, label)],
            steps=(0, 1),
            title=label,
            description=label,
            theme="light",
        ),
    ):
        check_svg(svg)
        assert sum(element.tag.endswith("style") for element in elements(svg)) == 1
        assert svg.count("<script") == 0


def test_a_theme_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="light, dark, print or auto"):
        flow(wg.circuit("x * y").run(x=1.0, y=2.0)).to_svg(theme="blue")


def test_auto_holds_both_themes_and_the_others_one() -> None:
    run = wg.circuit("x * y").run(x=1.0, y=2.0)
    paper = {name: theme.paper for name, theme in THEMES.items()}
    auto, light, dark = (flow(run).to_svg(theme=theme) for theme in ("auto", "light", "dark"))

    assert all(paper[name] in auto for name in ("light", "dark"))
    assert "prefers-color-scheme" in auto
    assert paper["dark"] not in light
    assert paper["light"] not in dark


@pytest.mark.parametrize("name", THEMES)
def test_words_and_curves_stand_out_from_what_they_stand_on(name: str) -> None:
    theme = THEMES[name]

    assert min(contrast_ratio(theme.ink, ground) for ground in (theme.paper, theme.head)) >= 4.5
    assert contrast_ratio(theme.muted, theme.paper) >= 4.5
    assert min(contrast_ratio(colour, theme.paper) for colour in CURVE_COLOURS[name]) >= 4.5


@given(st.lists(st.floats(allow_nan=True), min_size=1, max_size=8), st.booleans())
@settings(max_examples=200, deadline=None)
def test_an_axis_holds_every_number_it_was_made_for(numbers: list[float], log: bool) -> None:
    axis = PlotAxis.from_numbers(numbers, 0.0, 100.0, log=log)
    for x in numbers:
        if math.isfinite(x) and (x > 0 or not log):
            assert -1e-6 <= axis.position_of(x) <= 100.0 + 1e-6
    ticks = axis.round_ticks()

    assert ticks == sorted(ticks)
    assert len(ticks) <= 12


def test_labels_of_marks_do_not_overlap() -> None:
    marks = [StepMark(step, f"{step}: exploded layer{step}") for step in (1, 2, 3, 4, 50, 51, 97, 98, 99)]
    curve = PlotCurve("loss", [0, 99], [1, 2], [1, 2], [1, 2])
    svg = draw_curves([CurvePanel("loss", [curve])], marks, steps=(0, 99), title="t", description="d", theme="light")
    boxes = [
        [float(element.get(name, "0")) for name in ("x", "y", "width", "height")]
        for element in elements(svg)
        if element.get("class") == "label"
    ]
    pairs = [(a, b) for k, a in enumerate(boxes) for b in boxes[:k]]

    assert len(boxes) == len(marks)
    assert not any(
        a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3] for a, b in pairs
    )


def test_names_of_curves_do_not_overlap() -> None:
    found = [PlotCurve(f"c{k}", [0, 1], [1, 1], [1, 1 + k / 100], [1, 1]) for k in range(12)]
    svg = draw_curves([CurvePanel("all", found)], [], steps=(0, 1), title="t", description="d", theme="light")
    places = sorted(
        float(element.get("y", "0"))
        for element in elements(svg)
        if (element.find("{*}title") is not None and element.tag.endswith("text"))
    )

    assert len(places) == 12
    assert min(np.diff(places)) >= 14


def test_a_picture_is_the_same_every_time_and_shares_no_names_with_another() -> None:
    one, two = (PlotCanvas(title, "").write_svg("light") for title in ("a", "b"))
    ids = [{element.get("id") for element in elements(svg)} - {None} for svg in (one, two)]

    assert PlotCanvas("a", "").write_svg("light") == one
    assert not ids[0] & ids[1]


def stack(factors: list[float], tail: float = 1.0) -> wg.Run:
    """Run groups block0, block1, ..., each of which multiplies the gradient by its factor on the way back."""

    def f(x):
        for k, factor in enumerate(factors):
            with wg.group(f"block{k}"):
                x = x * factor
        return tail * np.sum(x)

    return wg.run(f, np.ones(10))


def test_a_small_loss_is_no_vanishing_gradient() -> None:
    found = flow(stack([1.0, 1.0, 1.0], tail=1e-4))

    assert [finding.kind for finding in found.findings] == ["steady"]
    assert found.findings[0].layer == "block2"


@pytest.mark.parametrize("count", [2_000, 50_000])
def test_a_mean_over_many_numbers_is_no_vanishing_gradient(count: int) -> None:
    """Each number gets its share of the gradient, and all of them together get the whole."""

    def f(x):
        with wg.group("encoder"):
            x = np.tanh(x)
        with wg.group("pool"):
            x = np.mean(x, axis=0)
        with wg.group("head"):
            x = x * 2.0
        return np.sum(x)

    found = flow(wg.run(f, np.full((count, 2), 0.1)))

    assert [finding.kind for finding in found.findings] == ["steady"]


@pytest.mark.parametrize("factor", [1e-4, 1e-8])
def test_a_gradient_that_vanishes_behind_a_mean_is_found(factor: float) -> None:
    def f(x):
        with wg.group("encoder"):
            x = np.sin(x)
        with wg.group("squash"):
            x = x * factor
        with wg.group("middle"):
            x = np.tanh(x)
        with wg.group("pool"):
            x = np.mean(x, axis=0)
        return np.sum(x)

    (found,) = flow(wg.run(f, np.full((2_000, 2), 0.1))).findings

    assert (found.kind, found.layer) == ("vanishes", "encoder")


def test_a_large_loss_is_no_exploding_gradient() -> None:
    assert [finding.kind for finding in flow(stack([1.0, 1.0, 1.0], tail=1e4)).findings] == ["steady"]


def test_a_fade_behind_a_rise_is_found() -> None:
    # Back from the output: 1, then 100, then down to 0.01, which is not a thousandth of the first.
    (found,) = flow(stack([0.1, 0.1, 0.1, 0.1, 100.0, 1.0])).findings

    assert (found.kind, found.layer) == ("vanishes", "block0")
    assert "100 at block3" in found.sentence


def test_a_rise_behind_a_fade_is_found() -> None:
    (found,) = flow(stack([10.0, 10.0, 10.0, 10.0, 0.01, 1.0])).findings

    assert (found.kind, found.layer) == ("explodes", "block0")


def test_a_flow_by_input_tells_of_the_extremes_and_says_what_it_leaves_out() -> None:
    builder = wg.Builder()
    inputs = [builder.input(f"x{k}") for k in range(200)]
    total = inputs[0]
    for k, x in enumerate(inputs[1:], 1):
        total = builder.add(total, builder.multiply(x, float(k)))
    found = flow(builder.build(total).run([1.0] * 200), by="input")
    text = str(found)

    assert len(found.layers) == 200
    assert len(text.splitlines()) < 40
    assert "x199" in text
    assert "x1 " in text
    assert "more, of sizes between" in text
    assert len(texts(found.to_svg())) < 200


def test_what_is_not_finite_is_never_left_out_of_a_flow() -> None:
    builder = wg.Builder()
    inputs = [builder.input(f"x{k}") for k in range(200)]
    total = inputs[0]
    for k, x in enumerate(inputs[1:], 1):
        total = builder.add(total, builder.log(x) if k == 90 else x)
    values = [0.0 if k == 90 else 1.0 for k in range(200)]
    found = flow(builder.build(total).run(values), by="input")

    assert any(line.startswith("  x90 ") and "1 Inf" in line for line in found.lines())


def test_a_table_of_layers_fits_long_and_wide_names() -> None:
    def f(x):
        for name in ("数" * 9, "a" * 300 + "1", "a" * 300 + "2"):
            with wg.group(name):
                x = x * 2.0
        return np.sum(x)

    lines = [line for line in flow(wg.run(f, np.ones(3))).lines() if "%" in line]

    assert max(map(count_columns, lines)) < 120
    assert len({count_columns(line[: line.index("%")]) for line in lines}) == 1


def test_names_that_differ_at_their_end_or_middle_stay_apart_in_a_chart() -> None:
    def f(x):
        for k in range(3):
            with wg.group(f"encoder_block_{k}_with_a_rather_long_name"):
                x = x * 2.0
        return np.sum(x)

    found = flow(wg.run(f, np.ones(3)))
    shown = [text for text in texts(found.to_svg()) if "block" in text and "…" in text]

    assert [text[text.index("block") :][:7] for text in shown] == ["block_2", "block_1", "block_0"]


def test_the_last_bin_ends_at_the_largest_number() -> None:
    found = histogram(wg.circuit("x * y").run(x=1.5e308, y=1e-300), of="value")

    assert "inf" not in str(found).lower()
    assert found.bins[-1].high == pytest.approx(1.7976931348623157e308)


def test_of_many_layers_without_a_gradient_the_first_are_said() -> None:
    builder = wg.Builder()
    inputs = [builder.input(f"x{k}") for k in range(100)]
    total = inputs[0]
    for x in inputs[1:]:
        total = builder.add(total, builder.multiply(x, 0.0))
    found = flow(builder.build(total).run([1.0] * 100), by="input")

    assert sum(finding.kind == "zero" for finding in found.findings) == 99
    assert sum("is zero" in line for line in found.lines()) == 6
    assert "and 93 more of kind zero" in [*found.lines()]


def recurrent(factor: float) -> wg.Run:
    """Run a recurrent network of thirty steps, whose weights and inputs each step reads."""

    def rnn(w, h, xs):
        for k in range(30):
            h = np.tanh(w @ h + xs[k])
        return np.sum(h)

    # So small that tanh is straight.
    xs = 1e-12 * np.random.default_rng(0).normal(size=(30, 2))
    return wg.run(rnn, factor * np.eye(2), np.zeros(2), xs)


@pytest.mark.parametrize(("factor", "kinds"), [(0.1, ["vanishes"]), (2.0, ["explodes"]), (1.0, ["steady"])])
@pytest.mark.parametrize("by", ["group", "rank"])
def test_what_all_steps_of_a_recurrent_net_share_is_no_layer_of_its_trend(
    factor: float, kinds: list[str], by: str
) -> None:
    found = flow(recurrent(factor), by=by)

    assert [finding.kind for finding in found.findings] == kinds
    assert found.layers[-1].name == "shared inputs"
    assert found["shared inputs"].gradient.size == 64
    assert "not compared, because several layers read the same input: shared inputs" in [*found.lines()]


def test_inputs_read_by_every_step_are_not_compared_with_those_read_by_one() -> None:
    def rnn(w, xs):
        h = np.zeros(2)
        for x in xs:
            h = np.tanh(w @ h + x)
        return np.sum(h)

    found = flow(wg.run(rnn, 0.1 * np.eye(2), [np.ones(2) for _ in range(30)]), by="input")

    assert [finding.kind for finding in found.findings] == ["vanishes"]
    assert [layer.name for layer in found.layers if layer.shared] == ["w"]


def test_weights_that_groups_share_stand_apart_from_them() -> None:
    def f(w, x):
        for k in range(5):
            with wg.group(f"layer{k}"):
                x = w * x
        return np.sum(x)

    found = flow(wg.run(f, np.full(3, 1e-2), np.ones(3)))

    assert [layer.name for layer in found.layers][-2:] == ["layer0", "w"]
    assert (found["w"].nodes, found["w"].shared, found["layer0"].shared) == (1, True, False)


def test_a_group_that_is_called_like_the_shared_inputs_stays_apart_from_them() -> None:
    def f(w, v, x):
        for name in ("shared inputs", "b"):
            with wg.group(name):
                x = w * x + v
        return np.sum(x)

    found = flow(wg.run(f, 2.0, 3.0, 4.0))

    assert [layer.name for layer in found.layers if layer.shared] == ["shared inputs (shared)"]


def test_a_sentence_says_where_its_size_is_not_that_of_the_table() -> None:
    found = flow(recurrent(0.1), by="rank")
    first = found.layers[0]
    sentence = str(found.findings[0])

    assert f"at {first.name} (without the output itself) but" in sentence
    assert "without" not in str(flow(stack([1e-2, 1e-2, 1e-2])).findings[0])


def test_a_size_without_the_output_is_said_to_be_so_also_if_all_is_steady() -> None:
    sentence = str(flow(recurrent(0.9), by="rank").findings[0])

    assert "without the output itself, sizes stay between" in sentence


def dead_layers() -> wg.Run:
    """Run layers the last but one of which lets nothing through."""

    def f(ws, x):
        for k, w in enumerate(ws):
            with wg.group(f"l{k}"):
                x = np.maximum(x @ w - (100.0 if k == 2 else 0.0), 0.0)
        with wg.group("l4"):
            x = x * 2.0
        return np.sum(x + 1.0)

    return wg.run(f, [np.ones((3, 3))] * 3, np.ones(3))


def test_nothing_is_said_to_be_steady_where_a_layer_has_no_gradient() -> None:
    kinds = {finding.kind for finding in flow(dead_layers()).findings}

    assert kinds == {"zero"}


def test_a_layer_without_a_gradient_names_a_node_to_ask_about() -> None:
    run = dead_layers()
    found = [finding for finding in flow(run).findings if finding.kind == "zero"]
    asked = [str(finding).partition('run.explain("')[2].partition('")')[0] for finding in found]

    assert [finding.layer for finding in found] == ["l1", "l0"]
    assert asked == ["ws_1", "x"]
    assert all("the gradient of" in str(run.explain(name)) for name in asked)


@pytest.mark.parametrize("by", ["rank", "input"])
def test_weights_that_are_cut_from_one_input_are_shared_like_it(by: str) -> None:
    def rnn(p):
        w, b, h = p[:4].reshape(2, 2).T, p[4:], np.zeros(2)
        for _ in range(30):
            h = np.tanh(w @ h + b)
        return np.sum(h)

    found = flow(wg.run(rnn, np.array([0.1, 0.0, 0.0, 0.1, 0.1, 0.2])), by=by)

    assert "explodes" not in {finding.kind for finding in found.findings}
    assert found.layers[-1].shared
    assert found.layers[-1].nodes == (5 if by == "rank" else 1)


def test_a_size_that_looks_the_same_without_the_output_needs_no_remark() -> None:
    def f(x):
        for k in range(4):
            with wg.group(f"layer{k}"):
                x = np.tanh(0.3 * x)
        return x

    assert str(flow(wg.run(f, 0.5)).findings[0]).startswith("sizes stay between 0.02223 and 1:")
