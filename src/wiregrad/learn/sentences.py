"""Every sentence of questions and feedback, in one place: the page gets the same texts (`sentences.generated.ts`).

The tone is fixed. A title names the mistake in two to five words and is the same wherever the mistake is mentioned. A
text says what the number of the learner is made of, then the rule, then where to look: at most 45 words, never the
answer. `TEXTS` is looked up by kind and mistake (`send.upstream-only`) first, then by the mistake alone.
"""

from __future__ import annotations

from typing import Final

TITLES: Final[dict[str, str]] = {
    "forward-for-local": "Not yet: upstream × value",
    "upstream-only": "Not yet: that is what arrived",
    "local-only": "Not yet: one factor of two",
    "own-not-other": "Not yet: own input for the other",
    "same-to-all": "Not yet: the factor of the other wire",
    "activation-input": "Not yet: the input of {op}",
    "router-both": "Not yet: the loser got some",
    "branch-first": "Not yet: one branch only",
    "branch-one": "Not yet: one branch only",
    "branch-last": "Not yet: one branch only",
    "branch-missing": "Not yet: one branch missing",
    "branch-product": "Not yet: branches multiplied",
    "branch-mean": "Not yet: branches averaged",
    "recursing": "Not yet: sent before it was complete",
    "twice": "Not yet: counted twice",
    "value-for-gradient": "Not yet: that is a value",
    "sent-for-local": "Not yet: already multiplied",
    "other-op": "Not yet: another op",
    "operands-swapped": "Not yet: the order of the inputs",
    "input-for-output": "Not yet: that goes in",
    "slope-for-value": "Not yet: that is the slope",
    "gradient-for-change": "Not yet: that is the gradient",
    "nudge-only": "Not yet: that is the nudge",
    "new-output": "Not yet: that is the new output",
    "new-input": "Not yet: that is the new input",
    "path-sum": "Not yet: factors added",
    "path-short": "Not yet: one factor missing",
    "gradient-for-path": "Not yet: all paths together",
    "branches-for-paths": "Not yet: branches counted",
    "paths-missing": "Not yet: one path missing",
    "nodes-for-paths": "Not yet: nodes counted",
    "local.forward-for-local": "Not yet: that is a value",
    "paths.forward-for-local": "Not yet: values multiplied",
    "leaf.forward-for-local": "Not yet: upstream × value",
    "sign": "Nearly: size right, sign not",
    "near": "Very close: rounding",
    "neutral": "Not yet",
    "unreadable": "Not an answer yet",
    "only-here": "Not yet: right here only",
    "not-ready": "Not yet: its inputs are open",
    "not-reached": "Not yet: nothing has arrived",
    "router-none": "Not yet: something passes",
    "no-splitter": "Not yet: a splitter is missing",
    "splitter-per-reader": "Not yet: one splitter too many",
    "splitter-without-need": "Not yet: one reader needs none",
    "vector-output": "Not yet: one node, one output",
    "graph-vs-circuit": "Not yet: circuit or curve",
    "claim-true": "Not yet: it does hold",
    "claim-false": "Not yet: it does not hold",
    "inherits": "Not yet: that one inherits",
    "finite": "Not yet: that one is finite",
    "draw.no-splitter": "Not yet: one wire, two readers",
    "two-drivers": "Not yet: two wires, one input",
    "leaf-unknown": "Not yet: a leaf too many",
    "leaf-twice": "Not yet: one leaf drawn twice",
    "leaf-missing": "Not yet: a leaf is missing",
    "output-missing": "Not yet: no output",
    "output-twice": "Not yet: more than one output",
    "cycle": "Not yet: the wires form a cycle",
    "open-input": "Not yet: an input is open",
    "draw.splitter-without-need": "Not yet: a splitter too many",
    "loose-end": "Not yet: nothing reads this",
    "wrong-op": "Not yet: another op",
    "other-grouping": "Not yet: grouped another way",
    "not-in-formula": "Not yet: no part of the formula",
    "output-early": "Not yet: the formula goes on",
    "computed-twice": "Not yet: computed twice",
    "right": "Right",
}
"""What a verdict is called, by mistake; a kind may have a name of its own for one."""

