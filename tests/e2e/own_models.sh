#!/usr/bin/env bash
# One's own models and captures: names on this node, files of vLLM's extractor, a quick look, and what --out held before.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$(tiny_suite)
export XDG_CONFIG_HOME=$WORK/config XDG_CACHE_HOME=$WORK/cache

capture() { run 0 "$BIN/assay" capture --model "$1" --suite "$suite" --out "$WORK/$2" --threads 1 "${@:3}"; }
replay() { "$BIN/assay" replay --suite "$suite" --threads 1 "$@"; }

note "a name given once stands for the path: as a model and as a head"
cp -r "$TINY" "$WORK/tiny-b"
run 0 "$BIN/assay" model add "$TINY" --name tiny
run 0 "$BIN/assay" model add "$WORK/tiny-b" --name tiny-b
run 3 "$BIN/assay" model add "$WORK/tiny-b" --name tiny
refused NAME_TAKEN "$TINY"
run 0 "$BIN/assay" model list
grep -q "tiny, tiny-b .*model.safetensors" "$WORK/stdout" || fail "the list does not say how the folders are called"
capture models/tiny ref
capture models/tiny@rtn:bits=4,group=32 int4
capture models/tiny@rtn:bits=8,group=channel int8
run 0 replay --reference "$WORK/ref" --candidate "int4=$WORK/int4" --candidate "int8=$WORK/int8" --head models/tiny --out "$WORK/named"
run 0 replay --reference "$WORK/ref" --candidate "int4=$WORK/int4" --candidate "int8=$WORK/int8" --head "$TINY" --out "$WORK/plain"
same_results "$WORK/named" "$WORK/plain"
run 3 replay --reference "$WORK/ref" --candidate "int4=$WORK/int4" --head models/other --out "$WORK/x"
refused HEAD_MISSING models/other "--name NAME"
rm -r "$WORK/tiny-b"
run 3 "$BIN/assay" capture --model models/tiny-b --suite "$suite" --out "$WORK/x"
refused MODEL_MISSING "$WORK/tiny-b"

note "replay --versus LABEL"
[ "$(json "$WORK/plain/summary.json" 'd["versus"], d["baselines"]["shared"]')" = "(None, 'int8')" ] || fail "not against the best"
run 0 replay --reference "$WORK/ref" --candidate "int4=$WORK/int4" --candidate "int8=$WORK/int8" --head "$TINY" \
  --out "$WORK/versus" --versus int4
[ "$(json "$WORK/versus/summary.json" 'd["versus"], d["baselines"]["shared"]')" = "('int4', 'int4')" ] || fail "not against int4"
run 2 replay --reference "$WORK/ref" --candidate "int4=$WORK/int4" --head "$TINY" --out "$WORK/x" --versus int5
refused LABEL_UNKNOWN int5 int4

note "a capture of some contexts, replayed with the same --limit: the numbers of these contexts"
capture "$TINY" ref4 --limit 4
capture "$TINY@rtn:bits=4,group=32" int4-4 --limit 4
[ "$(json "$WORK/ref4/capture-manifest.json" 'd["contexts"], d["complete"], len(d["expected_indices"])')" = "(4, True, 4)" ] ||
  fail "the manifest is not of four contexts"
run 0 replay --reference "$WORK/ref4" --candidate "int4=$WORK/int4-4" --head "$TINY" --out "$WORK/four" --limit 4
run 0 replay --reference "$WORK/ref" --candidate "int4=$WORK/int4" --head "$TINY" --out "$WORK/four-of-all" --limit 4
cmp "$WORK/four/int4/positions/shared/kl_ref_cand.f64" "$WORK/four-of-all/int4/positions/shared/kl_ref_cand.f64" ||
  fail "other numbers than those of the whole capture"
run 3 replay --reference "$WORK/ref4" --candidate "int4=$WORK/int4-4" --head "$TINY" --out "$WORK/x"
refused CONTEXT_MISSING "--limit"

note "files of vLLM's extractor: what the Python package makes of them"
vllm=$ROOT/tests/data/vllm
run 0 "$BIN/assay" capture import vllm-hidden-states --layer-ids 2,3 "$vllm/extracted" --cut before_final_norm --final-norm "$TINY" \
  --engine-version 0.20.2 --stack gpu=H200 --suite "$vllm/suite" --out "$WORK/imported" --json
