# The two commands of the README: `make demo` and `make test`. Both set themselves up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# What an installation is made of, besides Python's modules, which are used where they are.
PACKAGE := pyproject.toml setup.py $(wildcard src/tokenmill/kernel/*.[ch])
# pip for torch, because it finds a CPU build where there is one on the machine; uv for all else,
# because it takes seconds for what takes pip minutes.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
UV     := $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt

.PHONY: demo test lint types unit kernels servers format docs bench faults mutants clean

demo: $(VENV)/demo.stamp
	$(BIN)/python examples/demo.py

test: lint types unit

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

unit: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The kernel for the systems that it is not compiled on here, into build/kernels.
kernels: $(VENV)/torch.stamp
	$(UV) ziglang
	$(BIN)/python scripts/build_kernels.py

# Two stores that only npm has: Azure's emulator, and an S3 without conditional writes (200 MB).
# Without them, the tests that need them are skipped, and say so.
servers: $(VENV)/torch.stamp
	npm install --prefix $(VENV)/servers --no-audit --no-fund azurite@3 s3rver@3

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/dev.stamp
	$(BIN)/python scripts/make_api_page.py
	$(BIN)/python scripts/make_traces.py

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

# Three quarters of an hour: kills, failing system calls, losses of power, flipped bits, damaged files,
# hostile states, attacks on `view`; first the kernel, with sanitizers built in. What is kept names the
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

clean:
	rm -rf $(VENV) demo