TEXTS: Final[dict[str, str]] = {
    "forward-for-local": "Your number is {upstream} × {value_}, and {value} is the value of {node}. The second factor "
    "is the local derivative of this wire.",
    "gather.forward-for-local": "Your number adds upstream × value of each reader. The second factor of each branch is "
    "the local derivative of its wire.",
    "leaf.forward-for-local": "Your number multiplies by the values of nodes. On the way back each factor is the local "
    "derivative of a wire.",
    "local.forward-for-local": "{value} is the value of {node}. The local derivative says how fast {node} changes when "
    "only {source} does.",
    "paths.forward-for-local": "Your number multiplies the values on the path. Each wire has a factor of its own: its "
    "local derivative.",
    "upstream-only": "{upstream} came back from the output. On its way to {source} it meets one more factor, at the "
    "port.",
    "gather.upstream-only": "Your number adds what arrived at the readers of {node}. Each part meets one more factor "
    "on its way back, at the port.",
    "leaf.upstream-only": "Your number leaves out local derivatives. On its way to {node} the gradient meets one "
    "factor at each port.",
    "local.upstream-only": "{upstream} is the gradient that arrives at {node}. The local derivative needs no gradient: "
    "only what goes into {node}.",
    "local-only": "{local} is the local derivative of this wire. Multiply it by what arrives.",
    "gather.local-only": "Your number adds the local derivatives. Each one still needs what arrives at its node.",
    "leaf.local-only": "Your number is the local derivative next to {node}. Multiply it by what arrives there.",
    "nudge.local-only": "Your number uses the first local derivative alone. The nudge travels through every node to "
    "{output}: multiply by all of them.",
    "own-not-other": "Your number is {upstream} × {own_}, and that is {source} itself. For a product the local "
    "derivative is the other input.",
    "gather.own-not-other": "At a product your number takes the wire's own value. For a product the "
    "local derivative is "
    "the other input.",
    "leaf.own-not-other": "At a product your number takes the wire's own value. For a product the local derivative is "
    "the other input.",
    "local.own-not-other": "{own} is {source} itself. For a product the local derivative is the other input.",
    "same-to-all": "Each input has its own local derivative; follow this wire to its own port.",
    "local.same-to-all": "Each input has its own local derivative; follow this wire to its own port.",
    "activation-input": "Its rule uses what {op} gave out, the number on its right.",
    "router-both": "Only the input that won receives the gradient.",
    "branch-one": "{part} is what comes back from {reader}, and you have that one right. The value of {node} went to "
    "{count} places: add what comes back from all of them.",
    "leaf.branch-one": "Your number keeps one gradient where several arrive. A value that went to several places adds "
    "what comes back from all of them.",
    "branch-missing": "Your number adds all branches but one. The value of {node} went to {count} places: find the one "
    "you left out.",
    "branch-product": "Your number multiplies what comes back. Along a path multiply, across paths add.",
    "branch-mean": "Your number is the mean of what comes back. Nothing is shared out here: across paths add.",
    "recursing": "Your number sends a gradient on before all of its parts were there. A node waits for all its "
    "readers, then sends once.",
    "twice": "Your number is double. Was the old gradient cleared before this pass?",
    "value-for-gradient": "{own} is the value that {source} carries forward. The gradient is another number: what "
    "comes back from the output.",
    "nudge.value-for-gradient": "Your number is the nudge times the value of {source}. How fast "
    "{output} follows is said "
    "by the gradient.",
    "local.value-for-gradient": "{own} is the value of {source}. The local derivative says how fast "
    "{node} changes when "
    "only {source} does.",
    "sent-for-local": "Your number holds what arrives too. The local derivative belongs to the node alone; the "
    "upstream comes later.",
    "other-op": "Your number is {left} {sign} {right_}. Look at the sign in the box again.",
    "operands-swapped": "Your number takes the inputs the other way round. The upper wire is the first input.",
    "input-for-output": "{own} goes into {node}. What comes out is that number after the op.",
    "slope-for-value": "Your number is a local derivative of {node}. Forward, a node sends its value.",
    "gradient-for-change": "The gradient says how much {output} changes per unit. The nudge is smaller than a unit: "
    "multiply.",
    "nudge-only": "That is how far {source} moves. {output} follows at its own rate: the gradient.",
    "new-output": "Your number is {output} after the nudge. Asked is only how much it moves.",
    "new-input": "Your number is {source} after the nudge. Asked is how much {output} moves.",
    "path-sum": "Your number adds the factors. Along a path multiply, across paths add.",
    "path-short": "The path has {count} wires, and each has a factor. One of them is not in your number.",
    "gradient-for-path": "Your number is the whole gradient, the sum over all paths. Asked is the product along this "
    "one.",
    "branches-for-paths": "Your number counts the places that {node} goes to. A path can fork again further on.",
    "paths-missing": "Your number lacks a path. Go through every fork, one side after the other.",
    "nodes-for-paths": "Your number counts nodes. A path is a whole way from {node} to {output}.",
    "sign": "Your number has the right size. Check the sign of every factor.",
    "sign-one": "One factor on the lit path is negative. Find it.",
    "near": "Keep four digits, or type the whole calculation.",
    "unreadable": "This does not read as a number. Try 0.25, 1/4 or -3*10.",
    "unreadable-names": "This has a name in it. Type numbers here, as in 0.25, 1/4 or -3*10.",
    "unreadable-leaves": "This has a name that is no leaf of the circuit. The leaves are {leaves}.",
    "unreadable-choice": "This is no choice. Type its number, 1 to {count}.",
    "only-here": "Your expression gives the right number here. At other values of the leaves it does not.",
    "not-ready": "{node} reads a wire that has no number yet. Which node has all its inputs?",
    "not-reached": "No gradient has come back to {node} yet. Start from what has one.",
    "order.recursing": "{node} has a gradient from some of its readers, not from all. It waits for "
    "the rest, then sends "
    "once.",
    "router-none": "This node does let a gradient through. Look at which input it took.",
    "router-loser": "This input won: the output is its value, so its gradient passes. Look at the other one.",
    "no-splitter": "A wire has one reader. A value that goes to several places needs splitters to copy it.",
    "splitter-per-reader": "A splitter makes two wires of one. Count how many are needed to end with {count} wires.",
    "splitter-without-need": "{node} has one reader, so its wire goes straight there. Look for a "
    "value with two readers.",
    "vector-output": "A function node drives one output wire. Copies are made by splitters behind it.",
    "graph-vs-circuit": "A circuit shows how {output} is computed: boxes and wires. The graph of a "
    "function is a curve.",
    "rule.forward-for-local": "Your rule multiplies by what the node gave out. The second factor is "
    "the local derivative "
    "of each wire.",
    "rule.upstream-only": "Your rule sends on what arrived. On its way to an input it meets one more factor.",
    "rule.local-only": "Your rule returns the local derivatives. Each one still needs the upstream.",
    "rule.own-not-other": "Your rule multiplies by the wire's own value. For a product the local "
    "derivative is the other "
    "input.",
    "rule.same-to-all": "Your rule gives every input the same gradient. Each input has its own local derivative.",
    "rule.twice": "Your rule returns the double. Each wire gets upstream times local, once.",
    "rule.sign": "Your rule has the right size. Check the sign of every factor.",
    "claim.branch-last": "Each reader sends something back. {node} adds all of it: across paths add.",
    "claim.recursing": "A node sends once, when its gradient is complete. Until then one reader is missing.",
    "claim.twice": "A pass adds to what is there. Without clearing, the old gradient is counted again.",
    "claim.same-to-all": "Each input has its own local derivative. Compare what {node} sends along its two wires.",
    "claim.own-not-other": "For a product the local derivative is the other input. The wire's own value plays no part.",
    "claim-true": "Check it with the numbers on the wires: the sentence holds.",
    "claim-false": "Check it with the numbers on the wires: the sentence does not hold.",
    "inherits": "{node} is not finite, but so is a number that goes into it. Go further back.",
    "finite": "{node} is an ordinary number here. Look for the first one that is not.",
    "draw.graph-vs-circuit": "The curve shows what {output} is, not how it comes about. A circuit is made of boxes and "
    "wires: take the curve away.",
    "draw.vector-output": "{node} has two output wires. A node drives one wire; a splitter behind it makes two.",
    "draw.no-splitter": "The wire of {node} goes to {readers}. A wire has one reader. A value used twice needs "
    "something that copies it, and that later adds what comes back.",
    "two-drivers": "Two wires end at one input of {node}. An input takes the value of one wire.",
    "leaf-unknown": "{node} does not stand in the formula.",
    "leaf-twice": "{node} stands in the drawing twice. A value that is used twice is one leaf and a splitter.",
    "leaf-missing": "{node} stands in the formula, but not in the drawing.",
    "output-missing": "No wire is marked as the output. Mark the one that carries {output}.",
    "output-twice": "A circuit has one output wire, the one that carries {output}.",
    "cycle": "From {node} the wires lead back to {node}. Values flow forward, never back.",
    "open-input": "{node} has an input that no wire reaches. Which value belongs there?",
    "draw.splitter-without-need": "One branch of the {node} leads nowhere. A value with one reader needs no splitter.",
    "loose-end": "Nothing reads {node}. Every value leads on to the output.",
    "wrong-op": "Your box computes {reading}. The formula does something else with these values.",
    "draw.operands-swapped": "Your box computes {reading}. Here the order of the inputs matters: the upper one comes "
    "first.",
    "other-grouping": "Your circuit gives the same number, but {reading} is no step of this formula. It is read from "
    "left to right.",
    "not-in-formula": "Your circuit computes {reading}. Where does that stand in the formula?",
    "output-early": "Your output carries {reading}. What does the formula do next?",
    "computed-twice": "{reading} is computed by two boxes. Compute it once and copy it with a splitter.",
    "spot.inherits": "{sent} is {upstream} × {local_}, just what its rule asks for. Look at where the {upstream} came "
    "from.",
    "spot.right-rule": "What {reader} sends to {source} follows its rule. Go back from the output and "
    "check each product.",
    "spot.name": "What arrived and what was sent are both on the wire. Which product gives the number that was sent?",
}
"""What feedback says, by kind and mistake. A name ending in `_` is a number in brackets where it is negative."""

