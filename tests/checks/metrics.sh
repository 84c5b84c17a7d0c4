#!/usr/bin/env bash
# The coordinator's metrics are well formed (promtool check metrics), and there are at least a dozen families.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

BIN=${ASSAY_BIN_DIR:-$BUILD/bin}
[ -x "$BIN/assayd" ] || die "$BIN/assayd is not built; run deploy/build.sh"
command -v promtool >/dev/null || die "promtool is not installed; run deploy/install.sh --tests"

work=$(mktemp -d)
pid=""
cleanup() {
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

"$BIN/assayd" --data "$work/data" --listen "unix:$work/socket" --metrics 127.0.0.1:0 --ready-file "$work/ready" \
  --ballast-bytes 0 >"$work/log" 2>&1 &
pid=$!
for _ in $(seq 300); do
  [ ! -s "$work/ready" ] || break
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.1
done
if [ ! -s "$work/ready" ]; then
  cat "$work/log"
  fail "assayd did not start"
  finish
fi
port=$(sed -n 's/.*"metrics_port":\([0-9]*\).*/\1/p' "$work/log" | head -n 1)
if [ -z "$port" ]; then
  cat "$work/log"
  fail "assayd's log names no metrics port"
  finish
fi
python3 -c 'import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1], timeout=20).read())' \
  "http://127.0.0.1:$port/metrics" >"$work/metrics"

# The exposer's own families (exposer_*) are the library's; everything else must carry the project's prefix.
grep -v -E '^(# (HELP|TYPE) )?exposer_' "$work/metrics" >"$work/own"
if promtool check metrics <"$work/own" >"$work/lint" 2>&1; then
  pass
else
  cat "$work/lint"
  fail "promtool finds fault with the metrics (above)"
fi
families=$(sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' "$work/own")
count=$(wc -l <<<"$families")
if [ "$count" -ge 12 ]; then pass; else fail "only $count metric families; at least a dozen are expected"; fi
foreign=$(grep -v '^assay_' <<<"$families" || true)
if [ -z "$foreign" ]; then pass; else fail "metric families without the prefix assay_: $foreign"; fi
if [ -f docs/metrics.md ]; then
  for family in $families; do
    if grep -q "\`$family\`" docs/metrics.md; then pass; else fail "docs/metrics.md does not mention $family"; fi
  done
fi
finish
