"""Questions with choices: order, routers, splitters, claims, a mistaken wire to spot, the birth of a NaN.

Every choice that is not right knows which mistake it shows. A question is dropped and drawn again where two choices
read alike, or where none or all would be right. The twin is `web/src/learn/choices.ts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from wiregrad.ir import Pattern
from wiregrad.learn.answers import collides, mutate_local, show_fields, sweep_with_mistake
from wiregrad.learn.questions import (
    LARGEST,
    MAX_PROMPT,
    SMALLEST,
    ChoiceOption,
    Question,
    ShownGradient,
    Target,
    give_values,
    is_condition,
    join_words,
    no_question_error,
)
from wiregrad.learn.quiz_run import BREAKING_LEAVES, Draws, QuizCircuit, QuizRun, Wire, has_pattern, show_number
from wiregrad.learn.sentences import CLAIMS, PROMPTS, TEXTS, TITLES, WORDS, describe_mistake, fill_sentence

MAX_CHOICES: Final = 4
MAX_FIRED: Final = 3
"""Maximum number of nodes that have fired before the one that is asked for."""
MAX_CHOICE_ATTEMPTS: Final = 80
STRUCTURE_FORMS: Final = ("structure.count", "structure.where", "structure.outputs")
SPOT_MISTAKES: Final = (
    "upstream-only",
    "own-not-other",
    "same-to-all",
    "forward-for-local",
    "activation-input",
    "sign",
    "twice",
)


class ChoiceDraft:
    """A question with choices while it is put together."""

    def __init__(self, kind: str, form: str, target: Target, fields: dict[str, str]) -> None:
        self.kind = kind
        self.form = form
        self.target = target
        self.fields = fields
        self.options: list[ChoiceOption] = []
        self.shown: tuple[ShownGradient, ...] = ()
        self.follow_up: ChoiceDraft | None = None
        self.leaves: dict[str, float] = {}
        self.given: tuple[str, ...] = ()

    def add_right(self, text: str, target: Target = (), detail: str = "") -> None:
        """Add a choice that is right."""
        self.options.append(ChoiceOption(text, True, target=target, detail=detail))

    def add_wrong(
        self, text: str, key: str, reply: str = "", fields: dict[str, str] | None = None, target: Target = ()
    ) -> None:
        """Add a choice that shows a mistake; `reply` names its text if that is not the mistake's own."""
        named = {**self.fields, **(fields or {})}
        title, usual = describe_mistake(self.kind, key, named) if not reply else (TITLES[key], "")
        told = fill_sentence(TEXTS[reply], named) if reply else usual
        self.options.append(ChoiceOption(text, False, key, title, told, target=target))

    def finish(self, draws: Draws, seed: int, number: int, *, mix: bool = True) -> Question | None:
        """Return the question; None if it is not clear."""
        options = draws.shuffle(self.options) if mix else self.options
        texts = {option.text for option in options}
        rights = [option for option in options if option.right]
        wrongs = [option for option in options if not option.right]
        prompt = fill_sentence(PROMPTS[self.form], self.fields)
        if len(texts) < len(options) or not rights or not wrongs or len(prompt) > MAX_PROMPT:
            return None
        follow_up = None if self.follow_up is None else self.follow_up.finish(draws, seed, number)
        if self.follow_up is not None and follow_up is None:
            return None
        return Question(
            kind=self.kind,
            form=self.form,
            seed=seed,
            number=number,
            target=self.target,
            prompt=prompt,
            leaves=self.leaves,
            given=self.given,
            answer=None,
            accepted=(),
            options=tuple(options),
            mistakes=(),
            neutral=WORDS[f"hint.{self.kind}"],
            hint=self._take_one_away(wrongs),
            step=fill_sentence(WORDS["step.choice"], {"choice": rights[0].text}),
            why=WORDS.get(f"why.{self.form}") or WORDS[f"why.{self.kind}"],
            shown=self.shown,
            follow_up=follow_up,
        )

    def _take_one_away(self, wrongs: Sequence[ChoiceOption]) -> str:
        """Return the second hint: a choice that is not right, unless that would leave only one."""
        if len(self.options) < 3:
            return WORDS[f"hint.{self.kind}"]
        return fill_sentence(WORDS["hint.choice"], {"choice": wrongs[0].text})


