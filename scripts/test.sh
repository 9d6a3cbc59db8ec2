#!/bin/bash
# Runs all tests of the exporter. Arguments go to go test: scripts/test.sh -race
#
# Many tests need a real iperf 2, network namespaces, or both; without them they
# are skipped and say so.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

need_packages ca-certificates coreutils faketime gcc iperf iperf3 iproute2 iptables libc6-dev procps util-linux ||
	note "Debian's packages can't be installed from here: some tests will be skipped"
[ "$(id -u)" = 0 ] || note "not root: tests that need network namespaces will be skipped"
need_go

step "Compiling"
go test -exec true "$@" ./... >/dev/null

# One package after the other: many tests measure, and would measure each other.
step "go test -p 1 $*"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if go test -p 1 -timeout 15m "$@" ./... | tee "$log"; then
	exit 0
fi

# Many tests hold measurements against the truth, and other work on the machine can
# spoil one. What failed has one more try, and says so; what fails twice has failed.
failed=$(sed -n 's/^FAIL\t\([^ \t]*\)\t.*/\1/p' "$log" | sort -u)
if [ -z "$failed" ] || grep -q 'build failed\]\|setup failed\]' "$log"; then
	exit 1
fi
step "Once more, what failed: $(echo $failed)"
# shellcheck disable=SC2086
go test -p 1 -count=1 -timeout 15m "$@" $failed
