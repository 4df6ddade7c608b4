"""The files that GitHub reads are valid, and give no workflow more rights than it needs."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tokenmill.version import __version__

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = [path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.github-issue-forms": FORMS,
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}
pytestmark = pytest.mark.skipif(not GITHUB.exists(), reason="an sdist has no .github/")


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_are_as_their_readers_expect_them(schema):
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]

    done = subprocess.run([*command, *SCHEMAS[schema]], capture_output=True, text=True)

    assert SCHEMAS[schema]
    assert done.returncode == 0, done.stdout


def test_zizmor_finds_nothing():
    beside = Path(sys.executable).with_name("zizmor")
    zizmor = str(beside) if beside.exists() else shutil.which("zizmor")
    if zizmor is None:
        pytest.skip("zizmor is not installed")

    done = subprocess.run(
        [zizmor, "--offline", "--no-progress", str(GITHUB)], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout


def test_every_action_is_pinned_by_its_hash():
    used = [line for path in WORKFLOWS for line in re.findall(r"uses: (.+)", path.read_text())]

    assert len(used) > 10
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_no_workflow_has_rights_that_no_job_names():
    for path in WORKFLOWS:
        assert "\npermissions: {}\n" in path.read_text(), path


def test_tools_of_a_release_have_one_version_each():
    """Those that a workflow installs by name are pinned there, too."""
    for path in WORKFLOWS:
        for line in re.findall(r"pip install (.+==.+)", path.read_text()):
            assert all("==" in word for word in line.split()), line


def test_a_make_target_that_a_workflow_runs_exists():
    makefile = (ROOT / "Makefile").read_text()
    targets = {
        name for path in WORKFLOWS for name in re.findall(r"run: make (\w+)", path.read_text())
    }

    assert "test" in targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_version_is_the_same_wherever_it_is_written():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_workflows_test_every_python_that_the_package_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {word for line in project["classifiers"] for word in re.findall(r"3\.\d+$", line)}
    tested = re.search(r"python: \[(.+)\]", (GITHUB / "workflows" / "tests.yml").read_text())

    assert set(tested[1].replace('"', "").split(", ")) == named
