"""Opening image files: whatever is wrong with a file becomes an `ImageError` that names it."""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import nibabel as nib
from nibabel.arrayproxy import ArrayProxy
from nibabel.filebasedimages import ImageFileError
from nibabel.openers import ImageOpener

from spcatv._util.atomic_files import open_regular
from spcatv._util.bids import PAIR
from spcatv._util.threads import in_order

T = TypeVar("T")

try:  # two to three times faster, and without the GIL
    from isal import igzip

    unzip: Any = igzip
except ImportError:
    unzip = gzip

GZIPPED = (".gz", ".mgz")
COMPRESSED = (*GZIPPED, ".bz2", ".zst")
GIFTI_NAMES = (".gii", ".gii.gz")
# files of one image, which nibabel reads together
PAIRED = (".img", ".hdr", ".mat")
# Largest factor by which deflate compresses.
MOST_COMPRESSED = 1032
# bytes that are decompressed at a time behind the values of an image
TAIL_BLOCK = 2**20
# first bytes of FreeSurfer's curv files
CURV_MAGIC = b"\xff\xff\xff"
# images that an error about several of them describes
MOST_DESCRIBED = 20


class ImageError(ValueError):
    """Images, masks, surfaces or confounds that cannot be used; the message names the file.

    Examples
    --------
    >>> from spcatv import ImageSPCATV
    >>> from spcatv.images import ImageError
    >>> try:
    ...     ImageSPCATV().fit(["sub-01_gm.nii.gz", "sub-02_gm.nii.gz"])
    ... except ImageError as error:
    ...     print(error)
    2 images cannot be used: sub-01_gm.nii.gz: no such file; sub-02_gm.nii.gz: no such file
    """

    exit_code = 2  # of the command line


@contextmanager
def image_errors(*errors: type[Exception]) -> Iterator[None]:
    """Turn `errors` into an ImageError with the same message."""
    try:
        yield
    except errors as error:
        raise ImageError(str(error)) from error


def each_image(
    make: Callable[[int], T], take: Callable[[T], None], n_images: int, n_threads: int = 1
) -> None:
    """Make items on several threads, take them in order, and raise one ImageError about all that failed.

    Errors of a subclass, such as those of a cache, are raised at once.
    """
    errors: list[ImageError] = []

    def made(number: int) -> T | ImageError:
        try:
            return make(number)
        except ImageError as error:
            return error

    def taken(item: T | ImageError) -> None:
        if not isinstance(item, ImageError):
            take(item)
        elif type(item) is ImageError:
            errors.append(item)
        else:
            raise item

    in_order(made, taken, n_images, n_threads)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        more = "; ..." if len(errors) > MOST_DESCRIBED else ""
        texts = "; ".join(map(str, errors[:MOST_DESCRIBED]))
        raise ImageError(f"{len(errors)} images cannot be used: {texts}{more}")


def open_each(imgs: Any, open_one: Callable[[Any, int], T]) -> list[T]:
    """Open a list of images, or one, by their numbers; one ImageError describes all that fail.

    Once one fails, all compressed files are read to their ends, so that damaged ones are described, too.
    """
    items = list(imgs) if isinstance(imgs, (list, tuple)) else [imgs]
    opened: list[T] = []

    def open_whole(number: int) -> None:
        item = items[number]
        open_one(item, number)
        if is_path(item) and is_compressed(item):
            with reading(item), open_stream(Path(item).expanduser()):
                pass

    try:
        each_image(lambda number: open_one(items[number], number), opened.append, len(items))
    except ImageError:
        each_image(open_whole, lambda _: None, len(items))
        raise
    return opened


def is_path(item: Any) -> bool:
    """Return whether `item` is a file name rather than an image."""
    return isinstance(item, (str, Path))


def image_name(item: Any, number: int) -> str:
    """Return the file name of an image if it has one, otherwise its place in the list (from 1).

    The name of overlays by hemisphere is that of both files.
    """
    if isinstance(item, Mapping):
        return PAIR.join(image_name(part, number) for part in item.values())
    if is_path(item):
        return str(item)
    filename = item.get_filename() if hasattr(item, "get_filename") else None
    return str(filename) if filename else f"image {number + 1}"


def file_behind(image: Any) -> Path | None:
    """Return the file that holds the values of an image; None for an array in memory."""
    filename = image.get_filename() if nib.is_proxy(image.dataobj) else None
    return Path(filename) if filename else None


def checked_file(path: str | Path) -> Path:
    """Return the path of a regular file that can be read; raise an ImageError if it is none."""
    path = Path(path).expanduser()
    try:
        with open_regular(path) as file:
            if not file.read(1):
                raise ImageError(f"{path}: is empty")
    except FileNotFoundError as error:
        raise ImageError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise ImageError(f"{path}: is a directory, not an image; name the files in it") from error
    except OSError as error:
        raise ImageError(f"{path}: cannot be read ({error.strerror})") from error
    return path


