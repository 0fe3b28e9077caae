"""Opening files: whatever is wrong with a file becomes an `ImageError` that names it."""

from __future__ import annotations

import gzip
import math
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import nibabel as nib
import numpy as np
import numpy.typing as npt
from nibabel.filebasedimages import ImageFileError
from nibabel.fileholders import FileHolder
from nibabel.gifti.parse_gifti_fast import GiftiImageParser
from nibabel.openers import ImageOpener

from spcatv._util.files import MOST_COMPRESSED, open_regular
from spcatv._util.threads import in_order

T = TypeVar("T")

try:  # two to three times faster, and without the GIL
    from isal import igzip

    unzip: Any = igzip
except ImportError:
    unzip = gzip

# bytes that a compressed GIFTI file may unfold to
LARGEST_GIFTI = 2**30
GZIPPED = (".gz", ".mgz")
COMPRESSED = (*GZIPPED, ".bz2", ".zst")
# Files of one image, which nibabel reads together.
PAIRED = (".img", ".hdr", ".mat")
# Bytes that are decompressed at a time behind the values of an image.
TAIL_BLOCK = 2**20
# FreeSurfer's curv files: a magic number, then the numbers of vertices, faces, and values per vertex
CURV_MAGIC = b"\xff\xff\xff"
CURV_HEADER = struct.Struct(">3siii")
# Images that an error about several of them describes.
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


@contextmanager
def image_errors(*errors: type[Exception]) -> Iterator[None]:
    """Turn `errors` into an ImageError with the same message."""
    try:
        yield
    except errors as error:
        raise ImageError(str(error)) from error


def each_image(
    make: Callable[[int], T],
    take: Callable[[T], None],
    n_items: int,
    n_threads: int = 1,
    failed: list[ImageError] | None = None,
) -> None:
    """Run `in_order` over all images, and then raise one ImageError that describes all images that failed.

    Errors are put into `failed` as they occur. An error of a cache, a subclass, is raised at once.
    """
    errors: list[ImageError] = [] if failed is None else failed

    def made(number: int) -> T | ImageError:
        try:
            return make(number)
        except ImageError as error:
            return error

    def taken(item: T | ImageError) -> None:
        try:
            if isinstance(item, ImageError):
                raise item
            take(item)
        except ImageError as error:
            if type(error) is not ImageError:
                raise
            errors.append(error)

    in_order(made, taken, n_items, n_threads)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        more = "; ..." if len(errors) > MOST_DESCRIBED else ""
        texts = "; ".join(map(str, errors[:MOST_DESCRIBED]))
        raise ImageError(f"{len(errors)} images cannot be used: {texts}{more}")


def is_path(item: Any) -> bool:
    """Whether `item` is a file name rather than an image."""
    return isinstance(item, (str, Path))


def image_name(item: Any, number: int) -> str:
    """The file name of an image if it has one, otherwise its place in the list (from 1)."""
    if is_path(item):
        return str(item)
    filename = item.get_filename() if hasattr(item, "get_filename") else None
    return str(filename) if filename else f"image {number + 1}"


def checked_file(path: str | Path) -> Path:
    """Return the path of a regular file that can be read; raise an ImageError if it is none."""
    path = Path(path).expanduser()
    try:
        with open_regular(path) as file:
            file.read(1)
    except FileNotFoundError as error:
        raise ImageError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise ImageError(f"{path}: is a directory, not an image; name the files in it") from error
    except OSError as error:
        raise ImageError(f"{path}: cannot be read ({error.strerror})") from error
    return path


@contextmanager
def reading(name: str | Path) -> Iterator[None]:
    """Turn what a decoder raises while it reads `name` into an ImageError."""
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
    """Open a NIfTI, CIFTI-2 or MGH file; its values are read later."""
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
            with open_stream(path):  # an error of a damaged stream says more
                pass
            raise


