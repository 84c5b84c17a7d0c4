#!/usr/bin/env bash
# What each program links directly (its NEEDED entries) is what the design allows: the coordinator knows no compute
# library, ranks know no RPC library, and only the capture plugin knows libtorch.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v readelf >/dev/null || die "readelf is not installed; run deploy/install.sh"

TORCH='lib(torch|torch_cpu|torch_cuda|c10|c10_cuda|caffe2)[._-]'
COMPUTE='lib(dnnl|mkldnn|blas|openblas|cblas|lapack)[._-]'
COLLECTIVE='lib(gloo|nccl)[._-]'
RPC='lib(grpc|grpc\+\+|gpr|protobuf|protobuf-lite|address_sorting)[._-]'
STORE='lib(rocksdb|prometheus-cpp-.*)[._-]'

# rule PROGRAM PATTERN...: none of the patterns may match one of its direct NEEDED entries.
rule() {
  local program=$1 pattern hits needed
  shift
  if [ ! -f "$BUILD/bin/$program" ]; then
    fail "$program is not built in $BUILD/bin"
    return
  fi
  needed=$(readelf -d "$BUILD/bin/$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  for pattern in "$@"; do
    if hits=$(grep -E "^$pattern" <<<"$needed"); then
      fail "$program links $(tr '\n' ' ' <<<"$hits")directly; its part of the design forbids that"
    else
      pass
    fi
  done
}

rule assayd "$TORCH" "$COMPUTE" "$COLLECTIVE"
rule assay-worker "$TORCH" "$COMPUTE" "$COLLECTIVE" "$STORE"
rule assay-rank "$TORCH" "$RPC" "$STORE"
rule assay "$TORCH" "$COMPUTE" "$COLLECTIVE" "$STORE"
rule libassay_capture.so "$RPC" "$STORE" "$COLLECTIVE"

# The rules above could pass because the pattern is wrong: the plugin must show libtorch.
if readelf -d "$BUILD/bin/libassay_capture.so" 2>/dev/null | grep -E "\[$TORCH" >/dev/null; then
  pass
else
  fail "libassay_capture.so shows no libtorch among its NEEDED entries; this check no longer sees what it should"
fi

# Whatever else is built for use (not a test) must not bring libtorch in through the back door.
while IFS= read -r file; do
  case $(basename "$file") in libassay_capture.so | *_test | *_bench) continue ;; esac
  if readelf -d "$file" 2>/dev/null | grep -E "\[$TORCH" >/dev/null; then
    fail "$(basename "$file") links libtorch directly; only libassay_capture.so may"
  else
    pass
  fi
done < <(find "$BUILD/bin" -maxdepth 1 -type f -perm -u+x | sort)
finish
