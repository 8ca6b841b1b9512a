# The commands of the project. Run `make` to list them.

# Without C: a static binary, and one build cache for running and testing.
export CGO_ENABLED = 0

ARGS ?=
PKG  ?= ./...

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## build the service and run it: a whole sandbox on this machine (ARGS="--help" shows its settings)
	@exec ./bin/stipend serve --lnd-url=simulated --evm-simulated=base --evm-simulated=polygon $(ARGS)

.PHONY: demo
demo: build ## show one payroll from creation to the last payout, live
	@exec ./bin/stipend demo $(ARGS)

.PHONY: build
build: ## build bin/stipend, one static binary
	@go build -trimpath -o bin/stipend ./cmd/stipend

# More packages than cores run at a time, because many tests wait for a node or a clock. make lint vets.
.PHONY: test
test: ## run all tests on both databases (PKG=./internal/money/... narrows them); installs what is missing
	@tools/install.sh btcd anvil postgres chromium axe contract webhooks oauth mcp iso20022 guides x402 softhsm
	@go test -count=1 -vet=off -ldflags="-s -w" -p 3 -timeout 30m $(PKG); status=$$?; tools/postgres-stop.sh; exit $$status

.PHONY: quick
quick: ## run the tests that need no PostgreSQL, node or browser, on SQLite (PKG=./internal/money/... narrows them)
	@go test -short -vet=off -trimpath -ldflags="-s -w" -timeout 5m $(PKG)

.PHONY: screenshots
screenshots: ## take the pictures of docs/ again, and of every page in both themes and widths into bin/screenshots, in Chromium
	@tools/install.sh chromium axe
	@go test -count=1 -timeout 60m -run 'TestPayrollInABrowser|TestCheckoutInABrowser|TestPicturesOfEveryPage' ./internal/app \
		-args -screenshots=$(CURDIR)/docs/images -pages=$(CURDIR)/bin/screenshots

.PHONY: test-lnd
test-lnd: ## run the tests of Lightning against two real nodes with a channel; the first run builds lnd, minutes
	@tools/install.sh btcd lnd postgres
	@go test -count=1 -tags lnd -run LND ./internal/lightning ./internal/payout/lightning ./internal/app; status=$$?; tools/postgres-stop.sh; exit $$status

.PHONY: test-core
test-core: ## run the tests of the chain against a node of Bitcoin Core's kind: STIPEND_TEST_BITCOIND=/path/to/bitcoind, or Debian's bitcoin-knots
	@[ -n "$$STIPEND_TEST_BITCOIND" ] || tools/install.sh core
	@tools/install.sh btcd postgres
	@STIPEND_TEST_BITCOIND="$${STIPEND_TEST_BITCOIND:-$(CURDIR)/.tools/core/bitcoind}" go test -count=1 \
		-run '^(TestSource|TestWatcher|TestANodeThatIsDown|TestARestoredBackupPaysNobodyTwice|TestKilledAtAnyMomentEverybodyIsPaidOnce)$$/^core$$' \
		./internal/chain ./internal/app ./cmd/stipend; status=$$?; tools/postgres-stop.sh; exit $$status

.PHONY: attack
attack: ## attack a running sandbox from outside with every case of internal/app/testdata/attack, and count them by class
	@go test -count=1 -v -run 'TestAttacks$$' ./internal/app

.PHONY: fuzz
fuzz: ## fuzz every parser of outside bytes, each for a time (TIME=10m)
	@grep -rHo '^func Fuzz[A-Za-z0-9]*' --include='*_test.go' internal cmd | while IFS=: read -r file name; do \
		go test -run '^$$' -fuzz "^$${name#func }\$$" -fuzztime $(or $(TIME),10m) "./$$(dirname "$$file")" || exit 1; done

.PHONY: simulate
simulate: ## run the whole service with failures that follow from seeds (ARGS="-seed 7 -runs 1000"; -show prints the steps)
	@go test -count=1 -v -timeout 24h -run TestNothingIsLostDoubledOrInvented ./internal/simulation -args $(or $(ARGS),-runs 100)

.PHONY: simulate-night
simulate-night: ## run 20,000 simulations, from a seed that no earlier night had
	@go test -count=1 -v -timeout 24h -run TestNothingIsLostDoubledOrInvented ./internal/simulation -args -runs 20000 -seed $$(date +%s)00000

.PHONY: simulate-planted
simulate-planted: ## plant each bug of a list, and measure how many runs find it; takes hours
	@go test -count=1 -v -timeout 24h -run TestPlantedBugsAreFound ./internal/simulation -args -plant . -runs 2000

.PHONY: race
race: ## run all tests under the race detector; needs a C compiler
	@tools/install.sh btcd anvil postgres chromium axe contract webhooks oauth mcp iso20022 guides x402 softhsm
	@CGO_ENABLED=1 go test -race -count=1 $(PKG); status=$$?; tools/postgres-stop.sh; exit $$status

.PHONY: lint
lint: ## check formatting, the linters of .golangci.yml and those of the contract; the first run builds the linter, which takes minutes
	@tools/install.sh lint contract
	@mkdir -p bin
	@.tools/bin/golangci-lint run ./...
	@.tools/contract/node_modules/.bin/spectral lint --quiet --fail-severity=hint --ruleset tools/npm/spectral.yaml api/openapi.json
	@REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true .tools/contract/node_modules/.bin/redocly lint --config tools/npm/redocly.yaml api/openapi.json 2>bin/redocly.log || { cat bin/redocly.log; exit 1; }

.PHONY: fmt
fmt: ## format the Go files
	@tools/install.sh lint
	@.tools/bin/golangci-lint fmt ./...

.PHONY: generate
generate: ## make what is made from the code: the contract and the Postman collection in api/, the SDKs
	@go run ./tools/generate contract
	@go run ./tools/generate sdk

.PHONY: release
release: ## build the files of a release in dist/: binaries, packages, image, lists of parts, checksums (VERSION=v1.2.3)
	@cd tools/release && go run . $(if $(VERSION),-version $(VERSION))

.PHONY: test-release
test-release: ## test that releases are reproducible and complete, the files in deploy/, and the upgrade from the previous release
	@tools/install.sh deploy btcd postgres
	@cd tools/release && go vet ./... && go test -count=1 ./...
	@go vet -tags release ./cmd/stipend && go test -count=1 -timeout 20m -tags release -run 'TestUpgrade|TestInstall' ./cmd/stipend; status=$$?; \
		tools/postgres-stop.sh; exit $$status

.PHONY: bench
bench: ## measure the service against its floors, on both databases, and print the figures
	@tools/install.sh postgres
	@tools/install.sh chromium || true # only the checkout page of the demo needs it
	@go run ./bench $(ARGS)

.PHONY: tools
tools: ## install what tests and checks need into .tools/
	@tools/install.sh

.PHONY: clean
clean: ## remove what the commands above have built
	@tools/postgres-stop.sh
	@rm -rf bin dist .tools
