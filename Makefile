# One command each; every one makes the environment first when it is not there.
# What is compiled is kept: the tests start the bot some sixty times as a process of its own.
unexport PYTHONDONTWRITEBYTECODE
# the first of these that is 3.11 to 3.14; of a newer one, not all that is needed can be installed
PYTHON ?= $(shell for each in python3.11 python3.12 python3.13 python3.14 python3; do $$each -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && echo $$each && break; done)
BIN := .venv/bin
# stories that make test-long tells over signed HTTP, with the record on PostgreSQL and with a model asked by Chat
# Completions, too; all of them are by make test-variants
SAMPLED := $(addprefix tests/stories/test_,path.py wire.py edit.py commands.py direct_requests.py)
# what make test-long tells of passkeys with the record on PostgreSQL; make proof more of it, where there is one
SIGNED := $(addprefix tests/stories/test_,signatures.py passkeys.py signed_receipts.py crash_passkeys.py)
SERVER := $(wildcard /usr/lib/postgresql/*/bin/initdb)
# what make test leaves to make test-long: programs beside the bot that runs (the local Slack, the command line and its
# chat, those of others that ask, the benchmark), many workspaces, the tools for databases, and what is long in each test
BESIDE := sandbox/tests tests/test_docs_sandbox.py tests/cli $(wildcard tests/stories/test_*terminal*.py) tests/client \
  tests/proxy tests/tools/database tests/workspaces tests/test_docs_kubernetes.py $(wildcard tests/test_bench*.py)
APART := $(BESIDE) tests/browser tests/integrations tests/cluster tests/models
.PHONY: demo agent test tests test-long test-cluster test-variants test-llama integrations proof run lint bench pictures moving-picture clean

# what the demo and the bot need; `.venv/ready` adds the extras and what tests need
.venv/demo: pyproject.toml client/pyproject.toml sandbox/pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null || { echo "Countersign needs Python 3.11 to 3.14, and none was found; set PYTHON=..."; exit 1; }
	@echo "Installing Countersign and what it needs into .venv: once, for about half a minute"
	@$(PYTHON) -m venv .venv
	@# what the demo imports is compiled when it starts: most of the rest never is
	@$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e client -e sandbox -e '.[sandbox,chat,serve]'
	@# an earlier build had the command in another distribution, which took it away
	@test -x $(BIN)/countersign || $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall -e client
	@touch $@

.venv/ready: .venv/demo
	@echo "Installing its extras and what tests need into .venv: once, for about half a minute"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m compileall -qq -j 2 .venv/lib || true
	@touch $@

demo: .venv/demo  ## a local Slack, a local planner and the real bot, in one process
	$(BIN)/countersign demo

agent: .venv-agent/ready  ## an agent of another framework at this terminal, which asks in the demo that runs
	@test -f var/demo/program.sh || { echo "Start the demo first, at another terminal: make demo"; exit 1; }
	@. var/demo/program.sh; cd var/demo; PYTHONPATH=../../client ../../.venv-agent/bin/python ../../docs/terminal_agent.py

.venv-agent/ready:
	@command -v "$(PYTHON)" >/dev/null || { echo "The agent needs Python 3.11 to 3.14, and none was found; set PYTHON=..."; exit 1; }
	@echo "Installing Pydantic AI into .venv-agent: once, for about half a minute"
	@$(PYTHON) -m venv .venv-agent
	@.venv-agent/bin/pip install --quiet --disable-pip-version-check 'pydantic-ai-slim[openai]>=2.68'
	@touch $@

run: .venv/ready  ## the bot against the real Slack and OpenAI, from the environment or .env
	$(BIN)/countersign run

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# without its cache, which two files of contracts would share and make stale
	$(BIN)/lint-imports --no-logo --no-cache tests/guard/imports.toml tests/guard/imports_at_run_time.toml
	$(BIN)/mypy

test: .venv/ready  ## the tests, and lint and types beside them
	@$(MAKE) --no-print-directory -j2 lint tests

tests: .venv/ready  ## the tests alone, on eight workers: they wait a good deal
	@# a new clone's files are compiled once, and not by every worker at the same time
	@ls tests/__pycache__/*-pytest-*.pyc >/dev/null 2>&1 || { \
	  $(BIN)/pytest -qq --collect-only $(APART:%=--ignore %) tests/[a-r]*/ >/dev/null 2>&1 & \
	  $(BIN)/pytest -qq --collect-only $(APART:%=--ignore %) tests/[s-z]*/ tests/test_*.py >/dev/null 2>&1; wait; true; }
	$(BIN)/pytest -n 8 --dist loadfile --no-loadscope-reorder -m "not long" $(APART:%=--ignore %)

test-long: .venv/ready  ## what make test leaves out for its length: programs beside the bot, databases, what is seen in a browser
	$(BIN)/pytest -n 8 --dist loadfile --no-loadscope-reorder -m "not long" $(BESIDE)
	$(BIN)/pytest -n 3 --dist loadfile -m "long and not cluster" --ignore tests/integrations tests client/tests sandbox/tests
	STORIES_OVER=http $(BIN)/pytest -n 3 --dist loadfile -m "not socket and not long" $(SAMPLED)
	RECORD_ON=postgresql $(BIN)/pytest -n 3 --dist loadfile -m "not file and not long" $(SAMPLED) $(SIGNED)
	RECORD_ON=postgresql $(BIN)/pytest -n 3 -m "long and not file" -k "sign or passkey or hosted" tests/proof tests/stories/test_crash_passkeys.py
	MODEL_OVER=chat $(BIN)/pytest -n 3 --dist loadfile -m "not long" $(SAMPLED)
	STORIES_HOSTED=1 $(BIN)/pytest -n 4 --dist loadfile -m "not socket and not long" tests/stories

