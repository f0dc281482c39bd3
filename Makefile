# The one entry point for people, hooks and CI: `make help` lists what there is.

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# uv, and the pip that installs it, lie outside of the environment.
TOOLS := target/tools
UV := $(TOOLS)/bin/uv
PIP_INSTALL := $(UV) pip install --quiet --constraint constraints.txt
# Without a group, maturin would install the whole group `dev`, and no constraint would hold.
MATURIN_DEVELOP := UV_CONSTRAINT=constraints.txt $(BIN)/maturin develop --uv --locked --group build

# A worker for each processor; with one more while others wait for a server or a killed process.
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
PARALLEL = --maxprocesses 8 --dist worksteal --numprocesses

# Stamps: what is installed or built, and from which files.
HAVE_UV := $(VENV)/uv.stamp
HAVE_DEMO := $(VENV)/demo.stamp
HAVE_TEST := $(VENV)/test.stamp
HAVE_DEV := $(VENV)/dev.stamp
# All extras but torch, which is large: where it is absent, tests of it are skipped.
LIGHT := tokenizers sentencepiece tiktoken pyarrow prometheus chat demo iceberg delta s3
HAVE_CORE := $(VENV)/core.stamp
HAVE_QUICK := $(VENV)/quick.stamp
# An S3-compatible server for the tests of remote storage.
HAVE_S3 := $(TOOLS)/bin/s3s-fs
HAVE_TRAINERS := $(VENV)/trainers
# Frameworks: each has an environment of its own, with what its lock file pins.
LOCKS := tests/trainers/locks
NAMES := $(basename $(notdir $(wildcard $(LOCKS)/*.txt)))
# What takes longest begins first.
LONG := ray transformers torchft
TRAINERS := $(filter $(NAMES),$(LONG)) $(filter-out $(LONG),$(NAMES))
TESTED := $(TRAINERS:%=tested-in-%)
TRAINER_TESTS = tests/trainers/test_examples.py tests/trainers/test_matrix.py \
	tests/trainers/test_features.py tests/trainers/test_mixing.py \
	$$(ls tests/trainers/test_$*{,_*}.py 2> /dev/null)
HAVE_NEWEST := $(VENV)/newest
HAVE_WHEEL := $(VENV)/wheel.stamp
# Other loaders, and what trains models on each order.
BENCHMARKS := benchmarks/requirements
BENCHMARKS_VENV := $(VENV)/benchmarks
HAVE_BENCHMARKS := $(BENCHMARKS_VENV).stamp
DOCS_VENV := .venv/docs
HAVE_DOCS := $(DOCS_VENV)/docs.stamp
CRATES := Cargo.toml Cargo.lock rust-toolchain.toml $(shell find crates -type f)

TEST_RUST := cargo test --quiet --locked --package pagefeed-core --package pagefeed-remote \
	--package pagefeed-tokenizer --lib --tests

# What is spell-checked: tests misspell words on purpose.
PROSE := *.md docs python crates benchmarks examples packaging

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# uv and maturin take the environment from here, whichever one is active outside.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PATH := $(CURDIR)/$(TOOLS)/bin:$(PATH)
unexport CONDA_PREFIX
# Tests and examples start hundreds of interpreters: what one has compiled is kept.
export PYTHONDONTWRITEBYTECODE :=
# uv reads neither the system's certificates nor pip's index unless told to.
export UV_SYSTEM_CERTS ?= 1
$(HAVE_DEMO) $(HAVE_TEST) $(HAVE_DEV) $(HAVE_CORE) $(HAVE_QUICK) $(HAVE_WHEEL) $(HAVE_DOCS) \
	$(HAVE_TRAINERS)/%.stamp $(HAVE_NEWEST)/%.stamp test-pythons test-aarch64 constraints: export UV_DEFAULT_INDEX ?= \
	$(or $(PIP_INDEX_URL),$(shell $(TOOLS)/uv/bin/pip config get global.index-url 2>/dev/null))

.PHONY: help
help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST)

.PHONY: demo
demo: $(HAVE_DEMO) $(if $(wildcard $(HAVE_CORE)),$(HAVE_CORE),$(HAVE_QUICK))  ## Real text to shuffled, resumed batches in a minute
	$(BIN)/pagefeed demo $(ARGS)

.PHONY: test
test: export PAGEFEED_EXAMPLES ?= 33
test: $(HAVE_TEST) $(HAVE_CORE)  ## Rust and Python tests before a commit (ARGS="-k words", or --dearest)
	$(TEST_RUST)
	$(BIN)/pytest $(PARALLEL) $(PROCESSORS) -m "not slow" $(ARGS)
	@echo "make test-all adds pages of the documentation, other writers, servers, trainers' launchers and" \
		"large data, and tries three times the examples."

.PHONY: test-all
test-all: $(HAVE_DEV) $(HAVE_CORE) $(HAVE_S3) $(HAVE_DOCS)  ## All that `make test` leaves out
	$(BIN)/pytest $(PARALLEL) $$(($(PROCESSORS) + 1)) -m "(slow or hypothesis) and not alone" $(ARGS)
	$(BIN)/pytest -m alone $(or $(ARGS),tests/interop) || (( $$? == 5 ))  # 5: ARGS select none.

# The pinned test files of the Parquet project, from the folder beside the checkout or by git.
PARQUET_TESTING := 1a2a75127be06fc0123f03ebd36c966f7beda27d
HAVE_CONFORMANCE := target/parquet-testing/$(PARQUET_TESTING)
BESIDE := $(or $(PAGEFEED_SHARED),$(dir $(CURDIR))shared)/data/parquet-testing

.PHONY: conformance
conformance: $(HAVE_CONFORMANCE)  ## Fetch the files that show what Parquet is

$(HAVE_CONFORMANCE):
	rm -rf $(@D)
ifneq ($(wildcard $(BESIDE)),)
	mkdir -p $(dir $(@D)) && cp -r $(BESIDE) $(@D)
else
	git init --quiet $(@D)
	git -C $(@D) fetch --quiet --depth 1 https://github.com/apache/parquet-testing $(@F)
	git -C $(@D) checkout --quiet FETCH_HEAD
endif
	@touch $@

.PHONY: test-trainers $(TESTED)
test-trainers: $(HAVE_CORE)  ## Tests inside each framework (ARGS=lightning for one)
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target \
		$(patsubst %,tested-in-%,$(or $(ARGS),$(TRAINERS)))

$(TESTED): tested-in-%: $(HAVE_TRAINERS)/%.stamp
	@echo "== $*"
	@time $(HAVE_TRAINERS)/$*/bin/python -m pytest --quiet --timeout 900 --durations 3 $(TRAINER_TESTS)

# Environments made anew each time, from what the locks are made of.
.PHONY: test-newest $(TRAINERS:%=newest-in-%)
test-newest: $(HAVE_CORE)  ## The same with the newest release of each, a line for each (ARGS=jax)
	@rm -f $(HAVE_NEWEST)/*.stamp
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target \
		$(patsubst %,newest-in-%,$(or $(ARGS),$(TRAINERS)))

$(TRAINERS:%=newest-in-%): newest-in-%: $(HAVE_NEWEST)/%.stamp
	@names=$$(sed -n 's/^\([a-z][a-z0-9-]*\).*/\1/p' $(LOCKS)/$*.in | paste -sd '|'); \
	versions=$$($(UV) pip freeze --python $(HAVE_NEWEST)/$*/bin/python | grep -E "^($$names)==" | paste -sd ' '); \
	$(HAVE_NEWEST)/$*/bin/python -m pytest --quiet --timeout 900 $(TRAINER_TESTS) &> $(HAVE_NEWEST)/$*.log \
		|| { grep '^FAILED\|^ERROR' $(HAVE_NEWEST)/$*.log; failed=1; }; \
	echo "$*: $$versions: $$(tail -1 $(HAVE_NEWEST)/$*.log)"; [[ -z $${failed:-} ]]

# The wheel for any Python of this system; `make wheel` makes that for any Linux.
.PHONY: test-pythons
test-pythons: $(HAVE_CORE)  ## The wheel on every Python found, with the oldest and newest packages
	rm -rf target/pythons
	$(BIN)/maturin build --quiet --release --locked --compatibility linux --out target/pythons
	$(BIN)/python packaging/try_pythons.py --uv $(CURDIR)/$(UV) $(if $(CI),--least 2) target/pythons/*.whl

.PHONY: fuzz
fuzz: $(HAVE_DEV) $(HAVE_CORE)  ## Mutate files for 10 minutes (ARGS="--seconds 60")
	PYTHONPATH=tests $(BIN)/python tests/fuzz $(ARGS)

# What holds everywhere, and takes seconds.
RULES := tests/test_layers.py tests/test_rooms.py tests/test_house.py tests/test_exports.py tests/test_stubs.py \
	tests/test_prose.py tests/test_links.py

# On the core that is there: what a change of Python needs, in less than a minute.
.PHONY: quick
quick: $(HAVE_DEV) $(if $(wildcard python/pagefeed/_core.*so),,$(HAVE_CORE))  ## Lints, types, layers, prose, links and chosen tests (ARGS="tests/unit -k words")
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/codespell $(PROSE)
	$(BIN)/mypy
	$(BIN)/pytest --quiet $(RULES) $(ARGS)

# With --target, only what is tested is instrumented, not what builds it.
.PHONY: asan
asan:  ## Rust tests of the core under the address sanitizer
	ASAN_OPTIONS=allocator_may_return_null=1 CARGO_INCREMENTAL=0 RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/asan \
		cargo test --quiet --locked --package pagefeed-core --lib --tests \
		--target "$$(rustc --version --verbose | sed -n 's/^host: //p')" $(ARGS)

# A seed decides which thread runs when, and what fails: `ARGS="--seed N"` replays one.
.PHONY: simulate
simulate:  ## The engine in simulated worlds, for as long as it runs (ARGS="--seed 7")
	cargo test --quiet --locked --package pagefeed-core --features simulate --test simulate \
		-- --corpus $(CURDIR)/crates/pagefeed-core/tests/simulate/corpus.txt \
		$(or $(ARGS),--first $$(date +%s)00000000)

.PHONY: simulate-runs
simulate-runs: $(HAVE_DEV) $(HAVE_CORE)  ## Whole runs beside a plain model, for as long as it runs (ARGS="--seed 7")
	PYTHONPATH=tests $(BIN)/python tests/simulate_runs.py $(or $(ARGS),--first $$(date +%s)000)

.PHONY: simulate-caches
simulate-caches: $(HAVE_DEV) $(HAVE_CORE)  ## Caches whose users are killed at any write (ARGS="--seed 7")
	$(BIN)/python tests/simulate_caches.py $(or $(ARGS),--first $$(date +%s)000)

.PHONY: faults
faults: $(HAVE_DEV)  ## Plant faults into the core, and see whether the simulation finds them
	$(BIN)/python tests/plant.py $(ARGS)

.PHONY: check check-python check-rust
check: check-rust check-python  ## Formatting, lints, types, layers, prose and links; changes nothing

check-rust:
	cargo fmt --all --check
	cargo clippy --quiet --locked --workspace --all-targets -- --deny warnings
	cargo clippy --quiet --locked --package pagefeed-python --no-default-features -- --deny warnings
	cargo clippy --quiet --locked --package pagefeed-core --features simulate --test simulate -- --deny warnings

check-python: $(HAVE_DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell $(PROSE)
	$(BIN)/mypy
	$(BIN)/pytest --quiet $(RULES)
	$(BIN)/zizmor --quiet --offline .github/workflows

# With --jobs, one compiles what another downloads, and a compiler's last crate is not alone.
.PHONY: ready ready-rust trainers
ready: ready-rust $(HAVE_CORE) $(HAVE_S3) $(HAVE_DEV) $(HAVE_DOCS)  ## Build and install what `make test-all` needs (make --jobs=3 ready)

ready-rust:
	$(TEST_RUST) --no-run

trainers: $(TRAINERS:%=$(HAVE_TRAINERS)/%.stamp)  ## Install what `make test-trainers` needs

.PHONY: format
format: $(HAVE_DEV)  ## Format Python and Rust, apply the safe fixes
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	cargo fmt --all

.PHONY: bench
bench: $(HAVE_DEV) $(HAVE_CORE)  ## Measure (ARGS="--help" for the options)
	@for script in $$(ls benchmarks/bench_*.py benchmarks/*/bench_*.py); do \
		echo "== $$script"; $(BIN)/python "$$script" $(ARGS); \
	done

.PHONY: loaders
loaders: $(HAVE_BENCHMARKS) $(HAVE_CORE)  ## Measure loaders side by side (ARGS="--only pagefeed memmap")
	PYTHONPATH=benchmarks $(BENCHMARKS_VENV)/bin/python -m loaders $(ARGS)

.PHONY: images
images: $(HAVE_BENCHMARKS) $(HAVE_CORE)  ## Compare loaders of images, and write the table of docs/explanation/images.md
	$(BENCHMARKS_VENV)/bin/python benchmarks/bench_images.py --page $(ARGS)

.PHONY: evaluation
evaluation: $(HAVE_BENCHMARKS) $(HAVE_CORE)  ## Train a small model on each order (ARGS="--size small")
	PYTHONPATH=benchmarks $(BENCHMARKS_VENV)/bin/python benchmarks/evaluation/evaluate.py $(ARGS)

.PHONY: coming-from
coming-from: $(HAVE_BENCHMARKS) $(HAVE_CORE)  ## Pages of docs/coming-from, with the loaders they compare with (ARGS=grain)
	PYTHONPATH=tests $(BENCHMARKS_VENV)/bin/python tests/coming_from.py $(ARGS)

.PHONY: tools
tools: $(HAVE_S3)  ## Build the S3-compatible server that tests of remote storage use

# Linux: by zig, for any glibc since 2014. macOS: by its own linker.
WHEEL_OPTIONS := $(if $(filter Darwin,$(shell uname -s)),,--zig --compatibility manylinux2014)

.PHONY: wheel
wheel: $(HAVE_WHEEL)  ## Build sdist and wheel of this system, try it without Rust
	rm -rf dist target/sdist
	$(BIN)/python packaging/licences.py LICENSE-THIRD-PARTY
	$(BIN)/maturin sdist --out dist
	mkdir -p target/sdist
	@# Cargo builds what is newer, and files of an archive all have one old date.
	tar --extract --touch --gzip --file dist/*.tar.gz --directory target/sdist \
		--strip-components 1
	cd target/sdist && PATH="$(CURDIR)/$(BIN):$$PATH" $(CURDIR)/$(BIN)/maturin build \
		--release --locked $(WHEEL_OPTIONS) \
		--target-dir $(CURDIR)/target --out $(CURDIR)/dist
	$(BIN)/python packaging/try_wheel.py dist/*_$$(uname -m).whl

.PHONY: tutorials
tutorials: $(HAVE_UV) $(HAVE_S3)  ## Run the tutorials and recipes where the built wheel and what they name are installed
	$(BIN)/python packaging/try_wheel.py dist/*_$$(uname -m).whl --tutorials
	$(BIN)/python packaging/try_recipes.py dist/*_$$(uname -m).whl

# On x86-64, for Grace and Graviton; on such a host `make wheel` and `make test` do it.
AARCH64 := target/aarch64
CROSS = settings=$$($(BIN)/python packaging/cross_aarch64.py $(AARCH64)); \
	PATH="$(CURDIR)/$(BIN):$$PATH" env $$settings
FOR_AARCH64 = --locked --target aarch64-unknown-linux-gnu --target-dir $(CURDIR)/$(AARCH64)/cargo

.PHONY: wheel-aarch64
wheel-aarch64: $(HAVE_WHEEL)  ## Build a wheel for aarch64 on x86-64 (PROFILE=quick for a first look)
	rm -f dist/*_aarch64.whl
	$(BIN)/python packaging/licences.py LICENSE-THIRD-PARTY
	$(CROSS) maturin build $(FOR_AARCH64) --profile $(or $(PROFILE),release) --zig \
		--compatibility manylinux2014 --interpreter python3.11 --out dist

.PHONY: test-aarch64
test-aarch64: wheel-aarch64  ## Try it under qemu, with tests (ARGS="tests/property -k order")
	$(CROSS) cargo-zigbuild test --quiet $(FOR_AARCH64) $(PROFILE:%=--profile %) \
		--package pagefeed-core --lib --tests
	$(BIN)/python packaging/try_aarch64.py dist/*_aarch64.whl $(AARCH64) --tests $(ARGS)

.PHONY: docs
docs: $(HAVE_DOCS) $(HAVE_CORE)  ## Build the documentation in site/, strictly
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=python:packaging $(DOCS_VENV)/bin/mkdocs build --strict --quiet $(ARGS)

.PHONY: constraints
constraints: $(HAVE_DEV)  ## Resolve the pinned versions of constraints.txt anew
	$(UV) pip compile --quiet --upgrade --universal --python-version 3.11 \
		--custom-compile-command "make constraints" --no-annotate --no-emit-index-url \
		--extra all --group tools --group dev --group wheel --group docs \
		--output-file constraints.txt pyproject.toml
	@# Of these alone: what is large is then installed once, and linked.
	grep -E '^(cuda|hypothesis|numpy|nvidia|pytest|torch|triton)' constraints.txt \
		> $(VENV)/large.txt
	for name in $(basename $(notdir $(wildcard $(LOCKS)/[!c]*.in))); do \
		$(UV) pip compile --quiet --upgrade --python-version 3.11 --no-annotate \
			--custom-compile-command "make constraints" --no-emit-index-url \
			--constraint $(VENV)/large.txt --output-file $(LOCKS)/$$name.txt \
			$(LOCKS)/$$name.in; \
	done
	$(UV) pip compile --quiet --upgrade --python-version 3.11 --no-annotate \
		--custom-compile-command "make constraints" --no-emit-index-url \
		--constraint $(VENV)/large.txt --output-file $(BENCHMARKS).txt $(BENCHMARKS).in

.PHONY: clean
clean:  ## Remove everything that was built or installed here
	rm -rf $(VENV) target dist site LICENSE-THIRD-PARTY .mypy_cache .pytest_cache .ruff_cache .hypothesis .fuzz
	rm -f python/pagefeed/_core.*.so python/pagefeed/_core.pyd
	find python tests benchmarks examples packaging -name __pycache__ -prune -exec rm -rf {} +

$(HAVE_UV): constraints.txt
	$(PYTHON) -m venv $(TOOLS)/uv
	$(TOOLS)/uv/bin/pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt uv
	mkdir -p $(TOOLS)/bin
	ln -sf ../uv/bin/uv $(UV)
	$(UV) venv --quiet --allow-existing --python "$$(command -v $(PYTHON))" $(VENV)
	@touch $@

$(HAVE_DEMO): $(HAVE_UV) pyproject.toml
	$(PIP_INSTALL) --requirements pyproject.toml --extra demo --group build
	@touch $@

$(HAVE_TEST): $(HAVE_UV) pyproject.toml | $(HAVE_DEMO)
	$(PIP_INSTALL) --requirements pyproject.toml $(LIGHT:%=--extra %) --group test
	@touch $@

$(HAVE_DEV): $(HAVE_UV) pyproject.toml | $(HAVE_TEST)
	$(PIP_INSTALL) --requirements pyproject.toml --extra all --group dev
	@touch $@

# Environments share files with uv's cache, which must lie on their filesystem.
UV_CACHE = $$([[ $$(stat -c %d "$$($(UV) cache dir)" . 2> /dev/null | uniq | wc -l) == 1 ]] \
	|| echo --cache-dir $(VENV)/uv-cache)

# An environment of its own, with what a lock file pins and the package as it lies here.
define SEPARATE_ENVIRONMENT
	$(UV) venv --quiet --clear --python $(BIN)/python $(@:.stamp=)
	$(UV) pip install --quiet $(UV_CACHE) --python $(@:.stamp=)/bin/python --requirements $<
	echo $(CURDIR)/python > \
		"$$(echo $(@:.stamp=)/lib/python3*/site-packages)/pagefeed.pth"
	@touch $@
endef

$(HAVE_TRAINERS)/%.stamp: $(LOCKS)/%.txt | $(HAVE_UV)
	$(SEPARATE_ENVIRONMENT)

$(HAVE_NEWEST)/%.stamp: $(LOCKS)/%.in | $(HAVE_UV)
	$(SEPARATE_ENVIRONMENT)

$(HAVE_BENCHMARKS): $(BENCHMARKS).txt | $(HAVE_UV)
	$(SEPARATE_ENVIRONMENT)

$(HAVE_WHEEL): $(HAVE_UV) pyproject.toml
	$(PIP_INSTALL) --group wheel
	@touch $@

# Its tools are no business of the package's.
$(HAVE_DOCS): $(HAVE_UV) pyproject.toml
	$(UV) venv --quiet --allow-existing --python "$$(command -v $(PYTHON))" $(DOCS_VENV)
	VIRTUAL_ENV=$(CURDIR)/$(DOCS_VENV) $(PIP_INSTALL) --group docs
	@touch $@

# For the demonstration alone: hardly optimised, with tokenizers, without remote storage.
$(HAVE_QUICK): $(CRATES) pyproject.toml | $(HAVE_DEMO)
	$(MATURIN_DEVELOP) --profile quick --no-default-features
	@touch $@

$(HAVE_S3):
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_TARGET_DIR=target/tools/build \
		cargo install --quiet --locked s3s-fs --version 0.14.1 --features binary \
		--root target/tools
	rm -rf target/tools/build

# Built again when the crates change, not when a tool is added.
$(HAVE_CORE): $(CRATES) pyproject.toml | $(HAVE_DEMO)
	$(MATURIN_DEVELOP) --release
	@touch $@
