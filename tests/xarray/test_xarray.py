"""DataArrays in and out: the numbers of the plain estimator, the coordinates of the data."""

import importlib.util
import pickle
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA

from spcatv import SPCATV, SPCATVCV
from spcatv.model import ModelError, read_model
from spcatv.selection import count_components
from spcatv.stability import bootstrap_components, split_halves
from spcatv.structure import grid

xr = pytest.importorskip("xarray", reason="needs the extra xarray")

from spcatv import xarray as module  # noqa: E402
from spcatv.xarray import RepeatedMeridianWarning, XarraySPCATV  # noqa: E402

N, LAT, LON = 20, np.arange(-60.0, 61, 30), np.arange(0.0, 360, 45)
LAND = np.zeros((5, 8), dtype=bool)
LAND[1, 2:4] = LAND[4, 7] = True


@pytest.fixture
def field():
    """20 months on a globe of 5 x 8 cells with land: a region across the prime meridian, and noise."""
    rng = np.random.default_rng(0)
    values = 280 + 0.3 * rng.standard_normal((N, 5, 8))
    values[:, 2:4, [0, 1, 7]] += 3 * rng.standard_normal((N, 1, 1))
    values[:, LAND] = np.nan
    time = np.arange("2001-01", "2002-09", dtype="datetime64[M]").astype("datetime64[ns]")
    coords = {
        "time": time,
        "lat": LAT,
        "lon": LON,
        "month": ("time", np.arange(N) % 12 + 1),
        "basin": (("lat", "lon"), np.arange(40).reshape(5, 8)),
        "level": 2.0,
    }
    return xr.DataArray(values, coords, ("time", "lat", "lon"), name="sst", attrs={"units": "K"})


def small(**parameters):
    return SPCATV(**{"n_components": 2, "sparsity": 0.8, "smoothness": 0.3, **parameters})


def plain(field, weights, **parameters):
    """The same fit by hand: X, the mask and the fitted estimator."""
    X = field.values.reshape(N, -1)[:, ~LAND.ravel()] * weights
    return X, small(structure=grid(~LAND, periodic=(False, True)), **parameters).fit(X)


def coslat():
    return np.sqrt(np.cos(np.deg2rad(np.repeat(LAT, 8).reshape(5, 8))))[~LAND]


@pytest.mark.parametrize("weights", ["coslat", None])
def test_same_numbers_as_the_plain_estimator(field, weights):
    w = 1.0 if weights is None else coslat()
    X, expected = plain(field, w)
    model = XarraySPCATV(small(), weights=weights).fit(field, dim="time")
    np.testing.assert_array_equal(model.estimator_.components_, expected.components_)
    maps = model.components_.values
    np.testing.assert_array_equal(maps[:, ~LAND], expected.components_ / w)
    assert np.isnan(maps[:, LAND]).all()
    np.testing.assert_array_equal(model.mask_.values, ~LAND)
    np.testing.assert_array_equal(model.transform(field).values, expected.transform(X))
    np.testing.assert_array_equal(model.mean_.values[~LAND], expected.mean_ / w)
    again = model.inverse_transform(model.transform(field)).values
    np.testing.assert_allclose(again[:, ~LAND], expected.inverse_transform(expected.transform(X)) / w)
    assert np.isnan(again[:, LAND]).all()
    assert model.score(field) == expected.score(X)
    np.testing.assert_array_equal(model.explained_variance_ratio_, expected.explained_variance_ratio_)
    if weights is None:
        assert model.weights_ is None
    else:
        np.testing.assert_array_equal(model.weights_.values[~LAND], w)


def test_maps_and_scores_reconstruct_in_the_units_of_the_data(field):
    """``x = mean_ + sum_k t_k components_[k]``, and with all components exactly x."""
    model = XarraySPCATV(SPCATV(N - 1, sparsity=0, smoothness=0, tol=1e-12), weights="coslat")
    scores = model.fit_transform(field)
    xr.testing.assert_allclose(model.inverse_transform(scores), field, rtol=1e-6)
    by_hand = model.mean_ + (scores * model.components_).sum("component", skipna=False)
    np.testing.assert_allclose(by_hand.transpose(*field.dims), field, rtol=1e-6)


