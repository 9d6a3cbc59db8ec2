#!/bin/bash
# Runs all tests of the exporter. Arguments go to go test: scripts/test.sh -race
#
# Many tests need a real iperf 2, network namespaces, or both; without them they
# are skipped and say so.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

need_packages ca-certificates coreutils faketime gcc iperf iperf3 iproute2 iptables libc6-dev procps systemd util-linux ||
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
# spoil one. The tests that failed have two more tries, by themselves; what fails
# three times has failed.
for try in second third; do
	failed=$(sed -n 's/^FAIL\t\([^ \t]*\)\t.*/\1/p' "$log" | sort -u)
	names=$(sed -n 's/^--- FAIL: \([A-Za-z0-9_]*\).*/\1/p' "$log" | sort -u | paste -sd'|')
	if [ -z "$failed" ] || [ -z "$names" ] || grep -q 'build failed\]\|setup failed\]\|^panic: ' "$log"; then
		exit 1
	fi
	step "A $try try for $names"
	# shellcheck disable=SC2086
	if go test -p 1 -count=1 -timeout 15m -run "^($names)\$" "$@" $failed | tee "$log"; then
		exit 0
	fi
done
exit 1
