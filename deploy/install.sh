#!/usr/bin/env bash
# Installs the Debian packages that building and running Assay needs (deploy/packages.txt), and with --tests those of
# the tests too (tests/packages.txt). Touches nothing when all are there. Needs Debian 12 and root, or sudo.
#
#   deploy/install.sh [--tests]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

lists=("$ROOT/deploy/packages.txt")
case "${1:-}" in
  "") ;;
  --tests) lists+=("$ROOT/tests/packages.txt") ;;
  *) die "unknown argument '$1'; usage: deploy/install.sh [--tests]" ;;
esac

mapfile -t wanted < <(packages "${lists[@]}")
missing=()
if command -v dpkg-query >/dev/null; then
  for package in "${wanted[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
  done
else
  die "this is not a Debian system (no dpkg); install the equivalents of: ${wanted[*]}"
fi

if [ ${#missing[@]} -eq 0 ]; then
  say "install: all ${#wanted[@]} packages are there already"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null ||
    die "these packages are missing and installing needs root or sudo: ${missing[*]}"
  as_root=(sudo)
fi

say "install: ${#missing[@]} of ${#wanted[@]} packages are missing: ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
# A third-party source that cannot be reached makes update fail though Debian's own lists are fresh; the install decides.
"${apt[@]}" update >&2 || say "install: apt-get update reported a problem; trying to install all the same"
"${apt[@]}" install --yes --no-install-recommends "${missing[@]}" >&2 ||
  die "apt-get could not install the packages; run 'apt-get update' by hand to see whether Debian's mirror can be reached"
say "install: done in $SECONDS s"
