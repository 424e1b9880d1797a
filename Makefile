# Every target sets up what it needs. PYTHON must be 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SHARED ?= ../shared
DEMO := examples/demo
# One worker more than cores: many tests start a process and wait for it.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || sysctl -n hw.ncpu) + 1)

.DEFAULT_GOAL := help
UV ?= uv
LOCKED := --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --upgrade
.PHONY: help setup demo demo-cycle test coverage browser test-web screenshots check docs docs-serve wheel format conformance digests size test-oracle test-laws test-more kube test-kube test-kube-smoke test-kube-compare test-kube-faults soak manifests lock bench bench-kube clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## Make the virtual environment and install everything

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Pumice needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) --version 2>&1); set PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1,<27'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]' --group dev
	@touch $@

demo: $(STAMP)  ## Draw seven days of a GPU cluster, and play each with and without a policy of ten lines
	@$(BIN)/pumice simulate examples/scenarios/three-teams.yaml --seeds 1..7 --report out/three-teams.html

demo-cycle: $(STAMP)  ## Run one scheduling cycle over an example cluster: who goes where, and why the rest does not
	@$(BIN)/pumice cycle $(DEMO) --conf $(DEMO)/scheduler.conf

test: $(STAMP)  ## Run the tests
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -q

coverage: $(STAMP)  ## Run the tests with their coverage; no package may fall below tests/coverage-floors
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -q --cov=pumice --cov-report=json:out/coverage.json
	$(BIN)/python tools/coverage_floors.py out/coverage.json

browser: $(STAMP)
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; }
	@$(BIN)/python -c 'import axe_playwright_python' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check --group screenshots

test-web: browser  ## Open the report and the dashboard in Debian's Chromium (installs it where it is missing)
	$(BIN)/pytest tests/web/check_report.py tests/web/check_dashboard.py

screenshots: browser demo  ## Take the pictures of the report in docs/images anew
	@$(BIN)/python tools/screenshots.py out/three-teams.html
	@$(BIN)/python tools/page_pictures.py

check: $(STAMP)  ## Everything that needs no test: format, lint, types, import contracts, prose
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy src/pumice tests tools benchmarks
	$(BIN)/lint-imports
	$(BIN)/python tools/prose.py

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

docs: $(VENV)/.docs  ## Build the documentation site into out/site; a dead link or anchor is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

docs-serve: $(VENV)/.docs  ## Show the documentation site on localhost while you write
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

wheel: $(STAMP)  ## Build the wheel into dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

format: $(STAMP)  ## Format the code and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

conformance: $(STAMP)  ## Run the conformance cases in SHARED (default ../shared)
	$(BIN)/python tools/conformance.py run $(SHARED)/conformance --skip-missing

size: $(STAMP)  ## Count lines, tokens and modules of each package, and the functions that single cycles pass
	@$(BIN)/python tools/size.py

digests: $(STAMP)  ## Compare what is decided with benchmarks/digests.json: shapes, scenarios, 2,000 random stories
	$(BIN)/python tools/digests.py

test-oracle: $(STAMP)  ## Compare the fast engine with the slow, obvious one at length
	$(BIN)/pytest -m oracle

test-laws: $(STAMP)  ## Try the laws of scheduling on STORIES (default 20000) random clusters, from SEED (default 1) on
	$(BIN)/python tools/laws.py --stories $(or $(STORIES),20000) --seed $(or $(SEED),1)

test-more: $(STAMP)  ## What CI runs beside the tests: what takes long, the wheel, and the laws on all their examples
	PUMICE_TEST_MORE=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal -q -m "(slow or law) and not oracle" --timeout=900

kube:  ## Build kube-apiserver, kube-scheduler, etcd, kwok and helm for the tests against a real API server (once)
	@tools/kube/build.sh
	@tools/kube/helm.sh

test-kube: $(STAMP)  ## Run the tests against a real API server (after `make kube`)
	PUMICE_TEST_KUBE=1 $(BIN)/pytest tests/kube

test-kube-smoke: $(STAMP)  ## A small part of test-kube, as CI runs it; builds the two programs that it needs (once)
	@tools/kube/build.sh etcd kube-apiserver
	PUMICE_TEST_KUBE=1 $(BIN)/pytest tests/kube tests/kube_faults -m smoke --timeout=300

test-kube-faults: $(STAMP)  ## Let servers, networks, nodes and schedulers fail, on a real API server (after `make kube`)
	PUMICE_TEST_KUBE=1 $(BIN)/pytest tests/kube_faults -v --durations=5 --timeout=300

test-kube-compare: $(STAMP)  ## Give the same pods to kube-scheduler and to Pumice on one API server (after `make kube`)
	PUMICE_TEST_KUBE=1 $(BIN)/pytest tests/kube_compare

soak: $(STAMP)  ## Run replicas, faults and churn for MINUTES (default 30) on a real API server, and report (after `make kube`)
	$(BIN)/python tests/kube_soak/soak.py --minutes $(or $(MINUTES),30)

manifests: $(STAMP)  ## Write deploy/manifests from the Helm chart
	@helm=$$(tools/kube/helm.sh) && $(BIN)/python tools/manifests.py "$$helm"

lock:  ## Write deploy/*.lock anew: what the image installs and what builds it, with hashes (needs uv)
	@{ sed -n 1p deploy/requirements.lock; $(UV) pip compile -q pyproject.toml --extra kube --extra extender --extra dashboard $(LOCKED); } > deploy/requirements.lock.new
	@mv deploy/requirements.lock.new deploy/requirements.lock
	@{ sed -n 1p deploy/build.lock; $(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'], sep='\n')" \
	  | $(UV) pip compile -q - $(LOCKED); } > deploy/build.lock.new
	@mv deploy/build.lock.new deploy/build.lock

bench: $(STAMP)  ## Measure the scheduler
	$(BIN)/python tools/bench.py

bench-kube: $(STAMP)  ## Measure `pumice run` on a real API server, beside a bare client and kube-scheduler (after `make kube`)
	$(BIN)/python benchmarks/kube.py

clean:  ## Remove what was made here: environment, caches, build output
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist out
