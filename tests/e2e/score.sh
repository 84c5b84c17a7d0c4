#!/usr/bin/env bash
# `assay score` as a user meets it: files, table, --json, self-compare, the same command again, labels.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$(tiny_suite)

note "two candidates, one of them the reference itself"
score=("$BIN/assay" score --reference "$TINY" --candidate "self=$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32"
  --suite "$suite" --out "$WORK/out" --threads 1)
run 0 "${score[@]}"
cp "$WORK/stdout" "$WORK/table"
for file in summary.json summary.csv summary.md key.pub VERIFY.md; do
  [ -s "$WORK/out/$file" ] || fail "$file is missing"
done
for label in self int4; do
  for file in report.json execution.json receipt.json; do
    [ -s "$WORK/out/$label/$file" ] || fail "$label/$file is missing"
  done
  for output in kl_ref_cand kl_cand_ref jsd_bits nll_ref nll_cand entropy_ref entropy_cand delta_p accept_rate; do
    size=$(stat -c %s "$WORK/out/$label/positions/own/$output.f64")
    [ "$size" -eq $((230 * 8)) ] || fail "$label: $output.f64 has $size bytes, not 8 for each of 230 positions"
  done
  for output in top1_ref top1_cand ties_ref ties_cand rank_top1_ref; do
    size=$(stat -c %s "$WORK/out/$label/positions/own/$output.i32")
    [ "$size" -eq $((230 * 4)) ] || fail "$label: $output.i32 has $size bytes, not 4 for each of 230 positions"
  done
  grep -q "$label" "$WORK/table" || fail "the table does not name $label"
done

note "self-compare is exactly zero and agrees everywhere; the other one is not"
python3 - "$WORK/out" <<'PYTHON' || fail "the position arrays are not what self-compare must give"
import array, sys
def read(label, name, kind):
    values = array.array(kind)
    with open(f"{sys.argv[1]}/{label}/positions/own/{name}", "rb") as file:
        values.frombytes(file.read())
    return values
for name in ("kl_ref_cand.f64", "kl_cand_ref.f64", "jsd_bits.f64", "delta_p.f64"):
    assert all(value == 0.0 for value in read("self", name, "d")), name
    assert any(value != 0.0 for value in read("int4", name, "d")), name
assert read("self", "top1_ref.i32", "i") == read("self", "top1_cand.i32", "i")
assert not any(read("self", "rank_top1_ref.i32", "i"))
PYTHON

note "the receipts verify"
run 0 "$BIN/assay" verify "$WORK/out" --key "$WORK/out/key.pub"
note "without a key: valid, but for a key nobody vouched for"
run 6 "$BIN/assay" verify "$WORK/out/int4/receipt.json"

note "the same command again gives the same bytes"
cp -r "$WORK/out" "$WORK/first"
run 0 "${score[@]}"
diff -r "$WORK/first" "$WORK/out" || fail "the second run changed the results"

note "--json prints one document"
run 0 "${score[@]}" --json
json "$WORK/stdout" 'd' >/dev/null || fail "standard output is not one JSON document"

note "a candidate's report is the same bytes alone, beside others and under any label"
run 0 "$BIN/assay" score --reference "$TINY" --candidate "other-name=$TINY@rtn:bits=4,group=32" --suite "$suite" \
  --out "$WORK/alone" --data "$WORK/data-alone"
cmp "$WORK/out/int4/report.json" "$WORK/alone/other-name/report.json" || fail "the report depends on label or company"

note "another numeric policy: named in the report, computed anew, not mixed into the same folder"
run 3 "${score[@]}" --policy torch-bf16
refused OUT_POLICY_DIFFERS exact torch-bf16
run 3 "$BIN/assay" verify "$WORK/out/int4/report.json"
refused RECEIPT_EXPECTED report.json
run 0 "$BIN/assay" score --reference "$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32" --suite "$suite" \
  --out "$WORK/bf16" --policy torch-bf16 --json
[ "$(json "$WORK/stdout" 'd["candidates"][0]["reused"]')" = False ] || fail "a report of another policy was reused"
[ "$(json "$WORK/bf16/int4/report.json" 'd["numeric"]["policy"]')" = torch-bf16 ] || fail "the report names another policy"
! cmp -s "$WORK/bf16/int4/positions/own/kl_ref_cand.f64" "$WORK/out/int4/positions/own/kl_ref_cand.f64" ||
  fail "torch-bf16 gave the numbers of exact"
run 0 "$BIN/assay" verify "$WORK/bf16" --key "$WORK/bf16/key.pub"

note "bad usage"
run 2 "$BIN/assay" score --reference "$TINY" --suite "$suite" --out "$WORK/x"
run 2 "$BIN/assay" score --reference "$TINY" --candidate "a=$TINY" --candidate "a=$TINY@rtn:bits=4,group=32" \
  --suite "$suite" --out "$WORK/x"
run 2 "$BIN/assay" score --no-such-option
