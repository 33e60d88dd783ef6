"""Recognition of formulas, so that advice can be given for a formula and not just for one op.

A formula is recognised only if it is certain: two terms are equal if they are the same node, or the same ops on the
same nodes, and a constant is recognised by its number.
"""

from __future__ import annotations

import numpy as np

from wiregrad.ops.remedies import FAR, Term, same


def squared(term: Term) -> Term | None:
    """Return what a term is the square of; None if it is not a square."""
    if term.name == "square" or (term.name == "power" and term.terms[1].is_constant(2)):
        return term.operands[0]
    return term.operands[0] if term.name == "multiply" and same(*term.operands) else None


def adds_squares(term: Term) -> bool:
    """Return whether a term is a sum of squares written with +."""
    stack = [term]
    searched = 0
    while stack and searched < FAR:
        part = stack.pop()
        searched += 1
        if part.name == "add":
            stack.extend(part.terms)
        elif squared(part) is None:
            return False
    return searched > 1 and not stack


def sums_squares(term: Term) -> bool:
    """Return whether a term is a sum of squares."""
    if term.name == "sum":
        return squared(term.terms[0]) is not None
    return adds_squares(term) or _is_dot_with_itself(term)


def _is_dot_with_itself(term: Term) -> bool:
    """Return whether a term is the matrix product of a row with itself as a column."""
    if term.name != "matmul" or any(operand.name != "reshape" for operand in term.operands):
        return False
    row, column = term.operands
    one = np.shape(row.number)[-2:-1] == (1,) == np.shape(column.number)[-1:]
    return one and same(row.operands[0], column.operands[0])


def averages_squares(term: Term) -> bool:
    """Return whether a term is a mean of squares."""
    return term.name == "divide" and term.terms[0].name == "sum" and sums_squares(term.terms[0])


def is_variance(term: Term) -> bool:
    """Return whether a term is the mean of the squared distances from the mean."""
    if not averages_squares(term):
        return False
    centred = squared(term.terms[0].terms[0])
    if centred is None or centred.bare.name != "subtract":
        return False
    x = centred.bare.operands[0]
    mean = centred.bare.terms[1]
    return mean.name == "divide" and mean.terms[0].name == "sum" and same(mean.terms[0].operands[0], x)


def radicand(term: Term) -> Term | None:
    """Return what a term is the square root of; None if it is not a root."""
    if term.name == "where":
        # np.std and np.linalg.norm replace the root at 0 by a term that has a slope there.
        term = term.terms[2]
    if term.name == "sqrt" or (term.name == "power" and term.terms[1].is_constant(0.5)):
        return term.terms[0]
    return None


def softmax_weights(term: Term) -> Term | None:
    """Return the exponentials e for which a term is e / sum(e); None if it is no such quotient."""
    if term.name != "divide":
        return None
    top, bottom = term.terms
    shared = top.name == "exp" and bottom.name == "sum" and same(bottom.operands[0], top)
    return top if shared else None


def adds_exponentials(term: Term) -> bool:
    """Return whether a term is exp(a) + exp(b)."""
    return term.name == "add" and all(part.name == "exp" for part in term.terms)


def is_one_minus(term: Term, name: str = "") -> bool:
    """Return whether a term is 1 - x; with a name, only if x is computed by the op of that name."""
    return term.name == "subtract" and term.terms[0].is_constant(1) and name in ("", term.terms[1].name)


def is_one_plus(term: Term, part: Term) -> bool:
    """Return whether a term is 1 + part."""
    return term.name == "add" and any(term.terms[k].is_constant(1) and term.reads(1 - k, part) for k in range(2))


def is_inverse(term: Term, divisor: Term) -> bool:
    """Return whether a term is 1 / divisor."""
    return term.name == "reciprocal" or (
        term.name == "divide" and term.terms[0].is_constant(1) and same(term.terms[1], divisor)
    )


def is_tanh(term: Term) -> bool:
    """Return whether a term is sinh(x) / cosh(x)."""
    if term.name != "divide":
        return False
    top, bottom = term.terms
    return (top.name, bottom.name) == ("sinh", "cosh") and same(top.operands[0], bottom.operands[0])


def is_filled(term: Term) -> bool:
    """Return whether a term contains literal infinities, such as those a mask fills in."""
    parts = term.terms[1:] if term.name == "where" else [term]
    return any(part.name == "constant" and bool(np.any(np.isinf(part.number))) for part in parts)