NEUTRAL: Final[dict[str, str]] = {
    "value": "Which numbers go into {node}, and what does it do with them?",
    "local": "Move only {source}, a little. How many times as fast does {node} move?",
    "send": "Which two numbers meet at the lit port?",
    "gather": "How many gradients come back to {node}? What is each of them?",
    "leaf": "Go back from the output: which factor stands at each port on the way to {node}?",
    "nudge": "How fast does {output} follow {source}, and how far does {source} move?",
    "paths": "Which factors stand on the wires, one after the other?",
    "count": "At which values does the way fork?",
    "draw.seed": "If {output} rises by 1, by how much does {output} rise?",
    "draw.partial": "Two branches come back to this splitter. What does it do with them?",
    "rule": "At {point} your rule does not agree with the slope that was measured. What arrives, times which factor?",
}
"""The neutral hint of each kind, where no mistake matches."""

PROMPTS: Final[dict[str, str]] = {
    "value": "{node} fires. Which value does it send forward?",
    "local": "What is the local derivative of {node} on the wire from {source}?",
    "send": "{node} fires. How much gradient does it send along the wire to {source}?",
    "gather": "What gradient lands at {node}?",
    "leaf": "No gradient is given. What is the gradient of {node}?",
    "nudge": "{source} moves by {nudge}. By how much does {output} change, about?",
    "count": "How many paths lead from {node} to {output}?",
    "paths": "What is the product of the factors along {path}?",
    "order.forward": "Forward: {state}. Which node may fire next?",
    "order.backward": "Backward: {state}. Which node may send next?",
    "router": "{node} sends back. Which input receives nothing?",
    "router.one": "{node} sends back. What does {source} receive?",
    "structure.count": "{node} goes to {count} places. How many splitters stand behind it?",
    "structure.where": "Which value needs a splitter?",
    "structure.outputs": "How many output wires does the node {node} drive?",
    "claim": "True or not? {claim}",
    "spot": "One gradient comes from a mistaken rule. On which wire does it start?",
    "spot.name": "What did {node} do on the wire to {source}?",
    "debug": "{output} is not finite. At which node does it begin?",
    "draw.seed": "Nothing stands behind {output}. Which gradient does its wire begin with?",
    "draw.partial": "The splitter of {node} sends back. Which gradient?",
    "rule": "Write backward(upstream, {inputs}) for {node}: return what each input receives.",
}
"""The questions."""