def draft_order(run: QuizRun, draws: Draws, turn: int) -> ChoiceDraft | None:
    """Ask which node may fire next, forward or backward."""
    owner = run.owner
    backward = draws.below(2) == 1
    nodes = [node for node in owner.functions if not backward or owner.active[node]]
    needs = {node: _list_needs(owner, node, backward) for node in nodes}
    fired: list[int] = []
    for _ in range(draws.below(min(len(nodes) - 1, MAX_FIRED) + 1) if nodes else 0):
        fired.append(draws.choose(_find_ready(needs, fired)))
    ready = _find_ready(needs, fired)
    waiting = [node for node in nodes if node not in fired and node not in ready]
    if not ready or not waiting:
        return None
    names = join_words([owner.title(node) for node in fired]) if fired else ""
    state = WORDS["nothing-fired" if not fired else "one-fired" if len(fired) == 1 else "many-fired"]
    direction = "backward" if backward else "forward"
    fields = {"state": fill_sentence(state, {"nodes": names})}
    draft = ChoiceDraft("order", f"order.{direction}", tuple(fired), fields)
    shown = draws.shuffle(ready)[:2]
    for node in shown:
        draft.add_right(owner.title(node), (node,))
    for node in draws.shuffle(waiting)[: MAX_CHOICES - len(shown)]:
        key = _name_haste(needs[node], fired, backward)
        draft.add_wrong(owner.title(node), key, fields={"node": owner.title(node)}, target=(node,))
    return draft


def _list_needs(owner: QuizCircuit, node: int, backward: bool) -> list[int]:
    """Return the nodes that have to fire before a node."""
    if backward:
        return [wire[0] for wire in owner.readers[node]]
    return [source for source in owner.sources[node] if owner.sources[source]]


def _find_ready(needs: Mapping[int, Sequence[int]], fired: Sequence[int]) -> list[int]:
    return [node for node, wanted in needs.items() if node not in fired and all(k in fired for k in wanted)]


def _name_haste(needs: Sequence[int], fired: Sequence[int], backward: bool) -> str:
    if not backward:
        return "not-ready"
    return "recursing" if any(node in fired for node in needs) else "not-reached"


def draft_router(run: QuizRun, draws: Draws, turn: int) -> ChoiceDraft | None:
    """Ask which input of a node that selects receives nothing."""
    owner = run.owner
    routers = [node for node in owner.functions if has_pattern(run, node, Pattern.ROUTE) and owner.active[node]]
    if not routers:
        return None
    node = draws.choose(routers)
    wires = [wire for wire in owner.wires if wire[0] == node]
    fields = {"node": owner.title(node), "source": owner.title(owner.source_of(wires[0]))}
    if len(wires) == 1:
        return _draft_gate(run, wires[0], fields)
    draft = ChoiceDraft("router", "router", (node,), fields)
    blocked = [wire for wire in wires if run.local(wire) is None]
    for wire in wires:
        title = owner.title(owner.source_of(wire))
        if wire in blocked:
            draft.add_right(title, wire)
        else:
            draft.add_wrong(title, "router-none", "router-loser" if blocked else "router-none", target=wire)
    if blocked:
        draft.add_wrong(WORDS["choice.none"], "router-both")
    else:
        draft.add_right(WORDS["choice.none"])
    if len(blocked) < len(wires):
        draft.add_wrong(WORDS["choice.all"], "router-none")
    return draft


def _draft_gate(run: QuizRun, wire: Wire, fields: dict[str, str]) -> ChoiceDraft | None:
    """Ask what the only input of a node such as relu receives."""
    local = run.local(wire)
    if local not in (None, 1.0):
        return None
    draft = ChoiceDraft("router", "router.one", wire, fields)
    for choice, is_right in (("nothing", local is None), ("everything", local is not None), ("half", False)):
        text = WORDS[f"choice.{choice}"]
        if is_right:
            draft.add_right(text)
        elif local is None:
            draft.add_wrong(text, "router-both")
        else:
            draft.add_wrong(text, "router-none")
    return draft


