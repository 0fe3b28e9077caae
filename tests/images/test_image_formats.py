"""A new image format is one module and one line in the registry, shown with a format of the test's own."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

pytest.importorskip("nilearn")

from spcatv import ImageSPCATV
from spcatv.images import ImageError, read_cohort, spaces
from spcatv.images.spaces.base import Space, VoxelSet
from spcatv.structure import as_structure, grid

SHAPE = (5, 4, 3)


@dataclass(frozen=True)
class TextImage:
    path: Path
    n_samples: int = 1
    t_r: float | None = None
    is_series: bool = False

    @property
    def name(self):
        return str(self.path)

    @property
    def files(self):
        return (self.path,)


@dataclass(frozen=True, eq=False)
class TextSpace(Space):
    """Voxels of a small volume, written as numbers in a text file."""

    kind: ClassVar[str] = "text"
    noun: ClassVar[str] = "numbers"
    suffixes: ClassVar[tuple[str, ...]] = (".numbers",)

    @classmethod
    def recognises(cls, item, surface):
        return str(item).endswith(cls.suffixes)

    @classmethod
    def open_images(cls, items):
        return [TextImage(Path(path)) for path in items]

    @classmethod
    def find(cls, images, mask, surface, cache):
        space = cls(np.ones(SHAPE, dtype=np.int32))
        return space.samples(images), f"all {space.n_features} numbers"

    def check(self, image):
        if not image.path.is_file():
            raise ImageError(f"{image.path}: no such file")

    def structure(self):
        return grid(self.labels)

    def read_image(self, image, out, fwhm, summed):
        out[0] = np.loadtxt(image.path)[self.places]

    def to_images(self, maps, names=()):
        return np.asarray(maps)

    def _save_maps(self, maps, names, folder, stem):
        np.savetxt(folder / f"{stem}.numbers", maps)
        return [folder / f"{stem}.numbers"]

    def masker(self):
        return None

    @property
    def voxel_set(self):
        return VoxelSet(0, np.argwhere(self.labels), np.eye(4))

    def state(self):
        return {}, {"labels": self.labels}

    @classmethod
    def from_state(cls, values, arrays):
        return cls(arrays["labels"])


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(spaces, "SPACES", (TextSpace, *spaces.SPACES))
    rng = np.random.default_rng(0)
    folder = tmp_path / "numbers"
    folder.mkdir()
    for number in range(10):
        values = 0.3 * rng.standard_normal(SHAPE)
        values[1:4, 1:3] += 3 * rng.standard_normal()
        values[0, 0, 0] = 1.0  # constant: dropped
        np.savetxt(folder / f"{number}.numbers", values.reshape(1, -1))
    return sorted(folder.iterdir())


@pytest.mark.filterwarnings("ignore::spcatv.images.BadFeatureWarning")
def test_a_new_format_is_fitted_saved_loaded_and_reported(files, tmp_path):
    model = ImageSPCATV(1).fit(files)
    assert model.space_.kind == "text"
    assert model.n_features_in_ == 59
    again = ImageSPCATV.load(model.save(tmp_path / "model"))
    assert np.array_equal(again.transform(files), model.transform(files))
    assert (tmp_path / "model" / "maps" / "desc-SPCATV_components.numbers").is_file()
    page = pytest.importorskip("spcatv.report").generate_report(again).html
    assert "59 numbers" in page
    assert "Sagittal" in page


@pytest.mark.filterwarnings("ignore::spcatv.images.BadFeatureWarning")
def test_features_without_places_are_reported_too(files, monkeypatch):
    monkeypatch.setattr(TextSpace, "voxel_set", None)
    monkeypatch.setattr(TextSpace, "structure", lambda self: as_structure(None, n_features=self.n_features))
    model = ImageSPCATV(1, sparsity=0.8).fit(files)
    assert "59 numbers" in pytest.importorskip("spcatv.report").generate_report(model).html


@pytest.mark.filterwarnings("ignore::spcatv.images.BadFeatureWarning")
def test_the_command_line_takes_it_too(files, tmp_path, capsys):
    from spcatv.cli import main

    out = tmp_path / "results"
    assert main(["fit", str(files[0].parent), "--n-components", "1", "--output", str(out)]) == 0
    assert "Read 10 images: all 60 numbers" in capsys.readouterr().out
    assert (out / "desc-SPCATV_components.numbers").is_file()
    assert main(["transform", str(out), str(files[0].parent), "--output", str(tmp_path / "t.tsv")]) == 0


def test_formats_are_not_mixed(files, tmp_path):
    with pytest.raises(ImageError, match=r"x\.nii: is a volume image, but the first one, .* is a text image"):
        read_cohort([files[0], "x.nii"])
