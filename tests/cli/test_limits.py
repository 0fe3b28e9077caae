"""Inputs that are too large, too deep or not what they say: refused by name, before they cost anything."""

import gzip
import io
import zipfile

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv._util.tables import TableError, read_table
from spcatv.cli import main
from spcatv.cli.app import build_parser
from spcatv.cli.arrays import load_array
from spcatv.cli.config import read_config
from spcatv.cli.inputs import sample_files
from spcatv.cli.parser import InputError
from spcatv.model import ModelError


def test_a_list_inside_a_list(tmp_path):
    (tmp_path / "one.txt").write_text("two.txt\n")
    (tmp_path / "two.txt").write_text("one.txt\n")
    with pytest.raises(InputError, match=r"two\.txt is a list inside a list"):
        sample_files([str(tmp_path / "one.txt")], path_column=None)


def test_a_spreadsheet_is_to_be_saved_as_csv(tmp_path):
    (tmp_path / "people.xlsx").write_bytes(b"PK")
    with pytest.raises(TableError, match=r"people\.xlsx is a spreadsheet; save it as CSV"):
        sample_files([str(tmp_path / "people.xlsx")], path_column=None)
    with pytest.raises(TableError, match="save it as CSV"):
        read_table(tmp_path / "people.xlsx")


def test_a_configuration_nested_too_deeply(tmp_path):
    (tmp_path / "c.toml").write_text("images = " + "[" * 5000)
    with pytest.raises(InputError, match=r"c\.toml.*is not valid TOML"):
        read_config(tmp_path / "c.toml", build_parser().commands["fit"].options, "fit")


def table(tmp_path, *cells):
    (tmp_path / "t.tsv").write_text("age\n" + "".join(f"{cell}\n" for cell in cells))
    return read_table(tmp_path / "t.tsv")


def test_tables(tmp_path, monkeypatch):
    with pytest.raises(TableError, match=r"t\.tsv is not a table: field larger"):
        table(tmp_path, "x" * 131_073)
    assert table(tmp_path, "1", "2e3").values("age", [0, 1]) == [1.0, 2000.0]
    assert table(tmp_path, "1", "1_000").values("age", [0, 1]) == ["1", "1_000"]
    assert table(tmp_path, "1", "\uff11\uff12").values("age", [0, 1]) == ["1", "\uff11\uff12"]
    with pytest.raises(TableError, match=r"t\.tsv: the value of age in row 2 is 1e\+308"):
        table(tmp_path, "1", "1e308").values("age", [0, 1])
    monkeypatch.setattr("spcatv._util.atomic_files.LARGEST_TEXT", 100)
    with pytest.raises(TableError, match=r"t\.tsv \(more than 100 bytes"):
        table(tmp_path, *range(100))


def test_an_npz_file_that_declares_more_than_it_holds(tmp_path):
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**5)}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", header.getvalue() + bytes(80))
    with pytest.raises(InputError, match=r"cannot read .*a\.npz as an array"):
        load_array(tmp_path / "a.npz")


def test_an_array_without_room_for_squares(tmp_path, capsys):
    X = np.ones((4, 5))
    X[2, 1] = 1e200
    np.save(tmp_path / "a.npy", X)
    assert main(["fit", "--array", str(tmp_path / "a.npy"), "--output", str(tmp_path / "out")]) == 2
    assert "a.npy: sample 2 holds values of up to 1e+200" in capsys.readouterr().err


def test_a_document_that_is_a_link(tmp_path):
    X = np.random.default_rng(0).standard_normal((6, 8))
    SPCATV(1).fit(X).save(tmp_path / "model")
    document = tmp_path / "model" / "model.json"
    document.rename(tmp_path / "elsewhere.json")
    document.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ModelError, match=r"model\.json is a symbolic link"):
        SPCATV.load(tmp_path / "model")


class TestImages:
    @pytest.fixture(autouse=True)
    def _needs_images(self):
        pytest.importorskip("nilearn")

    def surface(self, tmp_path, n_announced=20, rest=b""):
        import nibabel as nib

        from spcatv.structure import icosphere

        coords, triangles = icosphere(0)
        path = tmp_path / "lh.white"
        nib.freesurfer.write_geometry(path, coords, triangles)
        content = path.read_bytes()
        begin = content.index(b"\n\n") + 6
        path.write_bytes(content[:begin] + n_announced.to_bytes(4, "big") + content[begin + 4 :] + rest)
        return path

    def test_surfaces_hold_the_triangles_that_they_announce(self, tmp_path):
        from spcatv.images import ImageError
        from spcatv.images.spaces.meshes import load_mesh

        info = b"\0\0\0\x14valid = 1\n"
        assert len(load_mesh(self.surface(tmp_path), "left").triangles) == 20
        assert len(load_mesh(self.surface(tmp_path, rest=info), "left").triangles) == 20
        with pytest.raises(ImageError, match=r"lh\.white: cannot be read"):
            load_mesh(self.surface(tmp_path, 21), "left")

    def test_a_mesh_without_triangles(self):
        from spcatv.images import ImageError
        from spcatv.images.spaces.meshes import load_mesh

        with pytest.raises(ImageError, match="without triangles"):
            load_mesh((np.zeros((4, 3)), np.zeros((0, 3), int)), "left")

    def overlay(self):
        import nibabel as nib

        image = nib.gifti.GiftiImage()
        values = np.zeros(12, np.float32)
        image.add_gifti_data_array(nib.gifti.GiftiDataArray(values, datatype="NIFTI_TYPE_FLOAT32"))
        return image.to_bytes()

    def test_a_word_that_gifti_does_not_know_is_named_with_its_file(self, tmp_path):
        from spcatv.images import ImageError
        from spcatv.images.files import open_gifti

        (tmp_path / "lh.gii").write_bytes(self.overlay().replace(b"RowMajorOrder", b"RowMajovOrder"))
        with pytest.raises(ImageError, match=r"lh\.gii: cannot be read.*RowMajovOrder"):
            open_gifti(tmp_path / "lh.gii")

    @pytest.mark.parametrize("name", ["v.nii", "v.nii.gz"])
    def test_volumes_hold_the_values_that_they_announce(self, tmp_path, name):
        import nibabel as nib

        from spcatv.images import ImageError
        from spcatv.images.spaces.volume import open_one

        nib.save(nib.Nifti1Image(np.zeros((4, 4, 4), np.float32), np.eye(4)), tmp_path / name)
        content = (tmp_path / name).read_bytes()
        content = bytearray(gzip.decompress(content) if name.endswith("gz") else content)
        content[42:48] = np.array([20_000, 20_000, 20_000], "<i2").tobytes()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        with pytest.raises(ImageError, match=r"v\.nii.*announces 32,000,000,000,000 bytes"):
            open_one(str(tmp_path / name), name)

    @pytest.mark.parametrize("code", [2, 2 + 8, 7, 2 + 72])
    def test_units_that_nifti_does_not_know(self, code):
        import nibabel as nib

        from spcatv.images import read_cohort

        rng = np.random.default_rng(0)
        images = [nib.Nifti1Image(rng.standard_normal((3, 3, 3)), np.eye(4)) for _ in range(4)]
        mask = nib.Nifti1Image(np.ones((3, 3, 3), np.uint8), np.eye(4))
        mask.header["xyzt_units"] = code
        header = read_cohort(images, mask=mask).space.header
        assert header.get_xyzt_units() == ("unknown" if code == 7 else "mm", "unknown")