@contextmanager
def reading(name: str | Path) -> Iterator[None]:
    """Turn whatever a decoder raises while it reads `name` into an ImageError."""
    try:
        yield
    except ImageError:
        raise
    except ImageFileError as error:
        raise ImageError(
            f"{name}: not an image that can be read (NIfTI, CIFTI-2, GIFTI, MGH/MGZ or FreeSurfer curv)"
        ) from error
    except Exception as error:  # nibabel and its decoders raise nearly anything for a damaged file
        if isinstance(error, OSError) and error.errno is not None:  # of the disk, not of a decoder
            raise ImageError(f"{name}: cannot be read ({error.strerror})") from error
        text = " ".join(str(error).split())
        known = isinstance(error, (OSError, EOFError, ValueError)) and text
        reason = text if known else f"{type(error).__name__} {text}".strip()
        raise ImageError(
            f"{name}: cannot be read; it is damaged, cut short or no image ({reason})"
        ) from error


def open_volume(path: str | Path) -> Any:
    """Open a NIfTI, CIFTI-2 or MGH file without reading its values."""
    path = checked_file(path)
    stem = path.name.removesuffix(".gz")
    if stem.endswith(PAIRED):
        for beside in (path.with_name(stem[:-4] + ending) for ending in PAIRED):
            if beside.exists():
                checked_file(beside)
    with reading(path):
        try:
            return nib.load(path)
        except ImageFileError:
            with open_stream(path):  # the error of a damaged stream is more precise
                pass
            raise


@contextmanager
def open_stream(path: Path, *, whole: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that may be compressed; with `whole`, read a compressed stream to its end.

    Its checksum stands there: before the block has ended without an error, the values may be wrong.
    """
    suffix = path.suffix.lower()
    with ExitStack() as stack:
        file: Any = stack.enter_context(open_regular(path))
        if suffix in GZIPPED:
            file = stack.enter_context(unzip.open(file))
        elif suffix in COMPRESSED:
            file = stack.enter_context(ImageOpener(path)).fobj
        yield file
        while whole and suffix in COMPRESSED and file.read(TAIL_BLOCK):
            pass


@contextmanager
def open_values(image: Any) -> Iterator[Any]:
    """Open the values of an image for one pass; compressed files are read to their end (`open_stream`)."""
    values = image.dataobj
    with ExitStack() as stack:
        if file_behind(image) is not None:
            for kind, holder in image.file_map.items():
                if is_compressed(holder.filename):
                    opened = stack.enter_context(open_stream(Path(holder.filename)))
                    if kind == "image" and type(values) is ArrayProxy:  # nibabel would parse the header again
                        about = (values.shape, values.dtype, values.offset, values.slope, values.inter)
                        values = ArrayProxy(opened, about)
        yield values


def is_compressed(name: str | Path | None) -> bool:
    """Return whether the ending of a file name is that of a compressed stream."""
    return name is not None and Path(name).suffix.lower() in COMPRESSED


def open_gifti(path: str | Path) -> nib.gifti.GiftiImage:
    """Read a GIFTI file, ``.gii`` or ``.gii.gz``."""
    path = checked_file(path)
    with reading(path):
        if path.suffix == ".gz":
            with open_stream(path) as file:
                image = nib.gifti.GiftiImage.from_bytes(file.read())
        else:
            image = nib.gifti.GiftiImage.load(path)
        if image is None or not image.darrays:
            raise ImageError(f"{path}: the GIFTI file holds no data array")
        return image


def is_curv(path: Path) -> bool:
    """Return whether a file begins like a FreeSurfer curv file (``lh.thickness``, ``rh.sulc``, ...)."""
    with reading(path), open_regular(path) as file:
        return file.read(len(CURV_MAGIC)) == CURV_MAGIC


def check_values(image: Any, name: str) -> None:
    """Refuse values that are no numbers, or more of them than the file can hold, before they get memory."""
    if image.get_data_dtype().kind not in "biuf":
        raise ImageError(f"{name}: must hold one number at every place, but holds {image.get_data_dtype()}")
    file = file_behind(image)
    if file is None or not file.is_file():
        return
    announced = math.prod(map(int, image.shape)) * int(image.get_data_dtype().itemsize)
    on_disk = os.path.getsize(file)
    most = on_disk * (MOST_COMPRESSED if is_compressed(file) else 1)
    if announced > most:
        raise ImageError(
            f"{name}: cannot be read; its header announces {announced:,} bytes of values, but a file of "
            f"{on_disk:,} bytes holds {most:,} at most"
        )
