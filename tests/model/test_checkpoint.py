"""Checkpoints: what was finished before an interruption is not done again, and the numbers are the same."""

import io
import json
import os
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from spcatv import SPCATV
from spcatv.data import ArrayData, as_data
from spcatv.model import checkpoint as module
from spcatv.model import recordable
from spcatv.model.checkpoint import Stage, describe, n_records
from spcatv.problem import HuberTV
from spcatv.selection import SPCATVCV, CheckpointError, checkpointing, path
from spcatv.selection.workers import run_calls
from spcatv.stability import bootstrap_components, split_halves
from spcatv.structure import grid

pytestmark = pytest.mark.filterwarnings("ignore::spcatv.estimator.SparsityWarning")
SEARCH = {"sparsity": (0.5, 0.8), "smoothness": (0.5, 1.0), "cv": 2, "tol": 1e-3}


class Killed(BaseException):
    """What a test raises in the place of a SIGKILL."""


@pytest.fixture
def killed_after(monkeypatch):
    """Let the process be killed right after a number of records were written; also counts them."""
    counts = {"saved": 0, "limit": np.inf}

    def arm(limit):
        counts.update(saved=0, limit=limit)
        return counts

    save = Stage.save

    def saving(stage, name, result):
        save(stage, name, result)
        counts["saved"] += 1
        if counts["saved"] >= counts["limit"]:
            raise Killed

    monkeypatch.setattr(Stage, "save", saving)
    return arm


@pytest.fixture(name="X")
def signals(striped):
    return striped[:16, 5:25]


def resumed(work, folder, killed_after, limits):
    """Run some work that is killed after so many records, again and again; the result, and all records."""
    total = 0
    for limit in limits:
        counts = killed_after(limit)
        with pytest.raises(Killed):
            work(folder)
        total += counts["saved"]
    counts = killed_after(np.inf)
    return work(folder), total + counts["saved"]


def assert_same_fit(one, other):
    for name in ("components_", "mean_", "singular_values_", "l1_", "tv_"):
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for mine, yours in zip(one.diagnostics_, other.diagnostics_, strict=True):
        assert {**vars(mine), "seconds": 0} == {**vars(yours), "seconds": 0}


@recordable
@dataclass(frozen=True)
class Example:
    number: float
    values: object


def test_a_record_is_restored(tmp_path):
    stage = Stage(tmp_path)
    values = ((1, "a", None, True), [np.float32(0.1)], {"b": np.array([[1.0, np.inf]]).T})
    stage.save("1", Example(np.nan, values))
    found = stage.load("1")
    assert isinstance(found, Example)
    assert np.isnan(found.number)
    whole, (single,), named = found.values
    assert whole == (1, "a", None, True)
    assert single.dtype == np.float32
    assert single == np.float32(0.1)
    assert_array_equal(named["b"], [[1.0], [np.inf]])
    with pytest.raises(CheckpointError, match="is a object, which cannot be saved"):
        stage.save("2", {"what": object()})


