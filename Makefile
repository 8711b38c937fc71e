# Every target says what it needs. `demo` and `test` need only Python 3.9+.
# The versions of the tools are in .ci/requirements.txt.
PYTHON ?= python3
TOOLS  := .venv/tools

.PHONY: demo test test-all test-shuffled check spec bench interop conformance fuzz mutants soak windows clean

demo:            ## a conversation between client and server, every message explained
	@$(PYTHON) examples/demo.py $(ARGS)

test:            ## all tests, on one Python; test_mcp_ref.py is what the module has to do
	@$(PYTHON) .ci/tests.py

test-all:        ## all tests, on every Python from 3.9 on that can be found
	@$(PYTHON) .ci/tests.py --each

test-shuffled:   ## all tests on every Python in random order, ROUNDS (4) times; SEED replays
	@for round in $$(seq $(or $(ROUNDS),4)); do \
		$(PYTHON) .ci/tests.py --each $(or $(SEED),random) || exit 1; done

check: $(TOOLS)  ## types, lint, branch coverage, the official schemas
	MYPYPATH=.:examples:examples/embed:examples/http:examples/tools $(TOOLS)/bin/mypy --strict --python-version 3.9 \
		--follow-imports=silent \
		mcp_ref.py examples/*.py examples/embed/*.py examples/http/http_*.py examples/tools/wiretap.py examples/tools/cli.py examples/tools/hosts.py examples/tools/every_hint.py \
		examples/tools/judge*.py examples/tools/common.py examples/tools/line_checker.py examples/tools/faulty_server.py \
		examples/steps/[1-8]_*.py examples/steps/appendix_batches.py
	for platform in win32 darwin; do \
		$(TOOLS)/bin/mypy --strict --python-version 3.9 --platform $$platform mcp_ref.py || exit 1; done
	$(TOOLS)/bin/pyright --pythonversion 3.9 mcp_ref.py
	$(TOOLS)/bin/ruff check --select E4,E7,E9,F,W --line-length 100 --per-file-ignores mcp_ref.py:E402 mcp_ref.py test_mcp_ref.py examples .ci
	$(TOOLS)/bin/ruff check --select SLF001 test_mcp_ref.py .ci/test_*.py examples/test_*.py examples/*/test_*.py
	$(TOOLS)/bin/coverage erase --rcfile=.ci/coveragerc
	$(TOOLS)/bin/coverage run --rcfile=.ci/coveragerc .ci/tests.py --here
	$(TOOLS)/bin/coverage combine -q --rcfile=.ci/coveragerc
	$(TOOLS)/bin/coverage report --rcfile=.ci/coveragerc --fail-under=97
	$(TOOLS)/bin/python .ci/test_line_checker.py --jsonschema
	$(PYTHON) .ci/wiretap_browser.py

spec:            ## each requirement of the specification, and the tests that hold it
	$(PYTHON) .ci/spec.py

bench:           ## figures beside the naive loop; ARGS="--rounds 9 NAME=OTHER_MCP_REF.py mcpatom"
	@$(PYTHON) .ci/bench.py $(ARGS)

interop:         ## peers that others wrote; installs them into .venv/ and .node/
	$(PYTHON) .ci/interop/run.py

conformance:     ## the official suite, over HTTP; installs it into .node/
	$(PYTHON) .ci/conformance.py

fuzz: $(TOOLS)   ## property tests for FUZZ_SECONDS (60); FUZZ_SEED replays, PROPERTIES chooses
	$(TOOLS)/bin/python -W error .ci/properties.py $(PROPERTIES)

mutants:         ## N (20) small changes of mcp_ref.py, each tested by the suite; SEED (1) draws them
	@$(PYTHON) .ci/mutants.py $(or $(N),20) $(or $(SEED),1)

soak:            ## load and a kill every second for SOAK_SECONDS (600); Linux only
	$(PYTHON) .ci/soak.py

windows:         ## all tests on a CPython for Windows, under Wine; builds it in .wine/; Linux only
	@$(PYTHON) .ci/windows.py $(ARGS)

$(TOOLS): .ci/requirements.txt
	$(PYTHON) -m venv $@
	$@/bin/pip install -q -r $<
	@touch $@

clean:
	rm -rf .venv .node .wine .coverage* .mypy_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
