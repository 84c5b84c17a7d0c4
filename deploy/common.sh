# Shared by the scripts of deploy/ and tests/; sourced, not run.
# Sets ROOT, the top folder of the source tree. Nothing here depends on the caller's working folder.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

# say WORDS...: one line of progress. Always on standard error: standard output belongs to results.
say() { printf '%s\n' "$*" >&2; }

# die WORDS...: says why and ends the script with status 1.
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# sha256_is FILE DIGEST: whether FILE exists and has that SHA-256.
sha256_is() {
  [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]
}

# packages FILE...: the package names of package lists, without comments and blank lines.
packages() { sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$@"; }

# build_jobs: how many compilers to run at once. A file that includes libtorch or gRPC takes up to 3 GiB, so memory
# (of the machine, or of the control group when that is less) limits it as well as the processors of the affinity mask.
build_jobs() {
  if [ -n "${ASSAY_JOBS:-}" ]; then
    echo "$ASSAY_JOBS"
    return
  fi
  local cores memory_kib limit jobs
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  if limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null) && [ "$limit" != max ] &&
    [ $((limit / 1024)) -lt "$memory_kib" ]; then
    memory_kib=$((limit / 1024))
  fi
  jobs=$((memory_kib / (3 * 1024 * 1024)))
  [ "$jobs" -ge 1 ] || jobs=1
  [ "$jobs" -le "$cores" ] || jobs=$cores
  echo "$jobs"
}
