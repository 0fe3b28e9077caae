"""The fast solver hands over: from float32 to float64, from float64 to the dual gradient."""

import dataclasses

import numpy as np
import pytest
from own_penalty import Squares

from spcatv.kernels import GapShares
from spcatv.problem import LoadingProblem
from spcatv.solvers import Status
from spcatv.solvers.pdhg import PATIENCE, PrimalDualSolver, _Balance, pdhg
from spcatv.structure import grid, icosphere, mesh


def _problem(scale=1.0, penalty="tv"):
    y = np.random.default_rng(0).standard_normal(120)
    y[40:80] += 3.0
    return LoadingProblem(scale * y, grid((10, 12)), l1=0.3 * scale, tv=0.7 * scale, penalty=penalty)


def _stall_at_once(monkeypatch, *dtypes):
    for dtype in dtypes:
        monkeypatch.setitem(PATIENCE, np.dtype(dtype), 0)


def _no_fallback(*args, **kwargs):
    raise AssertionError("the dual gradient was called")


def test_float64_continues_where_the_digits_of_float32_end(monkeypatch):
    monkeypatch.setattr("spcatv.solvers.pdhg.dual_gradient", _no_fallback)
    problem = _problem()
    solution = pdhg(problem, tol=1e-11, dtype=np.float32)
    assert solution.status is Status.CONVERGED
    assert solution.gap <= 1e-11 * problem.scale()
    assert solution.alpha.dtype == np.float64
    steps = [point.iteration for point in solution.trace]
    assert steps == sorted(steps)
    assert steps[-1] == solution.n_iter
    # float32 has done most of the work: the first look in float64 is at its answer
    handover = next(i for i in range(1, len(steps)) if steps[i] == steps[i - 1])
    assert 0 < handover < len(steps) - 1
    assert solution.trace[handover].gap < 1e-5 * problem.scale()


def test_max_iter_limits_all_stages_together(monkeypatch):
    needed = pdhg(_problem(), tol=1e-11).n_iter
    reached = pdhg(_problem(), tol=1e-11, dtype=np.float32)
    assert reached.n_iter > needed / 2
    limited = pdhg(_problem(), tol=1e-11, dtype=np.float32, max_iter=reached.n_iter - 5)
    assert limited.n_iter == reached.n_iter - 5
    assert limited.status is Status.MAX_ITER


@pytest.mark.parametrize("scale", [1e25, 1e-30])
def test_numbers_that_leave_float32_are_solved_in_float64(scale):
    large = pdhg(_problem(scale), tol=1e-6, dtype=np.float32)
    assert large.status is Status.CONVERGED
    np.testing.assert_allclose(large.v / scale, pdhg(_problem(), tol=1e-10).v, atol=2e-2)


def test_the_dual_gradient_takes_over_where_the_iteration_stalls(monkeypatch):
    _stall_at_once(monkeypatch, np.float32, np.float64)
    problem = _problem()
    for dtype in (np.float32, np.float64):
        solution = pdhg(problem, tol=1e-9, dtype=dtype)
        assert solution.status is Status.CONVERGED
        assert solution.method == "pdhg"
        assert solution.gap == pytest.approx(problem.gap(solution.v, solution.alpha), rel=1e-6)
        assert solution.trace[-1].iteration == solution.n_iter > 0


def test_a_fallback_that_runs_out_of_iterations_reports_it(monkeypatch):
    _stall_at_once(monkeypatch, np.float64)
    solution = pdhg(_problem(), tol=1e-13, max_iter=60)
    assert solution.status is Status.MAX_ITER
    assert solution.n_iter == 60


def test_no_fallback_can_help_at_the_limit_of_float64(monkeypatch):
    monkeypatch.setattr("spcatv.solvers.pdhg.dual_gradient", _no_fallback)
    solution = pdhg(_problem(), tol=1e-30)
    assert solution.status is Status.STALLED
    assert solution.relative_gap < 1e-14


