#!/usr/bin/env bash
# Published artefacts through the service: uploaded with verification, and named by digest in what is sealed; then the
# result as one file, and captures of other forms there and back.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
qf=$ROOT/tests/data/metric/qf
dataset=$ROOT/tests/data/metric/fidelity-dataset/datasets/root

# subject NAME RECEIPT: the digest that the signed statement has for NAME.
subject() {
  python3 - "$1" "$2" <<'PYTHON'
import base64, json, sys
statement = json.loads(base64.b64decode(json.load(open(sys.argv[2]))["envelope"]["payload"]))
print({s["name"]: s["digest"]["sha256"] for s in statement["subject"]}[sys.argv[1]])
PYTHON
}
# content CAPTURE: the digest over a capture's files.
content() { "$BIN/assay" capture inspect "$1" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["content_sha256"])'; }
# sealed OUT SUITE REFERENCE CANDIDATE: the receipt names what was published.
sealed() {
  local receipt=$1/a/receipt.json
  [ "$(subject input/suite.manifest "$receipt")" = "$(sha256sum <"$2/suite-manifest.json" | cut -c1-64)" ] ||
    fail "the receipt does not name the suite's manifest"
  [ "$(subject input/reference.capture "$receipt")" = "$(content "$3")" ] || fail "the receipt does not name the reference capture"
  [ "$(subject input/candidate.capture "$receipt")" = "$(content "$4")" ] || fail "the receipt does not name the candidate capture"
  [ "$(subject input/reference.capture-manifest "$receipt")" = "$(sha256sum <"$3/capture-manifest.json" | cut -c1-64)" ] ||
    fail "the receipt does not name the reference's published manifest"
  [ "$(subject input/candidate.capture-manifest "$receipt")" = "$(sha256sum <"$4/capture-manifest.json" | cut -c1-64)" ] ||
    fail "the receipt does not name the candidate's published manifest"
}

note "a published suite with captures is uploaded, verified and sealed by digest"
run 0 "$BIN/assay" score --suite "$qf/suite" --reference "$qf/captures/reference" --candidate "a=$qf/captures/cand-a" \
  --head "$qf/head/weight.safetensors" --threads 1 --out "$WORK/out"
sealed "$WORK/out" "$qf/suite" "$qf/captures/reference" "$qf/captures/cand-a"
run 0 "$BIN/assay" verify "$WORK/out" --key "$WORK/out/key.pub"
run 0 "$BIN/assay" report verify "$WORK/out/a/report.json" --key "$WORK/out/key.pub"
run 6 "$BIN/assay" receipt recompute "$WORK/out/a"
grep -q "statistics/shared: recomputed from the arrays, equal" "$WORK/stdout" || fail "nothing was recomputed"
run 0 "$BIN/assay" receipt show "$WORK/out/a"
[ "$(cat "$WORK/stdout")" = "$(cat "$WORK/out/a/receipt.json")" ] || fail "receipt show does not print the receipt"

note "whoever asks for a key gets no verdict on a document that none signed"
for words in verify "report verify" "receipt verify" "receipt recompute"; do
  # shellcheck disable=SC2086
  run 3 "$BIN/assay" $words "$qf/reports/a.json" --key "$WORK/out/key.pub"
  refused RECEIPT_EXPECTED
done

note "a damaged one is refused by name before anything is computed"
cp -r "$qf/captures/cand-a" "$WORK/flipped"
chmod -R u+w "$WORK/flipped"
flip "$WORK/flipped/hidden_0003.safetensors"
run 3 "$BIN/assay" score --suite "$qf/suite" --reference "$qf/captures/reference" --candidate "a=$WORK/flipped" \
  --head "$qf/head/weight.safetensors" --threads 1 --out "$WORK/x"
refused DIGEST_MISMATCH "$WORK/flipped/hidden_0003.safetensors"
run 5 "$BIN/assay" capture verify "$WORK/flipped" --suite "$qf/suite"
grep -q "^FAIL  digests" "$WORK/stdout" || fail "verify does not name the gate"

note "a legacy capture is accepted under its rule, and the report says so"
cp -r "$qf/captures/cand-a" "$WORK/legacy"
chmod -R u+w "$WORK/legacy"
python3 - "$WORK/legacy/capture-manifest.json" <<'PYTHON'
import json, sys
manifest = json.load(open(sys.argv[1]))
keys = ("model", "quantization", "quantization_config", "kv_cache_dtype", "suite_token_sha256", "contexts", "captures", "elapsed_sec")
open(sys.argv[1], "w").write(json.dumps({key: manifest[key] for key in keys}, indent=2))
PYTHON
run 0 "$BIN/assay" capture verify "$WORK/legacy" --suite "$qf/suite"
grep -q "legacy-capture" "$WORK/stdout" || fail "the rule is not disclosed"
run 0 "$BIN/assay" score --suite "$qf/suite" --reference "$qf/captures/reference" --candidate "a=$WORK/legacy" \
  --head "$qf/head/weight.safetensors" --threads 1 --out "$WORK/legacy-out"
