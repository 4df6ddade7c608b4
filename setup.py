"""What pyproject.toml cannot say yet: C that is compiled if there is a compiler."""

from setuptools import Extension, setup

KERNEL = "src/tokenmill/kernel"
SOURCES = ("loops", "lines", "ids", "gather", "documents", "augment", "permute", "rows")

setup(
    ext_modules=[
        Extension(
            "tokenmill.kernel.loops",
            [f"{KERNEL}/{name}.c" for name in SOURCES],
            depends=[f"{KERNEL}/{name}.h" for name in ("loops", "xxh3")],
            extra_compile_args=["-O3"],
            optional=True,  # without it NumPy does the same
        )
    ]
)