def test_the_state_is_kept_for_the_next_problem():
    problem, solver = _problem(), PrimalDualSolver(np.float64)
    with pytest.raises(RuntimeError, match="no problem has been solved yet"):
        solver.dual()
    goal = 1e-8 * problem.scale()
    first = solver.step(problem, goal, max_iter=10_000, slack=1.0)
    assert first.n_iter > 0
    assert solver.step(problem, goal, max_iter=10_000, slack=1.0).n_iter == 0
    solver.restart()
    # from zero, but with the step sizes that were found
    assert solver.step(problem, goal, max_iter=10_000, slack=1.0).n_iter > 0


def test_a_share_of_the_first_gap_is_enough_if_requested():
    problem = _problem()
    rough = PrimalDualSolver(np.float64).step(problem, 1e-12, 0.1, max_iter=10_000, slack=1.0)
    assert rough.status is Status.CONVERGED
    assert 1e-12 < rough.gap <= 0.1 * rough.trace[0].gap


class HarshProblem(LoadingProblem):
    """A problem that finds every gap in float64 to be 1.5e-6 of the scale."""

    def judge(self, certificate):
        return dataclasses.replace(super().judge(certificate), gap=1.5e-6 * self.scale())


def test_slack_accepts_a_gap_that_float64_finds_a_little_larger():
    easy = _problem()
    problem = HarshProblem(easy.y, easy.structure, l1=0.3, tv=0.7)
    for slack, success in ((2.0, True), (1.0, False)):
        solver = PrimalDualSolver(np.float32)
        answer = solver.step(problem, 1e-6 * problem.scale(), max_iter=400, slack=slack)
        assert answer.status.success is success


def test_a_penalty_without_a_compiled_kernel_is_always_solved_in_float64():
    solution = pdhg(_problem(penalty=Squares()), tol=1e-6, dtype=np.float32)
    assert solution.status is Status.CONVERGED
    assert solution.alpha.dtype == np.float64


def _looks(balance, n_first, decays, dual_share):
    """Taus after looks every 1,000 iterations; the log of the gap falls by decay * tau per iteration."""
    gap = 1.0
    taus = []
    for k, decay in enumerate(decays):
        tau = taus[-1] if taus else balance.update(n_first, _shares(gap, dual_share))[0]
        gap *= np.exp(-1000 * decay * tau)
        taus.append(balance.update(n_first + 1000 * (k + 1), _shares(gap, dual_share))[0])
    return taus


def _shares(gap, dual_share):
    return GapShares(dual_share * gap, (1 - dual_share) * gap, 2 * gap, 0.0, 0.0)


def test_tau_rises_where_it_damps_too_little():
    balance = _Balance(0.001, 0.0)
    assert _looks(balance, 0, [5.0, 2.0, 2.0, 2.0, 2.0, 2.0], 0.5) == [
        0.001,
        0.002,
        0.004,
        0.008,
        0.008,
        0.008,
    ]


def test_tau_stays_at_what_it_rose_to_until_the_gap_hardly_falls():
    balance = _Balance(0.001, 0.0)
    assert _looks(balance, 0, [2.0], 0.5) == [0.002]
    # the dual share is far larger, which lowers tau otherwise
    assert _looks(balance, 1000, [2.0, 2.0, 0.5, 0.5, 0.5], 0.99) == [0.002, 0.002, 0.002, 0.002, 0.001]


def test_flat_noise_on_a_mesh_takes_few_iterations():
    coords, triangles = icosphere(5)
    y = np.random.default_rng(2).standard_normal(len(coords)) + 3.0 * (coords[:, 2] > 0.9)
    problem = LoadingProblem(y, mesh(coords, triangles), l1=0.0, tv=float(y.std()))
    assert pdhg(problem, tol=1e-6).n_iter < 750  # 560; 970 where tau is never raised
