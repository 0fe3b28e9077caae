"""`spca-tv select --scheduler` on a cluster, here of threads, and where there is none."""

import socket
import sys

import pytest
from cli_files import listing
from select_files import SMALL, assert_same_results

from spcatv.cli import main


def test_no_scheduler_answers(array, tmp_path, refused, monkeypatch):
    pytest.importorskip("distributed", reason='needs the extra dask: pip install "spca-tv[dask]"')
    monkeypatch.setattr("spcatv.selection.workers.CONNECT_SECONDS", 1)
    command = ("select", "--array", array, *SMALL, "--output", tmp_path / "out")
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # a port that nobody listens to, and that nobody else can get
        address = f"tcp://127.0.0.1:{unheard.getsockname()[1]}"
        line = refused(*command, "--scheduler", address)
    assert f"--scheduler: no Dask scheduler answers at '{address}'" in line
    assert listing(tmp_path) == ["X.npy"]


def test_missing_extra_is_one_line(array, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    command = ["select", "--array", str(array), *SMALL, "--scheduler", "tcp://127.0.0.1:9", "--output"]
    assert main([*command, str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert said == (
        'spca-tv: error: a Dask cluster needs the package distributed: pip install "spca-tv[dask]"\n'
    )
    assert listing(tmp_path) == ["X.npy"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_same_numbers_on_a_cluster(array, tmp_path, done):
    distributed = pytest.importorskip(
        "distributed", reason='needs the extra dask: pip install "spca-tv[dask]"'
    )
    command = ("select", "--array", array, *SMALL)
    done(*command, "--output", tmp_path / "alone")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        protocol="tcp",
        dashboard_address=":0",
        silence_logs=50,
    ) as cluster:
        address = cluster.scheduler_address
        done(*command, "--scheduler", address, "--output", tmp_path / "together")
    assert_same_results(tmp_path / "alone", tmp_path / "together")
    config = (tmp_path / "together" / "desc-SPCATV_config.toml").read_text()
    assert "scheduler" not in config, "a cluster is gone when the run is repeated"
