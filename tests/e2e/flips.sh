#!/usr/bin/env bash
# One flipped byte anywhere in a result, a capture, a head or the suite is refused by name.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$(tiny_suite)

run 0 "$BIN/assay" score --reference "$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32" --suite "$suite" \
  --out "$WORK/out" --threads 1
key=$WORK/key.pub
cp "$WORK/out/key.pub" "$key"
run 0 "$BIN/assay" verify "$WORK/out" --key "$key"

note "every file of the result; pages are not part of it"
while IFS= read -r file; do
  rm -rf "$WORK/flipped"
  cp -r "$WORK/out" "$WORK/flipped"
  flip "$WORK/flipped/$file"
  run 5 "$BIN/assay" verify "$WORK/flipped" --key "$key"
  cat "$WORK/stdout" "$WORK/stderr" | grep -qF "$(basename "$file")" || fail "the message does not name $file"
done < <(cd "$WORK/out" && find . -type f ! -name '*.html' -printf '%P\n' | sort)

note "several bytes of the receipt"
size=$(stat -c %s "$WORK/out/int4/receipt.json")
for part in 1 2 3 4 5 6 7 8 9; do
  rm -rf "$WORK/flipped"
  cp -r "$WORK/out" "$WORK/flipped"
  flip "$WORK/flipped/int4/receipt.json" $((size * part / 10))
  run 5 "$BIN/assay" verify "$WORK/flipped" --key "$key"
done

note "a file that is missing"
rm -rf "$WORK/flipped"
cp -r "$WORK/out" "$WORK/flipped"
rm "$WORK/flipped/int4/positions/own/kl_ref_cand.f64"
run 5 "$BIN/assay" verify "$WORK/flipped" --key "$key"

note "a key that did not sign it"
openssl genpkey -algorithm ed25519 -out "$WORK/other.pem" 2>/dev/null
openssl pkey -in "$WORK/other.pem" -pubout -out "$WORK/other.pub"
run 5 "$BIN/assay" verify "$WORK/out" --key "$WORK/other.pub"
grep -q KEY_MISMATCH "$WORK/stdout" || fail "the message does not say KEY_MISMATCH"

note "captures made offline, then replayed"
run 0 "$BIN/assay" capture --model "$TINY" --suite "$suite" --out "$WORK/ref" --threads 1
run 0 "$BIN/assay" capture --model "$TINY@rtn:bits=4,group=32" --suite "$suite" --out "$WORK/cand" --threads 1
replay() {
  "$BIN/assay" replay --reference "$WORK/ref" --candidate "int4=$WORK/cand" --head "$TINY" --candidate-head "$TINY" \
    --suite "${SUITE:-$suite}" --out "$WORK/replay" --threads 1
}
run 0 replay
cat "$WORK/stdout" "$WORK/stderr" | grep -q UNSEALED || fail "a replay without a receipt does not say UNSEALED"
cmp "$WORK/out/int4/positions/own/kl_ref_cand.f64" "$WORK/replay/int4/positions/own/kl_ref_cand.f64" ||
  fail "the replay of the captures differs from the run"

note "a hidden file, the capture manifest, a token file, the suite manifest"
rm -rf "$WORK/replay"
flip "$WORK/cand/hidden_0003.safetensors" 1000
run 3 replay
refused DIGEST_MISMATCH hidden_0003.safetensors
flip "$WORK/cand/hidden_0003.safetensors" 1000
for file in tokens/context-0002.json suite-manifest.json; do
  rm -rf "$WORK/bad-suite"
  cp -r "$suite" "$WORK/bad-suite"
  # A digit of an id or of a digest; some flips give broken JSON, which is as good.
  flip "$WORK/bad-suite/$file" 40
  SUITE=$WORK/bad-suite run 3 replay
  grep -qF "$(basename "$file")" "$WORK/stderr" || fail "the message does not name $file"
done
run 0 replay

note "suite and result blobs of the coordinator that were changed are replaced by the right bytes"
blobs=$ASSAY_DATA/store/blobs
for digest in $(sha256sum "$suite/suite-manifest.json" "$suite/tokens/context-0001.json" "$WORK/out/int4/report.json" \
  "$WORK/out/int4/positions/own/kl_ref_cand.f64" | cut -d' ' -f1); do
  flip "$blobs/${digest:0:2}/${digest:2:2}/$digest"
done
run 0 "$BIN/assay" score --reference "$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32" --suite "$suite" \
  --out "$WORK/again" --threads 1 --fresh
cmp "$WORK/out/int4/report.json" "$WORK/again/int4/report.json"
run 0 "$BIN/assay" verify "$WORK/again" --key "$key"
