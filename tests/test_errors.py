"""Errors that say the value, the limit and the way out."""

from __future__ import annotations

import copy

import pytest

from newkinds.errors import DataError, NewkindsError, NumericsError, RunError, UsageError, unknown_name

ALL = [NewkindsError, DataError, NumericsError, RunError, UsageError]


@pytest.mark.parametrize("kind", ALL)
def test_message_and_hint(kind: type[NewkindsError]) -> None:
    error = kind("K = 30 is more than 20.", hint="Ask for fewer.")
    assert isinstance(error, NewkindsError)
    assert (error.message, error.hint) == ("K = 30 is more than 20.", "Ask for fewer.")
    assert str(error) == "K = 30 is more than 20. Ask for fewer."
    assert str(kind("K = 30 is more than 20.")) == "K = 30 is more than 20."


@pytest.mark.parametrize("kind", ALL)
def test_survives_the_way_between_processes(kind: type[NewkindsError]) -> None:
    # Copying goes through the same door as sending to another process.
    error = copy.copy(kind("It is wrong.", hint="Mend it."))
    assert type(error) is kind
    assert (error.message, error.hint) == ("It is wrong.", "Mend it.")


def test_exit_codes() -> None:
    assert {kind.__name__: kind.exit_code for kind in ALL} == {
        "NewkindsError": 1,
        "DataError": 1,
        "NumericsError": 1,
        "RunError": 1,
        "UsageError": 2,
    }


def test_usage_error_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="out of range"):
        raise UsageError("out of range")
    assert not issubclass(DataError, ValueError)


def test_unknown_name_lists_the_valid_ones_and_points_at_the_likely_one() -> None:
    error = unknown_name("variant", "bselin", ["pi", "baseline"])
    assert isinstance(error, UsageError)
    assert error.message == "Unknown variant 'bselin'."
    assert error.hint == "Did you mean 'baseline'? Valid: baseline, pi."


def test_unknown_name_does_not_guess_wildly() -> None:
    assert unknown_name("variant", "xyz", (name for name in ("pi", "baseline"))).hint == "Valid: baseline, pi."
