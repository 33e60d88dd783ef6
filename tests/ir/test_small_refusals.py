"""Circuits, tables and records refuse what does not belong to them, and compare unequal to other things."""

from __future__ import annotations

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.dtypes import WireType
from wiregrad.errors import CircuitError, DomainError, RecordError, TextError
from wiregrad.ir import TABLE, Op, text_form
from wiregrad.ir.certificates import add_check_outputs, compare_bits_each, have_same_bits
from wiregrad.ops.array_ops import write_setting

from ..support.refusals import check_refusal

FLOAT = np.dtype(np.float64)
BODY = "input c, d\np = multiply c d\nq = add c d\noutput p, q"
SETTINGS = {
    "length=null reverse=false counted=false": "scan needs the setting length",
    "length=3 reverse=false counted=false called=7": "called is the name of a loop, a word; got 7",
    "length=3 reverse=false counted=false given=[5]": "scan: given must be a list of 0, 1 and 2; got (5,)",
    "length=3 reverse=false counted=false given=[1,1]": "scan: given belongs to the gradient of a counted loop",
}


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_loop_with_settings_that_do_not_fit_is_refused(settings: str) -> None:
    text = f"input a, b\ny = scan a b carry=2 xs=0 {settings} {{\n{BODY}\n}}\noutput y"

    check_refusal(lambda: wg.Circuit.from_text(text), CircuitError, SETTINGS[settings])


def test_a_text_that_is_too_long_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_form, "MAX_TEXT_BYTES", 10)

    check_refusal(lambda: text_form.parse_text("input x\noutput x"), TextError, "16 characters; the limit is 10")
    check_refusal(lambda: text_form.read_strict_json('{"a": [1, 2]}'), ValueError, "13 characters; the limit is 10")


def test_tables_of_names_and_of_places_equal_nothing_else() -> None:
    columns = wg.trace(np.sin, 1.0).columns

    assert columns.names != 3
    assert columns.places != 3


def test_arrays_of_two_dtypes_or_shapes_do_not_have_the_same_bits() -> None:
    assert not have_same_bits(np.float64(1.0), np.float32(1.0))
    assert not have_same_bits(np.ones(2), np.ones(3))
    assert compare_bits_each(np.array([np.nan, 1.0]), np.float64(np.nan)).tolist() == [True, False]


def test_the_output_of_a_check_gets_a_name_that_is_free() -> None:
    def double(check_1: float) -> float:
        return check_1 * 2.0 if check_1 > 1.0 else check_1

    assert add_check_outputs(wg.trace(double, 3.0)).circuit.outputs == ("f", "check_1_")


def test_an_op_is_replaced_by_one_of_its_name() -> None:
    check_refusal(
        lambda: TABLE.replace(TABLE["sin"], TABLE["cos"]), RecordError, "sin can only be replaced by an op of the same"
    )


def test_private_names_are_neither_ops_nor_signatures() -> None:
    assert not hasattr(wg.Builder(), "_odd")
    assert not hasattr(Op, "__signature__")


def test_types_that_do_not_fit_an_op_are_named() -> None:
    two, three = (WireType(FLOAT, (n,)) for n in (2, 3))
    join = TABLE["concatenate"].bind({"axis": -2})

    check_refusal(lambda: TABLE["add"].infer((two, three)), DomainError, "add needs wires of one shape")
    check_refusal(lambda: join.infer((two, two)), DomainError, "concatenate cannot take")


def test_a_setting_that_is_not_a_number_is_written_as_numpys() -> None:
    assert write_setting(np.nan) == "np.nan"
