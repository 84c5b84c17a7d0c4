#!/usr/bin/env bash
# Captures in place of models: `assay score` over capture directories seals what `assay replay` computes, byte for byte.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$(tiny_suite)

capture() { run 0 "$BIN/assay" capture --model "$1" --suite "${3:-$suite}" --out "$WORK/$2" --threads 1 "${@:4}"; }
score() { "$BIN/assay" score --suite "${SUITE:-$suite}" --threads 1 "$@"; }
replay() { "$BIN/assay" replay --suite "$suite" --threads 1 "$@"; }

# both NAME OPTION...: score and replay with the same options give the same reports and arrays.
both() {
  local name=$1
  shift
  run 0 replay --reference "$WORK/ref" --candidate "int4=$WORK/int4" --out "$WORK/replay-$name" "$@"
  run 0 score --reference "$WORK/ref" --candidate "int4=$WORK/int4" --out "$WORK/score-$name" "$@"
  same_results "$WORK/replay-$name" "$WORK/score-$name"
}

capture "$TINY" ref
capture "$TINY@rtn:bits=4,group=32" int4

note "one head for both: body only"
both shared --head "$TINY"
[ "$(json "$WORK/score-shared/int4/report.json" 'list(d["heads"])')" = "['shared']" ] || fail "a head was made up"
[ -s "$WORK/score-shared/int4/receipt.json" ] || fail "the result is not sealed"
run 0 "$BIN/assay" verify "$WORK/score-shared" --key "$WORK/score-shared/key.pub"

note "heads of their own, from a file with a bias, and every option of the metric"
python3 - "$TINY/model.safetensors" "$WORK" <<'PYTHON'
import json, os, struct, sys
data = open(sys.argv[1], "rb").read()
length = struct.unpack_from("<Q", data)[0]
header = json.loads(data[8:8 + length])
begin, end = header["lm_head.weight"]["data_offsets"]
weight, shape = data[8 + length + begin:8 + length + end], header["lm_head.weight"]["shape"]
assert header["lm_head.weight"]["dtype"] == "BF16"

def write(path, tensors):
    entries, at = {}, 0
    for name, (dtype, dims, raw) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": dims, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(raw for _, _, raw in tensors.values()))

bias = struct.pack(f"<{shape[0]}f", *((i % 7 - 3) / 8 for i in range(shape[0])))
wide = struct.pack(f"<{len(weight) // 2}f", *(struct.unpack("<f", b"\0\0" + weight[i:i + 2])[0] * 1.01
                                              for i in range(0, len(weight), 2)))
write(sys.argv[2] + "/biased.safetensors", {"lm_head.weight": ("BF16", shape, weight), "lm_head.bias": ("F32", shape[:1], bias)})
write(sys.argv[2] + "/f32.safetensors", {"head": ("F32", shape, wide)})
# The head of a checkpoint that cannot be captured here: another architecture, sharded, prefixed; and a tied one.
for name, tensor, config in (("sharded", "language_model.lm_head.weight", {}),
                             ("tied", "model.language_model.embed_tokens.weight",
                              {"text_config": {"tie_word_embeddings": True}})):
    folder = f"{sys.argv[2]}/{name}"
    os.mkdir(folder)
    json.dump({"architectures": ["SomethingElse"], "model_type": "else", **config}, open(folder + "/config.json", "w"))
    write(folder + "/model-00001-of-00002.safetensors", {"vision.weight": ("BF16", [2, 2], b"\0" * 8)})
    write(folder + "/model-00002-of-00002.safetensors", {tensor: ("BF16", shape, weight)})
    json.dump({"weight_map": {"vision.weight": "model-00001-of-00002.safetensors",
                              tensor: "model-00002-of-00002.safetensors"}},
              open(folder + "/model.safetensors.index.json", "w"))
PYTHON
both own --head "$TINY" --candidate-head "$WORK/f32.safetensors:head"
[ "$(json "$WORK/score-own/int4/report.json" 'sorted(d["heads"])')" = "['own', 'shared']" ] || fail "own and shared are not both there"
both bias --head "$WORK/biased.safetensors" --candidate-head "int4=$WORK/biased.safetensors" --candidate-head-bias none \
  --logit-scale 0.5 --softcap 20 --valid-vocab 320 --score-from 3
