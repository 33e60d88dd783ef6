"""Generated questions: the right answer is never accused, each mistake is named, and no text gives the answer away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

import wiregrad as wg
from wiregrad.errors import InputError, NoQuestionError, OutputError
from wiregrad.learn.questions import DRAFTERS, POSERS, Question, may_offer, tells_number
from wiregrad.learn.quiz import KINDS, QuestionSource, judge_answer
from wiregrad.learn.quiz_run import Draws, QuizCircuit, collides, is_rounded, show_number
from wiregrad.learn.sentences import CLAIMS, NEUTRAL, PROMPTS, TEXTS, TITLES, WORDS

FORMULAS = (
    "n = x1*w1 + x2*w2 + b; o = tanh(n)",
    "y = x*x + x",
    "m = maximum(a, b); r = relu(c); y = 2*m + r*a",
    "s = exp(z1) + exp(z2) + exp(z3); p = exp(z2) / s; L = -log(p)",
    "d = w0*x0 + w1*x1 + w2; m = -d; p = exp(m); q = 1 + p; L = 1 / q",
    "u = a*b; v = sin(u) + u; f = v*u - a",
    "y = sigmoid(a*b - c)*b + a/c",
)
BREAKING = "l = log(q); t = p * l; L = -t"
NUMERIC = list(POSERS)
FEW = 30
MANY = 1000


@cache
def draw_questions(kind: str, count: int) -> list[tuple[QuestionSource, Question]]:
    """Draw questions of a kind, in turn from the circuits that offer it."""
    sources = [QuestionSource(wg.circuit(formula), 11) for formula in (*FORMULAS, BREAKING)]
    found: list[tuple[QuestionSource, Question]] = []
    number = 0
    while len(found) < count:
        for source in list(sources):
            try:
                found.append((source, source.draw(kind, number)))
            except NoQuestionError:
                sources.remove(source)
        number += 1
    return found[:count]


def counts() -> list[object]:
    return [FEW, pytest.param(MANY, marks=pytest.mark.full)]


@pytest.mark.parametrize("count", counts())
@pytest.mark.parametrize("kind", NUMERIC)
def test_the_right_answer_is_never_accused(kind: str, count: int) -> None:
    accused = []
    for source, question in draw_questions(kind, count):
        assert question.answer is not None
        spellings = [question.answer, repr(question.answer), show_number(question.answer), f"{question.answer:.4g}"]
        accused += [question for text in spellings if not judge_answer(source, question, text).right]

    assert accused == []


@pytest.mark.parametrize("count", counts())
@pytest.mark.parametrize("kind", NUMERIC)
def test_planted_mistakes_are_named_in_98_of_100_cases(kind: str, count: int) -> None:
    planted = 0
    named = 0
    for source, question in draw_questions(kind, count):
        for mistake in question.mistakes:
            planted += 1
            named += judge_answer(source, question, show_number(mistake.number)).key == mistake.key

    assert planted >= 3 * count
    assert named >= 0.98 * planted


@pytest.mark.parametrize("count", counts())
@pytest.mark.parametrize("kind", NUMERIC)
def test_numbers_that_no_mistake_gives_get_the_neutral_hint(kind: str, count: int) -> None:
    draws = Draws(3, len(kind))
    for source, question in draw_questions(kind, count):
        number = (1 + draws.below(9000)) / 7
        known = [*question.accepted, *(mistake.number for mistake in question.mistakes)]
        is_known = any(collides(number, other) for other in known)
        is_near = any(is_rounded(number, answer) for answer in question.accepted)
        verdict = judge_answer(source, question, number)

        assert verdict.key == ("near" if is_near else "neutral") or is_known


@pytest.mark.parametrize("kind", NUMERIC)
def test_mistakes_differ_from_the_answer_and_from_each_other(kind: str) -> None:
    for _, question in draw_questions(kind, FEW):
        for k, mistake in enumerate(question.mistakes):
            others = [
                other for other in question.mistakes[:k] if (other.key, other.text) != (mistake.key, mistake.text)
            ]

            assert not any(collides(mistake.number, answer) for answer in question.accepted)
            assert not any(collides(mistake.number, other.number) for other in others)


def all_texts(question: Question) -> Iterator[tuple[str, str]]:
    """Return title and text of everything that feedback can say about answers that are not right."""
    yield from ((mistake.title, mistake.text) for mistake in question.mistakes)
    yield from ((option.title, option.reply) for option in question.options if not option.right)
    if question.neutral:
        yield TITLES["neutral"], question.neutral
    if question.follow_up is not None:
        yield from all_texts(question.follow_up)


BANNED = re.compile(r"\b(wrong|incorrect|oops|great|well done|sorry|error|fail(?:ed)?)\b|!", re.IGNORECASE)


@pytest.mark.parametrize("kind", [*NUMERIC, *DRAFTERS])
def test_feedback_keeps_the_tone(kind: str) -> None:
    for _, question in draw_questions(kind, FEW):
        for title, text in all_texts(question):
            words = f"{title} {text}".split()

            assert re.match(r"Not yet|Nearly: |Very close: ", title)
            assert len(title.partition(": ")[2].split()) <= 8
            assert len(words) <= 45 + len(title.split())
            assert not BANNED.search(f"{title} {text}"), text
            assert "{" not in title + text


@pytest.mark.parametrize("kind", NUMERIC)
def test_feedback_and_first_hints_never_give_the_answer(kind: str) -> None:
    for _, question in draw_questions(kind, FEW):
        assert question.answer is not None

        assert not any(tells_number(text, question.answer) for _, text in all_texts(question))


@pytest.mark.parametrize("kind", [*NUMERIC, *DRAFTERS])
def test_a_question_is_at_most_100_characters_and_asks(kind: str) -> None:
    for _, question in draw_questions(kind, FEW):
        assert len(question.prompt) <= 100
        assert "?" in question.prompt


@pytest.mark.parametrize("kind", [*NUMERIC, *DRAFTERS])
def test_a_seed_gives_the_same_question_again(kind: str) -> None:
    for source, question in draw_questions(kind, 10):
        again = QuestionSource(source.owner.circuit, source.seed)

        assert again.draw(kind, question.number) == question


@pytest.mark.parametrize("kind", [*NUMERIC, *DRAFTERS])
def test_numbers_differ_from_question_to_question(kind: str) -> None:
    leaves = [tuple(question.leaves.items()) for _, question in draw_questions(kind, FEW)]

    assert len(set(leaves)) > len(leaves) // 2


@pytest.mark.parametrize("kind", DRAFTERS)
def test_choices_are_at_most_four_distinct_and_some_are_right(kind: str) -> None:
    for source, question in draw_questions(kind, FEW):
        texts = [option.text for option in question.options]

        assert 2 <= len(texts) == len(set(texts)) <= 4
        assert 0 < sum(option.right for option in question.options) < len(texts)
        for k, option in enumerate(question.options, 1):
            verdict = judge_answer(source, question, k)
            assert (verdict.right, verdict.key) == (option.right, "right" if option.right else option.key)


def test_any_node_that_may_fire_is_accepted_in_a_question_of_order() -> None:
    for source, question in draw_questions("order", FEW):
        fired = {*question.target}
        backward = question.form == "order.backward"
        for option in question.options:
            (node,) = option.target
            readers = [wire[0] for wire in source.owner.readers[node]]
            sources = [k for k in source.owner.sources[node] if source.owner.sources[k]]
            needs = readers if backward else sources

            assert option.right is (set(needs) <= fired)


def test_the_spotted_wire_is_the_only_one_off_its_rule() -> None:
    for source, question in draw_questions("spot", FEW):
        run = source.owner.run(question.leaves)
        shown = {gradient.target: gradient.number for gradient in question.shown}
        arrived: dict[int, float] = {source.owner.root: 1.0}
        for wire in reversed(source.owner.wires):
            node = source.owner.source_of(wire)
            arrived[node] = arrived.get(node, 0.0) + shown.get(wire, 0.0)
        off = [
            w for w, sent in shown.items() if sent != pytest.approx(arrived[w[0]] * (run.local((w[0], w[1])) or 0.0))
        ]

        assert off == [question.target]
        assert question.follow_up is not None


def test_the_first_non_finite_node_has_finite_inputs() -> None:
    for source, question in draw_questions("debug", FEW):
        (option,) = [option for option in question.options if option.right]
        values = source.owner.run(question.leaves).values
        node = option.target[0]

        assert abs(values[node]) in (float("inf"),) or values[node] != values[node]
        assert all(abs(values[k]) < float("inf") for k in source.owner.sources[node])


MISSION = {
    "multiplying by the forward value": "forward-for-local",
    "the same gradient to all inputs": "same-to-all",
    "upstream for sent": "upstream-only",
    "forgetting a splitter": "no-splitter",
    "a node with a vector output": "vector-output",
    "circuit or graph of f": "graph-vs-circuit",
    "overwriting instead of adding": "branch-last",
    "not clearing": "twice",
    "recursing instead of ordering": "recursing",
}


@pytest.fixture(scope="module")
def mistakes_met() -> set[str]:
    """The mistakes that questions about one circuit can find."""
    source = QuestionSource(wg.circuit("u = a*b; v = sin(u) + u; f = v*u - a/v"), 5)
    kinds = [*NUMERIC, "order", "structure", "claim"]
    questions = [source.draw(kind, number) for kind in kinds for number in range(12)]
    met = {mistake.key for question in questions for mistake in question.mistakes}
    return met | {option.key for question in questions for option in question.options}


@pytest.mark.parametrize("key", MISSION.values(), ids=MISSION.keys())
def test_every_mistake_of_learners_is_met_by_some_question(mistakes_met: set[str], key: str) -> None:
    assert key in mistakes_met


def test_the_sentence_of_the_mock_is_written_word_for_word() -> None:
    leaves = {"x1": 1.6, "w1": -1.5, "x2": 0.5, "w2": 2.2, "b": 2.1}
    source = QuestionSource(wg.circuit("n = x1*w1 + x2*w2 + b; o = tanh(n)"), 1, leaves)
    number = next(n for n in range(99) if source.draw("send", n).prompt.endswith("to w1?"))
    question = source.draw("send", number)
    verdict = judge_answer(source, question, "−1,342")

    assert question.prompt == "x1·w1 fires. How much gradient does it send along the wire to w1?"
    assert str(verdict) == (
        "Not yet: upstream × value\n"
        "Your number is 0.5591 × (−2.4), and −2.4 is the value of x1·w1. "
        "The second factor is the local derivative of this wire."
    )
    assert [(round(factor.value, 4), factor.label) for factor in verdict.factors] == [
        (0.5591, "upstream"),
        (-2.4, "value of x1·w1"),
    ]
    assert judge_answer(source, question, "0.5591*1.6").right


def test_two_mistakes_that_give_one_number_by_chance_get_the_neutral_hint() -> None:
    source = QuestionSource(wg.circuit("y = x*x + x"), 1, {"x": 3})
    question = source.draw("gather", 0)
    same = [mistake.key for mistake in question.mistakes if mistake.number == 3.0]
    verdict = judge_answer(source, question, 3)

    assert same == ["branch-first", "upstream-only"]
    assert (verdict.key, verdict.text) == ("neutral", NEUTRAL["gather"].format(node="x"))


def test_mistakes_that_coincide_by_nature_share_one_message() -> None:
    for source, question in draw_questions("gather", FEW):
        if source.owner.circuit.output == "y" and len(source.owner.inputs) == 1:
            first = question.mistakes[0]
            assert (first.key, first.also) == ("branch-first", ("branch-one", "value-for-gradient"))


def test_fixed_leaves_keep_their_value() -> None:
    source = QuestionSource(wg.circuit("f = (a + b)*c"), 3, {"b": -1.5})
    leaves = [source.draw("send", number).leaves for number in range(10)]

    assert {each["b"] for each in leaves} == {-1.5}
    assert len({each["a"] for each in leaves}) > 1


def test_splitters_are_looked_through() -> None:
    circuit = wg.circuit("u = a*b; f = u*u + tanh(u)")
    plain = QuestionSource(circuit, 4)
    split = QuestionSource(circuit.split(), 4)
    for kind in NUMERIC:
        one = plain.draw(kind, 0)
        two = split.draw(kind, 0)

        assert (one.prompt, one.answer, one.leaves) == (two.prompt, two.answer, two.leaves)


def test_a_traced_function_is_asked_about_by_its_own_text() -> None:
    def loss(x: float, w: float) -> object:
        return wg.tanh(x * w) ** 2 + w

    owner = QuizCircuit(wg.trace(loss, 0.5, 2.0))

    assert "x * w" in owner.titles.values()
    assert QuestionSource(wg.trace(loss, 0.5, 2.0), 1).draw("send", 0).answer is not None


@pytest.mark.parametrize(
    ("circuit", "error", "message"),
    [
        ("input x: float64[3]\ny = sum x axes=[-1] keepdims=false\noutput y", InputError, "circuit.expand()"),
        ("input x\na = exp x\nb = sin x\noutput a, b", OutputError, "with_output"),
        ("input x, y\nb = greater x y\noutput b", OutputError, "has no gradient"),
        ("input h0\n" + "".join(f"h{k + 1} = tanh h{k}\n" for k in range(2000)) + "output h2000", InputError, "2,001"),
    ],
)
def test_what_no_question_can_be_about_is_refused(circuit: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        QuestionSource(wg.Circuit.from_text(circuit), 7)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "7", True])
def test_a_seed_is_a_32_bit_integer(seed: object) -> None:
    with pytest.raises(InputError, match="seed of a quiz"):
        QuestionSource(wg.circuit("a*b"), seed)  # type: ignore[arg-type]


def test_an_unknown_leaf_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="did you mean weight"):
        QuestionSource(wg.circuit("weight*x"), 7, {"wieght": 1.0})


@pytest.mark.parametrize(
    ("formula", "kind"), [("a*b", "gather"), ("a*b", "router"), ("a*b", "debug"), ("a + b", "send")]
)
def test_a_kind_that_a_circuit_does_not_offer_is_a_typed_error(formula: str, kind: str) -> None:
    with pytest.raises(NoQuestionError, match=f"no clear question of kind '{kind}'"):
        QuestionSource(wg.circuit(formula), 7).draw(kind, 0)


def test_a_long_chain_needs_no_recursion(recursion_limit_1000: None) -> None:
    formula = "y = " + " + ".join(f"x{k % 7}" for k in range(1500))

    assert QuestionSource(wg.circuit(formula), 7).draw("value", 0).answer is not None


def test_every_kind_has_its_sentences() -> None:
    assert {*POSERS, "rule", "count", "draw.partial", "draw.seed"} == {*NEUTRAL}
    assert {*KINDS} == {*POSERS, *DRAFTERS, "rule"}
    assert all(len(text.split()) <= 45 for text in TEXTS.values())


@pytest.mark.parametrize("text", [*TEXTS.values(), *NEUTRAL.values()])
def test_sentences_have_at_most_twelve_words_on_average(text: str) -> None:
    sentences = [sentence for sentence in re.split(r"[.?:;] ", text) if sentence]

    assert len(text.split()) <= 12 * len(sentences)


REASONS = {
    "same": r"Why: .+ sends −?[\d.e−]+ along one wire and −?[\d.e−]+ along the other\.",
    "rises": r"Why: the gradient of .+ is −?[\d.e−]+, so .+ (rises|falls) when .+ rises a little\.",
    "falls": r"Why: the gradient of .+ is −?[\d.e−]+, so .+ (rises|falls) when .+ rises a little\.",
    "clear": r"Why: a backward pass adds",
    "curve": r"Why: the circuit shows the steps",
}


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_has_a_reason_of_its_own(name: str) -> None:
    prompt = re.compile(re.sub(r"\\\{\w+\\\}", ".+", re.escape(PROMPTS["claim"].replace("{claim}", CLAIMS[name]))))
    asked = [question for _, question in draw_questions("claim", 400) if prompt.fullmatch(question.prompt)]

    assert asked
    assert all(re.match(REASONS.get(name, "Why: "), question.why) for question in asked)
    assert not any("{" in question.why for question in asked)
    assert f"why.claim.{name}" in WORDS


def test_the_reason_of_a_claim_agrees_with_the_claim() -> None:
    asked = [question for _, question in draw_questions("claim", 400) if "rises a little, " in question.prompt]

    for question in asked:
        holds = question.options[0].right
        claimed = "rises" if question.prompt.endswith("rises.") else "falls"
        assert (f"{claimed} when" in question.why) == holds


def test_nearly_equal_gradients_are_no_claim() -> None:
    source = QuestionSource(wg.circuit("p = a*b; q = p*c; y = q + p*d"), 1, {"a": 2.0, "b": 2.01, "c": 1.5, "d": 3.0})
    for number in range(60):
        question = source.draw("claim", number)

        assert not question.prompt.startswith("True or not? Both inputs of p ")


@pytest.mark.parametrize(
    ("formula", "kind", "fixed", "part"),
    [
        ("y = sin(x)", "gather", {}, "gather needs a value that is used twice; take another circuit or kind"),
        ("y = sin(x)", "router", {}, "router needs an op that selects, such as maximum or relu; take"),
        ("y = sin(x)", "order", {}, "order needs ops that wait for each other"),
        ("y = 3", "gather", {}, "it has no input, and questions are about gradients"),
        ("y = relu(x)", "value", {}, "no numbers were found at which value has one clear answer; take another"),
        ("y = x*a + x", "gather", {"x": 1.0, "a": 0.0}, "one clear answer; fix fewer leaves, or take another"),
    ],
)
def test_a_circuit_without_a_question_is_told_what_it_lacks(
    formula: str, kind: str, fixed: dict[str, float], part: str
) -> None:
    quiz = wg.Quiz(formula, leaves=fixed, kinds=[kind])
    with pytest.raises(NoQuestionError) as caught:
        quiz.next()

    assert part in str(caught.value)
    assert ("fewer" in str(caught.value)) == bool(fixed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "formula", [*FORMULAS, BREAKING, "y = sin(x)", "y = x", "y = x*x", "y = 2*relu(x)", "y = a - b"]
)
def test_a_question_is_drawn_only_where_the_circuit_has_what_its_kind_needs(kind: str, formula: str) -> None:
    source = QuestionSource(wg.circuit(formula), 3)
    try:
        source.draw(kind, 0)
    except NoQuestionError:
        return

    assert may_offer(source.owner, kind)


SATURATING = ("n = x1*w1 + x2*w2 + b; o = tanh(n)", "z = w*x + b; L = -y*log(sigmoid(z)) - (1 - y)*log(1 - sigmoid(z))")


@pytest.mark.parametrize("kind", [*NUMERIC, "order", "claim", "spot"])
@pytest.mark.parametrize("formula", SATURATING)
def test_no_function_of_a_question_is_flat_where_leaves_can_be_drawn(formula: str, kind: str) -> None:
    flat = []
    for seed in range(12):
        source = QuestionSource(wg.circuit(formula), seed)
        if kind == "gather" and not any(len(wires) > 1 for wires in source.owner.readers.values()):
            continue
        run = source.owner.run(source.draw(kind, 0).leaves)
        slopes = [run.local(wire) for wire in source.owner.wires]
        flat += [run.leaves for slope in slopes if slope is not None and abs(slope) < 0.01]

    assert flat == []


def test_a_question_is_asked_at_a_flat_place_where_no_other_can_be_drawn() -> None:
    source = QuestionSource(wg.circuit("y = tanh(x + b)*c"), 7, {"b": 40.0})
    question = source.draw("value", 0)
    run = source.owner.run(question.leaves)

    assert not run.is_readable
    assert question == QuestionSource(wg.circuit("y = tanh(x + b)*c"), 7, {"b": 40.0}).draw("value", 0)