def draft_structure(run: QuizRun, draws: Draws, turn: int) -> ChoiceDraft | None:
    """Ask for splitters and output wires, in turn."""
    owner = run.owner
    form = STRUCTURE_FORMS[turn % len(STRUCTURE_FORMS)]
    forks = [node for node in owner.nodes if owner.fan[node] > 1 and (owner.active[node] or owner.sources[node])]
    if form == "structure.where":
        return _draft_where(owner, forks, draws)
    nodes = forks if form == "structure.count" else [node for node in owner.functions if node != owner.root]
    if not nodes:
        return None
    node = draws.choose(nodes)
    count = owner.fan[node]
    fields = {"node": owner.title(node), "count": str(count)}
    draft = ChoiceDraft("structure", form, (node,), fields)
    if form == "structure.count":
        draft.add_right(str(count - 1))
        draft.add_wrong(str(count), "splitter-per-reader")
        draft.add_wrong("0", "no-splitter")
        return draft
    draft.add_right("1")
    for wires in sorted({count, len(owner.sources[node]), 2} - {1, 0}):
        draft.add_wrong(str(wires), "vector-output")
    return draft


def _draft_where(owner: QuizCircuit, forks: Sequence[int], draws: Draws) -> ChoiceDraft | None:
    others = [node for node in owner.nodes if owner.fan[node] == 1 and (owner.active[node] or owner.sources[node])]
    if not forks or not others:
        return None
    draft = ChoiceDraft("structure", "structure.where", (), {})
    for node in draws.shuffle(forks)[:1]:
        draft.add_right(owner.title(node), (node,))
    for node in draws.shuffle(others)[: MAX_CHOICES - 1]:
        draft.add_wrong(owner.title(node), "splitter-without-need", fields={"node": owner.title(node)}, target=(node,))
    return draft


def draft_claim(run: QuizRun, draws: Draws, turn: int) -> ChoiceDraft | None:
    """Make a claim that holds or does not."""
    claims = [*_claim_of_nodes(run), *_claim_of_leaves(run)]
    if not claims:
        return None
    # The name is drawn first, so that a circuit with many wires does not get claims of one sort alone.
    name = draws.choose(list(dict.fromkeys(claim[0] for claim in claims)))
    _, holds, key, target, fields = draws.choose([claim for claim in claims if claim[0] == name])
    text = fill_sentence(CLAIMS[name], fields)
    draft = ChoiceDraft("claim", "claim", target, {**fields, "claim": text})
    fallback = "claim-true" if holds else "claim-false"
    has_text = f"claim.{key}" in TEXTS or key in ("vector-output", "graph-vs-circuit")
    for choice, is_right in (("choice.true", holds), ("choice.false", not holds)):
        if is_right:
            draft.add_right(WORDS[choice])
        else:
            draft.add_wrong(WORDS[choice], key if has_text else fallback)
    return draft


Claim = tuple[str, bool, str, Target, dict[str, str]]
"""A claim: its sentence, whether it holds, the mistake of who gets it wrong, the place, and the fields."""


def _claim_of_nodes(run: QuizRun) -> list[Claim]:
    owner = run.owner
    claims: list[Claim] = []
    for node in owner.nodes:
        fields = {"node": owner.title(node), "count": str(len(owner.readers[node]))}
        if len(owner.readers[node]) > 1:
            claims += [("sum", True, "branch-last", (node,), fields), ("last", False, "branch-last", (node,), fields)]
            if owner.sources[node]:
                claims += [("early", False, "recursing", (node,), fields), ("wait", True, "recursing", (node,), fields)]
                claims += [("many-outputs", False, "vector-output", (node,), fields)]
                claims += [("one-output", True, "vector-output", (node,), fields)]
        claims += _claim_of_pair(run, node, fields)
    return claims


def _claim_of_pair(run: QuizRun, node: int, fields: dict[str, str]) -> list[Claim]:
    wires = [(node, slot) for slot, source in enumerate(run.owner.sources[node]) if run.owner.active[source]]
    if len(wires) != 2 or run.owner.source_of(wires[0]) == run.owner.source_of(wires[1]):
        return []
    claims: list[Claim] = []
    one, two = (run.sent(wire) for wire in wires)
    if one is not None and two is not None:
        claims.append(("same", collides(one, two), "same-to-all", (node,), fields))
    if has_pattern(run, node, Pattern.SWAP):
        claims += [("swap", True, "own-not-other", (node,), fields), ("own", False, "own-not-other", (node,), fields)]
    return claims


