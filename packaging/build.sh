#!/usr/bin/env bash
# Builds the packages from bin/rhid; called by `make package`, which sets BIN,
# DIST, ARCH, PKG_VERSION and NFPM.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${BIN:?}" "${DIST:?}" "${ARCH:?}" "${PKG_VERSION:?}" "${NFPM:?}"

STAGE=$(mktemp -d)
trap 'rm -rf "$STAGE"' EXIT
for shell in bash zsh fish; do
	"$BIN/rhid" completion "$shell" >"$STAGE/completion.$shell"
done

# The same commit gives the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export BIN ARCH PKG_VERSION STAGE SOURCE_DATE_EPOCH

mkdir -p "$DIST"
for format in deb rpm; do
	# shellcheck disable=SC2086 # NFPM is a command with arguments
	$NFPM package --config packaging/nfpm/nfpm.yaml --packager "$format" --target "$DIST/"
done