def test_coordinates_are_kept(field):
    model = XarraySPCATV(small()).fit(field)
    scores, maps = model.transform(field), model.components_
    assert scores.dims == ("time", "component")
    assert maps.dims == ("component", "lat", "lon")
    assert set(scores.coords) == {"time", "month", "level", "component"}
    assert set(maps.coords) == {"lat", "lon", "basin", "level", "component"}
    for name in ("time", "month"):
        xr.testing.assert_identical(scores[name], field[name])
    for name in ("lat", "lon", "basin"):
        xr.testing.assert_identical(maps[name], field[name])
    assert maps.component.values.tolist() == [1, 2]
    again = model.inverse_transform(scores)
    assert again.dims == field.dims
    assert again.name == "sst"
    assert again.attrs == {"units": "K"}
    assert set(again.coords) == set(field.coords)
    assert model.explained_variance_.sel(component=2) > 0


def test_the_order_of_dimensions_does_not_matter(field):
    """But that of the axes of the grid is the order of the features."""
    expected = XarraySPCATV(small()).fit(field)
    model = XarraySPCATV(small()).fit(field.transpose("lat", "time", "lon"))
    xr.testing.assert_identical(model.components_, expected.components_)
    turned = field.transpose("lon", "lat", "time")
    xr.testing.assert_identical(model.transform(turned), expected.transform(field))


def test_several_sample_dimensions(field):
    members = xr.concat([field, field + 1.0, 2 * field - 280], "member", coords="minimal", compat="override")
    members = members.assign_coords(member=[10, 20, 30])
    model = XarraySPCATV(small())
    scores = model.fit_transform(members.transpose("member", "lat", "time", "lon"), dim=("time", "member"))
    assert scores.dims == ("member", "time", "component")
    assert model.sample_dims_ == ("time", "member")
    X = members.transpose("time", "member", "lat", "lon").values.reshape(3 * N, -1)[:, ~LAND.ravel()]
    expected = small(structure=grid(~LAND, periodic=(False, True))).fit(X)
    np.testing.assert_array_equal(
        model.components_.values[:, ~LAND], expected.components_, err_msg="other samples"
    )
    np.testing.assert_allclose(
        scores.transpose("time", "member", "component"), expected.transform(X).reshape(N, 3, 2), atol=1e-9
    )
    assert model.inverse_transform(scores).dims == ("member", "time", "lat", "lon")


def test_one_field_has_scores_too(field):
    model = XarraySPCATV(small()).fit(field)
    first = model.transform(field[0])
    assert first.dims == ("component",)
    np.testing.assert_allclose(first, model.transform(field)[0])
    assert model.inverse_transform(first).dims == ("lat", "lon")


def test_scores_are_a_data_array_whatever_scikit_learn_is_set_to(field):
    pytest.importorskip("pandas")
    model = XarraySPCATV(small()).fit(field, dim="time")
    with config_context(transform_output="pandas"):
        scores = model.transform(field)
    xr.testing.assert_equal(scores, model.transform(field))


def test_some_components_only(field):
    model = XarraySPCATV(small()).fit(field)
    scores = model.transform(field)
    expected = model.inverse_transform(scores.where(scores.component == 2, 0.0))
    for part in (scores.sel(component=[2]), scores.sel(component=2)):
        np.testing.assert_allclose(model.inverse_transform(part), expected, rtol=1e-12)
    unnamed = scores.drop_vars("component")
    np.testing.assert_array_equal(model.inverse_transform(unnamed), model.inverse_transform(scores))
    with pytest.raises(ValueError, match="numbers from 1 to 2, got \\[1, 3\\]"):
        model.inverse_transform(scores.assign_coords(component=[1, 3]))
    with pytest.raises(ValueError, match="must have a dimension 'component'"):
        model.inverse_transform(field)


