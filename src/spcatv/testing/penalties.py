"""Check of a structured penalty (docs/method.md section 3.10)."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.kernels import LoadingTerms, ReferenceWorkspace, StepSizes, workspace_for
from spcatv.problem import LoadingProblem, Penalty, StructuredPenalty, as_penalty
from spcatv.solvers import solve
from spcatv.structure import Structure, from_matrix, grid, groups
from spcatv.testing.require import require

ROUNDING = 1e-9  # largest relative error
N_TRIALS = 4
SIZES = (1e-3, 1.0, 1e3)  # of operator rows and dual variables: inside, around and far outside of any ball
STEPS = (1e-2, 1.0, 1e2)  # sigma and mu
METHODS = ("pdhg", "dual", "conesta")
SOLVE_TOL = 1e-5


def check_penalty(
    penalty: Penalty, *, structure: Structure | None = None, random_state: int | None = 0
) -> None:
    """Check the properties of a structured penalty on which problems, kernels and solvers rely.

    * ``h >= 0 = h(0)``, h is convex, ``slope_at_zero`` is the limit of ``h(t z) / t``, and
      ``in_units(unit)`` is ``unit * h(z / unit)``, or h itself if it is quadratic;
    * ``project`` returns the closest feasible dual variable, and ``check_feasible`` accepts it;
    * ``slack(z, dual)`` is ``h(z) + h*(dual) - dual'z >= 0`` (Fenchel-Young);
    * ``dual_step`` is the proximal operator of ``sigma h*``, and ``slack`` is 0 at the pair of points that it
      defines, so that ``h*`` is the supremum of ``dual'z - h(z)`` and not just an upper bound;
    * ``dual_point`` maximises ``dual'z - h*(dual) - mu/2 ||dual||^2``, ``h_mu <= h <= h_mu + mu M``, and its
      Lipschitz constant is ``smoothed_lipschitz(mu)``;
    * ``value_and_slack`` and the compiled kernel, if there is one, agree with the other methods;
    * "pdhg", "dual" and "conesta" solve a loading problem with the penalty, to the same answer;
    * the penalty equals its pickle.

    Parameters
    ----------
    penalty : str or StructuredPenalty
        The penalty to check.
    structure : Structure, default=None
        Structure on which to check it; by default, a grid (isotropic and not), overlapping groups and an
        operator without rows.
    random_state : int or None, default=0
        Seed of the random vectors.

    Raises
    ------
    AssertionError
        At the first property that fails, with the figures.

    Examples
    --------
    >>> from spcatv.problem import HuberTV
    >>> from spcatv.testing import check_penalty
    >>> check_penalty(HuberTV(delta=0.1))
    """
    resolved = as_penalty(penalty)
    copy = pickle.loads(pickle.dumps(resolved))
    require(copy == resolved, f"{resolved!r} does not equal its pickle: make it a frozen dataclass")
    for checked in _structures() if structure is None else [structure]:
        rng = np.random.default_rng(random_state)
        case = _Case(resolved, checked, rng)
        _check_value(case)
        _check_projection(case)
        _check_fenchel_young(case)
        _check_dual_step(case)
        _check_smoothing(case)
        _check_one_pass(case)
        _check_kernel(case)
        _check_solvers(case)


def _structures() -> Iterator[Structure]:
    yield grid((4, 5))
    yield grid((3, 4), isotropic=False)
    yield groups([[0, 1, 2, 3], [2, 3, 4], [6, 7]], 9)
    yield from_matrix(np.zeros((0, 3)))


@dataclass(frozen=True)
class _Case:
    """Penalty on a structure: its methods with the structure filled in, random vectors, and errors."""

    penalty: StructuredPenalty
    structure: Structure
    rng: np.random.Generator

    def value(self, rows: FloatArray) -> float:
        return self.penalty.value(self.structure, rows)

    def conjugate(self, dual: FloatArray) -> float:
        return self.penalty.conjugate(self.structure, dual)

    def slack(self, rows: FloatArray, dual: FloatArray) -> float:
        return self.penalty.slack(self.structure, rows, dual)

    def project(self, dual: FloatArray) -> FloatArray:
        return self._unchanged("project", lambda x: self.penalty.project(self.structure, x), dual)

    def dual_step(self, dual: FloatArray, sigma: float) -> FloatArray:
        return self._unchanged("dual_step", lambda x: self.penalty.dual_step(self.structure, x, sigma), dual)

    def dual_point(self, rows: FloatArray, mu: float) -> FloatArray:
        return self._unchanged("dual_point", lambda x: self.penalty.dual_point(self.structure, x, mu), rows)

    def _unchanged(self, name: str, method: Callable[[FloatArray], FloatArray], x: FloatArray) -> FloatArray:
        """Call a method, which must return a new array of the same shape as its argument."""
        given = x.copy()
        found = method(given)
        self.require(np.array_equal(given, x), f"{name} changes its argument")
        self.require(found.shape == x.shape, f"{name} returns an array of shape {found.shape}, not {x.shape}")
        self.require(x.size == 0 or not np.shares_memory(found, given), f"{name} must return a new array")
        return found

    def vectors(self) -> Iterator[FloatArray]:
        """Yield operator rows or dual variables of all sizes, with some zeros."""
        for size in SIZES:
            for _ in range(N_TRIALS):
                vector = size * self.rng.standard_normal(self.structure.n_rows)
                yield vector * (self.rng.random(self.structure.n_rows) < 0.8)

    def refusal(self, dual: FloatArray) -> str:
        """Return the objection of `check_feasible` to a dual variable; empty if there is none."""
        try:
            self.penalty.check_feasible(self.structure, dual)
        except ValueError as error:
            return str(error)
        return ""

    def require_feasible(self, name: str, dual: FloatArray) -> None:
        refusal = self.refusal(dual)
        self.require(not refusal, f"{name} returns a dual variable that is not feasible: {refusal}")

    def require(self, condition: bool | np.bool_, message: str) -> None:
        require(condition, f"{self.penalty!r} on {self.structure!r}: {message}")


def _check_value(case: _Case) -> None:
    zero = case.value(np.zeros(case.structure.n_rows))
    case.require(zero == 0, f"h(0) must be 0, it is {zero!r}")
    other: FloatArray = np.zeros(case.structure.n_rows)
    for rows in case.vectors():
        value, at_other = case.value(rows), case.value(other)
        case.require(value >= 0, f"h must not be negative, h(z) = {value!r}")
        middle, mean = case.value(0.5 * (rows + other)), 0.5 * (value + at_other)
        case.require(
            middle <= mean + ROUNDING * mean, f"h is not convex: {middle!r} between two points, mean {mean!r}"
        )
        slope, tiny = case.penalty.slope_at_zero(case.structure, rows), 1e-20
        near_zero = case.value(tiny * rows) / tiny
        case.require(
            abs(near_zero - slope) <= 1e-6 * max(1.0, value),
            f"slope_at_zero is {slope!r}, but h(t z) / t is {near_zero!r} at t = {tiny}",
        )
        unit = 0.25
        in_units = case.penalty.in_units(unit).value(case.structure, rows)
        expected = value if case.penalty.quadratic else unit * case.value(rows / unit)
        case.require(
            abs(in_units - expected) <= ROUNDING * expected,
            f"in_units({unit}) has the value {in_units!r}, not unit * h(z / unit) = {expected!r}",
        )
        other = rows


def _check_projection(case: _Case) -> None:
    for dual in case.vectors():
        point = case.project(dual)
        case.require_feasible("project", point)
        again = float(np.abs(case.project(point) - point).max(initial=0.0))
        case.require(
            again <= ROUNDING, f"project is not idempotent: a second call moves the point by {again}"
        )
        moved = float(np.abs(dual - point).max(initial=0.0))
        case.require(
            moved <= 1e-6 or bool(case.refusal(dual)),
            f"check_feasible accepts a dual variable that project moves by {moved}",
        )
        residual = dual - point
        for candidate in case.vectors():
            feasible = case.project(candidate)
            # the closest point of a convex set makes an obtuse angle with every other point of it
            angle = float(residual @ (feasible - point))
            scale = float(np.linalg.norm(residual) * np.linalg.norm(feasible - point))
            case.require(
                angle <= ROUNDING * scale + ROUNDING,
                f"project does not return the closest point: <dual - p, q - p> = {angle} for a feasible q",
            )


def _check_fenchel_young(case: _Case) -> None:
    for rows in case.vectors():
        for candidate in case.vectors():
            dual = case.project(candidate)
            parts = case.value(rows), case.conjugate(dual), float(dual @ rows)
            rounding = ROUNDING * (sum(map(abs, parts)) + float(np.abs(dual) @ np.abs(rows)))
            slack, difference = case.slack(rows, dual), parts[0] + parts[1] - parts[2]
            case.require(
                difference >= -rounding,
                f"Fenchel-Young fails: h(z) + h*(dual) - dual'z = {difference!r} < 0 for a feasible dual",
            )
            case.require(
                abs(slack - difference) <= rounding,
                f"slack is {slack!r}, but h(z) + h*(dual) - dual'z = {difference!r}",
            )


def _check_dual_step(case: _Case) -> None:
    for dual in case.vectors():
        for sigma in STEPS:
            step = case.dual_step(dual, sigma)
            _check_proximal(case, step, dual, sigma)
            # by Moreau's identity these rows are where the conjugate attains its supremum
            rows = (dual - step) / sigma
            slack = case.slack(rows, step)
            # the step rounds, and the slack is as steep as the rows are long
            rounding = ROUNDING * (case.value(rows) + case.conjugate(step) + 1e-3 * float(np.abs(rows).sum()))
            case.require(
                abs(slack) <= rounding,
                f"h* is not the supremum: slack is {slack!r}, not 0, at the rows (dual - step) / sigma",
            )


def _check_proximal(case: _Case, best: FloatArray, center: FloatArray, sigma: float) -> None:
    """Compare ``1/2 ||d - center||^2 + sigma h*(d)`` at its claimed minimiser with other feasible points."""
    case.require_feasible("dual_step", best)

    def objective(dual: FloatArray) -> float:
        return 0.5 * float((dual - center) @ (dual - center)) + sigma * case.conjugate(dual)

    least = objective(best)
    for candidate in case.vectors():
        for share in (1.0, 1e-3):
            feasible = case.project(best + share * (candidate - best))
            found = objective(feasible)
            # strong convexity: every other point is worse by half of the squared distance
            distance = 0.5 * float((feasible - best) @ (feasible - best))
            case.require(
                least + distance <= found + ROUNDING * (least + distance),
                f"dual_step is not the proximal operator of h*: its objective is {least!r}, but {found!r} "
                f"at a squared distance of {2 * distance}",
            )


def _check_smoothing(case: _Case) -> None:
    constant = case.penalty.smoothing_constant(case.structure)
    case.require(constant >= 0, f"smoothing_constant is {constant!r} < 0")
    for mu in STEPS:
        lipschitz = case.penalty.smoothed_lipschitz(mu)
        other: FloatArray = np.zeros(case.structure.n_rows)
        at_other = case.dual_point(other, mu)
        for rows in case.vectors():
            point = case.dual_point(rows, mu)
            _check_smoothed_value(case, rows, point, mu if constant > 0 else 0.0, mu * constant)
            change = float(np.linalg.norm(point - at_other))
            allowed = lipschitz * float(np.linalg.norm(rows - other))
            case.require(
                change <= allowed * (1 + ROUNDING) + ROUNDING,
                f"smoothed_lipschitz({mu}) is {lipschitz!r}, but dual_point moves by {change} > {allowed}",
            )
            other, at_other = rows, point


def _check_smoothed_value(case: _Case, rows: FloatArray, point: FloatArray, mu: float, error: float) -> None:
    """Check that the dual point is the maximiser, and that ``h_mu <= h <= h_mu + error``."""
    case.require_feasible("dual_point", point)

    def objective(dual: FloatArray) -> float:
        return float(dual @ rows) - case.conjugate(dual) - 0.5 * mu * float(dual @ dual)

    smoothed, value = objective(point), case.value(rows)
    rounding = ROUNDING * (value + float(np.abs(point) @ np.abs(rows)) + error)
    if mu > 0:
        found = objective(case.dual_step(rows / mu, 1.0 / mu))
        case.require(
            found <= smoothed + rounding,
            f"dual_point is not the maximiser: {smoothed!r} < {found!r} at dual_step(rows / mu, 1 / mu)",
        )
    case.require(
        -rounding <= value - smoothed <= error + rounding,
        f"h - h_mu is {value - smoothed!r}, not between 0 and mu M = {error!r}",
    )


def _check_one_pass(case: _Case) -> None:
    """Compare `value_and_slack`, which a penalty may compute in one pass, with `value` and `slack`."""
    for dual in map(case.project, case.vectors()):
        v = case.rng.standard_normal(case.structure.n_features)
        rows = case.structure.forward(v)
        expected = case.value(rows), case.slack(rows, dual)
        found = case.penalty.value_and_slack(case.structure, v, dual)
        case.require(
            bool(np.allclose(found, expected, rtol=ROUNDING, atol=ROUNDING * expected[0])),
            f"value_and_slack returns {found}, but value and slack are {expected}",
        )


def _check_kernel(case: _Case) -> None:
    """Run the compiled kernel beside the reference, which calls the penalty's own methods."""
    if case.penalty.ball is None:
        return
    terms = LoadingTerms(0.7, 0.2, False, case.penalty)
    reference = ReferenceWorkspace(case.structure, terms)
    compiled = workspace_for(case.structure, terms, np.float64)
    y, v = case.rng.standard_normal((2, case.structure.n_features))
    dual = case.project(case.rng.standard_normal(case.structure.n_rows))
    steps = StepSizes(tau=0.1, sigma=1.0 / (0.07 * max(case.structure.norm_squared(), 1e-3)), rho=1.0)
    for workspace in (reference, compiled):
        workspace.set_target(y)
        workspace.set_state(v, dual)
        workspace.advance(5, steps)
    pairs = {
        "v": (compiled.get_v(), reference.get_v()),
        "the dual variable": (compiled.get_dual(), reference.get_dual()),
        "the gap": (np.array(compiled.gap_shares()), np.array(reference.gap_shares())),
    }
    for what, (found, expected) in pairs.items():
        off = float(np.abs(found - expected).max(initial=0.0))
        case.require(
            off <= ROUNDING,
            f"the compiled kernel for {case.penalty.ball} computes another penalty: {what} is off by {off}",
        )


def _check_solvers(case: _Case) -> None:
    y = 2.0 * case.rng.standard_normal(case.structure.n_features)
    problem = LoadingProblem(y, case.structure, l1=0.2, tv=0.4, penalty=case.penalty)
    best = solve(problem, "dual", tol=1e-2 * SOLVE_TOL)
    for method in METHODS:
        solution = solve(problem, method, tol=SOLVE_TOL)
        case.require(solution.status.success, f"{method} does not converge: {solution.message}")
        excess = solution.value - best.value
        case.require(
            excess <= solution.gap + ROUNDING * best.value,
            f"{method} reports the gap {solution.gap!r}, but its objective is {excess!r} above another",
        )
