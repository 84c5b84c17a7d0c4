#!/usr/bin/env bash
# start.sh PROGRAM: assay-device-test needs no library but the C library's, is small enough to be carried, and starts: on a
# machine without a GPU it ends with a named SKIP and status 77, on one with a GPU its tests pass.
set -euo pipefail
program=$1

fail() {
  echo "FAIL $*" >&2
  exit 1
}

needed=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
extra=$(grep -vE '^(libc|libm|libdl|librt|libpthread|ld-linux-x86-64)\.so' <<<"$needed" || true)
[ -z "$extra" ] || fail "it links $(tr '\n' ' ' <<<"$extra")"
size=$(stat -c %s "$program")
[ "$size" -le $((48 << 20)) ] || fail "it has $size bytes, more than 48 MiB"

status=0
output=$("$program" --no-bench) || status=$?
case $status in
  0) echo "passed on a GPU" ;;
  77) grep -q '^SKIP NO_DEVICE: backend cuda-bf16 ' <<<"$output" || fail "status 77 without a named SKIP: $output" ;;
  *) fail "status $status: $output" ;;
esac
status=0
"$program" --contexts 1 2>/dev/null || status=$?
[ "$status" -eq 2 ] || fail "a bad flag ends with status $status, not 2"