@pytest.mark.parametrize(
    ("name", "attrs", "lon", "expected"),
    [
        ("lon", {}, LON, True),
        ("Longitude", {"units": "degrees"}, LON - 180, True),
        ("lon", {}, LON[::-1], True),
        ("x", {"units": "degrees_east"}, LON, True),
        ("x", {"standard_name": "longitude"}, LON.astype(np.float32), True),
        ("x", {}, LON, False),
        ("lon", {"standard_name": "projection_x_coordinate"}, LON, False),
        ("lon", {"units": "degrees_north"}, LON, False),
        ("lon", {"units": "radians"}, LON, False),
        ("lon", {}, LON / 2, False),
        ("lon", {}, np.r_[LON[:-1], 320.0], False),
        ("lon", {}, np.arange(8), False),
    ],
)
def test_longitudes_that_go_around_are_periodic(field, name, attrs, lon, expected):
    quick = small(n_components=1, smoothness=0)
    field = field.assign_coords(lon=("lon", lon, attrs)).rename(lon=name)
    model = XarraySPCATV(quick).fit(field)
    assert model.periodic_dims_ == ((name,) if expected else ())
    assert model.estimator_.structure_.periodic == (False, expected)
    assert XarraySPCATV(quick, periodic=None).fit(field).periodic_dims_ == ()
    assert XarraySPCATV(quick, periodic=name).fit(field).estimator_.structure_.periodic == (False, True)


def test_steps_as_floats_of_few_digits_go_around():
    """1440 longitudes in float32, and 0.7 rounded: steps differ by rounding."""
    for n in (192, 512, 1440):
        lon = np.linspace(0, 360, n, endpoint=False).round(4).astype(np.float32)
        field = xr.DataArray(np.random.default_rng(0).standard_normal((3, n)), {"lon": lon}, ("time", "lon"))
        assert XarraySPCATV(small(n_components=1)).fit(field).periodic_dims_ == ("lon",)


def test_a_repeated_meridian_is_reported(field):
    closed = xr.concat([field, field[..., :1].assign_coords(lon=[360.0])], "lon")
    with pytest.warns(RepeatedMeridianWarning, match=r"isel\(lon=slice\(None, -1\)\)"):
        model = XarraySPCATV(small()).fit(closed)
    assert model.periodic_dims_ == ()


def test_names_are_no_neighbours(field):
    """Two variables side by side: the grid of one, twice."""
    other = (field * 0.9 - 3).rename("air")
    both = xr.Dataset({"sst": field, "air": other})
    with pytest.raises(TypeError, match=r'Dataset of sst, air.*to_dataarray\("variable"\)'):
        XarraySPCATV(small()).fit(both)
    model = XarraySPCATV(small()).fit(both.to_dataarray("variable"), "time")
    one = grid(~LAND, periodic=(False, True))
    matrix = model.estimator_.structure_.matrix
    assert matrix.shape == (2 * one.n_rows, 2 * one.n_features)
    p = one.n_features
    np.testing.assert_array_equal(
        np.sort(abs(matrix[:, :p]).sum(axis=1)), np.sort(abs(matrix[:, p:]).sum(axis=1))
    )
    assert not (abs(matrix[:, :p]).sum(axis=1) * abs(matrix[:, p:]).sum(axis=1)).any()
    assert model.components_.dims == ("component", "variable", "lat", "lon")


def test_latitudes_of_a_curvilinear_grid(field):
    """Latitudes in two dimensions, NaN on land."""
    lat = np.where(LAND, np.nan, LAT[:, None] + np.arange(8) / 10)
    field = field.rename(lat="j", lon="i").assign_coords(
        nav_lat=(("i", "j"), lat.T, {"units": "degrees_north"})
    )
    model = XarraySPCATV(small(), weights="coslat").fit(field)
    np.testing.assert_allclose(model.weights_.values**2, np.cos(np.deg2rad(lat)))


