"""Promise: what is published installs anywhere, with all that it needs in it.

The wheel and the sdist are built once, as `make dist` builds them. `make wheel-test` runs the whole
README with torch; here run the blocks that need none.
"""

import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser

import pytest
from distribution.try_wheel import ROOT, try_wheel

pytest.importorskip("build")
pytestmark = pytest.mark.timeout(900)  # 20 seconds of a processor, which may be busy


def build(*words, **environ):
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *map(str, words)],
        check=True,
        capture_output=True,
        env={**os.environ, **environ},
    )


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    build("--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(dist):
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def sdist(dist, tmp_path_factory):
    """The sdist, unpacked."""
    (path,) = dist.glob("*.tar.gz")
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    return folder / path.name.removesuffix(".tar.gz")


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_one_wheel_serves_all_pythons_from_the_oldest_on(wheel):
    audit = [sys.executable, "-m", "abi3audit", "--strict", "--assume-minimum-abi3", "3.11"]

    done = subprocess.run([*audit, str(wheel)], capture_output=True, text=True)

    assert "-cp311-abi3-" in wheel.name
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_has_every_file_of_the_package_and_no_source_in_c(wheel):
    """All that git has in src/, compared with what is in the wheel."""
    listed = subprocess.run(
        ["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    sources = {name.removeprefix("src/") for name in listed.stdout.split()}
    wanted = {name for name in sources if not name.endswith((".c", ".h"))}

    inside = {name for name in names_in(wheel) if name.startswith("tokenmill/")}

    assert inside - {"tokenmill/kernel/loops.abi3.so"} == wanted
    assert "tokenmill/train/configs/toy_cpu.json" in inside


def test_an_index_would_show_the_page_as_it_is(dist):
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir()],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout


def test_links_of_the_page_lead_to_the_project(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())

    assert {url.split(", ")[0] for url in metadata.get_all("Project-URL")} >= {
        "Source",
        "Changelog",
    }
    assert "Programming Language :: Python :: 3.14" in metadata.get_all("Classifier")


def test_the_readme_runs_from_the_wheel_outside_the_clone(wheel, tmp_path):
    assert try_wheel(wheel, tmp_path, with_torch=False) >= 1


def test_the_sdist_builds_without_a_compiler(sdist, tmp_path):
    """The kernel is left out then, and NumPy does its work."""
    build("--wheel", "--outdir", tmp_path, sdist, CC="/nowhere/cc", PATH="/usr/bin")

    (built,) = tmp_path.glob("*.whl")
    assert "tokenmill/batches/loader.py" in names_in(built)
    assert not [name for name in names_in(built) if name.endswith(".so")]


@pytest.mark.parametrize(
    "name",
    ["tests/distribution/test_wheel.py", "docs/guides/training.md", "configs/h100.json", "Makefile",
     "src/tokenmill/kernel/loops.c", "examples/demo.py", "train.py", "CITATION.cff"],
)  # fmt: skip
def test_the_sdist_is_the_repository(sdist, name):
    assert (sdist / name).read_bytes() == (ROOT / name).read_bytes()


def test_nothing_that_was_built_is_in_the_sdist(sdist):
    ends = {path.suffix for path in sdist.rglob("*") if path.is_file()}

    assert not ends & {".so", ".pyc", ".whl"}
    assert not (sdist / "dist").exists()