def _claim_of_leaves(run: QuizRun) -> list[Claim]:
    owner = run.owner
    claims: list[Claim] = []
    for node in owner.leaves:
        fields = {"source": owner.title(node), "output": owner.title(owner.root)}
        gradient = run.upstream(node)
        if abs(gradient) > 1e-3:
            claims += [
                ("rises", gradient > 0, "sign", (node,), fields),
                ("falls", gradient < 0, "sign", (node,), fields),
            ]
            claims.append(("clear", True, "twice", (node,), fields))
        claims.append(("curve", False, "graph-vs-circuit", (node,), fields))
    return claims


def draft_spot(run: QuizRun, draws: Draws, turn: int) -> ChoiceDraft | None:
    """Show gradients of which one comes from a mistaken rule; the rest follow honestly."""
    owner = run.owner
    inner = [wire for wire in owner.wires if owner.sources[owner.source_of(wire)]]
    wire = draws.choose(inner or owner.wires)
    slopes = {each: run.local(each) for each in owner.wires}
    mutants = _list_mutants(run, wire)
    if not mutants or not SMALLEST < abs(run.sent(wire) or 0.0) < LARGEST:
        return None
    key = draws.choose(list(mutants))
    slopes[wire] = mutants[key]
    grads = sweep_with_mistake(run, slopes.get)
    sent = {each: grads[each[0]] * slope for each, slope in slopes.items() if each[0] in grads and slope is not None}
    if any(number and not SMALLEST < abs(number) < LARGEST for number in sent.values()):
        return None
    draft = ChoiceDraft("spot", "spot", wire, {})
    draft.shown = tuple(ShownGradient(each, _label_wire(run, each), number) for each, number in sent.items())
    draft.add_right(_write_wire(run, wire, sent[wire]), wire)
    others = [each for each in sent if each != wire]
    inherited = [each for each in others if not _is_close(grads[each[0]], run.upstream(each[0]))]
    honest = [each for each in others if each not in inherited]
    for each in [*draws.shuffle(inherited)[:2], *draws.shuffle(honest)][: MAX_CHOICES - 1]:
        _add_honest_wire(draft, run, each, grads[each[0]], sent[each], each in inherited)
    draft.follow_up = _name_spotted(run, wire, key, mutants)
    return draft


def _give_all_values(run: QuizRun) -> tuple[str, ...]:
    return tuple(give_values(run, run.owner.nodes))


def _is_close(one: float, two: float) -> bool:
    return abs(one - two) <= 1e-9 * max(abs(one), abs(two))


def _list_mutants(run: QuizRun, wire: Wire) -> dict[str, float]:
    """Return the mistaken factors of a wire that can be told from the right one and from each other."""
    right = run.local(wire)
    upstream = run.upstream(wire[0])
    if right is None or not upstream:
        return {}
    found: dict[str, float] = {}
    for key in SPOT_MISTAKES:
        factor = {"sign": -right, "twice": 2.0 * right}.get(key)
        factor = mutate_local(run, key, wire) if factor is None else factor
        rivals = [upstream * right, *(upstream * other for other in found.values())]
        if factor and math.isfinite(factor) and not any(collides(upstream * factor, rival) for rival in rivals):
            found[key] = factor
    return found


def _label_wire(run: QuizRun, wire: Wire) -> str:
    fields = {"node": run.describe_reader(wire), "source": run.owner.title(run.owner.source_of(wire))}
    return fill_sentence(WORDS["label.wire"], fields)


def _write_wire(run: QuizRun, wire: Wire, sent: float) -> str:
    fields = {"reader": run.describe_reader(wire), "source": run.owner.title(run.owner.source_of(wire))}
    return fill_sentence(WORDS["choice.wire"], {**fields, "sent": show_number(sent)})


def _add_honest_wire(
    draft: ChoiceDraft, run: QuizRun, wire: Wire, upstream: float, sent: float, inherits: bool
) -> None:
    fields = {"reader": run.describe_reader(wire), "source": run.owner.title(run.owner.source_of(wire))}
    fields |= show_fields(sent=sent, upstream=upstream, local=run.local(wire) or 0.0)
    reply = "spot.inherits" if inherits else "spot.right-rule"
    draft.add_wrong(_write_wire(run, wire, sent), "inherits" if inherits else "neutral", reply, fields, wire)


