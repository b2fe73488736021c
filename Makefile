# Accord. `make` lists the verbs.

VENV := .venv
BIN := $(VENV)/bin
export VENV
ifdef PYTHON
export PYTHON
endif

# Packages of this folder that are edited here; `make demo` needs the first four.
PROJECTS := packages/accord packages/accord-trace packages/accord-terminal packages/accord-coder
RUNTIME := $(PROJECTS:%=-e %)
EDITED := -e 'packages/accord[mcp,otlp,postgres,remote,zstd]' -e 'packages/accord-trace[jsonpath,otlp,zstd]' \
	-e packages/accord-terminal -e 'packages/accord-coder[models]' -e packages/accord-check \
	-e packages/accord-chat -e packages/accord-inspector -e packages/accord-fleet \
	-e packages/accord-bridges -e packages/accord-web
PYPROJECTS := pyproject.toml $(wildcard packages/*/pyproject.toml)

.DEFAULT_GOAL := help
SECONDS := 3600

.PHONY: help setup demo wheels test alone test-programs test-clusters unit library attack lint style types format reference docs docs-serve screenshots docs-test changelog requirements counts mutation bench bench-remote bench-proxy bench-trace bench-fleet bench-chat bench-steering bench-bridges bench-budgets soak-gateway simulate recordings clean

help:  ## List the verbs
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

setup: $(VENV)/.dev  ## Make .venv with everything for development

demo: $(VENV)/.runtime  ## Ask the bundled agent to read, edit and run something in this folder
	$(BIN)/accord ask --yes 'read README.md; create demo.txt hello; replace demo.txt hello "hello, world"; run cat demo.txt; delete demo.txt'

# `make test PKG=accord-chat` runs the tests of one package.
PYTEST := $(BIN)/python -m pytest -q -n auto --dist worksteal --durations 20 --durations-min 5
TESTS := $(if $(PKG),packages/$(PKG)/tests)

test: $(VENV)/.dev  ## Run all tests that need only Python; PKG=accord-chat runs those of a package
	$(PYTEST) -m "not programs" $(TESTS) $(ARGS)

alone: wheels  ## Run the tests of each package against its wheel alone; PKG=accord-trace runs one
	$(BIN)/python tools/alone.py $(PKG) $(ARGS)

test-programs: $(VENV)/.dev  ## Run the tests with node, Chromium, servers, and agents and editors by others
	$(PYTEST) -m programs $(TESTS) --ignore packages/accord-fleet/tests/fleet/cluster $(ARGS)

test-clusters: $(VENV)/.dev  ## Run the tests with Ray clusters of several nodes, one after another
	$(BIN)/python -m pytest -q --durations 5 --durations-min 5 packages/accord-fleet/tests/fleet/cluster $(ARGS)

# The tests of what starts many programs, generates much input, or uses the network.
LONG := attack bad_input mcp proxy remote schema simulation
UNIT := -m pytest -q -n auto --dist worksteal -m "not slow and not programs" packages/accord/tests \
	$(LONG:%=--ignore packages/accord/tests/%) $(ARGS)
VERSIONS := http_contract websocket_contract tls

unit: $(VENV)/.dev  ## Run the tests of the library that need few processes, in under a minute
	$(BIN)/python $(UNIT)

library: $(VENV)/.dev  ## Run the tests of the library that can differ between versions of Python
	$(BIN)/python $(UNIT) $(VERSIONS:%=packages/accord/tests/remote/test_%.py)

attack: $(VENV)/.dev  ## Attack with generated frames, races, messages, kills and paths, for SECONDS=3600
	$(BIN)/python packages/accord/tests/attack/run.py --seconds $(SECONDS)

recordings: $(VENV)/.dev  ## Install real agents, and record them with a fake model for the tests
	sh tests/recordings/install_agents.sh
	$(BIN)/python tests/recordings/record.py
	$(BIN)/python tests/recordings/record_clients.py
	$(BIN)/python tests/recordings/compatibility.py
	$(BIN)/python tests/recordings/use_chat.py
	$(BIN)/python tests/recordings/steer_agents.py
	$(BIN)/python docs/generate.py

lint: style types  ## Check format, lint, language, spelling, borders and types

style: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/python tools/check_language.py
	$(BIN)/codespell conftest.py packages tests docs tools examples benchmarks changelog.d README.md CONTRIBUTING.md CHANGELOG.md
	$(BIN)/lint-imports --no-cache
	for package in packages/*; do (cd $$package && ../../$(BIN)/deptry src --no-ansi) || exit 1; done

types: $(VENV)/.dev
	$(BIN)/pyright --threads
	@echo 'pyright --verifytypes accord'  # finds the package with the first Python of PATH
	@PATH="$(abspath $(BIN)):$$PATH" pyright --verifytypes accord --ignoreexternal >$(VENV)/types.txt || \
		{ sed -n '/^Symbols used/,$$p' $(VENV)/types.txt; exit 1; }

format: $(VENV)/.dev  ## Format, and fix what can be fixed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

reference: $(VENV)/.dev  ## Write the generated roles of the library and pages of the reference
	$(BIN)/python tools/generate_roles.py
	$(BIN)/python tests/recordings/compatibility.py
	$(BIN)/python docs/generate.py

docs: $(VENV)/.docs  ## Build the site of the documentation in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(VENV)/.docs  ## Serve the site on this machine, and rebuild it when a page changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --livereload

screenshots: $(VENV)/.dev  ## Make the pictures of the inspector in docs/images (needs Chromium)
	$(BIN)/python docs/inspector_pictures.py

docs-test: $(VENV)/.dev  ## Run the code blocks of the docs
	$(BIN)/python -m pytest -q tests/docs

changelog: $(VENV)/.dev  ## Show the notes of the next release, from changelog.d
	$(BIN)/towncrier build --draft --version next

requirements: $(VENV)/.dev  ## Count the rules of the protocol that tests name, and say why others are not
	$(BIN)/python tests/requirement.py

counts: $(VENV)/.dev  ## Count files, lines and imports by package, and the lines of tests
	$(BIN)/python tools/counts.py

mutation: $(VENV)/.dev  ## Measure which share of small wrong changes the tests of PKG notice, hours (PKG=accord)
	$(BIN)/python tools/mutation.py all --package $(or $(PKG),accord)

bench-remote: $(VENV)/.dev  ## Measure WebSocket and HTTP beside the official SDKs, 6 minutes
	$(BIN)/python benchmarks/run.py --only remote \
		--peers accord,accord-api,official,typescript --save benchmarks/RESULTS_REMOTE.md

bench-proxy: $(VENV)/.dev  ## Measure chains of proxies, 8 minutes
	$(BIN)/python benchmarks/run.py --only proxy \
		--peers accord,accord-api --save benchmarks/RESULTS_PROXY.md

bench-trace: $(VENV)/.dev  ## Measure what recording costs, and searching a recording of 1 GB
	$(BIN)/python benchmarks/run.py --only trace \
		--peers accord --save benchmarks/RESULTS_TRACE.md

bench-fleet: $(VENV)/.dev  ## Measure fleets on this machine and on Ray, 5 minutes
	$(BIN)/python benchmarks/fleets/run.py --save benchmarks/RESULTS_FLEET.md

bench-chat: $(VENV)/.dev  ## Measure the time from a key to the screen of accord chat, 4 minutes
	$(BIN)/python benchmarks/chat_latency.py --save benchmarks/RESULTS_CHAT.md

bench-steering: $(VENV)/.dev  ## Measure the time until the agent has what is said during a turn, 5 minutes
	$(BIN)/python benchmarks/steering.py --save benchmarks/RESULTS_STEERING.md

bench-bridges: $(VENV)/.dev  ## Measure bridges of frameworks and the OpenAI gateway beside others, 20 minutes
	$(BIN)/python benchmarks/bridges.py --save benchmarks/RESULTS_BRIDGES.md

bench-budgets: $(VENV)/.dev  ## Measure what budgets cost of the throughput, side by side, 2 minutes
	$(BIN)/python benchmarks/budgets.py --save benchmarks/RESULTS_BUDGETS.md

soak-gateway: SECONDS = 1200
soak-gateway: $(VENV)/.dev  ## Let 50 callers use and abuse `accord gateway`, SECONDS=1200, then 200 sessions
	$(BIN)/python benchmarks/soak_gateway.py --seconds $(SECONDS) --sessions 200 \
		--save benchmarks/RESULTS_GATEWAY_SOAK.md

bench: $(VENV)/.dev  ## Measure Accord beside the official SDKs (needs node and npm)
	$(BIN)/python benchmarks/run.py

simulate: $(VENV)/.dev  ## Run random programs of agents and clients in a simulated world for an hour (SECONDS=3600)
	PYTHONPATH=tests:packages/accord/tests $(BIN)/python -m simulation --seconds $(SECONDS)

wheels: $(VENV)/.dev  ## Build the wheel and the sdist of every package into dist/, and check them
	$(BIN)/python tools/wheels.py
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz
	$(BIN)/check-wheel-contents dist/*.whl

clean:  ## Remove all that is not source
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	rm -rf tests/*/node_modules tests/*/*/node_modules tests/*/.venvs packages/*/tests/*/node_modules
	rm -rf packages/*/tests/*/.venvs
	rm -rf benchmarks/node_modules benchmarks/.venvs
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.runtime: $(PYPROJECTS) tools/venv.sh
	sh tools/venv.sh $(RUNTIME)
	@touch $@

$(VENV)/.docs: $(VENV)/.dev tests/docs/requirements.txt
	sh tests/docs/install.sh

$(VENV)/.dev: $(PYPROJECTS) tools/venv.sh
	sh tools/venv.sh $(EDITED) --group dev
	@touch $@ $(VENV)/.runtime