test-cluster: .venv/ready  ## several processes on one PostgreSQL, and what may happen to them
	$(BIN)/pytest -o timeout=600 tests/cluster

test-variants: .venv/ready  ## all stories over signed HTTP, with Chat Completions and on PostgreSQL; and many more random values
	STORIES_OVER=http $(BIN)/pytest -n 9 --dist loadfile --no-loadscope-reorder -m "not socket" tests/stories
	MODEL_OVER=chat $(BIN)/pytest -n 9 --dist loadfile --no-loadscope-reorder tests/stories
	RECORD_ON=postgresql $(BIN)/pytest -n 3 --dist loadfile -m "not file and not browser" tests/stories tests/storage/test_races.py tests/storage/test_decisions.py tests/storage/test_queues.py tests/storage/test_cancelling.py tests/storage/test_unknown_calls.py tests/storage/test_joint_commit.py tests/approvals tests/runs/test_machine.py tests/web/api tests/proof/test_crash_matrix.py tests/proof/simulation
	$(BIN)/pytest -n 3 -o timeout=600 -m hypothesis --hypothesis-profile many

integrations: .venv/ready  ## agents of other frameworks and MCP servers of others, which it installs into .venv-integrations and .venv-servers
	@for each in packages beeai; do \
	  there=.venv-integrations; [ $$each = packages ] || there=$$there/$$each; \
	  test $$there/ready -nt tests/integrations/$$each.txt || { $(PYTHON) -m venv $$there && $$there/bin/pip install --quiet --disable-pip-version-check -r tests/integrations/$$each.txt && touch $$there/ready; } || echo "The packages of other frameworks could not be installed: their tests are skipped"; \
	done
	@test .venv-servers/ready -nt tests/integrations/servers.txt -a .venv-servers/ready -nt tests/integrations/package.json || { $(PYTHON) -m venv .venv-servers && .venv-servers/bin/pip install --quiet --disable-pip-version-check -r tests/integrations/servers.txt && cp tests/integrations/package.json .venv-servers && npm install --silent --no-audit --no-fund --prefix .venv-servers && touch .venv-servers/ready; } || echo "The MCP servers of others could not be installed (they need npm as well): their tests are skipped"
	$(BIN)/pytest -o timeout=600 tests/integrations

test-llama: .venv/ready  ## the bot with a real server of models, which is compiled into .venv-llama the first time
	@test .venv-llama/ready -nt tests/models/packages.txt || { $(PYTHON) -m venv .venv-llama && CMAKE_ARGS="-DLLAVA_BUILD=OFF" .venv-llama/bin/pip install --quiet --disable-pip-version-check -r tests/models/packages.txt && touch .venv-llama/ready; } || echo "The model's server could not be built: its tests are skipped"
	$(BIN)/pytest -o timeout=600 tests/models

proof: .venv/ready  ## see docs/reliability.md: a million steps from seeds (SEED=7: that one alone), five hundred stops, then every story struck at every step; more than an hour
	$(BIN)/python -m tests.proof.simulation $(if $(WORKSPACES),--workspaces $(WORKSPACES)) $(if $(ALL_SIGN),--signed) $(if $(SEED),--seed $(SEED))
	$(if $(SEED),,$(BIN)/python -m tests.proof.simulation --workspaces 2 --steps 300000)
	$(if $(SEED),,$(BIN)/python -m tests.proof.stops)
	$(if $(SEED),,$(BIN)/python -m tests.proof.crash)
	$(if $(SEED),,$(BIN)/python -m tests.proof.crash.hosted)
	$(if $(SEED),,$(BIN)/python -m tests.proof.crash.hosted --over http)
	$(if $(SEED)$(if $(SERVER),,none),,RECORD_ON=postgresql $(BIN)/python -m tests.proof.simulation --signed --steps 100000)
	$(if $(SEED)$(if $(SERVER),,none),,RECORD_ON=postgresql $(BIN)/python -m tests.proof.crash --trouble killed --story "signed by two" "a passkey that another approves")
	$(if $(SEED)$(if $(SERVER),,none),,RECORD_ON=postgresql $(BIN)/python -m tests.proof.crash.hosted)
	$(if $(SEED)$(if $(SERVER),,none),,RECORD_ON=postgresql $(BIN)/python -m tests.proof.crash.hosted --over http)

bench: .venv/ready  ## what it costs on this machine: a table and JSON, some minutes
	$(BIN)/python -m bench

pictures: .venv/ready  ## the pictures of the documentation, from the page; needs Chromium and its driver
	$(BIN)/python -m bench.pictures

moving-picture: .venv/ready  ## the moving picture of the README, from the page; needs the same
	$(BIN)/python -m bench.pictures moving

clean:
	rm -rf .venv .venv-agent build *.egg-info
