# The commands of this repository; each sets up what it needs. `make help` lists them.
# ARGS goes to the command: make test ARGS="-k conflict tests/cli"

RUN = packaging/bootstrap -m tests.runner
ARGS =

.PHONY: help demo test check lab venv bench bench-host pyz deb docs lock clean

help:
	@echo 'make demo    see the memory at work: a private Hub, the command line, MCP'
	@echo 'make test    all tests (as root also those that need root); ARGS="-k conflict tests/cli" selects'
	@echo 'make check   lint and types alone'
	@echo 'make lab     a root shell in a booted Debian 12 (as root); ARGS="--suite trixie", ARGS="-- COMMAND"'
	@echo 'make bench   measure beside grep, ripgrep and two other memory servers'
	@echo 'make bench-host  10,000 principals, and what a launch costs, in booted hosts (root)'
	@echo 'make pyz     dist/amux.pyz, the command-line tool as one file'
	@echo 'make deb     dist/amux-hub_*.deb, the Debian package; ARGS="--suite trixie" for another Debian'
	@echo 'make docs    write the generated parts of docs/reference'
	@echo 'make venv    the development environment, .venv'
	@echo 'make lock    resolve packaging/requirements.lock anew'
	@echo 'make clean   remove everything that these commands made in the checkout'

demo:
	@$(RUN) run tests.demo $(ARGS)

test:
	@$(RUN) test $(ARGS)

check:
	@$(RUN) check $(ARGS)

venv:
	@$(RUN) venv

lab:
	@$(RUN) lab $(ARGS)

bench:
	@$(RUN) run tests/bench/run.py $(ARGS)

bench-host:
	@$(RUN) run tests/bench/host.py $(ARGS)

pyz:
	@mkdir -p dist
	@$(RUN) run packaging/build_pyz.py dist/amux.pyz $(ARGS)

deb:
	@$(RUN) run packaging/build_deb.py $(ARGS)

docs:
	@$(RUN) run packaging/gen_docs.py $(ARGS)

lock:
	@packaging/bootstrap packaging/lock.py
	@$(RUN) run packaging/lock_wheels.py

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find hub materializer tests packaging -name __pycache__ -type d -prune -exec rm -rf {} +
