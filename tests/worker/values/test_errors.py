import copy
import inspect
import pickle

import pytest

from awa import errors
from awa.errors import (
    AwaError,
    CallbackNotFound,
    DatabaseTooOld,
    JobNotFound,
    OutputError,
    OutputInvalid,
    OutputSealed,
    OutputTooLarge,
    SchemaNotMigrated,
    SchemaTooNew,
    SerializationError,
    TerminalError,
    UniqueConflict,
    UnknownJobKind,
    ValidationError,
    ValueTooLarge,
)

EVERY_CLASS = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, BaseException) and cls.__module__ == errors.__name__
]


@pytest.mark.parametrize("cls", EVERY_CLASS)
def test_every_error_is_an_awa_error_with_a_docstring_and_a_place_in_the_drawing(cls: type) -> None:
    assert issubclass(cls, AwaError)
    assert cls.__doc__
    assert cls.__name__ in (errors.__doc__ or "")


def test_output_errors_are_terminal_and_reachable_through_their_family() -> None:
    assert issubclass(OutputError, TerminalError)
    assert OutputError.Invalid is OutputInvalid
    assert OutputError.TooLarge is OutputTooLarge
    assert OutputError.Sealed is OutputSealed
    assert all(issubclass(e, OutputError) for e in (OutputInvalid, OutputTooLarge, OutputSealed))


def test_bad_arguments_and_values_are_also_value_errors() -> None:
    assert issubclass(ValidationError, ValueError)
    assert issubclass(SerializationError, ValueError)


def test_a_newer_schema_is_caught_with_the_not_migrated_ones() -> None:
    error = SchemaTooNew(60, 52)
    assert isinstance(error, SchemaNotMigrated)
    assert (error.found, error.needed) == (60, 52)
    assert "60" in str(error)
    assert "upgrade Awa" in str(error)


@pytest.mark.parametrize("found", [None, 40])
def test_an_old_or_missing_schema_says_how_to_migrate(found: int | None) -> None:
    assert "awa migrate" in str(SchemaNotMigrated(found, 52))


def test_a_missing_job_is_named_by_its_id() -> None:
    assert str(JobNotFound(17)) == "job not found: 17"


def test_a_unique_conflict_names_the_holder_when_it_is_known() -> None:
    assert "job 9" in str(UniqueConflict(9))
    assert UniqueConflict().holder_id is None


@pytest.mark.parametrize(
    "error",
    [
        OutputTooLarge(5000, 4096),
        OutputSealed(),
        ValueTooLarge("args", 2, 1),
        UniqueConflict(9),
        UnknownJobKind("resize"),
        JobNotFound(1),
        CallbackNotFound("c"),
        SchemaTooNew(60, 52),
        DatabaseTooOld(12, 15),
        errors.DatabaseError("gone", sqlstate="08006"),
    ],
)
@pytest.mark.parametrize("duplicate", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])  # noqa: S301
def test_errors_survive_a_process_border(error: AwaError, duplicate: object) -> None:
    again = duplicate(error)  # type: ignore[operator]
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__