class Exploit:
    """Creates a folder when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def test_a_pickle_in_a_record_is_not_executed(tmp_path):
    """A record of another user."""
    marker, content = tmp_path / "executed", io.BytesIO()
    np.savez(content, state=np.array([Exploit(marker)], dtype=object))
    for attack in (content.getvalue(), pickle.dumps(Exploit(marker))):
        (tmp_path / "1.record").write_bytes(attack)
        assert Stage(tmp_path).load("1") is None
    assert not marker.exists()


def test_a_damaged_record_is_no_record(tmp_path):
    stage = Stage(tmp_path)
    stage.save("1", (1.5, np.arange(3)))
    file = tmp_path / "1.record"
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[:70] + bytes([whole[70] ^ 1]) + whole[71:], b"", b"x" * 100):
        file.write_bytes(damaged)
        assert stage.load("1") is None
        assert "1" not in stage
    assert stage.recall("1", lambda: 7) == 7
    assert stage.load("1") == 7


def test_descriptions_distinguish_values():
    X = np.random.default_rng(0).standard_normal((6, 4))
    other = X.copy()
    other[5, 3] = np.nextafter(other[5, 3], 9)
    described = [
        describe(value)
        for value in (
            *(X, other, X.astype(np.float32), X[::-1], X.T, as_data(X).take(np.arange(5)), X[:, :1]),
            *(
                grid((4,)),
                grid((4,), periodic=True),
                grid((2, 2)),
                HuberTV(0.1),
                HuberTV(0.2),
                "tv",
                None,
                1,
                1.5,
            ),
            *(SPCATV(2), SPCATV(2, tol=1e-3), np.random.RandomState(0), np.random.RandomState(1)),
            *(np.random.SeedSequence(0).spawn(2)[0], np.random.SeedSequence(0).spawn(2)[1]),
            *(sp.eye_array(3), 2 * sp.eye_array(3), np.zeros((0, 3)), {"a": X}, [X, other], [other, X]),
        )
    ]
    texts = [json.dumps(item) for item in described]
    assert len(set(texts)) == len(texts)


def test_data_are_recognised_however_they_are_stored(tmp_path):
    da = pytest.importorskip("dask.array")
    X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    kinds = (
        *(X, as_data(X), np.asfortranarray(X), ArrayData(np.repeat(X, 2, axis=0), np.arange(0, 12, 2))),
        *(np.load(tmp_path / "X.npy", mmap_mode="r"), as_data(da.from_array(X, chunks=(2, 4)))),
    )
    assert len({describe(kind) for kind in kinds}) == 1
    assert describe(as_data(X).take(np.array([1, 0, 2, 3, 4, 5]))) != describe(X)


@pytest.mark.parametrize("limits", [(2, 1), (4,)])
def test_a_selection_resumes(limits, X, tmp_path, killed_after):
    def search(folder):
        return SPCATVCV(2, structure=(20,), **SEARCH, checkpoint=folder).fit(X)

    whole = search(None)
    found, n_saved = resumed(search, tmp_path / "kept", killed_after, limits)
    assert n_saved == n_records(tmp_path / "kept") == 4 + 1, "4 chains and the last fit"
    for name, values in whole.cv_results_.items():
        if name != "mean_fit_time":
            assert_array_equal(values, found.cv_results_[name], err_msg=name)
    assert_same_fit(whole.best_estimator_, found.best_estimator_)


def test_a_selection_over_alpha_resumes(X, tmp_path, killed_after):
    def search(folder):
        given = {"alpha": "grid", "n_alphas": 3, "l1_ratio": 0.25, "tv_ratio": (0.25, 0.5), "tol": 1e-3}
        return SPCATVCV(2, structure=(20,), **given, cv=2, rule="error", checkpoint=folder).fit(X)

    whole = search(None)
    found, _ = resumed(search, tmp_path / "kept", killed_after, (1, 2, 3, 1))
    assert whole.best_params_ == found.best_params_
    assert_same_fit(whole.best_estimator_, found.best_estimator_)


def test_resamples_and_splits_resume(X, tmp_path, killed_after):
    model = SPCATV(2, structure=(20,), tol=1e-3)

    def work(folder):
        with checkpointing(folder):
            return (
                bootstrap_components(model, X, n_resamples=4, random_state=0),
                split_halves(model, X, n_splits=2, random_state=0),
            )

    found, _ = resumed(work, tmp_path / "kept", killed_after, (1, 2, 3))
    for one, other in zip(work(None), found, strict=True):
        for name, values in vars(one).items():
            if isinstance(values, np.ndarray):
                assert_array_equal(values, getattr(other, name), err_msg=name)


@pytest.mark.parametrize("checkpointed", [bootstrap_components, split_halves])
def test_the_parameter_of_functions(checkpointed, X, tmp_path, killed_after):
    model = SPCATV(1, structure=(20,), tol=1e-3).fit(X)
    counts = killed_after(np.inf)
    for _ in range(2):
        checkpointed(model, X, random_state=0, checkpoint=tmp_path / "kept", **_few(checkpointed))
    assert counts["saved"] == 2, "the second time, nothing was left to do"
    with pytest.raises(ValueError, match="a checkpoint needs a random_state"):
        checkpointed(model, X, checkpoint=tmp_path / "other", **_few(checkpointed))


def _few(function):
    return {"n_resamples": 2} if function is bootstrap_components else {"n_splits": 2}


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "parameters",
    [
        {"n_init": 4, "init": "random", "random_state": 3, "method": "deflation"},
        {"n_init": 3, "alpha": 0.1, "dtype": "float32"},
        {"init": "structured", "positive": True, "method": "deflation"},
        {"positive": True, "alpha": 0.1, "method": "joint"},
        {"init": "random", "random_state": "instance"},
        {"solver": "fista", "alpha": 0.1, "refit": "support", "n_init": 2},
        {
            "smoothness": 0.0,
            "global_signal": "regress",
            "init": "random",
            "random_state": "instance",
            "method": "deflation",
        },
    ],
)
def test_a_fit_resumes_with_the_same_bits(parameters, X, tmp_path, killed_after):
    def fit(folder):
        model = SPCATV(3, structure=(20,), **{"tol": 1e-3, **parameters})
        if model.random_state == "instance":
            model.random_state = np.random.RandomState(1)
        with checkpointing(folder):
            return model.fit(X)

    is_joint = parameters.get("method", "auto" if "alpha" not in parameters else "deflation") != "deflation"
    limits = (1, 2, 1, 1) if "n_init" in parameters else (1,) if is_joint else (1, 1)
    found, n_saved = resumed(fit, tmp_path / "kept", killed_after, limits)
    assert_same_fit(fit(None), found)
    assert n_records(tmp_path / "kept") == (1 if is_joint else 3)
    assert n_saved > 3 or "n_init" not in parameters


def test_a_path_resumes(X, tmp_path, killed_after):
    def fit(folder):
        with checkpointing(folder):
            return path(SPCATV(2, structure=(20,), alpha=0.1, tol=1e-3), X, [0.05, 0.1, 0.2])

    found, _ = resumed(fit, tmp_path / "kept", killed_after, (1, 3))
    for one, other in zip(fit(None).models, found.models, strict=True):
        assert_same_fit(one, other)


def test_records_of_other_work_are_refused(X, tmp_path, monkeypatch):
    kept = tmp_path / "kept"

    def fit(data=X, **parameters):
        given = {"n_components": 1, "structure": (20,), "tol": 1e-3} | parameters
        with checkpointing(kept):
            return SPCATV(**given).fit(data)

    first = fit()
    assert_same_fit(first, fit(verbose=0, memory_limit="1GB"))
    for what, others in {
        r"kept was made with other data or settings: estimator\.tol is 0\.001 there and 0\.01 here$": {
            "tol": 1e-2
        },
        "other data or settings: X differs$": {"data": X + 1e-9},
        "other data or settings: .*structure.labels differs": {"structure": (4, 5)},
        'estimator.init is "auto" there and "svd" here; estimator.sparsity is': {
            "init": "svd",
            "sparsity": 0.5,
        },
    }.items():
        with pytest.raises(CheckpointError, match=what):
            fit(**others)
    monkeypatch.setattr(module, "current_versions", lambda: {"spca-tv": "99"})
    with pytest.raises(CheckpointError, match=r'versions\.spca-tv is "[^"]+" there and "99" here'):
        fit()
    assert n_records(kept) == 1, "what is refused is kept"


def test_a_checkpoint_has_one_user_at_a_time(X, tmp_path):
    with checkpointing(tmp_path), pytest.raises(CheckpointError, match="in use by another run"):
        SPCATVCV(1, checkpoint=tmp_path).fit(X)


def test_folders_that_cannot_be_written(X, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with (
        pytest.raises(CheckpointError, match=r"cannot write the checkpoint .*file \(File exists\)"),
        checkpointing(tmp_path / "file"),
    ):
        pass

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.savez", full)
    with (
        pytest.raises(CheckpointError, match=r"\(No space left on device\); its records are kept"),
        checkpointing(tmp_path),
    ):
        SPCATV(1).fit(X)
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if name.endswith(".record")]


def test_what_cannot_be_recognised_is_refused(X, tmp_path):
    class Odd:
        def __call__(self, *_, **__):
            raise AssertionError

    with checkpointing(tmp_path), pytest.raises(CheckpointError, match="Odd cannot be recognised again"):
        SPCATV(1, solver=Odd()).fit(X)


def test_results_are_kept_as_they_arrive_with_workers(tmp_path):
    """Not when their turn comes: the first may be the last."""
    kept = []

    def pool(calls):
        for function, arguments, _ in calls[::-1]:
            yield function(*arguments)
            kept.append(n_records(tmp_path))

    with pytest.MonkeyPatch.context() as patch, checkpointing(tmp_path):
        patch.setattr("spcatv.selection.workers.Parallel", lambda **_: pool)
        assert list(run_calls(_double, [(1,), (2,), (3,)], 2)) == [2, 4, 6]
    assert kept == [1, 2], "before the first was there"


def _double(number):
    return 2 * number


@pytest.mark.slow
def test_any_number_of_workers_resumes(X, tmp_path, killed_after):
    def search(n_jobs):
        return SPCATVCV(1, structure=(20,), **SEARCH, n_jobs=n_jobs, checkpoint=tmp_path).fit(X)

    killed_after(2)
    with pytest.raises(Killed):
        search(1)
    killed_after(np.inf)
    assert_same_fit(search(2).best_estimator_, SPCATVCV(1, structure=(20,), **SEARCH).fit(X).best_estimator_)
