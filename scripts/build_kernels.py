"""Compile the kernel for other systems, with the C compiler of the package `ziglang`.

    python scripts/build_kernels.py [TARGET ...] [--out build/kernels]

Each kernel is built on Python's limited API for 3.11 and later, with the headers of this Python
and a `pyconfig.h` that says what the other system is like. setup.py puts one into a wheel:
`TOKENMILL_KERNEL=build/kernels/TARGET/FILE`.
"""

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
KERNEL = ROOT / "src" / "tokenmill" / "kernel"
FLAGS = ["-O3", "-g0", "-shared", "-Wall", "-Werror", "-DPy_LIMITED_API=0x030B0000"]
# Where names of Python are found when the kernel is loaded: in the process that loads it; on
# Windows in python3.dll, which all versions have.
UNIX = ("loops.abi3.so", ["-fPIC"])
MACOS = ("loops.abi3.so", ["-fPIC", "-undefined", "dynamic_lookup"])
WINDOWS = ("loops.pyd", [])
TARGETS = {
    "x86_64-linux-gnu.2.17": UNIX,
    "aarch64-linux-gnu.2.17": UNIX,
    "aarch64-macos.11.0": MACOS,
    "x86_64-macos.11.0": MACOS,
    "x86_64-windows-gnu": WINDOWS,
}
# What Python.h must know, in place of the file that is made when a Python is built.
PYCONFIG = """
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_INT 4
#define SIZEOF_SHORT 2
#define SIZEOF_LONG_LONG 8
#define ALIGNOF_LONG 8
#define ALIGNOF_SIZE_T 8
#define HAVE_STDDEF_H 1
#define HAVE_LONG_LONG 1
#define HAVE_UINTPTR_T 1
#define HAVE_SSIZE_T 1
#ifdef _WIN32
#define MS_WINDOWS
#define MS_WIN64
#define SIZEOF_LONG 4
#define SIZEOF_WCHAR_T 2
#define HAVE_DECLSPEC_DLL 1
#define Py_ENABLE_SHARED 1
#include <sys/types.h>
#else
#define SIZEOF_LONG 8
#define SIZEOF_WCHAR_T 4
#endif
"""
# All that the kernel uses of python3.dll; a name that is missing here is an error of the linker.
FUNCTIONS = """
_PyArg_ParseTuple_SizeT _Py_BuildValue_SizeT _Py_Dealloc PyArg_ParseTuple PyBuffer_Release
PyBytes_AsString PyBytes_AsStringAndSize PyBytes_FromStringAndSize PyBytes_Size PyErr_NoMemory
PyErr_Occurred PyErr_SetString PyEval_RestoreThread PyEval_SaveThread PyList_Append PyList_GetItem
PyList_New PyList_Size PyLong_FromSsize_t PyModule_AddObject PyModule_Create2 PyObject_GetBuffer
PyTuple_GetItem PyTuple_Pack PyTuple_Size PyType_FromSpec PyType_GetFlags PyType_GetSlot
"""
DATA = """
_Py_NoneStruct PyExc_IndexError PyExc_RuntimeError PyExc_TypeError PyExc_ValueError PyList_Type
PyTuple_Type
"""


def main() -> None:
    """Build the kernels that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "kernels")
    options = parser.parse_args()
    for target in options.targets or TARGETS:
        kernel = build(target, options.out / target)
        print(f"{kernel.stat().st_size:>8,} bytes  {kernel}")


def build(target: str, folder: Path) -> Path:
    """Compile the kernel for one target into `folder`; return its file."""
    name, flags = TARGETS[target]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary)
        shutil.copytree(sysconfig.get_paths()["include"], made / "include")
        (made / "include" / "pyconfig.h").write_text(PYCONFIG)
        libraries = [import_library(made)] if name.endswith(".pyd") else []
        sources = [str(path) for path in sorted(KERNEL.glob("*.c"))]
        words = ["cc", "-target", target, *FLAGS, *flags, f"-I{made / 'include'}", *sources]
        zig(*words, *libraries, "-o", str(made / name))
        shutil.copy(made / name, folder / name)
    return folder / name


def import_library(folder: Path) -> str:
    """Make what the linker must know of python3.dll."""
    exports = [*FUNCTIONS.split(), *(f"{name} DATA" for name in DATA.split())]
    definition = folder / "python3.def"
    definition.write_text("\n".join(["LIBRARY python3.dll", "EXPORTS", *exports, ""]))
    library = str(folder / "python3.lib")
    zig("dlltool", "-m", "i386:x86-64", "-d", str(definition), "-l", library)
    return library


def zig(*words: str) -> None:
    """Run zig of the package `ziglang`."""
    subprocess.run([sys.executable, "-m", "ziglang", *words], check=True)


if __name__ == "__main__":
    main()
