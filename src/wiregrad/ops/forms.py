"""Recognition of formulas, so that advice can be given for a formula and not just for one op.

A formula is recognised only if it is certain: two terms are equal if they are the same node, or the same ops on the
same nodes, and a constant is recognised by its number.
"""

from __future__ import annotations

import numpy as np

from wiregrad.ops.remedies import MAX_TERMS_SEARCHED, FormulaTerm, is_same_term


def base_of_square(term: FormulaTerm) -> FormulaTerm | None:
    """Return what a term is the square of; None if it is not a square."""
    if term.name == "square" or (term.name == "power" and term.source_terms[1].is_constant(2)):
        return term.operands[0]
    return term.operands[0] if term.name == "multiply" and is_same_term(*term.operands) else None


def adds_squares(term: FormulaTerm) -> bool:
    """Return whether a term is a sum of squares written with +."""
    stack = [term]
    searched = 0
    while stack and searched < MAX_TERMS_SEARCHED:
        part = stack.pop()
        searched += 1
        if part.name == "add":
            stack.extend(part.source_terms)
        elif base_of_square(part) is None:
            return False
    return searched > 1 and not stack


def sums_squares(term: FormulaTerm) -> bool:
    """Return whether a term is a sum of squares."""
    if term.name == "sum":
        return base_of_square(term.source_terms[0]) is not None
    return adds_squares(term) or _is_dot_with_itself(term)


def _is_dot_with_itself(term: FormulaTerm) -> bool:
    """Return whether a term is the matrix product of a row with itself as a column."""
    if term.name != "matmul" or any(operand.name != "reshape" for operand in term.operands):
        return False
    row, column = term.operands
    one = np.shape(row.number)[-2:-1] == (1,) == np.shape(column.number)[-1:]
    return one and is_same_term(row.operands[0], column.operands[0])


def averages_squares(term: FormulaTerm) -> bool:
    """Return whether a term is a mean of squares."""
    return term.name == "divide" and term.source_terms[0].name == "sum" and sums_squares(term.source_terms[0])


def is_variance(term: FormulaTerm) -> bool:
    """Return whether a term is the mean of the squared distances from the mean."""
    if not averages_squares(term):
        return False
    centred = base_of_square(term.source_terms[0].source_terms[0])
    if centred is None or centred.source_term.name != "subtract":
        return False
    x = centred.source_term.operands[0]
    mean = centred.source_term.source_terms[1]
    return mean.name == "divide" and mean.source_terms[0].name == "sum" and is_same_term(mean.source_terms[0].operands[0], x)


def radicand_of(term: FormulaTerm) -> FormulaTerm | None:
    """Return what a term is the square root of; None if it is not a root."""
    if term.name == "where":
        # np.std and np.linalg.norm replace the root at 0 by a term that has a slope there.
        term = term.source_terms[2]
    if term.name == "sqrt" or (term.name == "power" and term.source_terms[1].is_constant(0.5)):
        return term.source_terms[0]
    return None


def softmax_weights(term: FormulaTerm) -> FormulaTerm | None:
    """Return the exponentials e for which a term is e / sum(e); None if it is no such quotient."""
    if term.name != "divide":
        return None
    top, bottom = term.source_terms
    shared = top.name == "exp" and bottom.name == "sum" and is_same_term(bottom.operands[0], top)
    return top if shared else None


def adds_exponentials(term: FormulaTerm) -> bool:
    """Return whether a term is exp(a) + exp(b)."""
    return term.name == "add" and all(part.name == "exp" for part in term.source_terms)


def is_one_minus(term: FormulaTerm, name: str = "") -> bool:
    """Return whether a term is 1 - x; with a name, only if x is computed by the op of that name."""
    return term.name == "subtract" and term.source_terms[0].is_constant(1) and name in ("", term.source_terms[1].name)


def is_one_plus(term: FormulaTerm, part: FormulaTerm) -> bool:
    """Return whether a term is 1 + part."""
    return term.name == "add" and any(term.source_terms[k].is_constant(1) and term.reads_term(1 - k, part) for k in range(2))


def is_inverse(term: FormulaTerm, divisor: FormulaTerm) -> bool:
    """Return whether a term is 1 / divisor."""
    return term.name == "reciprocal" or (
        term.name == "divide" and term.source_terms[0].is_constant(1) and is_same_term(term.source_terms[1], divisor)
    )


def is_tanh(term: FormulaTerm) -> bool:
    """Return whether a term is sinh(x) / cosh(x)."""
    if term.name != "divide":
        return False
    top, bottom = term.source_terms
    return (top.name, bottom.name) == ("sinh", "cosh") and is_same_term(top.operands[0], bottom.operands[0])


def is_filled(term: FormulaTerm) -> bool:
    """Return whether a term contains literal infinities, such as those a mask fills in."""
    parts = term.source_terms[1:] if term.name == "where" else [term]
    return any(part.name == "constant" and bool(np.any(np.isinf(part.number))) for part in parts)
