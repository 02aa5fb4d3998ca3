PYTHON ?= python3
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run test test-quick coverage lint format hooks setup lock wheel docs deploy-check image-check upgrade-check sbom audit licences bench soak screenshots

# authzconsole/ops is started as the top-level package `ops`, because authzconsole imports Django, which may be missing yet
OPS = cd authzconsole && exec $(PYTHON) -m ops

PRETTIER = node_modules/prettier/bin/prettier.cjs
ASSETS = "authzconsole/static/**/*.css" "authzconsole/static/**/*.js"

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run:  ## install what is missing and start the console at http://127.0.0.1:8000 (PORT=8123 make run: elsewhere)
	@$(OPS).run

test:  ## install what is missing and run every test
	@$(OPS).suite $(TEST_OPTIONS)

test-quick:  ## run the tests of the rules, the addresses and one page of each area, in a minute
	@$(OPS).suite --quick

coverage:  ## run the quick tests and check that they cover enough of entities/ and grants/
	@$(OPS).suite --coverage
	@.venv/bin/coverage report

lint: tools  ## check types, style and formatting, as .ci/run does
	.venv/bin/ruff check
	.venv/bin/ruff format --check --quiet
	.venv/bin/mypy
	.venv/bin/djhtml --tabwidth 2 --check templates
	.venv/bin/node $(PRETTIER) --check --log-level warn $(ASSETS)

format: tools  ## correct the style of Python, and reformat all source files
	.venv/bin/ruff check --fix
	.venv/bin/ruff format
	-.venv/bin/djhtml --tabwidth 2 templates
	.venv/bin/node $(PRETTIER) --write --log-level warn $(ASSETS)

hooks: tools  ## check the changed files at every commit
	.venv/bin/prek install

.PHONY: tools
tools: node_modules/.package-lock.json

# npm is a locked package of .venv too
node_modules/.package-lock.json: package-lock.json requirements/dev.txt
	@$(OPS).setup --for quick
	@PATH="$(CURDIR)/.venv/bin:$$PATH" npm ci --silent
	@touch $@

setup:  ## only install what is missing; then `.venv/bin/python manage.py ...` works
	@$(OPS).setup

# A `uv.lock` would record the addresses of the package index; these locks work with every mirror.
COMPILE = .venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --quiet \
	--custom-compile-command "make lock" $(LOCK_OPTIONS)

EXTRAS = hive ldap opentelemetry saml scim sentry

lock:  ## write requirements/ from pyproject.toml (LOCK_OPTIONS=--upgrade: the newest versions)
	@test -x .venv/bin/uv || $(MAKE) --no-print-directory setup
	@$(COMPILE) --group uv -o requirements/uv.txt >/dev/null
	@$(COMPILE) --group build -o requirements/build.txt >/dev/null
	@$(COMPILE) --group dev --all-extras pyproject.toml -o requirements/dev.txt >/dev/null
	@$(COMPILE) --constraints requirements/dev.txt --group docs -o requirements/docs.txt >/dev/null
	@$(COMPILE) --constraints requirements/dev.txt pyproject.toml -o requirements/run.txt >/dev/null
	@for extra in $(EXTRAS); do \
		$(COMPILE) --constraints requirements/dev.txt --extra $$extra pyproject.toml -o requirements/extra-$$extra.txt >/dev/null || exit 1; \
	done
	@echo "requirements/ is up to date. make setup installs what changed."

wheel:  ## build the wheel of the analyses without Django, for standalone Spark jobs, in var/dist/
	@$(OPS).setup --for quick
	@$(OPS).wheel

docs:  ## build the documentation site in var/docs/, which the console serves at /docs
	@$(OPS).setup --for quick
	@.venv/bin/python -m sphinx --quiet --fail-on-warning --keep-going --doctree-dir var/doctrees docs var/docs
	@echo "The documentation is in var/docs/index.html, and at /docs of the console."

deploy-check:  ## install the console from the package index with deploy/install.sh, and test it behind nginx
	@$(OPS).setup --for test
	CONSOLE_FULL_INSTALL=1 .venv/bin/python -m pytest -q tests/deploy/test_install.py tests/deploy/test_nginx.py

image-check:  ## test an image that was built from deploy/Containerfile, with podman or docker (CONSOLE_IMAGE=NAME)
	@test -n "$(CONSOLE_IMAGE)" || { echo "CONSOLE_IMAGE names the image, such as authzconsole:1.1.0"; exit 2; }
	@$(OPS).setup --for quick
	CONSOLE_IMAGE=$(CONSOLE_IMAGE) .venv/bin/python -m pytest -q tests/deploy/test_image.py

upgrade-check:  ## upgrade a database with 100,000 entities while the released version answers reads
	@$(OPS).setup --for test
	UPGRADE_ENTITIES=100000 .venv/bin/python -m pytest -q tests/deploy/test_upgrade_live.py

sbom:  ## write the CycloneDX list of the production packages to var/sbom.json
	@$(OPS).supply_chain sbom

audit:  ## compare the production packages with the known vulnerabilities (needs pypi.org; AUDIT_OPTIONS: of pip-audit)
	@$(OPS).supply_chain audit $(AUDIT_OPTIONS)

licences:  ## check that the licences of the production packages are permitted
	@$(OPS).supply_chain licences

bench:  ## run the benchmarks; each prints its ratio against its reference
	@$(OPS).bench

soak:  ## run the console for 30 minutes while its parts are killed, and check that nothing is lost (SOAK_MINUTES=10: shorter)
	@$(OPS).soak

screenshots:  ## take a picture of every page into var/screens/, from a throwaway console with the demo tenant
	@$(OPS).screenshots
