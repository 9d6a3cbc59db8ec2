# make help says what there is. Nothing here is needed to build: go build does it.

GO ?= go
FUZZTIME ?= 30s

.PHONY: help build demo test check lint fuzz bench clean

help: ## Say what there is
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' Makefile

build: ## Build build/bounceback_exporter, with the version from git
	GO="$(GO)" scripts/build.sh

demo: ## See it measure its own responder and a real iperf 2
	scripts/demo.sh

test: ## Run all tests
	scripts/test.sh

check: ## Run every check, as CI does
	.ci/run

lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -d .; exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck ./...

fuzz: ## Fuzz every parser for FUZZTIME each
	@for pkg in $$($(GO) list ./...); do \
		for fuzz in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "--- $$pkg $$fuzz"; \
			$(GO) test -run '^$$' -fuzz "^$$fuzz$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; \
	done

bench: ## Go benchmarks, then the comparison with iperf's client and a floor
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(GO) run ./bench

clean: ## Remove what was built
	rm -rf build .bin
