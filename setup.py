"""The one thing that pyproject.toml cannot say yet: C that is compiled if there is a compiler."""

from setuptools import Extension, setup

CLEANING = "src/tokenmill/text/cleaning"

setup(
    ext_modules=[
        Extension(
            "tokenmill.text.cleaning.line_kernel",
            [f"{CLEANING}/line_kernel.c"],
            depends=[f"{CLEANING}/xxh3.h"],
            extra_compile_args=["-O2"],
            optional=True,  # without it NumPy does the same (docs/dependencies.md)
        )
    ]
)
