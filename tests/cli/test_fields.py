"""NetCDF files and Zarr stores on the command line."""

import numpy as np
import pytest
from cli_files import fields, read_tsv
from numpy.testing import assert_allclose

xr = pytest.importorskip("xarray", reason="fields are read with xarray (extra `xarray`)")
pytest.importorskip("h5netcdf", reason="NetCDF 4 is read with h5netcdf (extra `xarray`)")

from spcatv import SPCATV  # noqa: E402
from spcatv.results import read_results  # noqa: E402
from spcatv.xarray import XarraySPCATV  # noqa: E402

QUICK = ("-k", "2", "--n-splits", "0")


@pytest.fixture
def sst():
    """Monthly field with land and one cell that is missing once."""
    values = fields(24, (8, 9)).astype(np.float32)
    values[:, 0, :3] = np.nan
    values[5, 7, 8] = np.nan
    coords = {
        "time": np.array("1990-01", "M8[M]").astype("M8[ns]") + np.arange(24) * np.timedelta64(30, "D"),
        "lat": np.linspace(-70.0, 70.0, 8),
        "lon": np.arange(9) * 40.0,
    }
    return xr.DataArray(values, coords=coords, dims=tuple(coords), name="sst", attrs={"units": "K"})


@pytest.fixture
def netcdf(sst, tmp_path):
    file = tmp_path / "sst.nc"
    sst.to_dataset().assign(months=("time", np.arange(24))).to_netcdf(file, engine="h5netcdf")
    return file


def expected(sst, **parameters):
    complete = sst.where(sst.notnull().all("time"))
    return XarraySPCATV(SPCATV(2, random_state=0), **parameters).fit(complete)


def maps(folder, stem="desc-SPCATV_components"):
    with xr.open_dataarray(folder / f"{stem}.nc") as found:
        return found.load()


def test_same_as_the_library_with_coordinates(sst, netcdf, tmp_path, done):
    shown = done("fit", netcdf, *QUICK, "--weights", "coslat", "--output", tmp_path / "out")
    assert "24 samples of sst on 68 cells" in shown
    assert "4 left out" in shown
    assert "lon goes around" in shown
    found, model = maps(tmp_path / "out"), expected(sst, weights="coslat")
    xr.testing.assert_allclose(found, model.components_)
    rows = read_tsv(tmp_path / "out" / "desc-SPCATV_mixing.tsv")
    assert [row["time"] for row in rows][:2] == ["1990-01-01", "1990-01-31"]
    scores = model.transform(sst.where(sst.notnull().all("time")))
    assert_allclose([float(row["component_1"]) for row in rows], scores[:, 0], rtol=1e-5, atol=1e-5)


def test_months_of_a_year_stay_in_one_half(tmp_path, done):
    """What happened in one year alone is in all halves of the months, and in one half of the years only."""
    values = np.random.default_rng(0).standard_normal((96, 6, 7))
    values[36:48, :3, :4] += 3.0
    time = np.arange("1990-01", "1998-01", dtype="M8[M]").astype("M8[ns]")
    array = xr.DataArray(values, coords={"time": time}, dims=("time", "y", "x"), name="field")
    array.to_netcdf(tmp_path / "field.nc", engine="h5netcdf")
    shown = done("fit", tmp_path / "field.nc", "-k", "1", "--n-splits", "4", "--output", tmp_path / "out")
    assert "96 samples of 8 years" in shown
    model = XarraySPCATV(SPCATV(1)).fit(array)
    by_year, by_month = (
        model.check_stability(array, n_splits=4, **groups).estimator_.reproducibility_[0].cosine
        for groups in ({}, {"groups": None})
    )
    assert by_year < 0.75 < by_month


def test_transform_gives_the_scores_of_the_fit(netcdf, sst, tmp_path, done, refused):
    done("fit", netcdf, *QUICK, "--weights", "coslat", "--output", tmp_path / "out")
    done("transform", tmp_path / "out", netcdf, "--output", tmp_path / "scores.tsv")
    fitted = read_tsv(tmp_path / "out" / "desc-SPCATV_mixing.tsv")
    rows = read_tsv(tmp_path / "scores.tsv")
    assert [row["time"] for row in rows] == [row["time"] for row in fitted]
    for name in ("component_1", "component_2"):
        found, scores = ([float(row[name]) for row in table] for table in (rows, fitted))
        assert_allclose(found, scores, rtol=1e-4, atol=1e-4)
    model = XarraySPCATV.load(tmp_path / "out" / "model")
    xr.testing.assert_identical(model.components_.lat, sst.lat)
    other = tmp_path / "other.nc"
    sst.isel(lat=slice(1, None)).to_netcdf(other, engine="scipy")
    command = ("transform", tmp_path / "out", "--output", tmp_path / "more.tsv")
    assert "the coordinate 'lat' of X (7 cells) is not that of the fit" in refused(*command, other)
    (tmp_path / "image.nii").write_bytes(b"x")
    assert "was fitted to a field" in refused(*command, tmp_path / "image.nii")


