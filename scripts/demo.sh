#!/bin/bash
# Shows what this is for, on a bare Debian: builds the exporter, and measures round
# trips against its own responder and against a real iperf 2 server, on loopback.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

need_packages ca-certificates iperf || note "Debian's iperf can't be installed from here: is there one?"
command -v iperf >/dev/null || die "this needs iperf 2.1.7 or newer (Debian: apt-get install iperf)"
need_go

step "Building"
scripts/build.sh
bounceback=build/bounceback_exporter
note "$("$bounceback" --version | head -n 1)"

step "A probe of the built-in responder: $bounceback probe"
"$bounceback" probe

# A real server on a port that is free. Its own words tell when it listens: to try
# its port would hurt it (see "Never a bare TCP health check" in the README).
work=$(mktemp -d)
server=
cleanup() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
for port in 5001 15001 25001 35001 45001; do
	stdbuf -oL -eL iperf -s -B 127.0.0.1 -p "$port" >"$work/iperf.log" 2>&1 &
	server=$!
	for _ in $(seq 50); do
		grep -q 'Server listening' "$work/iperf.log" && break
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	# A port in use makes it say so, and end.
	if kill -0 "$server" 2>/dev/null; then
		break
	fi
	kill "$server" 2>/dev/null || true
	server=
done
[ -n "$server" ] || die "iperf -s found no free port: $(cat "$work/iperf.log")"

cat >"$work/bounceback.yml" <<'YAML'
modules:
  monitoring: {period: 20ms, duration: 2s, trip_times: true}
YAML
step "A probe of $(iperf -v 2>&1 | cut -d' ' -f1-3), a bounce every 20 ms, with one-way delays"
"$bounceback" probe "127.0.0.1:$port" --config.file "$work/bounceback.yml"

step "The same as Prometheus would scrape it (the beginning)"
"$bounceback" probe "127.0.0.1:$port" --config.file "$work/bounceback.yml" --format prometheus >"$work/metrics"
grep -E '^probe_(success|bounceback_(replies|rtt_(min|max)_seconds|rtt_seconds_(count|sum)|tcp_rtt_seconds|server_info))' "$work/metrics"
note "$(grep -vc '^#' "$work/metrics") series in all, classic buckets included"

step "What the iperf server saw"
grep -v '^-' "$work/iperf.log"

step "The program is $PWD/$bounceback"
note "install it for every user: install -m 755 $bounceback /usr/local/bin/"
