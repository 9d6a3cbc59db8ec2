# shellcheck shell=bash
# What the scripts have in common. To be sourced by bash.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Without this a clone that belongs to somebody else, or a missing git, fails builds.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"

step() { printf '\n=== %s\n' "$*"; }
note() { printf -- '--- %s\n' "$*"; }
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# as_root COMMAND...: runs it as root, or fails where that is not to be had.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		return 1
	fi
}

# need_packages NAME...: installs what is missing of Debian's packages. It fails
# where that is not possible.
need_packages() {
	command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || return 1
	local p missing=()
	for p in "$@"; do
		[ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
	done
	[ ${#missing[@]} -eq 0 ] && return 0
	step "Installing ${missing[*]}"
	as_root apt-get update -qq &&
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
}

# go_works: whether the go in PATH can build this module, by itself or with a
# toolchain that it fetches for it.
go_works() {
	command -v go >/dev/null || return 1
	go list -m >/dev/null 2>&1 && return 0
	GOTOOLCHAIN=auto go list -m >/dev/null 2>&1 && export GOTOOLCHAIN=auto
}

# need_go puts a go into PATH that is new enough. Without one it takes Debian's.
# Since Go 1.21 that one fetches the toolchain that go.mod asks for as a module; an
# older one is made to do so by hand.
need_go() {
	[ -x /usr/local/go/bin/go ] && PATH=$PATH:/usr/local/go/bin
	if ! go_works && ! command -v go >/dev/null; then
		need_packages golang-go ca-certificates || die "there is no Go, and it can't be installed from here; see the README"
	fi
	if ! go_works; then
		local version arch answer dir
		version=$(cat go.mod test/*/go.mod | sed -n 's/^go \([0-9.]*\)$/\1/p' | sort -V | tail -n 1)
		arch=$(go env GOHOSTARCH)
		step "Fetching Go $version, because $(go version | cut -d' ' -f3) is too old for this module"
		answer=$(cd "$(mktemp -d)" && echo 'module toolchain' >go.mod &&
			go mod download -json "golang.org/toolchain@v0.0.1-go$version.linux-$arch") ||
			die "Go $version could not be fetched: $answer"
		dir=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$answer")
		[ -n "$dir" ] || die "Go $version could not be fetched: $answer"
		chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/*
		PATH=$dir/bin:$PATH
		go_works || die "the Go in $dir does not work"
	fi
	note "$(go version)"
}
