#!/usr/bin/env bash
# run.sh build [BUILD_DIR]: makes build/device/ with all that a machine with a GPU needs beside tests/data: one program, static
#   but for the C library, the driver and cuBLASLt. Needs the CUDA toolkit and this project's packages.
# run.sh run [assay-device-test's flags]: there, in a checkout or a copy of tests/ and build/device/: tests and benchmark of
#   cuda-bf16. Prints one JSON object (also in build/device/result.json). Status 0 passed, 1 failed, 77 no device (SKIP).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$root/build/device

build() {
  local tree=${1:-$root/build/release}
  if [ ! -f "$tree/CMakeCache.txt" ]; then
    cmake -G Ninja -S "$root" -B "$tree" -DCMAKE_BUILD_TYPE=Release -Wno-dev
  fi
  cmake --build "$tree" --target assay-device-test
  mkdir -p "$out"
  strip -o "$out/assay-device-test" "$tree/bin/assay-device-test"
  echo "$out: $(du -sk "$out" | cut -f1) KiB; carry it and tests/ along, then: tests/device/run.sh run"
}

run() {
  [ -x "$out/assay-device-test" ] || {
    echo "run.sh: $out/assay-device-test is not here; make it with: tests/device/run.sh build" >&2
    exit 2
  }
  # Where Python packages bring cuBLASLt and the system does not.
  if [ -z "${ASSAY_CUBLASLT:-}" ] && command -v python3 >/dev/null; then
    local found
    found=$(python3 -c 'import glob, sysconfig
for p in sorted(glob.glob(sysconfig.get_paths()["purelib"] + "/nvidia/**/libcublasLt.so.1[23]", recursive=True), reverse=True):
    print(p)
    break' 2>/dev/null || true)
    if [ -n "$found" ] && ! ls /usr/local/cuda/lib64/libcublasLt.so.1[23] >/dev/null 2>&1; then
      export ASSAY_CUBLASLT=$found
    fi
  fi
  local status=0
  ASSAY_SOURCE_DIR=$root "$out/assay-device-test" "$@" | tee "$out/result.json" || status=$?
  exit "$status"
}

case ${1:-} in
  build) shift && build "$@" ;;
  run) shift && run "$@" ;;
  *)
    sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
