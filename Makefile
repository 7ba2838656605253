# make run     train (make run ARGS="--task=cifar10 --algo=fedavg --rounds=20" for anything else)
# make test    all tests
# make check   format, lint and types
# make format  apply the formatter and the linter's fixes
# make ray     install Ray, for --runtime=ray (docs/install.md)
# make docs    write the generated pages: flags, results, the report and the plan of evidence
# make notebook  an environment that runs notebooks, for their test
# make test-tracker  a run with the real MLflow (--tracker); needs the network
# make audit   known vulnerabilities of the pinned packages (SECURITY.md); needs the network
ARGS ?= --task=imdb --algo=embracing
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
RAY := $(VENV)/.ray

AUDIT := .venv-audit/bin
NOTEBOOK := .venv-notebook

# Create the environment $(1), with uv where no Python on the PATH will do. A name on the PATH can
# be a shim that runs nothing, so each candidate is run.
define CREATE_ENVIRONMENT
python=; for p in python3.11 python3.10 python3.9 python3; do \
  if $$p -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 11))' >/dev/null 2>&1; \
  then python=$$p; break; fi; done; \
if [ -n "$$python" ]; then $$python -m venv $(1) || { rm -rf $(1); exit 2; }; \
elif uv --version >/dev/null 2>&1; then uv venv --quiet --python 3.11 --seed $(1) || exit 2; \
else \
  echo "error: expected Python 3.9, 3.10 or 3.11 as python3.11, python3.10, python3.9 or python3, or uv (docs/install.md). Received: $$(python3 --version 2>/dev/null || echo no python3)" >&2; exit 2; fi
endef

.PHONY: run test test-tracker check format ray docs audit notebook clean
run: $(INSTALLED)
	@$(BIN)/python run_experiment.py $(ARGS)

test: $(INSTALLED) notebook
	$(BIN)/python -m pytest --numprocesses=2 --dist=loadfile $(TEST_ARGS)

test-tracker: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --no-deps --upgrade --disable-pip-version-check --target=.venv-tracker -r requirements-tracker.txt
	TRACKER_PACKAGES=$(CURDIR)/.venv-tracker $(BIN)/python -m pytest tests/experiments/test_trackers.py

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ray: $(RAY)

docs: $(INSTALLED)
	$(BIN)/python -m tff_partial.cli.flag_reference docs/flags.md
	$(BIN)/python -m tff_partial.report docs/runs --markdown --remarks=docs/remarks --output=docs/results.md
	$(BIN)/python -m tff_partial.report docs/runs --remarks=docs/remarks --output=docs/report.html
	$(BIN)/python -m tff_partial.claims --counts_in=README.md
	$(BIN)/python -m tff_partial.claims --evidence=docs/evidence.md

# The newest pip-audit every time: an old one may not understand the database.
audit:
	@test -x $(AUDIT)/python || { $(call CREATE_ENVIRONMENT,.venv-audit); }
	@$(AUDIT)/python -m pip install --quiet --upgrade --disable-pip-version-check pip-audit
	@PATH="$(CURDIR)/$(AUDIT):$$PATH" $(AUDIT)/python .ci/audit.py

# What runs a notebook, beside the packages of $(VENV). Without a network its test is skipped.
notebook: $(INSTALLED)
	@test -f $(NOTEBOOK)/.installed || { \
	  echo "Installing what runs notebooks into $(NOTEBOOK)."; \
	  $(BIN)/python .ci/notebook_environment.py $(NOTEBOOK) && touch $(NOTEBOOK)/.installed; } || \
	  echo "warning: $(NOTEBOOK) could not be made; the test of the notebook is skipped" >&2

clean:
	rm -rf $(VENV) $(NOTEBOOK) .venv-audit build *.egg-info

$(INSTALLED): requirements.txt setup.cfg pyproject.toml
	@test -x $(BIN)/python || { $(call CREATE_ENVIRONMENT,$(VENV)); }
	@echo "Installing into $(VENV) with $$($(BIN)/python --version); this takes some minutes the first time."
	@$(BIN)/python -m pip install --quiet --no-deps --disable-pip-version-check -r requirements.txt
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --disable-pip-version-check -e .
	@touch $@

$(RAY): requirements-ray.txt $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --no-deps --disable-pip-version-check -r requirements-ray.txt
	@touch $@
