"""A stand-in for CuPy that runs its kernels on the CPU: g++ compiles the CUDA C, and a loop runs the threads.

It has what the package uses of CuPy, and is as strict: arrays that lie "on the GPU" mix with numbers and with
each other, never with NumPy arrays, and `numpy.asarray` refuses them. Kernels whose threads wait for each
other cannot run here, and the package has none.
"""

import ctypes
import hashlib
import re
import subprocess
import sys
import tempfile
import types
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import numpy as np

SHIM = r"""
#include <cmath>
#define __global__
#define __device__
#define __restrict__
#define __launch_bounds__(...)
using std::sqrt;
template <typename T> T rsqrt(T x) { return 1 / sqrt(x); }
struct Index { unsigned x, y, z; };
static Index blockIdx, threadIdx, blockDim, gridDim;
"""
KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(([^)]*)\)')


def _unwrap(value):
    if isinstance(value, ndarray):
        return value.array
    if isinstance(value, (tuple, list)):
        return type(value)(_unwrap(item) for item in value)
    return value


def _wrap(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return ndarray(np.asarray(value))
    if isinstance(value, (tuple, list)):
        return type(value)(_wrap(item) for item in value)
    return value


def _check(values):
    for value in values:
        if isinstance(value, np.ndarray) and value.ndim > 0:
            raise TypeError(f"Unsupported type {type(value)}")
        if isinstance(value, (tuple, list)):
            _check(value)


METHODS = {"all", "any", "argmax", "argmin", "astype", "max", "mean", "min", "ravel", "reshape", "sum"}


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):  # noqa: N801
    """An array that lies on the simulated GPU."""

    __module__ = "cupy"
    __array_priority__ = 100

    def __init__(self, array, dtype=None, memptr=None):
        # with a pointer, which is a buffer here, `array` is the shape
        self.array = array if memptr is None else np.frombuffer(memptr, dtype).reshape(array)

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        _check(inputs)
        return _wrap(getattr(ufunc, method)(*_unwrap(inputs), **{k: _unwrap(v) for k, v in options.items()}))

    def __array_function__(self, function, _, inputs, options):
        _check(inputs)
        return _wrap(function(*_unwrap(inputs), **{k: _unwrap(v) for k, v in options.items()}))

    def get(self, out=None):
        if out is None:
            return self.array.copy()
        out[...] = self.array
        return out

    def set(self, array):
        assert array.dtype == self.dtype
        assert array.shape == self.shape
        self.array[...] = array

    def copy(self):
        return ndarray(self.array.copy())

    def fill(self, value):
        self.array.fill(value)

    def __getitem__(self, index):
        return _wrap(self.array[_unwrap(index)])

    def __setitem__(self, index, value):
        _check([value])
        self.array[_unwrap(index)] = _unwrap(value)

    def __len__(self):
        return len(self.array)

    def __bool__(self):
        return bool(self.array)

    def __float__(self):
        return float(self.array)

    def __int__(self):
        return int(self.array)

    def __index__(self):
        return int(self.array)

    def __iter__(self):
        return (ndarray(np.asarray(row)) for row in self.array)

    @property
    def T(self):  # noqa: N802
        return ndarray(self.array.T)

    def __getattr__(self, name):
        if name in ("shape", "dtype", "ndim", "size", "nbytes"):
            return getattr(self.array, name)
        if name in (
            "any",
            "all",
            "max",
            "min",
            "sum",
            "mean",
            "argmax",
            "argmin",
            "astype",
            "reshape",
            "ravel",
            "dot",
        ):
            if name in ("max", "min"):  # CuPy has no initial value
                return lambda axis=None, out=None, keepdims=False: _wrap(
                    getattr(self.array, name)(axis, out, keepdims)
                )
            return lambda *inputs, **options: _wrap(getattr(self.array, name)(*_unwrap(inputs), **options))
        raise AttributeError(name)


@cache
def _preprocessed(code, defines):
    """The CUDA C without macros."""
    return subprocess.run(
        ["g++", "-E", "-P", "-x", "c++", *defines, "-"],
        input=code.replace("__restrict__", ""),
        capture_output=True,
        text=True,
        check=True,
    ).stdout


