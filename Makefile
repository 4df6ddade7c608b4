# The two commands of the README: `make demo` and `make test`. Both set themselves up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# pip for torch, because it finds a CPU build where one lies on the machine; uv for all else,
# because it takes seconds for what takes pip minutes.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
UV     := $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt

.PHONY: demo test lint types unit format bench clean

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

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/torch.stamp: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -c constraints.txt torch uv
	touch $@

$(VENV)/demo.stamp: pyproject.toml $(VENV)/torch.stamp
	$(UV) -e '.[torch]'
	touch $@

$(VENV)/dev.stamp: pyproject.toml $(VENV)/torch.stamp
	$(UV) -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo
