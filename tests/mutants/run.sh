#!/usr/bin/env bash
# Plants mistakes and requires that a named test notices each of them.
#
#   tests/mutants/run.sh [NAME...]     those of list.txt; default: all of them
#   tests/mutants/run.sh --sample      only those marked as sample (tests/run.sh mutants)
#   tests/mutants/run.sh --list
#
# Works on a copy of the tree in build/mutants, so the tree itself is never touched. A mutant counts as caught when its
# edit applied, the copy still builds, the named test passed before the edit and fails with it. That a test passes is
# remembered for as long as no file changes. Prints the seconds of each mutant and of all, and ends with
# `N passed, N failed`. See README.md beside this file for the form of list.txt.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../checks/lib.sh"

LIST=$ROOT/tests/mutants/list.txt
TREE=$ROOT/build/mutants/tree
MUTANT_BUILD=$TREE/build/release
STAMPS=$ROOT/build/mutants/passed

# field NAME KEY: the value of one line of a mutant's paragraph; several lines of one key come as several lines.
field() {
  awk -v name="$1" -v key="$2" '
    /^#/ { next }
    /^$/ { current = "" }
    /^name: / { current = substr($0, 7) }
    current == name && index($0, key ": ") == 1 { print substr($0, length(key) + 3) }' "$LIST"
}

# Copies what differs, so that only what changed is compiled again, and removes what is gone.
sync_tree() {
  mkdir -p "$TREE"
  local file
  while IFS= read -r file; do
    case $file in docs/* | deploy/panel/corpus/*) continue ;; esac
    if ! cmp -s "$file" "$TREE/$file"; then
      mkdir -p "$TREE/$(dirname "$file")"
      cp -p "$file" "$TREE/$file"
      # Never older than what ninja has seen.
      touch "$TREE/$file"
    fi
  done < <(source_files)
  (cd "$TREE" && find . -path ./build -prune -o -type f -print) | sed 's|^\./||' | while IFS= read -r file; do
    [ -f "$ROOT/$file" ] || rm -f "${TREE:?}/$file"
  done
}

# build TARGET...: quietly; the log is shown when it fails. Configured once: ninja notices by itself what changes.
build() {
  local log=$ROOT/build/mutants/build.log
  if [ -f "$MUTANT_BUILD/build.ninja" ]; then
    set -- env CCACHE_BASEDIR="$TREE" CCACHE_NOHASHDIR=true \
      cmake --build "$MUTANT_BUILD" --parallel "$(build_jobs)" --target "$@"
  else
    set -- env ASSAY_CMAKE_ARGS=-Wno-dev "$TREE/deploy/build.sh" release "$@"
  fi
  if ! "$@" >"$log" 2>&1; then
    tail -n 20 "$log"
    return 1
  fi
}

# run_test MUTANT: runs what the mutant names as its test; the status says whether it passed.
run_test() {
  local test script
  test=$(field "$1" test)
  script=$(field "$1" script)
  if [ -n "$test" ]; then
    ctest --test-dir "$MUTANT_BUILD" --no-tests=error -R "^$test\$" >"$ROOT/build/mutants/test.log" 2>&1
  else
    (cd "$TREE" && ASSAY_BUILD_DIR=$MUTANT_BUILD ASSAY_BIN_DIR=$MUTANT_BUILD/bin bash -c "$script") \
      >"$ROOT/build/mutants/test.log" 2>&1
  fi
}

# tree_state: a digest of every file of the copy and of what tests read from the environment.
tree_state() {
  {
    echo "${ASSAY_SMOLLM2_GGUF:-}"
    (cd "$TREE" && find . -path ./build -prune -o -type f -print0 | sort -z | xargs -0 sha256sum)
  } | sha256sum | cut -d' ' -f1
}

# baseline MUTANT: whether its test passes without any mistake planted; asked once for each test and state of the tree.
baseline() {
  local stamp
  stamp=$STAMPS/$(printf '%s' "$(field "$1" test)$(field "$1" script)" | tr -c 'A-Za-z0-9' _)
  [ "$(cat "$stamp" 2>/dev/null)" != "$TREE_STATE" ] || return 0
  # shellcheck disable=SC2046  # several targets on purpose
  build $(targets "$1") && run_test "$1" || return 1
  echo "$TREE_STATE" >"$stamp"
}

targets() {
  local targets
  targets=$(field "$1" targets)
  echo "${targets:-$(field "$1" test)}"
}

try_mutant() {
  local name=$1 file
  file=$(field "$name" file)
  if [ -z "$file" ]; then
    fail "$name: no such mutant in tests/mutants/list.txt"
    return
  fi
  if [ ! -f "$TREE/$file" ]; then
    fail "$name: $file does not exist; repair its entry"
    return
  fi
  if [ "$(field "$name" needs)" = model ] && [ -z "${ASSAY_SMOLLM2_GGUF:-}" ]; then
    skip "$name: ASSAY_SMOLLM2_GGUF is not set; deploy/fetch_model.sh prints the path to set it to"
    return
  fi
  if ! baseline "$name"; then
    tail -n 20 "$ROOT/build/mutants/test.log" 2>/dev/null || true
    fail "$name: its test does not pass without the mutation"
    return
  fi
  field "$name" sed >"$ROOT/build/mutants/edit.sed"
  cp -p "$TREE/$file" "$ROOT/build/mutants/original"
  sed -E -f "$ROOT/build/mutants/edit.sed" "$ROOT/build/mutants/original" >"$TREE/$file"
  # shellcheck disable=SC2046
  if cmp -s "$ROOT/build/mutants/original" "$TREE/$file"; then
    fail "$name: the edit no longer applies to $file; repair its entry"
  elif ! build $(targets "$name"); then
    fail "$name: the mutated tree does not build; repair its entry"
  elif run_test "$name"; then
    fail "$name: not noticed by $(field "$name" test)$(field "$name" script)"
  else
    pass
    echo "caught $name"
  fi
  cat "$ROOT/build/mutants/original" >"$TREE/$file"
}

mapfile -t all < <(sed -n 's/^name: //p' "$LIST")
case ${1:-} in
  --list)
    printf '%s\n' "${all[@]}"
    exit 0
    ;;
  --sample)
    names=()
    for name in "${all[@]}"; do [ -z "$(field "$name" sample)" ] || names+=("$name"); done
    ;;
  "") names=("${all[@]}") ;;
  *) names=("$@") ;;
esac
[ ${#names[@]} -gt 0 ] || die "no mutant chosen"

mkdir -p "$STAMPS"
exec 9>"$ROOT/build/mutants/lock"
flock -n 9 || die "another tests/mutants/run.sh works in build/mutants; wait for it"
sync_tree
TREE_STATE=$(tree_state)
for name in "${names[@]}"; do
  start=$SECONDS
  try_mutant "$name"
  echo "  $name: $((SECONDS - start)) s"
done
echo "total: $SECONDS s"
finish
