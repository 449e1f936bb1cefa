# What can be done here; every part can be run by its own name. CI runs `lint`, `test`,
# `model`, `bench`, `fuzz`, `coverage` and `firmware-test`.

CARGO ?= cargo
TARGET = $(or $(CARGO_TARGET_DIR),target)
FIRMWARE = $(TARGET)/firmware
BARE_METAL = thumbv7m-none-eabi x86_64-unknown-none

SECONDS = 20

.PHONY: test lint unit features bare-metal c lab demo examples model bench fuzz coverage firmware firmware-test

# Everything, in the order in which it is likely to fail. Installs what it needs (Debian packages).
test: unit features bare-metal c demo examples
	$(MAKE) lab KERNEL=6.1

lint:
	scripts/install-missing.sh c++=g++
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	$(CARGO) clippy -p nanocm-core --test model --all-features -- -D warnings
	$(CARGO) fmt --check --manifest-path core/examples/appliance/Cargo.toml
	$(CARGO) $$(scripts/target.sh thumbv7m-none-eabi) clippy --manifest-path core/examples/appliance/Cargo.toml \
	    --target-dir $(FIRMWARE)/target --features lm3s6965evb -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --exclude nanocm-fuzz --all-features --no-deps --document-private-items

# Unit, pair, golden and program tests. Those that need UDP port 4791 make a network namespace each.
unit:
	scripts/install-missing.sh ip=iproute2 unshare=util-linux nsenter=util-linux iperf=iperf python3=python3-minimal
	$(CARGO) test --workspace --exclude nanocm-fuzz --exclude nanocm-benches

# Each feature of the core by itself, and the shell without its program.
features:
	for features in "" log defmt spin alloc log,defmt,spin; do \
	    $(CARGO) check -q -p nanocm-core --no-default-features --features "$$features" || exit 1; \
	done
	$(CARGO) check -q -p nanocm --no-default-features
	scripts/crate-count.sh 25

# The core and its C face without an operating system.
bare-metal:
	for target in $(BARE_METAL); do \
	    $(CARGO) $$(scripts/target.sh $$target) build -q -p nanocm-core && \
	    $(CARGO) $$(scripts/target.sh $$target) rustc -q -p nanocm-ffi --no-default-features \
	        --profile firmware --crate-type staticlib || exit 1; \
	    echo "nanocm-core and nanocm-ffi build for $$target"; \
	done

# The C face: its header, two C programs with gcc and clang, sanitizers, Valgrind.
c:
	$(CARGO) test -q -p nanocm-ffi
	ffi/tests/c/run

# The demo in a namespace of its own.
demo:
	$(CARGO) run -q --release -- demo --isolated

# The shell's examples, each in a namespace of its own.
examples:
	$(CARGO) run -q -p nanocm --example async_tokio

# Linux kernels in QEMU as the other side. `make lab SCENARIO=name KERNEL=6.12` runs one on one.
lab:
	$(CARGO) build -q --release -p nanocm
	std-shell/tests/lab/run $(SCENARIO) $(KERNEL:%=--kernel %)

# The appliance: firmware for a board of 64 KiB, and what it weighs.
firmware:
	scripts/install-missing.sh readelf=binutils
	core/examples/appliance/build $(FIRMWARE)

# It boots in QEMU, on a wire with the program and with a Linux guest. `make firmware-test PART=nanocm` for some.
firmware-test: firmware
	$(CARGO) build -q --release -p nanocm
	NANOCM_BIN=$${NANOCM_BIN:-$(TARGET)/release/nanocm} core/examples/appliance/lab/run $(PART) --images $(FIRMWARE) $(KERNEL:%=--kernel %)

# Every state of small worlds, and how each ends; then faults, each of which must be caught. `make model SCENARIO=text` explores
# what has that in its name, `make model SCENARIO=faults` plants faults alone.
model:
	$(CARGO) test -q --profile model -p nanocm-core --test model -- "$(SCENARIO)"

# The budgets: instructions, bytes, ratios.
bench:
	benches/run

# Each fuzz target for so long: `make fuzz SECONDS=n`, or one: `make fuzz FUZZ=pair`.
fuzz:
	scripts/fuzz.sh $(SECONDS) $(FUZZ)

# Which lines the fuzz corpora reach.
coverage:
	scripts/coverage.sh 90
