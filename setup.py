"""Build the kernel: C on Python's limited API, so that one build serves Python 3.11 and later.

Without a compiler the kernel is left out, and NumPy does its work. `TOKENMILL_KERNEL=FILE` takes a
kernel that is built already, for a wheel of another system: `make kernels` builds those.
"""

import os
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNEL = "src/tokenmill/kernel"
# In the order of their names, so that equal sources give an equal file.
SOURCES = [f"{KERNEL}/{path.name}" for path in sorted(Path(__file__).parent.glob(f"{KERNEL}/*.c"))]
BUILT = os.environ.get("TOKENMILL_KERNEL")
# Pythons without a global lock have no limited API before 3.15: their kernel is for one version.
IS_LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")


class BuildKernel(build_ext):
    """Compile the kernel, or take the one that is built already."""

    def get_ext_filename(self, fullname: str) -> str:
        name = super().get_ext_filename(fullname)
        return str(Path(name).with_name(Path(BUILT).name)) if BUILT else name

    def build_extension(self, ext: Extension) -> None:
        if not BUILT:
            return super().build_extension(ext)
        target = self.get_ext_fullpath(ext.name)
        self.mkpath(os.path.dirname(target))
        self.copy_file(BUILT, target)


setup(
    cmdclass={"build_ext": BuildKernel},
    options={"bdist_wheel": {"py_limited_api": "cp311"} if IS_LIMITED else {}},
    ext_modules=[
        Extension(
            "tokenmill.kernel.loops",
            SOURCES,
            depends=[f"{KERNEL}/{name}.h" for name in ("loops", "xxh3", "words")],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if IS_LIMITED else [],
            py_limited_api=IS_LIMITED,
            extra_compile_args=["-O3"],
            optional=not BUILT,
        )
    ],
)