def test_weights_of_all_kinds(field):
    expected = XarraySPCATV(small(), weights="coslat").fit(field)
    by_lat = np.sqrt(np.cos(np.deg2rad(field.lat)))
    full = np.repeat(by_lat.values, 8).reshape(5, 8)
    for weights in (by_lat, full, full.tolist(), by_lat * xr.ones_like(field[0].T.drop_vars("level"))):
        model = XarraySPCATV(small(), weights=weights).fit(field)
        xr.testing.assert_equal(model.components_, expected.components_)


def test_cells_of_weight_zero_are_left_out(field):
    """Poles have no area."""
    poles = field.assign_coords(lat=np.linspace(-90, 90, 5))
    model = XarraySPCATV(small(smoothness=0), weights="coslat").fit(poles)
    assert not model.mask_.sel(lat=[-90, 90]).any()
    assert model.mask_.sel(lat=[-45, 0, 45]).values.sum() == 22
    assert np.isfinite(model.components_.values[:, model.mask_.values]).all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("area", "'coslat', an array or None, got 'area'"),
        (np.ones((8, 5)), r"shape of the grid, \{'lat': 5, 'lon': 8\}; got an array of shape \(8, 5\)"),
        (np.full((5, 8), -1.0), r"at lat=-60.0, lon=0.0 the weight is -1.0"),
        (np.full((5, 8), np.inf), r"the weight is inf"),
        (np.zeros((5, 8)), "no cell of .* is left"),
        (xr.DataArray(np.ones(20), dims="time"), "may have the dimensions .* only"),
        (xr.DataArray(np.ones(5), {"lat": LAT + 1}, "lat"), "coordinates of the weights are not those of X"),
    ],
)
def test_wrong_weights(field, weights, message):
    with pytest.raises(ValueError, match=message):
        XarraySPCATV(small(), weights=weights).fit(field)


def test_coslat_needs_latitudes(field):
    with pytest.raises(ValueError, match="needs one coordinate of latitudes, and none of"):
        XarraySPCATV(small(), weights="coslat").fit(field.rename(lat="y"))
    with pytest.raises(ValueError, match=r"needs one .*\['lat', 'latitude'\]"):
        XarraySPCATV(small(), weights="coslat").fit(field.assign_coords(latitude=("lat", LAT)))
    with pytest.raises(ValueError, match="beyond 90 degrees"):
        XarraySPCATV(small(), weights="coslat").fit(field.assign_coords(lat=LAT * 2))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_gaps_are_named(field, value):
    model = XarraySPCATV(small()).fit(field)
    field[3, 0, 1] = value
    where = f"X is {value} at time=2001-04-01.*, lat=-60.0, lon=45.0; 1 of the 37 cells"
    with pytest.raises(ValueError, match=where):
        XarraySPCATV(small()).fit(field)
    with pytest.raises(ValueError, match=where):
        model.transform(field)
    with pytest.raises(ValueError, match=r"X is .* at lat=-60.0, lon=45.0; 1 of the 37"):
        model.transform(field[3])
    with pytest.raises(ValueError, match=r"time\[3\], lat=-60"):
        model.transform(field.drop_vars("time"))
    model.transform(field.drop_isel(time=3))
    XarraySPCATV(small()).fit(field.where(np.isfinite(field).all("time")))


def test_values_on_land_do_not_matter(field):
    model = XarraySPCATV(small()).fit(field)
    xr.testing.assert_identical(model.transform(field.fillna(7.0)), model.transform(field))


def test_another_grid_is_refused(field):
    model = XarraySPCATV(small()).fit(field)
    for other in (field[:, ::-1], field.isel(lon=slice(4)), field.assign_coords(lon=LON + 1)):
        with pytest.raises(ValueError, match=r"is not that of the fit .*reindex_like\(model.mask_\)"):
            model.transform(other)
    xr.testing.assert_equal(model.transform(field[:, ::-1].reindex_like(model.mask_)), model.transform(field))
    with pytest.raises(ValueError, match="no dimension 'lat', which the fit had"):
        model.transform(field[:, 0])


