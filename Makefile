# Every target says what it needs. `demo` and `test` need Python 3.9+ and nothing else.
PYTHON ?= python3
VENV   := .venv/tools
MYPY   := mypy==1.18.2
RUFF   := ruff==0.14.0
COV    := coverage==7.10.7
RIGHT  := pyright[nodejs]==1.1.414
JUDGE  := jsonschema==4.25.1
COVER  := coverage==7.17.3

.PHONY: demo test test-all test-shuffled check spec bench interop conformance fuzz soak mutate clean

demo:            ## a conversation between client and server, every message explained
	@$(PYTHON) examples/demo.py

test:            ## all tests, on one Python; test_mcp_ref.py is what the module has to do
	@$(PYTHON) -W error .ci/side_by_side.py

test-all:        ## all tests, on every Python from 3.9 on that can be found; some in Pyodide
	@$(PYTHON) .ci/pythons.py -W error .ci/side_by_side.py
	@$(PYTHON) .ci/in_pyodide.py

test-shuffled:   ## all tests on every Python in random order, ROUNDS (4) times on each
	@$(PYTHON) .ci/pythons.py -W error -X dev .ci/shuffled.py $(or $(ROUNDS),4)

check: $(VENV) .venv/judge  ## types, lint, branch coverage, the official schemas
	MYPYPATH=.:examples:examples/embed:examples/http:examples/tools $(VENV)/bin/mypy --strict --python-version 3.9 \
		--follow-imports=silent \
		mcp_ref.py examples/*.py examples/embed/*.py examples/http/http_*.py examples/tools/wiretap.py examples/tools/hosts.py examples/tools/every_hint.py \
		examples/tools/judge*.py examples/tools/line_checker.py examples/tools/faulty_server.py \
		examples/steps/[1-8]_*.py
	$(VENV)/bin/pyright --pythonversion 3.9 mcp_ref.py
	$(VENV)/bin/ruff check --select E4,E7,E9,F,W --line-length 100 mcp_ref.py test_mcp_ref.py examples .ci
	$(VENV)/bin/ruff check --select SLF001 test_mcp_ref.py .ci/test_*.py examples/test_*.py examples/*/test_*.py
	$(VENV)/bin/coverage erase --rcfile=.ci/coveragerc
	$(VENV)/bin/coverage run --rcfile=.ci/coveragerc .ci/side_by_side.py 0
	$(VENV)/bin/coverage combine -q --rcfile=.ci/coveragerc
	$(VENV)/bin/coverage report --rcfile=.ci/coveragerc --fail-under=97
	.venv/judge/bin/python .ci/check_lines.py --jsonschema
	$(PYTHON) .ci/way_of_a_call.py
	$(PYTHON) .ci/wiretap_browser.py

spec:            ## each requirement of the specification, and the tests that hold it
	$(PYTHON) .ci/spec.py

bench:           ## figures beside the naive loop; ARGS="--rounds 9 mcpatom NAME=OTHER_MCP_REF.py"
	@$(PYTHON) .ci/bench.py $(ARGS)

interop:         ## peers that others wrote; installs them into .venv/ and .node/
	$(PYTHON) .ci/interop/run.py

conformance:     ## the official suite, over HTTP; installs it into .node/
	$(PYTHON) .ci/conformance.py

fuzz: .venv/judge ## random bytes, messages and schemas for FUZZ_SECONDS (60); FUZZ_SEED replays
	.venv/judge/bin/python -W error .ci/fuzz.py

soak:            ## load and a kill every second for SOAK_SECONDS (600); Linux only
	$(PYTHON) .ci/soak.py

.venv/judge:
	$(PYTHON) -m venv $@
	$@/bin/pip install -q $(JUDGE)

mutate: .venv/mutate  ## what the tests would let pass: each line changed in turn (Linux; some hours)
	.venv/mutate/bin/python .ci/mutate.py $(ARGS)

.venv/mutate:
	$(PYTHON) -m venv $@
	$@/bin/pip install -q $(COVER)

$(VENV):
	$(PYTHON) -m venv $@
	$@/bin/pip install -q $(MYPY) $(RUFF) $(COV) '$(RIGHT)'

clean:
	rm -rf .venv .node .coverage* .mypy_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
