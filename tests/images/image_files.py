"""Writing small files in the formats that the tests need."""

import numpy as np
import pytest


def write_mgh(path, rows):
    """One row or several on one hemisphere, as FreeSurfer's .mgh or .mgz."""
    nib = pytest.importorskip("nibabel")
    rows = np.atleast_2d(rows).astype(np.float32)
    shape = (rows.shape[1], 1, 1) if len(rows) == 1 else (rows.shape[1], 1, 1, len(rows))
    nib.save(nib.MGHImage(rows.T.reshape(shape), np.eye(4)), path)


def write_gifti(path, rows):
    """One data array per row of `values`."""
    nib = pytest.importorskip("nibabel")
    arrays = [nib.gifti.GiftiDataArray(row.astype(np.float32)) for row in np.atleast_2d(rows)]
    nib.save(nib.gifti.GiftiImage(darrays=arrays), path)


def write_curv(path, row):
    """FreeSurfer's format for one value per vertex."""
    nib = pytest.importorskip("nibabel")
    nib.freesurfer.write_morph_data(path, row.astype(np.float32), fnum=2 * len(row) - 4)


def write_surface(path, coords, triangles):
    """A mesh as GIFTI."""
    nib = pytest.importorskip("nibabel")
    arrays = [
        nib.gifti.GiftiDataArray(coords.astype(np.float32), intent="NIFTI_INTENT_POINTSET"),
        nib.gifti.GiftiDataArray(triangles.astype(np.int32), intent="NIFTI_INTENT_TRIANGLE"),
    ]
    nib.save(nib.gifti.GiftiImage(darrays=arrays), path)