class RawModule:
    def __init__(self, *, code, options=()):
        source = SHIM + code
        folder = Path(tempfile.gettempdir()) / "spcatv-simulated-cupy"
        folder.mkdir(exist_ok=True)
        key = hashlib.sha256((source + repr(options)).encode()).hexdigest()[:24]
        library = folder / f"{key}.so"
        defines = [option for option in options if option.startswith("-D")]
        plain = _preprocessed(code, tuple(defines))
        self.parameters = {
            name: [" ".join(item.split()[:-1]) for item in re.sub(r"\s+", " ", listed).split(",")]
            for name, listed in KERNEL.findall(plain)
        }
        if not library.exists():
            runners = "".join(self._runner(*item) for item in self.parameters.items())
            temporary = library.with_suffix(f".{id(self)}.tmp")
            subprocess.run(
                [
                    "g++",
                    "-O2",
                    "-std=c++14",
                    "-shared",
                    "-fPIC",
                    "-x",
                    "c++",
                    *defines,
                    "-",
                    "-o",
                    str(temporary),
                ],
                input=source + runners,
                text=True,
                check=True,
                capture_output=True,
            )
            temporary.replace(library)
        self.library = ctypes.CDLL(str(library))
        self.real = np.float32 if "-DREAL=float" in options else np.float64

    @staticmethod
    def _runner(name, kinds):
        arguments = ", ".join(f"*({kind}*)arguments[{k}]" for k, kind in enumerate(kinds))
        return (
            f'extern "C" void run_{name}(void** arguments, unsigned blocks, unsigned threads)\n'
            "{ gridDim.x = blocks; blockDim.x = threads;\n"
            "  for (unsigned b = 0; b < blocks; b++) for (unsigned t = 0; t < threads; t++)\n"
            f"  {{ blockIdx.x = b; threadIdx.x = t; {name}({arguments}); }} }}\n"
        )

    def get_function(self, name):
        run = getattr(self.library, f"run_{name}")
        kinds = self.parameters[name]
        dtypes = DTYPES | {"real": self.real}

        def function(grid, block, arguments):
            if Stream.recording is not None:
                Stream.recording.append(lambda: function(grid, block, arguments))
                return
            cells = []
            for argument, kind in zip(arguments, kinds, strict=True):
                if isinstance(argument, ndarray):
                    wanted = dtypes[kind.replace("const ", "").rstrip("* ")]
                    assert argument.dtype == wanted, f"{name} takes {kind}, got {argument.dtype}"
                    assert argument.array.flags.c_contiguous, f"{name} takes arrays in C order"
                    cells.append(ctypes.c_void_p(argument.array.ctypes.data))
                else:
                    number = np.asarray(argument)
                    assert number.dtype == dtypes[kind], f"{name} takes {kind}, got {argument!r}"
                    cells.append(np.ctypeslib.as_ctypes(number))
            pointers = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(cell) for cell in cells))
            run(pointers, ctypes.c_uint(grid[0]), ctypes.c_uint(block[0]))

        return function


DTYPES = {
    "int": np.int32,
    "big": np.int64,
    "double": np.float64,
    "float": np.float32,
    "unsigned char": np.uint8,
}


class _Graph:
    def __init__(self, calls):
        self.calls = calls

    def launch(self, stream=None):
        for call in self.calls:
            call()


class Stream:
    recording = None

    def __init__(self, non_blocking=False):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def begin_capture(self):
        Stream.recording = []

    def end_capture(self):
        calls, Stream.recording = Stream.recording, None
        return _Graph(calls)

    def synchronize(self):
        pass

    def record(self):
        return "event"

    def wait_event(self, event):
        assert event == "event"


def _made(function):
    return lambda *inputs, **options: ndarray(function(*_unwrap(inputs), **options))


def _asarray(x, dtype=None):
    if isinstance(x, ndarray) and dtype in (None, x.dtype):
        return x
    return ndarray(np.array(_unwrap(x), dtype=dtype))


def make_module():
    """The module, to be put into `sys.modules` under the name cupy."""
    cupy = types.ModuleType("cupy")
    cupy.ndarray = ndarray
    cupy.RawModule = RawModule
    for name in ("zeros", "empty", "ones", "full", "arange"):
        setattr(cupy, name, _made(getattr(np, name)))
    cupy.asarray = lambda x, dtype=None: (
        x
        if isinstance(x, ndarray) and dtype in (None, x.dtype)
        else ndarray(np.array(_unwrap(x), dtype=dtype))
    )
    cupy.ascontiguousarray = lambda x: ndarray(np.ascontiguousarray(x.array))
    cupy.from_dlpack = lambda x: x if isinstance(x, ndarray) else ndarray(np.from_dlpack(x))
    for name in ("concatenate", "stack", "matmul", "sort"):
        setattr(cupy, name, _made(getattr(np, name)))
    cupy.cuda = types.SimpleNamespace(
        Device=nullcontext,
        Stream=Stream,
        get_current_stream=Stream,
        alloc_pinned_memory=bytearray,
        UnownedMemory=lambda _, n_bytes, owner, __: memoryview(owner)[:n_bytes],
        MemoryPointer=lambda memory, offset: memory[offset:],
        runtime=types.SimpleNamespace(
            getDeviceCount=lambda: 1, getDevice=lambda: 0, memGetInfo=lambda: (1 << 30, 1 << 30)
        ),
    )
    cupy.get_default_memory_pool = lambda: types.SimpleNamespace(
        free_bytes=lambda: 0, used_bytes=lambda: 0, get_limit=lambda: 0
    )
    cupy.__version__ = "simulated"
    return cupy


def install(monkeypatch):
    """Let the package find this stand-in as cupy."""
    module = make_module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module