@pytest.mark.parametrize(
    ("change", "dim", "error", "message"),
    [
        (lambda x: x.values, "time", TypeError, "must be an xarray.DataArray, got a numpy.ndarray"),
        (lambda x: x.astype(str), "time", TypeError, "must hold real numbers"),
        (lambda x: x, "month", ValueError, r"which are \('time', 'lat', 'lon'\); got 'month'"),
        (lambda x: x, (), ValueError, "must name dimensions"),
        (lambda x: x, ("time", "lat", "lon"), ValueError, "none is left for the features"),
        (lambda x: x.rename(lat="component"), "time", ValueError, "X has a dimension 'component'"),
        (lambda x: x * np.nan, "time", ValueError, "no cell of"),
    ],
)
def test_wrong_data(field, change, dim, error, message):
    with pytest.raises(error, match=message):
        XarraySPCATV(small()).fit(change(field), dim)


def test_wrong_estimator(field):
    with pytest.raises(TypeError, match=r"must be an SPCATV or an SPCATVCV, got PCA\(\)"):
        XarraySPCATV(PCA()).fit(field)


def test_stacked_samples_and_pickles(field):
    """A MultiIndex over the samples comes back, and a pickle gives the same numbers."""
    stacked = field.stack(sample=("time",), create_index=False).set_index(sample=["time", "month"])
    model = XarraySPCATV(small(), weights="coslat").fit(stacked, "sample")
    again = pickle.loads(pickle.dumps(model))
    xr.testing.assert_identical(again.transform(stacked), model.transform(stacked))
    fields = again.inverse_transform(again.transform(stacked))
    assert fields.indexes["sample"].equals(stacked.indexes["sample"])
    np.testing.assert_array_equal(fields.sel(month=3).lat, field.lat)


def test_wrong_periodic(field):
    with pytest.raises(ValueError, match=r"dimensions of the grid, \('lat', 'lon'\); got 'time'"):
        XarraySPCATV(small(), periodic="time").fit(field)


def test_a_selection_is_an_estimator_too(field):
    search = SPCATVCV(1, sparsity=[0.5, 0.8], smoothness=1.0, cv=2)
    model = XarraySPCATV(search, weights="coslat").fit(field)
    best = model.estimator_.best_estimator_
    np.testing.assert_array_equal(model.components_.values[:, ~LAND], best.components_ / coslat())
    assert model.transform(field).sizes == {"time": N, "component": 1}
    with pytest.raises(ValueError, match="standardize=True would undo the weights"):
        XarraySPCATV(clone(search).set_params(standardize=True), weights="coslat").fit(field)


@pytest.mark.parametrize("dtype", ["<f4", ">f4"])  # classic NetCDF files are big-endian
def test_float32_stays(field, dtype):
    model = XarraySPCATV(small(), weights="coslat").fit(field.astype(dtype))
    for array in (model.components_, model.transform(field.astype(dtype)), model.mean_):
        assert array.dtype == np.float32


def test_own_structure_and_parameters(field):
    own = grid(~LAND)
    model = XarraySPCATV(small(structure=own)).fit(field)
    assert model.estimator_.structure_ is own
    assert clone(model).get_params()["estimator__sparsity"] == 0.8
    assert XarraySPCATV(weights=np.arange(40.0).reshape(5, 8)).fit(field).components_.sizes["component"] == 3


def test_dask_arrays_stay_where_they_are(field, monkeypatch):
    """The same numbers, and the array is never asked for as a whole."""
    dask_array = pytest.importorskip("dask.array", reason="needs the extra dask")
    X, _ = plain(field, coslat())
    X = dask_array.from_array(X, chunks=(6, -1))
    expected = small(structure=grid(~LAND, periodic=(False, True))).fit(X)
    expected_scores = expected.transform(X)

    def refuse(*args, **kwargs):
        raise AssertionError("the array was loaded")

    monkeypatch.setattr(dask_array.Array, "__array__", refuse)
    lazy = field.chunk(time=6, lat=3)
    model = XarraySPCATV(small(), weights="coslat").fit(lazy)
    assert np.isnan(model.components_.values[:, LAND]).all()
    np.testing.assert_array_equal(model.estimator_.components_, expected.components_)
    scores = model.transform(lazy)
    np.testing.assert_array_equal(scores, expected_scores)
    again = model.inverse_transform(scores.chunk(time=6))
    assert isinstance(again.data, dask_array.Array)
    np.testing.assert_allclose(again.compute(), model.inverse_transform(scores))
    monkeypatch.undo()  # an error may look at one cell
    lazy = lazy.where(lazy.month < 12)
    with pytest.raises(ValueError, match="X is nan at time=2001-12-01"):
        model.transform(lazy)


