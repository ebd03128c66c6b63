# Targets for people and for CI; `make help` lists them.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := build

GO       ?= go
BIN      ?= bin
DIST     ?= dist
FUZZTIME ?= 20s
# Limits of a whole test run: unit tests must stay quick, routers take their time.
UNIT_TIMEOUT        ?= 5m
INTEGRATION_TIMEOUT ?= 40m
LAB_TOPOLOGY ?= lab/containerlab/one-site/one-site.clab.yml

# "dev" outside a git work tree and before the first tag.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# The commit's own time, so that the same commit gives the same binary.
DATE    ?= $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)
LDFLAGS  = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

# A package's version starts with a digit and sorts after the release it follows.
PKG_VERSION ?= $(shell echo '$(VERSION)' | sed -E 's/^v//; s/-([0-9]+)-g/+\1.g/; s/-dirty/.dirty/; s/^dev$$/0.0.0~dev.$(COMMIT)/')
ARCH        ?= $(shell $(GO) env GOARCH)

LINT = $(GO) tool -modfile=internal/tools/lint/go.mod golangci-lint
NFPM = $(GO) tool -modfile=internal/tools/nfpm/go.mod nfpm

# packages_with PATTERN FILES lists the packages that have a matching line in a matching file.
packages_with = $(shell grep -rlE --include='$(2)' --exclude-dir=.git '$(1)' . 2>/dev/null | xargs -r -n1 dirname | sort -u)

.PHONY: build test unit integration lint fmt fuzz bench demo lab package clean help check-root check-modules

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/rhid
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(BIN)/rhid ./cmd/rhid

# One after the other, each with its time, and the first failure ends it.
test: ## everything CI checks: lint, unit, integration (needs root)
	@for phase in lint unit integration; do \
	  printf '\n== make %s\n' "$$phase"; start=$$SECONDS; \
	  $(MAKE) --no-print-directory "$$phase"; \
	  printf '== make %s: ok after %d s\n' "$$phase" $$((SECONDS - start)); \
	done

unit: ## unit tests with the race detector, no root needed
	@scripts/run-tests.sh $(GO) test -race -timeout $(UNIT_TIMEOUT) ./...

# Only the tests of files with the tag: the others of these packages are `make unit`'s.
integration: check-root ## tests with real routers in network namespaces (needs root)
	@scripts/install-test-deps.sh
	@files=$$(grep -rlE --include='*_test.go' --exclude-dir=.git '^//go:build .*integration' .); \
	pkgs=$$(xargs -n1 dirname <<<"$$files" | sort -u); \
	tests=$$(xargs grep -ohE '^func Test[A-Z][A-Za-z0-9_]*\(t ' <<<"$$files" | sed -E 's/^func (.*)\(t /\1/' | sort -u | paste -sd'|'); \
	set -- $(GO) test -tags integration -count=1 -p 1 -timeout $(INTEGRATION_TIMEOUT) -run "^($$tests)\$$" $$pkgs; \
	scripts/run-tests.sh "$$@"

lint: check-modules ## go vet, golangci-lint with the import walls, module files
	$(GO) vet -tags integration,bench ./...
	$(LINT) run --build-tags integration,bench

# Also: each direct module has its row, with its version, in docs/dependencies.md.
check-modules:
	$(GO) mod verify
	$(GO) mod tidy -diff
	@$(GO) list -m -f '{{if not (or .Main .Indirect)}}{{.Path}} {{.Version}}{{end}}' all | \
	while read -r path version; do \
	  grep -F "| $$path |" docs/dependencies.md | grep -qF "| $$version |" || \
	    { echo "make: docs/dependencies.md has no row for $$path with $$version" >&2; exit 1; }; \
	done

fmt: ## format the Go code
	$(LINT) fmt

fuzz: ## run each fuzz target for FUZZTIME (20s)
	@grep -rnoE --include='*_test.go' --exclude-dir=.git '^func Fuzz[A-Za-z0-9_]+' . | sort | \
	while IFS=: read -r file _ name; do \
	  name=$${name#func }; printf '== %s in %s\n' "$$name" "$$(dirname "$$file")"; \
	  $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$(dirname "$$file")"; \
	done

# First the figures of the whole daemon, then Go's benchmarks of its parts.
bench: ## measure; figures with p50 and p99
	$(GO) test -tags bench -count=1 -v -timeout $(INTEGRATION_TIMEOUT) ./internal/bench
	@pkgs='$(call packages_with,^func Benchmark,*_test.go)'; \
	if [ -z "$$pkgs" ]; then echo 'make bench: found no benchmark' >&2; exit 1; fi; \
	$(GO) test -run '^$$' -bench . -benchmem -p 1 -timeout $(INTEGRATION_TIMEOUT) $$pkgs

demo: build ## one process tree on loopback: fail and heal a backend, watch the router
	$(BIN)/rhid demo

lab: build check-root ## bring up a topology in network namespaces (needs root)
	@scripts/install-test-deps.sh
	$(GO) run ./internal/lab/cmd/rhid-lab up $(LAB_TOPOLOGY)

package: build ## build a .deb and an .rpm into dist/
	BIN='$(BIN)' DIST='$(DIST)' ARCH='$(ARCH)' PKG_VERSION='$(PKG_VERSION)' NFPM='$(NFPM)' packaging/build.sh

clean: ## remove what was built
	rm -rf $(BIN) $(DIST)

check-root:
	@if [ "$$(id -u)" -ne 0 ]; then \
	  echo 'make: needs root: it makes network namespaces and starts routing daemons in them' >&2; exit 1; fi