CLAIMS: Final[dict[str, str]] = {
    "same": "Both inputs of {node} receive the same gradient.",
    "sum": "{node} receives the sum of what its {count} readers send.",
    "last": "{node} keeps only the last gradient that its {count} readers send.",
    "rises": "If {source} rises a little, {output} rises.",
    "falls": "If {source} rises a little, {output} falls.",
    "one-output": "The node {node} drives one output wire.",
    "many-outputs": "The node {node} drives {count} output wires.",
    "early": "{node} may send back as soon as one of its readers has sent.",
    "wait": "{node} waits for all its readers before it sends back.",
    "clear": "Two backward passes without clearing double the gradient of {source}.",
    "curve": "The circuit of {output} is its curve, drawn over {source}.",
    "swap": "At the product {node}, each input receives the upstream times the other input.",
    "own": "At the product {node}, each input receives the upstream times its own value.",
}
"""The sentences of claims."""

WORDS: Final[dict[str, str]] = {
    "nothing-fired": "no node has fired",
    "one-fired": "{nodes} has fired",
    "many-fired": "{nodes} have fired",
    "choice.none": "none of them",
    "choice.all": "all of them",
    "choice.nothing": "nothing",
    "choice.everything": "what arrives",
    "choice.half": "half of it",
    "choice.true": "true",
    "choice.false": "not true",
    "choice.wire": "from {reader} to {source}: {sent}",
    "label.wire": "{node} sends to {source}",
    "slot-first": "the first input of {reader}",
    "slot-second": "the second input of {reader}",
    "slot-other": "input {slot} of {reader}",
    "spot.upstream-only": "It sent the upstream on unchanged",
    "spot.upstream-only.detail": "sent = what arrived",
    "spot.own-not-other": "It multiplied by the wire's own value",
    "spot.own-not-other.detail": "sent = what arrived × value on this wire",
    "spot.same-to-all": "It took the factor of the other wire",
    "spot.same-to-all.detail": "sent = what arrived × local derivative of the other input",
    "spot.forward-for-local": "It multiplied by its own value",
    "spot.forward-for-local.detail": "sent = what arrived × value of the node",
    "spot.activation-input": "It put its input where the output belongs",
    "spot.activation-input.detail": "sent = what arrived × rule of the input",
    "spot.sign": "It turned the sign around",
    "spot.sign.detail": "sent = minus what it should be",
    "spot.twice": "It sent everything twice",
    "spot.twice.detail": "sent = two times what it should be",
    "hint.value": "{node} is made of {inputs}. Put the numbers in.",
    "hint.local": "Move {source} by 0.01 and look how far {node} goes: the ratio is asked.",
    "hint.send": "Two factors: {upstream} × □. The open one is the local derivative of {node} for {source}.",
    "hint.gather": "{count} parts: {part} + □. The first came from {reader}.",
    "hint.leaf": "Two factors at the last wire: □ × {local_}. The open one is what arrives at {reader}.",
    "hint.leaf.many": "{node} goes to {count} places. One part is {part}, from {reader}.",
    "hint.nudge": "Two factors: □ × {nudge_}. The open one is the gradient of {source}.",
    "hint.count": "From {node} the way goes on to {readers}. Count the paths from each.",
    "hint.paths": "The factors are {factors}. The open one stands at the last wire.",
    "hint.choice": "One choice less, not this one: {choice}",
    "hint.order": "Forward, a node needs all its inputs. Backward, it needs a gradient from all its readers.",
    "hint.router": "Move one input a little. Does the output follow?",
    "hint.structure": "A splitter makes two wires of one, and a node drives one wire.",
    "hint.claim": "Try the sentence on the circuit that is drawn: forward, then backward.",
    "hint.spot": "Go back from the output. Which is the first number you cannot explain?",
    "hint.debug": "Go forward from the leaves. Which node takes in ordinary numbers and gives out none?",
    "given.arrives": "{upstream} arrives at {node}",
    "step.value": "{node} = {value}",
    "step.local": "the local derivative of {node} for {source} is {local}",
    "step.send": "{node} sends {upstream} × {local_} = {sent} to {source}",
    "step.gather": "{node} adds {parts} = {sum}",
    "step.leaf": "{node} receives {sum}",
    "step.nudge": "{gradient} × {nudge_} = {sum}",
    "step.count": "there are {count} paths",
    "step.paths": "{factors} = {sum}",
    "step.choice": "it is {choice}",
    "why.value": "Why: {node} applies its op to {inputs}.",
    "why.local": "Why: raise {source} a little and {node} changes {local} times as fast.",
    "why.send": "Why: raise {source} a little and {node} changes {local} times as fast; {upstream} arrives.",
    "why.gather": "Why: {node} went to {count} places, and what comes back is added.",
    "why.leaf": "Why: along a path multiply, across paths add.",
    "why.nudge": "Why: the gradient of {source} is {gradient}, and the nudge is {nudge}.",
    "why.count": "Why: each fork adds the paths of its sides.",
    "why.paths": "Why: along a path the local derivatives multiply.",
    "why.order": "Why: a node fires when all that it needs is there.",
    "why.router": "Why: the output follows only the input that won.",
    "why.structure": "Why: each splitter makes one more wire.",
    "why.structure.outputs": "Why: a node and its output wire share one name; copies are made behind it.",
    "why.claim.same": "Why: {node} sends {one} along one wire and {two} along the other.",
    "why.claim.sum": "Why: each reader gets a copy of the value, and what all copies do to the output is added.",
    "why.claim.last": "Why: each reader gets a copy of the value, and what all copies do to the output is added.",
    "why.claim.rises": "Why: the gradient of {source} is {gradient}, so {output} {moves} when {source} rises a little.",
    "why.claim.falls": "Why: the gradient of {source} is {gradient}, so {output} {moves} when {source} rises a little.",
    "why.claim.one-output": "Why: a node and its output wire share one name; copies are made behind it.",
    "why.claim.many-outputs": "Why: a node and its output wire share one name; copies are made behind it.",
    "why.claim.early": "Why: what {node} sends is its whole gradient times a factor: no reader may be missing.",
    "why.claim.wait": "Why: what {node} sends is its whole gradient times a factor: no reader may be missing.",
    "why.claim.clear": "Why: a backward pass adds to the gradients that are there, and both passes add the same.",
    "why.claim.curve": "Why: the circuit shows the steps that lead to {output}; the curve shows only their result.",
    "why.claim.swap": "Why: raise one input a little, and the product changes by that little times the other input.",
    "why.claim.own": "Why: raise one input a little, and the product changes by that little times the other input.",
    "why.spot": "Why: what arrived was right, what was sent was not.",
    "why.debug": "Why: everything that goes in is finite, what comes out is not.",
    "moves.rises": "rises",
    "moves.falls": "falls",
    "told.exactly": "exactly {exact}. ",
    "told.nudge": "the gradient predicts {predicted}; {output} itself changes by {changed}. ",
    "after": "Right, after {what}",
    "after.wrong": "one wrong answer",
    "after.wrongs": "{count} wrong answers",
    "after.hint": "one hint",
    "after.hints": "{count} hints",
    "why.rule": "Why: at {count} points it agrees with the slope that was measured.",
    "rule.count": "Return {count} numbers, one for each input; your rule returned {got}.",
    "rule.raised": "Your rule raised {error} at {point}.",
}
"""Names of choices, hints, steps that are played, and the line that begins with Why."""