def _name_spotted(run: QuizRun, wire: Wire, key: str, mutants: Mapping[str, float]) -> ChoiceDraft:
    """Return the draft of the question that follows: which mistake it was."""
    fields = {"node": run.owner.title(wire[0]), "source": run.owner.title(run.owner.source_of(wire))}
    draft = ChoiceDraft("spot", "spot.name", wire, fields)
    draft.leaves = run.leaves
    draft.given = _give_all_values(run)
    draft.add_right(WORDS[f"spot.{key}"], detail=WORDS[f"spot.{key}.detail"])
    for other in [name for name in mutants if name != key][: MAX_CHOICES - 1]:
        draft.add_wrong(WORDS[f"spot.{other}"], "neutral", "spot.name")
        draft.options[-1] = replace(draft.options[-1], detail=WORDS[f"spot.{other}.detail"])
    return draft


def draft_debug(run: QuizRun, draws: Draws, turn: int) -> ChoiceDraft | None:
    """Ask where the first number that is not finite comes from."""
    owner = run.owner
    lost = [node for node in owner.functions if not is_condition(owner, node) and not math.isfinite(run.value(node))]
    births = [node for node in lost if all(math.isfinite(run.value(source)) for source in owner.sources[node])]
    if len(births) != 1 or len(lost) < 2 or owner.root not in lost:
        return None
    draft = ChoiceDraft("debug", "debug", (births[0],), {"output": owner.title(owner.root)})
    draft.add_right(owner.title(births[0]), (births[0],))
    heirs = draws.shuffle([node for node in lost if node != births[0]])[:2]
    finite = draws.shuffle([node for node in owner.functions if node not in lost])
    for node in [*heirs, *finite][: MAX_CHOICES - 1]:
        key = "inherits" if node in heirs else "finite"
        draft.add_wrong(owner.title(node), key, fields={"node": owner.title(node)}, target=(node,))
    return draft


DRAFTERS: Final[dict[str, Callable[[QuizRun, Draws, int], ChoiceDraft | None]]] = {
    "order": draft_order,
    "router": draft_router,
    "structure": draft_structure,
    "claim": draft_claim,
    "spot": draft_spot,
    "debug": draft_debug,
}
"""The kinds with choices; the last argument counts questions, for kinds whose forms take turns."""


def _draw_breaking_leaves(owner: QuizCircuit, draws: Draws, fixed: Mapping[str, float]) -> dict[str, float]:
    leaves = {}
    for name in owner.inputs:
        value = draws.choose(BREAKING_LEAVES) if draws.below(2) else (1 + draws.below(30)) / 10
        leaves[name] = fixed.get(name, value)
    return leaves


def _may_offer(owner: QuizCircuit, kind: str) -> bool:
    """Return whether a circuit has what a kind asks about at all."""
    has_router = any(owner.ops[node].pattern is Pattern.ROUTE for node in owner.functions)
    return bool(owner.wires) and (kind != "router" or has_router)


def draw_choice_question(
    owner: QuizCircuit, kind: str, seed: int, number: int, fixed: Mapping[str, float], code: int
) -> Question:
    """Draw until a question with choices is clear; raise `NoQuestionError` if none is."""
    draws = Draws(seed, code, number)
    if _may_offer(owner, kind):
        for attempt in range(MAX_CHOICE_ATTEMPTS):
            if kind == "debug":
                leaves = _draw_breaking_leaves(owner, draws, fixed)
            else:
                leaves = owner.draw_leaves(draws, attempt, fixed)
            run = owner.run(leaves)
            if kind != "debug" and not run.is_clean:
                continue
            draft = DRAFTERS[kind](run, draws, seed + number + attempt)
            if draft is None:
                continue
            draft.leaves = run.leaves
            draft.given = () if kind in ("order", "structure") else _give_all_values(run)
            question = draft.finish(draws, seed, number, mix=kind != "claim")
            if question is not None:
                return question
    raise no_question_error(owner, kind)