both limit --head "$TINY" --limit 4 --policy torch-bf16 --vocab-chunk 64
[ "$(json "$WORK/score-limit/int4/report.json" 'd["coverage"]["complete"], d["coverage"]["limit"]')" = "(False, 4)" ] ||
  fail "a limited report is not marked partial"
run 3 "$BIN/assay" report pair "$WORK/score-limit/int4" "$WORK/score-shared/int4"
grep -q COVERAGE_DIFFERS "$WORK/stderr" || fail "a limited report was compared with one of the whole suite"

note "a capture of some contexts, with the same --limit: sealed, partial, the numbers that the whole captures give"
capture "$TINY" ref4 "$suite" --limit 4
capture "$TINY@rtn:bits=4,group=32" int4-4 "$suite" --limit 4
some=(--reference "$WORK/ref4" --candidate "int4=$WORK/int4-4" --candidate "whole=$WORK/int4" --head "$TINY")
run 0 score "${some[@]}" --limit 4 --out "$WORK/some" --dry-run
run 3 score --reference "$WORK/ref4" --candidate "int4=$WORK/int4-4" --head "$suite/suite-manifest.json" --limit 4 --out "$WORK/some" --dry-run
run 0 score "${some[@]}" --limit 4 --out "$WORK/some"
run 0 replay "${some[@]}" --limit 4 --out "$WORK/some-replay"
same_results "$WORK/some-replay" "$WORK/some"
run 0 "$BIN/assay" verify "$WORK/some" --key "$WORK/some/key.pub"
[ "$(json "$WORK/some/int4/report.json" 'd["coverage"]["complete"], d["coverage"]["limit"]')" = "(False, 4)" ] ||
  fail "the report is not marked partial"
run 0 replay --reference "$WORK/ref" --candidate "int4=$WORK/int4" --head "$TINY" --limit 4 --out "$WORK/some-of-all"
for label in int4 whole; do
  cmp "$WORK/some/$label/positions/shared/kl_ref_cand.f64" "$WORK/some-of-all/int4/positions/shared/kl_ref_cand.f64" ||
    fail "$label has other numbers than the whole captures give"
done
for limit in 0 5; do
  run 3 score "${some[@]}" --limit "$limit" --out "$WORK/x"
  refused CONTEXT_MISSING "$WORK/ref4/capture-manifest.json" "--limit"
done

note "the head is found in sharded, prefixed and tied checkpoints of any architecture"
run 0 score --reference "$WORK/ref" --candidate "int4=$WORK/int4" --head "$WORK/sharded" --out "$WORK/sharded-out"
cmp "$WORK/sharded-out/int4/report.json" "$WORK/score-shared/int4/report.json" || fail "the sharded head gave another report"
run 0 score --reference "$WORK/ref" --candidate "int4=$WORK/int4" --head "$WORK/tied" --out "$WORK/tied-out"
[ "$(json "$WORK/tied-out/int4/report.json" 'd["heads"]["shared"]["reference_head"]["tied"]')" = True ] || fail "not tied"
cmp "$WORK/tied-out/int4/positions/shared/kl_ref_cand.f64" "$WORK/score-shared/int4/positions/shared/kl_ref_cand.f64" ||
  fail "the tied head gave other numbers"

note "a model beside a capture: each has its own head; a capture without one goes through the model's"
run 0 score --reference "$TINY" --candidate "int4=$WORK/int4" --candidate "self=$TINY" --out "$WORK/mixed"
cmp "$WORK/mixed/int4/positions/shared/kl_ref_cand.f64" "$WORK/score-shared/int4/positions/shared/kl_ref_cand.f64" ||
  fail "model and capture of the same gave other numbers"

note "what was imported once is not uploaded again"
run 0 score --reference "$WORK/ref" --candidate "int4=$WORK/int4" --head "$TINY" --out "$WORK/again" --fresh
! grep -q "upload capture" "$WORK/stderr" || fail "a capture was uploaded twice"
cmp "$WORK/again/int4/report.json" "$WORK/score-shared/int4/report.json" || fail "a fresh run gave another report"