[ "$(json "$WORK/legacy-out/a/report.json" 'd["candidate"]["capture"]["legacy"]')" = True ] || fail "the report does not say legacy"

note "a dataset, converted, is scored as a capture; given back it is the same bytes"
run 0 "$BIN/assay" capture convert "$dataset" --out "$WORK/root"
run 0 "$BIN/assay" score --suite "$WORK/root/suite" --reference "$WORK/root/capture" --candidate "a=$WORK/root/capture" \
  --head "$WORK/root/head/weight.safetensors" --threads 1 --out "$WORK/root-out"
sealed "$WORK/root-out" "$WORK/root/suite" "$WORK/root/capture" "$WORK/root/capture"
run 0 "$BIN/assay" capture convert "$WORK/root" --back --out "$WORK/again"
diff -r "$dataset" "$WORK/again" || fail "the dataset came back with other bytes"

note "a capture as a dataset, in both forms, which verify and capture verify accept"
for form in hidden logit; do
  run 0 "$BIN/assay" dataset pack "$qf/captures/cand-a" --suite "$qf/suite" --head "$qf/head/weight.safetensors" --id fidelity--test \
    --form "$form" --out "$WORK/dataset-$form"
  run 0 "$BIN/assay" dataset verify "$WORK/dataset-$form"
  run 0 "$BIN/assay" capture verify "$WORK/dataset-$form"
done

note "heads of sharded, prefixed and tied checkpoints, and against each other"
run 0 "$BIN/assay" head extract "$TINY" --out "$WORK/head.safetensors"
run 0 "$BIN/assay" head verify "$WORK/head.safetensors" --against "$TINY"
run 0 "$BIN/assay" head extract "$ROOT/tests/data/arch/qwen2-sharded" --out "$WORK/sharded.safetensors"
run 0 "$BIN/assay" head extract "$ROOT/tests/data/arch/llama3-rope-tied" --out "$WORK/tied.safetensors"
[ "$(json "$WORK/tied.safetensors.json" 'd["source"]["tied"]')" = True ] || fail "the tied head is not called tied"
run 5 "$BIN/assay" head verify "$WORK/head.safetensors" --against "$WORK/sharded.safetensors"
flip "$WORK/head.safetensors"
run 5 "$BIN/assay" head verify "$WORK/head.safetensors"

note "one file for a colleague: the same answers, the same bytes, hostile ones refused"
run 0 "$BIN/assay" pack "$WORK/out" -o "$WORK/one.tar"
(cd "$WORK" && run 0 "$BIN/assay" pack out/)
cmp "$WORK/out.tar" "$WORK/one.tar" || fail "without --out the file has another name or other bytes"
cp -r "$WORK/out" "$WORK/moved"
run 0 "$BIN/assay" pack "$WORK/moved" -o "$WORK/two.tar"
cmp "$WORK/one.tar" "$WORK/two.tar" || fail "the same result was packed to other bytes"
run 0 "$BIN/assay" verify "$WORK/one.tar" --key "$WORK/out/key.pub"
run 6 "$BIN/assay" verify "$WORK/one.tar"
run 0 "$BIN/assay" report show "$WORK/one.tar"
run 0 "$BIN/assay" pack "$WORK/out" --no-positions -o "$WORK/small.tar"
run 0 "$BIN/assay" verify "$WORK/small.tar" --key "$WORK/out/key.pub"
grep -q "no statistic was recomputed" "$WORK/stdout" || fail "it is not said that statistics were not recomputed"
python3 - "$WORK/one.tar" "$WORK" <<'PYTHON'
import io, sys, tarfile
def write(name, entries):
    with tarfile.open(f"{sys.argv[2]}/{name}.tar", "w", format=tarfile.USTAR_FORMAT) as out:
        for info, data in entries:
            out.addfile(info, io.BytesIO(data) if data is not None else None)
with tarfile.open(sys.argv[1]) as source:
    entries = [(m, source.extractfile(m).read()) for m in source.getmembers()]
def extra(name, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info
write("climbs", entries + [(extra("assay-result/../../escaped"), b"")])
write("link", entries + [(extra("assay-result/link", tarfile.SYMTYPE, "/etc/passwd"), None)])
write("twice", entries + [entries[-1]])
write("more", entries + [(extra("assay-result/more"), b"")])
write("less", entries[:-1])
PYTHON
for name in climbs link twice more less; do
  run 5 "$BIN/assay" verify "$WORK/$name.tar"
  grep -qE "TAR_INVALID|PACK_INVALID" "$WORK/stdout" || fail "$name was refused for another reason"
done
[ ! -e "$WORK/escaped" ] || fail "a file was written outside"
