#!/bin/bash
# Builds build/bounceback_exporter, with the version from git in it: that of a tag
# vX.Y.Z if there is one, else the one of the file VERSION, and the commit beside it.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

from_git() { git -c safe.directory="$PWD" "$@" 2>/dev/null || true; }

version=$(from_git describe --tags --match 'v[0-9]*' --dirty)
version=${version:-$(cat VERSION)}
common=github.com/prometheus/common/version
"${GO:-go}" build -trimpath -o build/bounceback_exporter -ldflags "\
	-X $common.Version=${version#v} \
	-X $common.Revision=$(from_git rev-parse HEAD) \
	-X $common.Branch=$(from_git rev-parse --abbrev-ref HEAD)" .