def test_without_xarray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    spec = importlib.util.spec_from_file_location("without", module.__file__)
    with pytest.raises(ImportError, match=r'pip install "spca-tv\[xarray\]"'):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize("dims", [("lat", "lon"), ("lon", "lat")])
@pytest.mark.parametrize("turned", [(), ("lat",), ("lon",)])
def test_the_report_has_north_up_and_coordinates(dims, turned):
    for name in ("matplotlib", "jinja2"):
        pytest.importorskip(name, reason="needs the extra report")
    from spcatv.report import generate_report
    from spcatv.report.maps import views_of

    rng = np.random.default_rng(0)
    lat, lon = np.arange(-10.0, 21, 10), np.array([120.0, 140, 160, 180, 200])
    values = 0.1 * rng.standard_normal((N, 4, 5))
    values[:, 3, 1:3] += 3 * rng.standard_normal((N, 1))  # at 20 north
    north = xr.DataArray(values, {"time": np.arange(N), "lat": lat, "lon": lon})
    field = north.isel({name: slice(None, None, -1) for name in turned}).transpose("time", *dims)
    fitted = XarraySPCATV(small(n_components=1, sparsity=0.9)).fit(field).estimator_
    (view,) = views_of(fitted)
    shown = np.concatenate([[0], fitted.components_[0]])[view.index] != 0
    assert np.argwhere(shown).tolist() == [[0, 1], [0, 2]]
    assert view.axes == (("lat", ("20", "10", "0", "-10")), ("lon", ("120", "140", "160", "180", "200")))
    html = generate_report(fitted).html
    peak = ("20", "140") if abs(fitted.components_[0]).argmax() == view.index[0, 1] - 1 else ("20", "160")
    place = ", ".join(f"{name} {dict(zip(('lat', 'lon'), peak, strict=True))[name]}" for name in dims)
    assert f"its peak at {place}" in html


def test_pictures_of_other_axes(field):
    pytest.importorskip("matplotlib", reason="needs the extra report")
    from spcatv.report.maps import views_of

    depths = field.isel(lat=[0, 2, 3]).drop_vars(["lat", "lon", "basin"]).rename(lat="depth", lon="place")
    depths = depths.assign_coords(depth=("depth", [5, 10, 20], {"positive": "down"}))
    (view,) = views_of(XarraySPCATV(small()).fit(depths).estimator_)
    assert view.axes == (("depth", ("5", "10", "20")), ("place", tuple(map(str, range(8)))))
    (line,) = views_of(XarraySPCATV(small(smoothness=0)).fit(field.isel(lat=2)).estimator_)
    assert line.names[:2] == ("lon 0", "lon 45")
    own = XarraySPCATV(small(structure=np.ones((1, int((~LAND).sum()))), smoothness=0)).fit(field).estimator_
    assert views_of(own)[0].axes == (("row", ()), ("column", ())), "another grid has other axes"


def test_a_saved_model_has_its_coordinates(field, tmp_path):
    field = field.assign_coords(
        basin=field.basin.where(field.basin > 3),  # NaN
        lat=("lat", LAT.astype(np.float32), {"units": "degrees_north", "valid_max": np.nan}),
        init=np.datetime64("2000-01-02T03:04:05", "ns"),
    )
    field = xr.Dataset({"sst": field, "air": 2 * field}).to_dataarray("variable").rename("both")
    field.attrs = {"units": "K", "range": np.array([1, 2])}
    model = XarraySPCATV(small(), weights="coslat").fit(field)
    again = XarraySPCATV.load(model.save(tmp_path / "model"))
    scores = model.transform(field)
    xr.testing.assert_identical(again.transform(field), scores)
    xr.testing.assert_equal(again.components_, model.components_)
    xr.testing.assert_equal(again.weights_, model.weights_)
    fields = again.inverse_transform(scores)
    xr.testing.assert_equal(fields, model.inverse_transform(scores))
    assert fields.attrs == {"units": "K", "range": [1, 2]}
    assert fields.name == "both"
    assert fields.lat.attrs == {"units": "degrees_north"}
    assert again.periodic_dims_ == ("lon",)
    xr.testing.assert_identical(again.fit(field).components_, model.components_)


