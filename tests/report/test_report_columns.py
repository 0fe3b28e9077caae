"""Groups and variables of a report: a Series is matched by its index, everything else by order."""

from types import SimpleNamespace

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv._util.matching import RowOrderWarning
from spcatv.report import Column, ReportError
from spcatv.report.inputs import gather

pd = pytest.importorskip("pandas", reason="a Series is one of pandas")

PEOPLE = [f"sub-{number:02d}" for number in range(1, 7)]
SHUFFLED = [3, 0, 5, 1, 4, 2]
AGES = np.array([31.0, 42.0, 53.0, 24.0, 65.0, 76.0])


@pytest.fixture(scope="module")
def six():
    X = np.random.default_rng(0).standard_normal((6, 12))
    model = SPCATV(1, structure=(12,)).fit(X)
    names = [f"maps/{person}_ses-1_map.nii" for person in PEOPLE]
    return SimpleNamespace(
        names=names,
        ages=lambda given, names=names: gather(model, data=X, names=names, variable=given).variable.values,
    )


def shuffled(index, name=None):
    return pd.Series(AGES[SHUFFLED], index=pd.Index([index[k] for k in SHUFFLED], name=name), name="age")


@pytest.mark.parametrize("name", ["participant_id", None, "subject"])
def test_an_index_of_participants(six, name):
    assert six.ages(shuffled(PEOPLE, name)) == AGES.tolist()


def test_an_index_of_numbers_that_are_participants(six):
    assert six.ages(shuffled([1, 2, 3, 4, 5, 6], "participant_id")) == AGES.tolist()


def test_an_index_of_samples(six):
    assert six.ages(shuffled(six.names)) == AGES.tolist()
    assert six.ages(shuffled([name.removeprefix("maps/") for name in six.names])) == AGES.tolist()


def test_an_index_of_participants_and_sessions(six):
    rows = [(person, f"ses-{session}") for session in (2, 1) for person in PEOPLE]
    index = pd.MultiIndex.from_tuples(rows, names=["participant_id", "session_id"])
    ages = pd.Series([*np.zeros(6), *AGES], index=index, name="age")
    assert six.ages(ages) == AGES.tolist()


def test_rows_of_others_are_left_out_and_people_without_a_row_are_missing(six):
    more = pd.concat([shuffled(PEOPLE, "participant_id"), pd.Series([1.0], index=["sub-99"], name="age")])
    more.index.name = "participant_id"
    assert six.ages(more) == AGES.tolist()
    found = six.ages(shuffled(PEOPLE, "participant_id").drop(["sub-02", "sub-05"]))
    np.testing.assert_array_equal(found, np.where(np.isin(range(6), [1, 4]), np.nan, AGES))


@pytest.mark.parametrize(
    "given",
    [AGES, AGES.tolist(), pd.Series(AGES), pd.Series(AGES, index=range(9, 3, -1)), Column("age", AGES)],
)
def test_all_else_is_in_order(six, given):
    assert six.ages(given) == AGES.tolist()


def test_an_index_of_other_names_is_refused(six):
    for index, names in ((list("abcdef"), six.names), (PEOPLE, None)):
        with pytest.raises(ReportError, match=f"age: .*{index[0]}, {index[1]}"):
            six.ages(pd.Series(AGES, index=index, name="age"), names)


def test_an_index_without_ids_is_matched_by_order_with_a_warning(six):
    with pytest.warns(RowOrderWarning, match="age: rows matched by their order alone"):
        assert six.ages(pd.Series(AGES, index=pd.Index(range(6), name="visit"), name="age")) == AGES.tolist()