def test_every_format_and_several_files_give_the_same(sst, netcdf, tmp_path, done):
    sst[:10].to_netcdf(tmp_path / "part-1.nc", engine="scipy")
    sst[10:].to_netcdf(tmp_path / "part-2.nc", engine="scipy")
    inputs = {"one": netcdf, "parts": tmp_path / "part-*.nc"}
    try:
        sst.to_dataset().to_zarr(tmp_path / "sst.zarr", zarr_format=2, consolidated=True)
        inputs["zarr"] = tmp_path / "sst.zarr"
    except ImportError:  # zarr is not installed
        pass
    for name, source in inputs.items():
        done("fit", source, *QUICK, "--output", tmp_path / name)
        xr.testing.assert_identical(maps(tmp_path / name), maps(tmp_path / "one"))


def test_configuration_repeats_the_run(netcdf, tmp_path, done):
    done("fit", netcdf, *QUICK, "--weights", "coslat", "--output", tmp_path / "one")
    done("fit", "--config", tmp_path / "one" / "desc-SPCATV_config.toml", "-o", tmp_path / "two")
    xr.testing.assert_identical(maps(tmp_path / "one"), maps(tmp_path / "two"))


def test_dimensions_of_the_samples(sst, tmp_path, done):
    renamed = sst.isel(lat=slice(1, 7)).rename(time="month").expand_dims(member=["a"])
    renamed.to_netcdf(tmp_path / "x.nc", engine="h5netcdf")
    done("fit", tmp_path / "x.nc", *QUICK, "--dim", "month,member", "--output", tmp_path / "out")
    row = read_tsv(tmp_path / "out" / "desc-SPCATV_mixing.tsv")[1]
    assert (row["month"], row["member"]) == ("1990-01-31", "a")
    assert row["input"].endswith("x.nc[1990-01-31, a]")
    assert maps(tmp_path / "out").dims == ("component", "lat", "lon")


@pytest.mark.filterwarnings("ignore:the samples are in an order")
def test_select_writes_stability_maps_and_the_explorer(netcdf, tmp_path, done):
    options = ("--sparsity", "0.6", "0.8", "--smoothness", "1", "--no-shuffle", "--n-bootstraps", "3")
    done("select", netcdf, *QUICK, *options, "--explore", "--output", tmp_path / "out")
    frequency = maps(tmp_path / "out", "desc-frequency_components")
    assert float(frequency.max()) <= 1
    assert frequency.lat.size == 8
    page = (tmp_path / "out" / "desc-SPCATV_explorer.html").read_text(encoding="utf-8")
    assert f"spca-tv fit {netcdf}" in page
    assert "XarraySPCATV(model).fit(X, dim=" in page


def test_report_reads_the_folder(netcdf, tmp_path, done):
    done("fit", netcdf, *QUICK, "--output", tmp_path / "out")
    assert read_results(tmp_path / "out").scores.values.shape == (24, 2)
    done("report", tmp_path / "out", "--variable", tmp_path / "out" / "desc-SPCATV_mixing.tsv", "component_2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--variable", "ssh"], "has no variable ssh; its variables are sst, months"),
        (["--variable", "months"], "none is left for the features"),
        (["--dim", "month"], "name the dimension of samples with --dim (of time, lat, lon)"),
        (["--mask", "mask.nc"], "--mask does not go with NetCDF"),
        (["--standardize"], "--standardize can only be used with images"),
        (["--bad-features", "raise"], "X is nan at time=1990-05-31"),
    ],
)
def test_errors_name_what_to_do(options, message, netcdf, tmp_path, refused):
    assert message in refused("fit", netcdf, *options, "--output", tmp_path / "out")


def test_files_that_cannot_be_read(sst, netcdf, tmp_path, refused):
    empty, damaged = tmp_path / "empty.nc", tmp_path / "damaged.nc"
    empty.touch()
    damaged.write_bytes(netcdf.read_bytes()[:3000])
    out = ("--output", tmp_path / "out")
    assert f"{empty} is empty" in refused("fit", empty, *out)
    assert f"cannot read {damaged}" in refused("fit", damaged, *out)
    sst[3:9].to_netcdf(tmp_path / "again.nc", engine="scipy")
    message = refused("fit", netcdf, tmp_path / "again.nc", "--variable", "sst", *out)
    assert "two samples have the same time" in message
    assert "is read without --array" in refused("fit", "--array", netcdf, *out)