note "refused by name: no head, a head for a model, another suite, missing contexts, a flipped byte"
run 2 score --reference "$WORK/ref" --candidate "int4=$WORK/int4" --out "$WORK/x"
refused BAD_USAGE "$WORK/ref" --head
run 2 score --reference "$TINY" --candidate "int4=$WORK/int4" --head "$TINY" --out "$WORK/x"
refused BAD_USAGE --head
python3 "$ROOT/tests/e2e/make_suite.py" --out "$WORK/suite2" --vocab 320 --hidden 64 --seed 2
SUITE=$WORK/suite2 run 3 score --reference "$WORK/ref" --candidate "int4=$WORK/int4" --head "$TINY" --out "$WORK/x"
refused SUITE_MISMATCH "$WORK/ref/capture-manifest.json"
capture "$TINY" sentinel "$suite" --filter sentinel
run 3 score --reference "$WORK/ref" --candidate "part=$WORK/sentinel" --head "$TINY" --out "$WORK/x"
refused CONTEXT_MISSING "$WORK/sentinel/capture-manifest.json" "context 0"
cp -r "$WORK/int4" "$WORK/flipped"
flip "$WORK/flipped/hidden_0003.safetensors"
run 3 score --reference "$WORK/ref" --candidate "bad=$WORK/flipped" --head "$TINY" --out "$WORK/x"
refused DIGEST_MISMATCH "$WORK/flipped/hidden_0003.safetensors"

note "a refused candidate fails alone; when all fail, every reason is said"
echo "no model" >"$WORK/no.gguf"
run 4 score --reference "$WORK/ref" --candidate "good=$WORK/int4" --candidate "bad=$WORK/flipped" --candidate "gone=$WORK/nothing" \
  --candidate "no=$WORK/no.gguf" --head "$TINY" --out "$WORK/partly"
[ -s "$WORK/partly/good/receipt.json" ] || fail "the good candidate was not sealed"
for text in "candidate bad failed [DIGEST_MISMATCH]" "candidate gone failed [MODEL_MISSING]" "candidate no failed ["; do
  grep -qF "$text" "$WORK/stderr" || fail "standard error does not say: $text"
done
run 3 score --reference "$WORK/ref" --candidate "bad=$WORK/flipped" --candidate "gone=$WORK/nothing" --head "$TINY" --out "$WORK/x"
refused DIGEST_MISMATCH "candidate bad" "candidate gone [MODEL_MISSING]"

note "what is kept: the reference by default, everything or nothing when asked"
kept() { # DATA: contexts of each capture that the store still has, sorted
  run 0 "$BIN/assay" captures list --data "$1" --json
  json "$WORK/stdout" 'sorted(c["contexts_done"] for c in d["captures"])'
}
for keep in reference all none; do
  run 0 score --reference "$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32" --out "$WORK/keep-$keep" --data "$WORK/data-$keep" \
    --keep-captures "$keep"
done
[ "$(kept "$WORK/data-reference" | tail -n 1)" = "[0, 10]" ] || fail "not just the reference was kept"
[ "$(kept "$WORK/data-all" | tail -n 1)" = "[10, 10]" ] || fail "not everything was kept"
[ "$(kept "$WORK/data-none" | tail -n 1)" = "[0, 0]" ] || fail "something was kept"
run 0 "$BIN/assay" captures prune --data "$WORK/data-all" --apply
[ "$(kept "$WORK/data-all" | tail -n 1)" = "[10, 10]" ] || fail "prune dropped what a receipt names"
run 0 "$BIN/assay" captures prune --data "$WORK/data-all" --sealed --json
[ "$(json "$WORK/stdout" 'd["applied"], len(d["captures"])')" = "(False, 2)" ] || fail "the dry run does not name both"
[ "$(kept "$WORK/data-all" | tail -n 1)" = "[10, 10]" ] || fail "the dry run dropped something"

note "a stored hidden file that is damaged is captured again"
run 0 "$BIN/assay" captures list --data "$WORK/data-reference" --json
for blob in "$WORK"/data-reference/store/blobs/??/??/*; do
  ! head -c 200 "$blob" | grep -q '"hidden_states"' || flip "$blob"
done
rm -rf "$WORK"/data-reference/worker-*
run 0 score --reference "$TINY" --candidate "int4=$TINY@rtn:bits=4,group=32" --out "$WORK/healed" --data "$WORK/data-reference" --fresh
same_results "$WORK/keep-reference" "$WORK/healed"
