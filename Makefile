# Short commands for all tasks. CMake does the build.

BUILD_TYPE ?= RelWithDebInfo
PREFIX ?= /usr/local
BUILD ?= build
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
SECONDS ?= 60

# Uses Ninja if it is installed, even if this run has only just installed it. A folder that was configured before keeps
# its generator.
GENERATOR := $$([ -e $(BUILD)/CMakeCache.txt ] || ! command -v ninja >/dev/null || echo -G Ninja)
# GoogleTest and Google Benchmark are not needed until tests or benchmarks are requested.
OPTIONAL_PARTS := $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DHOLDFAST_TESTS=OFF -DHOLDFAST_BENCH=OFF)
# The command is omitted if its packages are missing, because a Neovim plugin needs only the library.
OPTIONAL_COMMAND := $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DHOLDFAST_CLI=AUTO)

configure = cmake -S . -B $(BUILD) $(GENERATOR) -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) $(1) $(CMAKE_FLAGS) \
  --log-level=WARNING >/dev/null
compile = cmake --build $(BUILD) --parallel $(JOBS)

.PHONY: all check demo demo-cluster test test-tools test-cluster prove mutants bench bench-peers bench-locks \
  bench-hosts bench-uses bench-cluster bench-look fuzz lint install deb uninstall clean help
.DEFAULT_GOAL := all

all: ## build build/libholdfast.so and build/holdfast
	@$(call configure,$(OPTIONAL_PARTS) $(OPTIONAL_COMMAND))
	@$(compile) --target holdfast_parts
	@[ -e $(BUILD)/holdfast ] || echo 'Built without the command; scripts/setup build installs what the command needs.'

demo: ## install what is missing, build the library, and let four processes share one cache
	@scripts/setup build
	@$(call configure,$(OPTIONAL_PARTS) $(OPTIONAL_COMMAND))
	@$(compile) --target holdfast_library
	@export HOLDFAST_LIB='$(abspath $(BUILD))/libholdfast.so' LUA_PATH='lua/?.lua;;' HOLDFAST_WORKERS=4; \
	  for i in 0 1 2 3; do HOLDFAST_WORKER=$$i luajit examples/stampede.lua & all="$$all $$!"; done; \
	  for one in $$all; do wait $$one || status=1; done; exit $${status-0}

demo-cluster: ## run the etcd demo: three machines share locks while a holder, etcd's leader and an agent are killed
	@scripts/setup cluster
	@$(MAKE) --no-print-directory all
	@cluster/examples/run $(BUILD)

check: ## run the quick tests (a minute after the build): unit tests, and specs without nginx, etcd and the command
	@scripts/setup check
	@$(call configure,-DHOLDFAST_TESTS=ON)
	@$(compile) --target unit_tests holdfast_parts
	@JOBS=$$(($$(nproc) + 1)) HOLDFAST_TEST_SPECS=quick scripts/test $(BUILD) --label-regex '^unit' \
	  --exclude-regex '^(death|late|interleave)\.|MemoryTest'

test: ## install what is missing, build, and run the C++ tests and the Lua specs: 12 minutes on two processors
	@scripts/setup test
	@$(call configure,-DHOLDFAST_TESTS=ON)
	@$(compile)
	@scripts/test $(BUILD)

test-tools: ## run only the tests of the command
	@scripts/setup test
	@$(call configure,-DHOLDFAST_TESTS=ON)
	@$(compile) --target holdfast_parts tools_tests
	@HOLDFAST_TEST_SPECS=tools scripts/test $(BUILD) --label-regex unit_tools

test-cluster: ## run only the tests of locks across machines
	@scripts/setup test
	@$(call configure,-DHOLDFAST_TESTS=ON)
	@$(compile)
	@HOLDFAST_TEST_SPECS=cluster scripts/test $(BUILD) --label-regex cluster

prove: ## run every proof of docs/proof.md at full length
	@scripts/setup test
	@$(call configure,-DHOLDFAST_TESTS=ON)
	@$(compile)
	@scripts/prove $(BUILD)

mutants: ## plant faults in a copy of the tree; the tests must detect each fault
	@scripts/setup test
	@tests/mutants/run $(BUILD)-mutants

bench: ## install what is missing, build, and print the table of measurements
	@scripts/setup bench
	@$(call configure,$(OPTIONAL_PARTS) -DHOLDFAST_BENCH=ON)
	@$(compile)
	@bench/run $(BUILD)

