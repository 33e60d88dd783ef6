"""Errors of autograd that ended a watched program, explained by what was recorded.

A value that was changed in place is explained in `observed_run`. Here are the errors about graphs: one that was already
freed, and one that the loss does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wiregrad.exchange.observed_explain import GradientSearch
from wiregrad.exchange.observed_run import (
    ObservedBlame,
    ObservedRun,
    OpFinding,
    describe_outside,
    make_finding,
    reads_graph_of_before,
)

FREED_GRAPH = "Trying to backward through the graph a second time"
NO_GRAPH = "does not require grad and does not have a grad_fn"


def explain_error(answer: ObservedBlame, steps: Sequence[ObservedRun]) -> ObservedBlame:
    """Return an answer that names what led to the error that ended the program, if it is known."""
    run = steps[-1]
    text = str(run.error)
    finding = None
    if FREED_GRAPH in text:
        finding = explain_freed_graph(run)
    elif NO_GRAPH in text:
        finding = explain_missing_graph(run)
    return answer if finding is None else replace(answer, origins=(finding,), ended="")


def explain_freed_graph(run: ObservedRun) -> OpFinding | None:
    """Name the tensor of an earlier step that the loss was computed from, or the loss that was used twice."""
    carried = [tensor for tensor in run.tensors if reads_graph_of_before(tensor) and tensor.index in run.readers]
    if carried:
        name = describe_outside(carried[0])
        op = run.ops[run.readers[carried[0].index][0]]
        said = (
            f"{op.title} reads {name}, which an earlier step computed, and whose graph that step's backward pass freed"
        )
        variable = carried[0].name
        advice = f"end the graph between the steps: {variable} = {variable}.detach()" if variable else "detach it"
        return make_finding(op, "freed", said, suggestion=advice)
    producer = run.tensors[run.last_roots[0]].producer if run.last_roots else None
    if producer is None or run.backwards < 2:
        return None
    said = "a second backward pass went through the graph of this loss, or a part of it, which the first one freed"
    advice = "add up the losses before one backward pass, or write retain_graph=True in the first one"
    return make_finding(run.ops[producer], "freed", said, suggestion=advice)


def explain_missing_graph(run: ObservedRun) -> OpFinding | None:
    """Name the op at which the way from the parameters to the loss was cut."""
    searches = [GradientSearch(run, name) for name, wants_gradient in run.parameters.items() if wants_gradient]
    named = {tensor.name for tensor in run.tensors if tensor.name and tensor.requires_grad} - run.parameters.keys()
    searches += [GradientSearch(run, name) for name in sorted(named)]
    for search in searches:
        kind, finding = search.explain()
        if kind == "cut":
            said = finding.said.partition(": ")[2]
            return replace(finding, said=f"the loss has no graph, so that no backward pass can begin: {said}")
    if run.parameters and not any(run.parameters.values()):
        said = "the loss has no graph: all parameters have requires_grad=False"
        return OpFinding("frozen", "", "", None, said, suggestion="parameter.requires_grad_(True) for those that train")
    return None
