# make            set up what is missing, build into build/release
# make demo       the same, then train a small GPT on two ranks for a minute and leave a report
# make test       the same set-up and a browser for the pages, then every test: ctest and pytest
# make sanitize   the torch-free rooms under ASan+UBSan and under TSan
# make lint       clang-format, clang-tidy, layers, test registration, made files; TIDY_MINUTES=10 limits clang-tidy
# make fuzz       made-up inputs for everything that reads users' files, 20 s each
# make bench      the benchmarks (long; results are printed, not kept)
# make install PREFIX=/usr/local
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: all setup build demo test ctest pytest sanitize lint fuzz format bench install clean help

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
PRESET ?= release
BUILD := build/$(PRESET)
# What tools/setup found: the interpreter and the torch to use.
IN_SETUP = set -a && . build/setup.env && set +a &&

all: build

setup:
	@tools/setup

build: setup
	@$(IN_SETUP) tools/build $(PRESET) $(JOBS)

demo: build
	@$(BUILD)/bin/weft train -n 2 --name demo

test:
	@tools/setup --test
	@$(IN_SETUP) tools/build $(PRESET) $(JOBS) && tools/test $(PRESET)

sanitize: setup
	@$(IN_SETUP) for preset in asan tsan; do tools/build $$preset $(JOBS) && ctest --preset $$preset || exit 1; done

lint:
	@tools/setup --lint
	@$(IN_SETUP) tools/build $(PRESET) $(JOBS) && tools/lint $(if $(TIDY_MINUTES),--minutes $(TIDY_MINUTES))

fuzz:
	@tools/setup --lint
	@tools/fuzz

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