def test_a_saved_model_keeps_weights_and_a_structure_of_its_own(field, tmp_path):
    by_lat = np.sqrt(np.cos(np.deg2rad(field.lat)))
    own = grid(~LAND)
    for model in (
        XarraySPCATV(small(), weights=by_lat),
        XarraySPCATV(small(structure=own), periodic=("lon",)),
    ):
        model.fit(field)
        again = XarraySPCATV.load(model.save(tmp_path / "model"))
        assert (again.estimator.structure is None) == (model.estimator.structure is None)
        assert again.periodic == model.periodic
        xr.testing.assert_identical(again.fit(field).components_, model.components_)


def test_a_model_that_cannot_be_saved(field, tmp_path):
    dates = field.assign_coords(basin=(("lat", "lon"), np.full((5, 8), object())))
    with pytest.raises(ModelError, match=r"coordinate 'basin' .*X.drop_vars\('basin'\)"):
        XarraySPCATV(small()).fit(dates).save(tmp_path / "model")
    search = SPCATVCV(1, sparsity=0.8, smoothness=1.0, cv=2, standardize=True)
    with pytest.raises(ModelError, match="standardize=True cannot be saved"):
        XarraySPCATV(search).fit(field).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_damaged_grid_is_an_error(field, tmp_path):
    model = XarraySPCATV(small()).fit(field)
    saved = read_model(model.save(tmp_path / "model"))
    for wrong in (saved.arrays["grid.cells"][::-1], saved.arrays["grid.cells"][1:]):
        with pytest.raises(ModelError, match="cells of the grid do not fit"):
            XarraySPCATV.restore(replace(saved, arrays={**saved.arrays, "grid.cells": wrong}))
    state = {**saved.fitted["grid"], "shape": [5, 9]}
    with pytest.raises(ModelError, match="conflicting sizes"):
        XarraySPCATV.restore(replace(saved, fitted={**saved.fitted, "grid": state}))
    with pytest.raises(ModelError, match="of kind 'XarraySPCATV', not 'SPCATV'"):
        SPCATV.load(tmp_path / "model")


@pytest.mark.parametrize("search", [False, True])
def test_halves_and_resamples_take_data_arrays(field, search):
    estimator = SPCATVCV(1, sparsity=0.8, smoothness=1.0, cv=2, standardize=True) if search else small()
    model = XarraySPCATV(estimator).fit(field)
    rows = field.values.reshape(N, -1)[:, ~LAND.ravel()]
    expected = model.estimator_
    if search:
        rows, expected = rows * expected.adjustment_.factor, expected.best_estimator_
    for function, options in ((split_halves, {"n_splits": 2}), (bootstrap_components, {"n_resamples": 2})):
        found = function(model, field, random_state=0, **options)
        same = function(expected, rows, random_state=0, **options)
        np.testing.assert_array_equal(found.components, expected.components_)
        for name in ("dice", "cosine"):
            np.testing.assert_allclose(getattr(found, name), getattr(same, name))
    assert split_halves(clone(model), field, n_splits=1, random_state=0).n_half == N // 2


def test_verdicts_stay_with_the_model(field, tmp_path):
    pytest.importorskip("pandas", reason="summary() needs pandas")
    months = field.month.values
    model = (
        XarraySPCATV(small(), weights="coslat").fit(field).check_stability(field, n_splits=2, groups=months)
    )
    expected = split_halves(model, field, n_splits=2, groups=months, random_state=0).reproducibility
    again = XarraySPCATV.load(model.save(tmp_path / "model"))
    for each in (model, again):
        assert list(each.summary()["pattern"]) == [record.verdict for record in expected]
        assert "pattern confirmed" in repr(each)


