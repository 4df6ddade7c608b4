# The two commands of the README: `make demo` and `make test`. Both set themselves up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# What an installation is made of, besides Python's modules, which are used where they are.
PACKAGE := pyproject.toml setup.py $(wildcard src/tokenmill/kernel/*.[ch])
# pip for torch, because it finds a CPU build where there is one on the machine; uv for all else,
# because it takes seconds for what takes pip minutes.
PIP_OPTIONS := -m pip install --quiet --disable-pip-version-check --no-compile
PIP    := $(BIN)/python $(PIP_OPTIONS)
UV     := $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt
UV_FOR_TRAINERS := $(BIN)/uv pip install --quiet --compile-bytecode --python $(VENV)/trainers/bin/python

.PHONY: demo test lint types unit disguises dist wheel-test oldest kernels servers trainers format docs site bench faults \
    mutants clean

demo: $(VENV)/demo.stamp
	$(BIN)/python examples/demo.py

test: lint types unit

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32

unit: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal

# All tests as macOS and as Windows would run them, as far as Linux can tell (tests/disguises).
disguises: $(VENV)/dev.stamp
	for system in macos windows; do \
	    DISGUISE=$$system PYTHONPATH=tests/disguises PYTHONWARNDEFAULTENCODING=1 \
	        $(BIN)/python -m pytest --disable-warnings -n 2 --dist worksteal \
	        --ignore tests/house --ignore tests/docs --ignore tests/faults || exit; \
	done

# The kernel for the systems that it is not compiled on here, into build/kernels.
kernels: $(VENV)/torch.stamp
	$(UV) ziglang
	$(BIN)/python scripts/build_kernels.py

# What is published, for this system: dist/ holds an sdist and a wheel for Python 3.11 and later.
dist: $(VENV)/dev.stamp
	rm -rf build/bdist* build/lib* build/temp* dist
	$(BIN)/python -m build --outdir dist/built
	PATH="$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/built/*.whl
	mv dist/built/*.tar.gz dist && rm -r dist/built
	$(BIN)/abi3audit --strict --assume-minimum-abi3 3.11 dist/*.whl
	$(BIN)/twine check --strict dist/*

# The wheel in an empty environment with torch, and every block of the README: some minutes.
wheel-test: dist
	$(BIN)/python tests/distribution/try_wheel.py dist/*.whl --torch

# The core of the suite with the oldest version of every dependency.
oldest: $(VENV)/torch.stamp
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)/oldest
	$(BIN)/uv pip install --quiet --python $(VENV)/oldest/bin/python -c tests/oldest.txt \
	    '.[parquet,tokenizers,tiktoken,sentencepiece,stores]' pytest pytest-timeout hypothesis
	$(VENV)/oldest/bin/python tests/distribution/core_tests.py

# Two stores that only npm has: Azure's emulator, and an S3 without conditional writes (200 MB).
# Without them, the tests that need them are skipped, and say so.
servers: $(VENV)/torch.stamp
	npm install --prefix $(VENV)/servers --no-audit --no-fund azurite@3 s3rver@3

# Ten minutes: the trainers of other projects, on our loaders, killed and resumed; and the datasets
# of Hugging Face as texts, since that package is installed for them.
trainers: $(VENV)/trainers.stamp
	TOKENMILL_TRAINERS=1 $(VENV)/trainers/bin/python -m pytest tests/trainers \
	    tests/preparation/test_held_texts.py tests/text/test_tables.py

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/dev.stamp
	$(BIN)/python scripts/make_traces.py

# Pages from docs/, the API from docstrings, the commands from their help. A link that leads nowhere
# is an error. Open site/index.html, or serve the folder: search needs a server.
site: $(VENV)/dev.stamp
	PYTHONPATH=src:scripts $(BIN)/zensical build --strict --clean

bench: $(VENV)/dev.stamp
	$(BIN)/python bench/load.py
	$(BIN)/python bench/prepare.py
	$(BIN)/python bench/sizes.py
	$(BIN)/python bench/tokenizers.py
	$(BIN)/python bench/compression.py
	$(BIN)/python bench/search.py
	$(BIN)/python bench/rows.py
	$(BIN)/python bench/engines.py
	$(BIN)/python bench/train.py

# About an hour: kills, failing system calls, losses of power, flipped bits, damaged files, hostile
# states, attacks on `view`, lost machines (root only); first the kernel, with sanitizers built in. What is kept names the
# commit of every part; it is an error if that is not one and the same, or if src/ or tests/ differ
# from it.
faults: $(VENV)/dev.stamp
	$(BIN)/python tests/kernel/fuzz_kernel.py
	cd tests && ../$(BIN)/python -m faults --results ../bench/results/faults.json
	TOKENMILL_EDIT_SCRIPTS=10000 $(BIN)/python -m pytest -q tests/edits/test_edit_scripts.py

# About an hour: defects are put into copies of the code, one by one; some test must notice each.
mutants: $(VENV)/dev.stamp
	cd tests && ../$(BIN)/python -m mutants --results ../bench/results/mutants.json

$(VENV)/torch.stamp: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -c constraints.txt torch uv
	touch $@

$(VENV)/demo.stamp: $(PACKAGE) $(VENV)/torch.stamp
	$(UV) -e '.[torch]'
	touch $@

# A kernel that was built for one version of Python would be taken before the one for all.
$(VENV)/dev.stamp: $(PACKAGE) $(VENV)/torch.stamp
	rm -f src/tokenmill/kernel/*.so
	$(UV) -e '.[dev]'
	touch $@

# Their own environment. Some of them pin torch, so they come without their dependencies.
$(VENV)/trainers.stamp: $(PACKAGE) $(VENV)/torch.stamp tests/trainers/packages.txt tests/trainers/needed.txt
	$(PYTHON) -m venv $(VENV)/trainers
	$(VENV)/trainers/bin/python $(PIP_OPTIONS) -c constraints.txt torch
	$(UV_FOR_TRAINERS) --no-deps -r tests/trainers/packages.txt
	$(UV_FOR_TRAINERS) -c constraints.txt -r tests/trainers/needed.txt -e '.[parquet]'
	touch $@

clean:
	rm -rf $(VENV) demo site .cache
