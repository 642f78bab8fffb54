# Every verb fills .venv by itself; nothing but Python 3.11 and make is needed beforehand.
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: install demo serve test lowest check fmt docs bench reproduce clean

install: .venv/.dev .venv/.kernels  ## everything the other verbs need, kernels compiled; -j2 does both at once

demo: .venv/.demo  ## the main job on the embedded data
	$(BIN)/isrr demo --out out/demo

serve: .venv/.serve  ## the service over the demo's ranker, on port 8080
	test -f out/demo/ranker.json || $(BIN)/isrr demo --out out/demo
	$(BIN)/isrr serve out/demo/ranker.json --port 8080 --workers 2 --log out/served

test: export PYTHONDONTWRITEBYTECODE :=  # hundreds of processes start: compile modules once
test: .venv/.dev .venv/.kernels  ## the whole test suite
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

lowest: .venv/bin/python  ## the wheel at the lowest versions that pyproject.toml admits: the demo and some tests
	$(BIN)/pip install -q uv hatchling
	rm -rf out/lowest
	$(BIN)/python -m hatchling build -t wheel -d out/lowest
	$(BIN)/uv venv -q --python $(BIN)/python out/lowest/venv
	$(BIN)/uv pip compile -q pyproject.toml --extra demo --resolution lowest-direct -o out/lowest/requirements.txt
	$(BIN)/uv pip install -q --python out/lowest/venv -r out/lowest/requirements.txt pytest pytest-xdist hypothesis mpmath
	$(BIN)/uv pip install -q --python out/lowest/venv --no-deps out/lowest/*.whl
	out/lowest/venv/bin/isrr demo --out out/lowest/demo
	out/lowest/venv/bin/python -m pytest -p no:cacheprovider tests/risk tests/ranker tests/test_golden_certificates.py

check: .venv/.dev  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fmt: .venv/.dev  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/.docs  ## the documentation, a folder of pages that works from a disk: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/.dev  ## performance, as ratios measured side by side
	$(BIN)/python -m benchmarks

reproduce: .venv/.dev  ## the paper's tables and figures, on the data sets in ../shared/data
	$(BIN)/isrr-paper reproduce all --data ../shared/data --out out/reproduction

clean:
	rm -rf .venv out build dist site

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --upgrade 'pip>=25.1'

.venv/.demo: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install -q --no-compile -c constraints.txt -e '.[demo,report]'
	touch $@

.venv/.serve: .venv/.demo
	$(BIN)/pip install -q -c constraints.txt 'isrr[serve]'
	touch $@

# Modules are compiled on all cores, which pip doesn't do; a few files of packages aren't Python and fail to compile.
.venv/.dev: .venv/.demo
	$(BIN)/pip install -q --no-compile -c constraints.txt --group test --group check \
	  'isrr[paper,serve,spark]'
	$(BIN)/python -m compileall -qq -j0 -x '/tests/' .venv/lib || true
	touch $@

.venv/.kernels: .venv/.demo $(shell find src -name '*.py')
	find src -name '*.nb[ic]' -delete
	$(BIN)/isrr doctor --compile
	touch $@

.venv/.docs: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install -q -c constraints.txt --group docs
	touch $@