def fill_sentence(template: str, fields: dict[str, str]) -> str:
    """Put names and numbers into a template.

    >>> fill_sentence("{node} has fired", {"node": "n"})
    'n has fired'
    """
    for name, text in fields.items():
        template = template.replace("{" + name + "}", text)
    return template


def describe_mistake(kind: str, key: str, fields: dict[str, str]) -> tuple[str, str]:
    """Return the title and the text of a mistake in a question of a kind."""
    title = fill_sentence(TITLES.get(f"{kind}.{key}") or TITLES[key], fields)
    text = TEXTS.get(f"{kind}.{key}") or TEXTS[key]
    return title, fill_sentence(text, fields)


NAMELESS: Final = frozenset({"neutral", "near", "unreadable", "only-here", "right", "claim-true", "claim-false"})
"""Keys of verdicts that are no mistakes with a name."""


UNNAMED: Final[dict[str, str]] = {"near": "rounded too far", "neutral": "other", "unreadable": "not readable"}
"""What wrong answers are called in tables that show no mistake, by key."""


def name_met_mistake(key: str, kind: str) -> str:
    """Return what a mistake is called wherever it is listed; empty if it has no name.

    >>> name_met_mistake("no-splitter", "draw"), name_met_mistake("near", "send")
    ('one wire, two readers', '')
    """
    if key in NAMELESS:
        return ""
    title = TITLES.get(f"{kind}.{key}") or TITLES.get(key, "")
    return title.partition(": ")[2].replace("{op}", "a function")


def name_mistake(key: str, kind: str = "") -> str:
    """Return what a wrong answer is called in tables and summaries.

    >>> name_mistake("branch-first"), name_mistake("neutral")
    ('one branch only', 'other')
    """
    return name_met_mistake(key, kind) or UNNAMED.get(key, key)
