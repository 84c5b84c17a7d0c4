#!/usr/bin/env bash
# From a clean clone to a sealed, verified result: installs what is missing, builds, fetches a small real model, scores
# two what-if quantizations of it against it, verifies the receipts and says where everything is.
#
#   deploy/quickstart.sh [OUT]       OUT: the folder for the results, by default out/quickstart in the source tree
#
# Run again, it does only what is left to do: captures and reports are kept in Assay's data folder (ASSAY_DATA).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# -le 1 ] || die "usage: deploy/quickstart.sh [OUT]"
case ${1:-} in
  -*) die "unknown option '$1'; usage: deploy/quickstart.sh [OUT]" ;;
esac
out=$(realpath -m "${1:-$ROOT/out/quickstart}")

step() { say "" && say "== $*"; }

step "1/5 Debian packages"
"$ROOT/deploy/install.sh"

step "2/5 build"
"$ROOT/deploy/build.sh" release
assay=$ROOT/build/release/bin/assay

step "3/5 model"
model=$("$ROOT/deploy/fetch_model.sh")

step "4/5 score: SmolLM2-135M-Instruct against itself in 8 and in 4 bits"
score=("$assay" score
  --reference "$model"
  --candidate "int8=$model@rtn:bits=8,group=channel"
  --candidate "int4=$model@rtn:bits=4,group=32"
  --suite "$ROOT/deploy/panel/suite"
  --out "$out")
say "$(printf '%q ' "${score[@]}")"
"${score[@]}"

step "5/5 verify: every digest, every number and both signatures, from the files alone"
"$assay" verify "$out" --key "$out/key.pub"

step "done in $SECONDS s"
say "the table again: $out/summary.md"
say "for programs:    $out/summary.json, $out/summary.csv, $out/*/report.json"
say "by hand:         $out/VERIFY.md says how to check the receipts with openssl and sha256sum"
say "next:            $assay score --help; README.md"
