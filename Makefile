# The commands of the project. `make` alone lists them.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO_TARGET_DIR ?= target
TARGET := $(CARGO_TARGET_DIR)

# cargo is often installed but not yet on the PATH of a fresh login.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

# The names of the specifications' own programs; the binary behaves as the one it is started as.
LINKS := kinfra keystone budgie

.PHONY: help build demo test check bench images picture fuzz soak model-faults reference install

help: ## List the commands
	@echo "make <command>"
	@sed -n 's/^\([a-z-]*\):.*## /  \1|/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

# Static: it runs on every Linux whatever its libc, and starts faster. See docs/adr/0014.
RELEASE := cargo rustc --locked --release -p palisade --bin palisade -- -C target-feature=+crt-static

build: ## Build palisade and its guest (release) into target/release
	scripts/setup build
	$(RELEASE)
	scripts/build-guest

demo: ## Install what is needed, build, and watch an agent (a script) at work in a sandbox
	scripts/setup build run
	cargo build --locked -p palisade
	scripts/build-guest
	scripts/engines for "$(SANDBOX_METHOD)" scripts/demo

test: ## Install what is needed and run every test, as root and as an ordinary user
	scripts/setup build run test
	scripts/test

check: ## Formatting, lints, licences and dependencies, and the repository itself
	scripts/setup build check
	scripts/check

bench: ## Measure against bwrap, srt, docker and git; fails when a bar is missed
	scripts/setup build run bench
	$(RELEASE)
	scripts/build-guest
	scripts/bench

images: ## Build every image with Docker and Podman, and try what is in them (long; needs the network)
	scripts/setup build run engines
	cargo build --locked -p palisade
	scripts/engines with sh -c 'scripts/images --try "$$PALISADE_ENGINES"'

picture: ## Record the demo and draw the picture in the README
	scripts/setup build run
	scripts/picture

reference: ## Write the pages, manual pages and schemas that are made from the code
	PALISADE_UPDATE_REFERENCE=1 cargo test --quiet --locked -p palisade --bin palisade reference::

fuzz: ## Look for inputs that break a parser, ten minutes for each (scripts/fuzz --seconds N for less)
	scripts/setup build fuzz
	scripts/fuzz

# Random sequences that `make soak` runs.
SEQUENCES ?= 3000

# Without nextest, which ends tests that take long. The seeds are new ones every time.
soak: ## Run SEQUENCES random sequences (3000, about 40 minutes) of user, agent and product; says how to repeat a finding
	scripts/setup build
	cargo build --locked -p palisade-guest
	first=$${PALISADE_MODEL_FIRST_SEED:-$$(date +%s)000}; echo "PALISADE_MODEL_FIRST_SEED=$$first"; \
	PALISADE_MODEL_FIRST_SEED=$$first PALISADE_MODEL_SEQUENCES=$(SEQUENCES) RUST_BACKTRACE=0 \
	PALISADE_GUEST="$(abspath $(TARGET))/debug/palisade-guest" \
		cargo test --locked -p palisade-workspace --test model -- --nocapture sequences_

model-faults: ## Put old faults back one by one: the random sequences must find each (long)
	scripts/setup build
	scripts/model-faults

install: build ## Install below PREFIX (/usr/local): programs, link names, manual pages, shell completions
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 "$(TARGET)/release/palisade" "$(TARGET)/release/palisade-guest" "$(DESTDIR)$(PREFIX)/bin/"
	for name in $(LINKS); do ln -sfn palisade "$(DESTDIR)$(PREFIX)/bin/$$name"; done
	install -d "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -m 644 docs/man/*.1 "$(DESTDIR)$(PREFIX)/share/man/man1/"
	install -d "$(DESTDIR)$(PREFIX)/share/bash-completion/completions" \
		"$(DESTDIR)$(PREFIX)/share/zsh/site-functions" \
		"$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d"
	"$(TARGET)/release/palisade" completions bash > "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/palisade"
	"$(TARGET)/release/palisade" completions zsh > "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_palisade"
	"$(TARGET)/release/palisade" completions fish > "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/palisade.fish"