[ "$(json "$WORK/stdout" 'd["imported"], d["kept"]')" = "(2, 0)" ] || fail "not two contexts"
for field in captures capture_contract_sha256; do
  [ "$(json "$WORK/imported/capture-manifest.json" "d['$field']")" = "$(json "$vllm/manifest-bf16.json" "d['$field']")" ] ||
    fail "$field is not that of the Python package"
done
run 0 "$BIN/assay" capture import vllm-hidden-states --layer-ids 2,3 "$vllm/extracted" --cut before_final_norm \
  --final-norm models/tiny --engine-version 0.20.2 --stack gpu=H200 --suite "$vllm/suite" --out "$WORK/imported" --json
[ "$(json "$WORK/stdout" 'd["imported"], d["kept"]')" = "(0, 2)" ] || fail "models/NAME is another model than its path"
run 2 "$BIN/assay" capture import vllm-hidden-states "$vllm/extracted" --suite "$vllm/suite" --out "$WORK/x"
refused BAD_USAGE --cut
run 3 "$BIN/assay" capture import vllm-hidden-states "$vllm/extracted" --cut before_final_norm --suite "$vllm/suite" --out "$WORK/x"
refused FINAL_NORM_NEEDED --final-norm
run 2 "$BIN/assay" capture --model "$TINY" --suite "$suite"
refused BAD_USAGE --out

note "rows from before the final norm are refused, on both sides too"
for name in ref int4; do
  cp -r "$WORK/$name" "$WORK/$name-before"
  sed -i 's/after_final_rmsnorm_before_lm_head/before_final_rmsnorm/' "$WORK/$name-before/capture-manifest.json"
  python3 - "$WORK/$name-before/capture-manifest.json" <<'PYTHON'
import hashlib, json, sys
manifest = json.load(open(sys.argv[1]))
text = json.dumps(manifest["capture_contract"], sort_keys=True, separators=(",", ":"))
manifest["capture_contract_sha256"] = hashlib.sha256(text.encode()).hexdigest()
json.dump(manifest, open(sys.argv[1], "w"))
PYTHON
done
run 3 replay --reference "$WORK/ref-before" --candidate "int4=$WORK/int4-before" --head "$TINY" --out "$WORK/x"
refused CUT_POINT_DIFFERS "$WORK/ref-before" before_final_rmsnorm

note "an integer that readers of JSON do not agree on is named, by replay and by score"
cp -r "$WORK/int4" "$WORK/large"
sed -i 's/"engine_identity": {/"engine_identity": {"seed": 9007199254740993,/' "$WORK/large/capture-manifest.json"
for command in "replay" "$BIN/assay score --suite $suite --threads 1"; do
  run 3 $command --reference "$WORK/ref" --candidate "large=$WORK/large" --head "$TINY" --out "$WORK/x"
  refused FIELD_INVALID engine_identity.seed
done

note "fewer candidates than --out holds: refused, or the others are kept aside"
score() { "$BIN/assay" score --reference "$WORK/ref" --head "$TINY" --suite "$suite" --threads 1 --no-html "$@"; }
run 0 score --candidate "int4=$WORK/int4" --candidate "int8=$WORK/int8" --out "$WORK/result"
run 3 score --candidate "int4=$WORK/int4" --out "$WORK/result"
refused OUT_NOT_EMPTY int8 --replace
run 0 score --candidate "int4=$WORK/int4" --out "$WORK/result" --replace
[ -s "$WORK/result/int4/report.json" ] || fail "int4 is gone"
[ ! -e "$WORK/result/int8" ] || fail "int8 is still there"
ls "$WORK"/result/replaced/int8-*/report.json >/dev/null || fail "int8 was not kept"
run 0 "$BIN/assay" verify "$WORK/result" --key "$WORK/result/key.pub"

note "a result that is not there"
run 3 "$BIN/assay" report show "$WORK/result/TYPO"
refused REPORT_MISSING "no file or folder $WORK/result/TYPO"
run 3 "$BIN/assay" report show TYPO
refused REPORT_MISSING "no file or folder TYPO" "report list"