@contextmanager
def open_stream(path: Path, *, whole: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that may be compressed; with `whole`, a compressed stream is read to its end.

    The checksum lies there: until the block has ended without an error, nothing is known about the values.
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
def streamed(image: Any) -> Iterator[Any]:
    """Open the files of an image again for one pass over its values, with `open_stream`."""
    with ExitStack() as stack:
        holders = dict(image.file_map)
        for kind, holder in holders.items():
            if is_compressed(holder.filename):
                opened = stack.enter_context(open_stream(Path(holder.filename)))
                holders[kind] = FileHolder(fileobj=opened)
        yield type(image).from_file_map(holders)


def is_compressed(name: str | Path | None) -> bool:
    """Whether the ending of a file name is that of a compressed stream."""
    return name is not None and Path(name).suffix.lower() in COMPRESSED


def open_gifti(path: str | Path) -> nib.gifti.GiftiImage:
    """Read a GIFTI file, ``.gii`` or ``.gii.gz``."""
    path = checked_file(path)
    with reading(path):
        parser = _GiftiParser()
        if path.name.endswith(".gz"):
            with open_stream(path) as file:
                content = file.read(LARGEST_GIFTI + 1)
                if len(content) > LARGEST_GIFTI:
                    raise ImageError(f"{path}: unfolds to more than {LARGEST_GIFTI:,} bytes; unzip it first")
            parser.parse(string=content)
        else:
            with open_regular(path) as file:
                parser.parse(fptr=file)
        if parser.img is None or not parser.img.darrays:
            raise ImageError(f"{path}: the GIFTI file holds no data array")
        return parser.img


class _GiftiParser(GiftiImageParser):
    """Parser that reads external files from the folder of the GIFTI file only, and never through a link."""

    def StartElementHandler(self, name: str, attrs: dict[str, str]) -> None:  # noqa: N802
        """Check where the values of an array lie before nibabel opens their file."""
        external = attrs.get("ExternalFileName") if name == "DataArray" else None
        if external and self.fname is not None:
            file = Path(self.fname).parent / external
            if Path(external).name != external or file.is_symlink():
                raise ImageError(f"{self.fname}: its values lie in {external}: a link, or in another folder")
            checked_file(file)
        super().StartElementHandler(name, attrs)


def check_values(image: Any, name: str) -> None:
    """Refuse values that are no numbers, and more of them than the file can hold, before they get memory."""
    if image.get_data_dtype().kind not in "biuf":
        raise ImageError(f"{name}: must hold one number at every place, but holds {image.get_data_dtype()}")
    filename = image.get_filename() if nib.is_proxy(image.dataobj) else None
    if not filename or not os.path.isfile(filename):
        return
    announced = math.prod(map(int, image.shape)) * int(image.get_data_dtype().itemsize)
    on_disk = os.path.getsize(filename)
    most = on_disk * (MOST_COMPRESSED if is_compressed(filename) else 1)
    if announced > most:
        raise ImageError(
            f"{name}: cannot be read; its header announces {announced:,} bytes of values, but a file of "
            f"{on_disk:,} bytes holds {most:,} at most"
        )


def is_curv(path: Path) -> bool:
    """Whether the file begins like a FreeSurfer curv file (``lh.thickness``, ``rh.sulc``, ...)."""
    with reading(path), open_regular(path) as file:
        return file.read(len(CURV_MAGIC)) == CURV_MAGIC


def read_curv(path: Path) -> npt.NDArray[np.float32]:
    """Values of a curv file, shape (n_vertices,)."""
    with reading(path):
        with open_regular(path) as file:
            content = file.read()
        if len(content) < CURV_HEADER.size:
            raise ImageError(f"{path}: cannot be read; a curv file of {len(content)} bytes is cut short")
        _, n_vertices, _, n_values = CURV_HEADER.unpack_from(content)
        found = (len(content) - CURV_HEADER.size) // 4
        if n_values != 1 or found != n_vertices:
            raise ImageError(
                f"{path}: cannot be read; its header announces {n_vertices} vertices with {n_values} "
                f"value(s), but {found} values follow"
            )
        return np.frombuffer(content, dtype=">f4", offset=CURV_HEADER.size).astype(np.float32)
