# The one entry point for people, hooks and CI: `make help` lists what there is.

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
PIP_INSTALL := $(UV) pip install --quiet --constraint constraints.txt

# A worker for each processor; the tests marked "alone" come behind, one by one.
PARALLEL := --numprocesses logical --maxprocesses 8 --dist worksteal

# Stamps: what is installed or built, and from which files.
HAVE_UV := $(VENV)/uv.stamp
HAVE_DEMO := $(VENV)/demo.stamp
HAVE_DEV := $(VENV)/dev.stamp
HAVE_CORE := $(VENV)/core.stamp
HAVE_QUICK := $(VENV)/quick.stamp
# An S3-compatible server for the tests of remote storage.
HAVE_S3 := target/tools/bin/s3s-fs
CRATES := Cargo.toml Cargo.lock $(shell find crates -type f)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# uv and maturin take the environment from here, whichever one is active outside.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
unexport CONDA_PREFIX
# uv reads neither the system's certificates nor pip's index unless told to.
export UV_SYSTEM_CERTS ?= 1
$(HAVE_DEMO) $(HAVE_DEV) $(HAVE_CORE) constraints: export UV_DEFAULT_INDEX ?= \
	$(or $(PIP_INDEX_URL),$(shell $(BIN)/pip config get global.index-url 2>/dev/null))

.PHONY: help
help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST)

.PHONY: demo
demo: $(HAVE_DEMO) $(if $(wildcard $(HAVE_CORE)),$(HAVE_CORE),$(HAVE_QUICK))  ## Real text to shuffled, resumed batches in a minute
	$(BIN)/pagefeed demo $(ARGS)

.PHONY: test
test: $(HAVE_DEV) $(HAVE_CORE) $(HAVE_S3)  ## Rust and Python tests (ARGS="-k words" for pytest)
	cargo test --quiet --locked --package pagefeed-core --package pagefeed-remote --lib --tests
	$(BIN)/pytest $(PARALLEL) -m "not alone" $(ARGS)
	$(BIN)/pytest -m alone $(ARGS) || (( $$? == 5 ))  # 5: ARGS select none.

.PHONY: fuzz
fuzz: $(HAVE_DEV) $(HAVE_CORE)  ## Mutate files for 10 minutes (ARGS="--seconds 60")
	PYTHONPATH=tests $(BIN)/python tests/fuzz $(ARGS)

.PHONY: check
check: $(HAVE_DEV)  ## Formatting, lints, types and layers; changes nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	cargo fmt --all --check
	cargo clippy --quiet --locked --workspace --all-targets -- --deny warnings
	$(BIN)/pytest --quiet tests/test_layers.py

.PHONY: format
format: $(HAVE_DEV)  ## Format Python and Rust, apply the safe fixes
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	cargo fmt --all

.PHONY: bench
bench: $(HAVE_DEV) $(HAVE_CORE)  ## Measure (ARGS="--help" for the options)
	@for script in benchmarks/bench_*.py; do \
		echo "== $$script"; $(BIN)/python "$$script" $(ARGS); \
	done

.PHONY: tools
tools: $(HAVE_S3)  ## Build the S3-compatible server that tests of remote storage use

.PHONY: constraints
constraints: $(HAVE_DEV)  ## Resolve the pinned versions of constraints.txt anew
	$(UV) pip compile --quiet --upgrade --universal --python-version 3.11 \
		--custom-compile-command "make constraints" --no-annotate --no-emit-index-url \
		--all-extras --group dev --output-file constraints.txt pyproject.toml

.PHONY: clean
clean:  ## Remove everything that was built or installed here
	rm -rf $(VENV) target dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .fuzz
	rm -f python/pagefeed/_core.*.so python/pagefeed/_core.pyd
	find python tests -name __pycache__ -prune -exec rm -rf {} +

$(HAVE_UV): constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt uv
	@touch $@

$(HAVE_DEMO): $(HAVE_UV) pyproject.toml
	$(PIP_INSTALL) --requirements pyproject.toml --extra demo --group build
	@touch $@

$(HAVE_DEV): $(HAVE_UV) pyproject.toml
	$(PIP_INSTALL) --requirements pyproject.toml --all-extras --group dev
	@touch $@

# For the demonstration alone: hardly optimised, and without remote storage.
$(HAVE_QUICK): $(CRATES) pyproject.toml | $(HAVE_DEMO)
	$(BIN)/maturin develop --uv --profile quick --no-default-features --locked
	@touch $@

$(HAVE_S3):
	CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_TARGET_DIR=target/tools/build \
		cargo install --quiet --locked s3s-fs --version 0.14.1 --features binary \
		--root target/tools
	rm -rf target/tools/build

# Built again when the crates change, not when a tool is added.
$(HAVE_CORE): $(CRATES) pyproject.toml | $(HAVE_DEMO)
	$(BIN)/maturin develop --uv --release --locked
	@touch $@