def test_the_number_of_components_is_counted(field):
    model = XarraySPCATV(small(n_components="auto"), weights="coslat").fit(field)
    X, fitted = plain(field, coslat())
    count = count_components(fitted, X)
    assert model.count_.reason == count.reason
    assert model.components_.sizes["component"] == count.n_components == 1
    search = SPCATVCV("auto", sparsity=0.8, smoothness=1.0, cv=2, standardize=True)
    count = count_components(fitted, X / coslat(), standardize=True)
    assert XarraySPCATV(search).fit(field).components_.sizes["component"] == count.n_components
    assert model.set_params(estimator__n_components=2).fit(field).count_ is None


def test_the_report_of_data_arrays(field, tmp_path):
    for name in ("matplotlib", "jinja2"):
        pytest.importorskip(name, reason="needs the extra report")
    from spcatv.report import generate_report

    model = XarraySPCATV(SPCATV("auto", sparsity=0.8), weights="coslat").fit(field)
    html = model.generate_report(data=field).html
    assert "2001-03-01" in html, "samples have the names of their coordinates"
    assert "XarraySPCATV(estimator=SPCATV(n_components=" in html.replace("&#39;", "'")
    assert "stands out" in html, "the count of components"
    assert " at lat " in html
    with pytest.raises(ValueError, match="is not that of the fit"):
        model.generate_report(data=field[:, ::-1])
    saved = generate_report(model.save(tmp_path / "model")).html
    assert " at lat " in saved, "a saved model has coordinates"


def test_maps_have_degrees_and_coastlines(field, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs the extra report")
    from spcatv.report import plot_components, views

    # a coast at 30 degrees north that goes around the globe, and one beyond the map
    coasts = [SimpleNamespace(coords=[(lon, 30.0) for lon in range(-180, 181, 5)])]
    coasts += [SimpleNamespace(geoms=[SimpleNamespace(coords=[(0.0, 80.0), (5.0, 85.0)])])]
    feature = SimpleNamespace(with_scale=lambda scale: SimpleNamespace(geometries=lambda: coasts))
    monkeypatch.setitem(sys.modules, "cartopy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cartopy.feature", SimpleNamespace(COASTLINE=feature))
    views._coastlines.cache_clear()
    try:
        figure = plot_components(XarraySPCATV(small(n_components=1)).fit(field))
    finally:
        views._coastlines.cache_clear()
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["60°N", "30°N", "0°", "30°S", "60°S"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0°", "90°E", "180°", "90°W"]
    around, beyond = (line.get_xydata() for line in axes.lines)
    assert np.isnan(beyond).any(axis=1).all()
    assert set(around[:, 1]) == {1.0}, "the second row from the top"
    place = np.nanargmin(np.abs(around[:, 0] - 2))
    assert coasts[0].coords[place][0] == 90, "the third column"
    assert -0.5 <= np.nanmin(around[:, 0]) < 0
    assert 7 < np.nanmax(around[:, 0]) <= 7.5, "the other hemisphere, too"
    steps = np.abs(np.diff(around[:, 0]))
    assert np.nanmax(steps) < 1, "no line across the map"


def test_stability_of_a_field_is_kept_and_saved(field, tmp_path):
    X = field
    model = XarraySPCATV(SPCATV(1, sparsity=0.8)).fit(X)
    before = repr(XarraySPCATV())
    assert "Component" not in before
    model.check_stability(X, n_splits=2)
    halves = split_halves(model, X, n_splits=2, random_state=0)
    assert model.estimator_.reproducibility_ == halves.reproducibility
    assert "Component 1: " in repr(model)
    assert repr(XarraySPCATV.load(model.save(tmp_path / "model"))) == repr(model)
    assert model.summary()["pattern"].tolist() == [record.verdict for record in halves.reproducibility]