bench-peers: ## compare the dictionary with nginx's, in nginx, which this target installs as well
	@scripts/setup peers
	@$(call configure,$(OPTIONAL_PARTS))
	@$(compile) --target holdfast_library
	@bench/run $(BUILD) --peers

bench-locks: ## compare the locks with those of nginx, which this target installs as well, and of the operating system
	@scripts/setup peers
	@$(call configure,$(OPTIONAL_PARTS))
	@$(compile) --target holdfast_library
	@bench/run $(BUILD) --locks

bench-hosts: ## measure how soon a waiter continues in each event loop and with lua-resty-lock; installs the loops as well
	@scripts/setup hosts
	@$(call configure,$(OPTIONAL_PARTS))
	@$(compile) --target holdfast_library
	@bench/run $(BUILD) --hosts

bench-uses: ## compare caches, queues and events with lrucache, Redis, beanstalkd and others; installs these as well
	@scripts/setup uses
	@$(call configure,$(OPTIONAL_PARTS))
	@$(compile) --target holdfast_library
	@bench/run $(BUILD) --uses

bench-cluster: ## compare locks across machines with etcd's own lock service and a queue of keys; installs etcd as well
	@[ -d cluster ] || { echo 'make bench-cluster: the folder cluster/, whose agent it measures, is missing' >&2; exit 1; }
	@scripts/setup cluster
	@$(call configure,$(OPTIONAL_PARTS))
	@$(compile) --target holdfast_parts cluster_clients
	@bench/run $(BUILD) --cluster

bench-look: ## measure what it costs to inspect a world of 1,000 processes: nine minutes
	@scripts/setup cluster
	@$(call configure,$(OPTIONAL_PARTS))
	@$(compile) --target holdfast_parts
	@tools/bench-look $(BUILD)

fuzz: ## install what is missing, build in a separate folder, and fuzz each target for SECONDS=60
	@scripts/setup fuzz
	@cmake -S . -B $(BUILD)-fuzz -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG='-O1 -g' \
	  -DCMAKE_CXX_COMPILER=clang++ -DHOLDFAST_CLI=OFF -DHOLDFAST_TESTS=ON -DHOLDFAST_FUZZ=ON \
	  -DHOLDFAST_SANITIZE=address,undefined $(CMAKE_FLAGS) --log-level=WARNING >/dev/null
	@cmake --build $(BUILD)-fuzz --parallel $(JOBS) --target fuzz_targets
	@tests/fuzz/run $(BUILD)-fuzz $(SECONDS)

lint: ## run clang-format, clang-tidy, luacheck, shellcheck and the project's own checks
	@scripts/setup lint
	@cmake -S . -B $(BUILD)-lint -DHOLDFAST_TESTS=OFF -DHOLDFAST_UNITY=OFF $(CMAKE_FLAGS) --log-level=WARNING >/dev/null
	@scripts/lint $(BUILD)-lint

install: ## build and install into PREFIX (/usr/local); DESTDIR is respected
	@$(call configure,$(OPTIONAL_PARTS) '-DCMAKE_INSTALL_PREFIX=$(PREFIX)')
	@$(compile) --target holdfast_parts
	@cmake --install $(BUILD) --strip

deb: ## build Debian packages in build-deb, and check them with lintian
	@scripts/setup deb
	@scripts/deb $(BUILD)-deb

uninstall: ## remove what make install has installed; after several installations, name one by PREFIX and DESTDIR
	@cmake '-DBUILD=$(BUILD)' $(if $(filter file,$(origin PREFIX)),,'-DPREFIX=$(PREFIX)') \
	  $(if $(filter undefined,$(origin DESTDIR)),,'-DDESTDIR=$(DESTDIR)') -P cmake/uninstall.cmake

clean: ## remove everything that was built
	@cmake -E rm -rf $(BUILD) $(BUILD)-fuzz $(BUILD)-deb $(BUILD)-lint $(wildcard build-ci-*) build.luarocks

help: ## show this list
	@sed -n 's/^\([a-z-]*\): ## /\1|/p' Makefile | while IFS='|' read -r name text; do \
	  printf 'make %-13s %s\n' "$$name" "$$text"; done
	@echo
	@echo 'Variables: BUILD_TYPE=RelWithDebInfo|Release|Debug  PREFIX=/usr/local  DESTDIR=  BUILD=build'
	@echo '           JOBS=N  CMAKE_FLAGS=...'
