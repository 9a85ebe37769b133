# make            set up what is missing, build the product into build/release
# make demo       the same, then train a small GPT on two ranks for a minute and leave a report
# make test       set up and build what the tests need too, then run every test: ctest and pytest
# make check      what a change touches: lint of its files and the tests of its rooms; run it before a commit
# make tests      build the tests without running them
# make sanitize   the torch-free rooms under ASan+UBSan, and what has threads under TSan
# make fuzz       made-up inputs for everything that reads users' files, 20 s each
# make lint       clang-format, clang-tidy, layers, test registration, made files; TIDY_MINUTES=10 limits clang-tidy
# make nightly    what takes too long for every change (hours)
# make bench      the benchmarks (long; results are printed, not kept)
# make install PREFIX=/usr/local
# JOBS=N sets the number of compilers; without it cores and memory decide.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: all setup build tests demo test check nightly sanitize lint fuzz format bench install clean help

# Empty: tools/jobs says.
JOBS ?=
PREFIX ?= /usr/local
PRESET ?= release
BUILD := build/$(PRESET)
# What tools/setup found: the interpreter and the torch to use.
IN_SETUP = set -a && . build/setup.env && set +a &&
WITH_JOBS = $(if $(JOBS),--jobs $(JOBS))

all: build

setup:
	@tools/setup

build: setup
	@$(IN_SETUP) tools/build $(PRESET) $(WITH_JOBS)

demo:
	@tools/demo $(PRESET) $(WITH_JOBS)

tests:
	@tools/setup --test
	@$(IN_SETUP) tools/build $(PRESET) --tests $(WITH_JOBS)

test: tests
	@$(IN_SETUP) tools/test $(PRESET)

check:
	@tools/setup --test --lint
	@$(IN_SETUP) tools/check

nightly:
	@tools/setup --test --lint
	@$(IN_SETUP) tools/nightly

sanitize:
	@tools/setup --test --lint
	@$(IN_SETUP) for preset in asan tsan; do tools/build $$preset --tests $(WITH_JOBS) && tools/test $$preset || exit 1; done

lint:
	@tools/setup --test --lint
	@$(IN_SETUP) tools/lint $(if $(TIDY_MINUTES),--minutes $(TIDY_MINUTES))

fuzz:
	@tools/setup --test --lint
	@$(IN_SETUP) tools/fuzz

format:
	@tools/lint --fix --fast

bench: build
	@$(IN_SETUP) $$WEFT_PYTHON benchmarks/e2e/train_vs_torch.py

install: build
	cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build

help:
	@sed -n 's/^# \(make.*\)/\1/p' Makefile
