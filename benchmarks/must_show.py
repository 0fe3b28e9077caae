"""What the package promises about its speed, with the measured figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.options import GAPS, TOL
from benchmarks.sections.disk import ratio as plain_share
from benchmarks.sections.fit import OURS, OURS_ONE
from benchmarks.sections.vstep import OURS as OUR_STEP
from benchmarks.sections.vstep import races, ratio
from benchmarks.tables import limit_of, markdown, seconds

Results = dict[str, Any]
# The figure as text, and whether it is good enough.
Verdict = tuple[str, bool]


class NotMeasuredError(Exception):
    """A promise whose figure is not among the results; the message says why."""


@dataclass(frozen=True)
class Promise:
    """What is promised, and how its figure is read from the results."""

    what: str
    requirement: str
    check: Callable[[Results], Verdict]


def _section(results: Results, name: str) -> Results:
    if name not in results:
        raise NotMeasuredError(f"section {name} was not run")
    if "skipped" in results[name]:
        raise NotMeasuredError(results[name]["skipped"])
    return results[name]


def _case(results: Results, name: str) -> Results:
    case = _section(results, "fit")["cases"].get(name, {"skipped": "not among the data of this run"})
    if "skipped" in case:
        raise NotMeasuredError(case["skipped"])
    return case


def _certified(case: Results) -> bool:
    """Whether every gap is within the tolerance, by the fit and (to its own precision) by the judge."""
    return max(case["methods"][OURS]["relative_gap"]) <= TOL and max(case["judged"], default=0.0) <= 1.2 * TOL


def against(peer: str, least: float) -> Callable[[Results], Verdict]:
    """Check how many times longer a peer takes on the volume."""

    def check(results: Results) -> Verdict:
        case = _case(results, "volume")
        record = case["methods"].get(peer)
        if record is None:
            raise NotMeasuredError(f"{peer} is not installed")
        other = record["seconds"] if record["seconds"] is not None else limit_of(record["note"])
        if other is None:
            raise NotMeasuredError(f"{peer}: {record['note']}")
        factor = other / case["methods"][OURS]["seconds"]
        bound = "> " if record["seconds"] is None else ""
        text = f"{bound}{factor:.1f} times faster" if factor >= 1 else f"{1 / factor:.1f} times slower"
        return text, factor >= least and _certified(case)

    return check


def step_against(race: str, solver: str, least: float) -> Callable[[Results], Verdict]:
    """Check how many times longer another loading solver takes to a relative gap of 1e-5."""

    def check(results: Results) -> Verdict:
        solvers = _section(results, "v-step")[race]["solvers"]
        record = solvers.get(solver, {"missing": solver})
        if "seconds" not in record:
            raise NotMeasuredError(f"{solver} is missing or failed")
        text, factor = ratio(record, solvers[OUR_STEP]["seconds"], GAPS.index(1e-5))
        if factor is None:
            raise NotMeasuredError("the gap was not reached")
        return f"{text} faster{elsewhere(results, race, solver)}", factor >= least

    return check


def elsewhere(results: Results, race: str, solver: str) -> str:
    """The same ratio in the other races of both solvers."""
    texts = []
    for name, part in races(results["v-step"]).items():
        if name != race and solver in part["solvers"]:
            text, _ = ratio(part["solvers"][solver], part["solvers"][OUR_STEP]["seconds"], GAPS.index(1e-5))
            texts.append(f"{name}: {text}")
    return f" ({'; '.join(texts)})" if texts else ""


def fit_under(name: str, most: float) -> Callable[[Results], Verdict]:
    """Check the seconds of a fit on one thread."""

    def check(results: Results) -> Verdict:
        case = _case(results, name)
        record = case["methods"][OURS_ONE]
        text = f"{seconds(record['seconds'])} (first fit, structure new: {seconds(record['first_seconds'])})"
        return text, record["seconds"] < most and _certified(case)

    return check


def kernel_share(results: Results) -> Verdict:
    """The kernel on the largest box, in float32 as in the fits, and in float64."""
    rows = [row for row in _section(results, "kernel")["rows"] if row["structure"].startswith("box")]
    largest = [row for row in rows if row["n_features"] == max(r["n_features"] for r in rows)]
    share = {row["dtype"]: row["share"] for row in largest}
    text = ", ".join(f"{value:.0%} ({dtype})" for dtype, value in share.items())
    return f"{text}, {largest[0]['n_features']:,} voxels", share["float32"] >= 0.6


def kernel_growth(results: Results) -> Verdict:
    """Growth of the time per voxel; the step from cache to memory is listed separately."""
    grown = _section(results, "kernel")["growth"]["float32"]
    steps = [step for step in grown["steps"] if step["into_memory"]]
    apart = "; ".join(f"cache to memory {s['factor']:.2f}, a copy {s['copy_factor']:.2f}" for s in steps)
    text = f"{grown['factor']:.2f} times linear" + (
        f", without the step {apart}: {grown['apart']:.2f}" if apart else ""
    )
    return text, grown["apart"] <= 1.5


def memory(results: Results) -> Verdict:
    """Peak memory beyond X of the fits to at least 100 rows: the largest, and a list of all."""
    cases = [c for c in _section(results, "fit")["cases"].values() if "skipped" not in c]
    tall = [c for c in cases if c["shape"][0] >= 100]
    if not tall:
        raise NotMeasuredError("no data of 100 rows")
    text = ", ".join(f"{c['methods'][OURS]['peak']:.2f} ({c['title']})" for c in tall)
    worst = max(c["methods"][OURS]["peak"] for c in tall)
    return f"{worst:.2f} times X at most: {text}", worst < 0.5


def first_fit(results: Results) -> Verdict:
    """The slowest first fit, whole process."""
    programs = _section(results, "start-up")["programs"]
    slowest = max((p for p in programs if p["name"].startswith("first fit")), key=lambda p: p["seconds"])
    return f"{seconds(slowest['seconds'])} ({slowest['name']})", slowest["seconds"] < 3.0


def import_time(results: Results) -> Verdict:
    """The import beyond that of NumPy and scikit-learn."""
    found = {p["name"]: p["seconds"] for p in _section(results, "start-up")["programs"]}
    more = found["import of spcatv"] - found["import of NumPy and scikit-learn"]
    return f"{more:+.2f} s", more < 0.5


def high_precision(results: Results) -> Verdict:
    """Three components at 1e-9."""
    row = _section(results, "precision")["rows"][-1]
    reached = max(row["relative_gap"]) <= row["tol"]
    return f"{max(row['relative_gap']):.1e} in {seconds(row['seconds'])}", reached and row["seconds"] < 10.0


def path_cost(results: Results) -> Verdict:
    """The cost of the certified path of alphas, in single fits, and that of the grid of a search."""
    paths = _section(results, "path")["paths"]
    certified = max(row["warm_gap"] for record in paths.values() for row in record["rows"]) <= TOL
    costs = {name: record["single_fits"] for name, record in paths.items()}
    text = ", ".join(f"{cost:.1f} ({name})" for name, cost in costs.items())
    return f"{text} single fits", costs["20 alphas"] <= 6.0 and certified


def larger_than_memory(results: Results) -> Verdict:
    """Plain passes over the time of a fit, the memory it takes, and how far it is from the one in memory."""
    result = _section(results, "disk")
    shares = [plain_share(result, fit) for fit in result["fits"]]
    kept = max(fit["peak_bytes"] for fit in result["fits"]) <= result["memory"]
    apart = max(equal["objective"] for equal in result["equal"].values())
    text = ", ".join(
        f"{share:.0%} ({fit['name']})" for share, fit in zip(shares, result["fits"], strict=True)
    )
    size, memory = (result[name] / 1e9 for name in ("bytes", "memory"))
    return (
        f"{text}; {size:.3g} GB in {memory:.3g} GB; objective apart by {apart:.1e}",
        min(shares) >= 0.7 and kept and apart < TOL,
    )


PROMISES = (
    Promise("K = 3 on 83 x 63,966, against SparsePCA", "100 times faster", against("SparsePCA", 100.0)),
    Promise("same, against MiniBatchSparsePCA", "15 times faster", against("MiniBatchSparsePCA", 15.0)),
    Promise("same, against PCA, full SVD", "faster", against("PCA full", 1.0)),
    Promise("same, against PCA, ARPACK", "at most 8 times slower", against("PCA ARPACK", 1 / 8)),
    Promise(
        "v-step to 1e-5, against CONESTA", "50 times faster", step_against("masked volume", "CONESTA", 50.0)
    ),
    Promise(
        "v-step to 1e-5, against nilearn's operator",
        "100 times faster",
        step_against("full box", "nilearn prox_tvl1", 100.0),
    ),
    Promise("K = 3 on 306 x 63,982 real maps, one thread", "under 1 s", fit_under("vbm", 1.0)),
    Promise("K = 3 on 327,684 vertices, N = 100, one thread", "under 2 s", fit_under("surface100", 2.0)),
    Promise("kernel on 2 M voxels, share of the copy bandwidth", "60 %", kernel_share),
    Promise("growth of an iteration, 64 k to 2 M voxels", "linear within 1.5 times", kernel_growth),
    Promise("peak memory beyond X, N >= 100", "under 0.5 times X", memory),
    Promise("first fit in a fresh process", "under 3 s", first_fit),
    Promise("import beyond NumPy and scikit-learn", "under 0.5 s", import_time),
    Promise("relative gap of 1e-9 in float64, 83 x 63,966", "reached, under 10 s", high_precision),
    Promise("a path of 20 settings", "at most 6 single fits", path_cost),
    Promise(
        "a file larger than memory, against as many plain passes over it",
        "70 % of the speed, the answer that of memory",
        larger_than_memory,
    ),
)


def verdicts(results: Results, *, quick: bool) -> list[dict[str, Any]]:
    """Every promise with its figure and "pass", "miss", "not measured" or (in a quick run) "not judged"."""
    rows = []
    for promise in PROMISES:
        try:
            figure, passed = promise.check(results)
            verdict = "not judged" if quick else "pass" if passed else "miss"
        except NotMeasuredError as reason:
            figure, verdict = str(reason), "not measured"
        rows.append(
            {"what": promise.what, "requirement": promise.requirement, "figure": figure, "verdict": verdict}
        )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """The promises as a table."""
    header = ["what", "at least", "measured", "verdict"]
    return markdown(header, ([r["what"], r["requirement"], r["figure"], r["verdict"]] for r in rows))
