#!/usr/bin/env bash
# Inputs that must be refused: each with its own reason, a message that names the thing, and nothing left hanging.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$(tiny_suite)
GGUF=$ROOT/tests/data/arch/gguf/llama3-rope-tied.bf16.gguf

score() { "$BIN/assay" score --suite "${SUITE:-$suite}" --out "$WORK/out" --threads 1 "$@"; }

note "a model that is not there"
run 3 score --reference "$WORK/nothing.gguf" --candidate "a=$TINY"
refused MODEL_MISSING nothing.gguf

note "a truncated model"
head -c 200000 "$GGUF" >"$WORK/short.gguf"
run 3 score --reference "$TINY" --candidate "a=$WORK/short.gguf"
refused GGUF_INVALID short.gguf "cut short" "$(stat -c %s "$GGUF")" 200000

note "a GGUF whose tensor offsets lie"
python3 - "$GGUF" "$WORK/lying.gguf" <<'PYTHON'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
# A tensor's record ends with its u64 offset, which stands right before the next tensor's name.
at = data.find(struct.pack("<Q", len(b"blk.0.attn_q.weight")) + b"blk.0.attn_q.weight")
at += 8 + len(b"blk.0.attn_q.weight")
dims = struct.unpack_from("<I", data, at)[0]
struct.pack_into("<Q", data, at + 4 + 8 * dims + 4, 1 << 62)
open(sys.argv[2], "wb").write(data)
PYTHON
run 3 score --reference "$TINY" --candidate "a=$WORK/lying.gguf"
refused GGUF_INVALID lying.gguf

note "an architecture that is not supported: the message says which are"
mkdir "$WORK/unknown"
sed -e 's/LlamaForCausalLM/MambaForCausalLM/' -e 's/"model_type": "llama"/"model_type": "mamba"/' \
  "$TINY/config.json" >"$WORK/unknown/config.json"
cp "$TINY/model.safetensors" "$WORK/unknown/model.safetensors"
run 3 score --reference "$TINY" --candidate "a=$WORK/unknown"
refused UNKNOWN_ARCHITECTURE MambaForCausalLM LlamaForCausalLM

note "a suite for another vocabulary"
python3 "$ROOT/tests/e2e/make_suite.py" --out "$WORK/other-vocab" --vocab 4096
SUITE=$WORK/other-vocab run 3 score --reference "$TINY" --candidate "a=$TINY"
refused TOKEN_OUT_OF_RANGE

note "a suite that is not there, and one that is no suite"
SUITE=$WORK/no-suite run 3 score --reference "$TINY" --candidate "a=$TINY"
refused FILE_MISSING suite-manifest.json
mkdir "$WORK/empty-suite"
echo '{}' >"$WORK/empty-suite/suite-manifest.json"
SUITE=$WORK/empty-suite run 3 score --reference "$TINY" --candidate "a=$TINY"
refused FIELD_MISSING suite-manifest.json

note "a transform that does not exist"
run 2 score --reference "$TINY" --candidate "a=$TINY@rtn:bits=99,group=32"
refused TRANSFORM_INVALID
run 2 score --reference "$TINY" --candidate "a=$TINY@awq"
refused TRANSFORM_INVALID '"awq"' rtn:bits=4,group=32
run 2 "$BIN/assay" capture --model "$TINY@awq" --suite "$suite" --out "$WORK/capture"
refused TRANSFORM_INVALID '"awq"' rtn:bits=4,group=32
[ ! -e "$WORK/capture" ] || fail "the failed capture left its folder behind"

note "a mistyped option or command is named, and what was probably meant"
run 2 score --refrence "$TINY" --candidate "a=$TINY"
refused BAD_USAGE "no option --refrence" "did you mean --reference?"
run 2 "$BIN/assay" scroe
refused BAD_USAGE "no command scroe" "did you mean score?"

note "labels: the same class of error in score and replay"
run 2 score --reference "$TINY" --candidate "a b=$TINY"
refused LABEL_INVALID '"a b"'
run 2 score --reference "$TINY" --candidate "$TINY" --candidate "$TINY"
refused LABEL_DUPLICATE
replay() { "$BIN/assay" replay --reference "$WORK/c" --head "$TINY" --suite "$suite" --out "$WORK/replay" "$@"; }
run 2 replay --candidate "a=$WORK/c" --candidate "a=$WORK/d"
refused LABEL_DUPLICATE
run 2 replay --candidate "a b=$WORK/c"
refused LABEL_INVALID '"a b"'
run 2 replay --candidate "a=$WORK/c" --candidate-head "b=$TINY"
refused LABEL_UNKNOWN
for policy in sloppy fp64; do
  run 2 replay --candidate "a=$WORK/c" --policy "$policy"
  refused POLICY_UNKNOWN "$policy" exact fp64-audit torch-bf16
  run 2 score --reference "$TINY" --candidate "a=$TINY" --policy "$policy"
  refused POLICY_UNKNOWN "$policy" exact fp64-audit torch-bf16
done
run 3 replay --candidate "a=$WORK/c"
refused FILE_MISSING "$WORK/c/capture-manifest.json" "assay capture"
[ ! -e "$WORK/replay" ] || fail "the failed replay left its folder behind"

note "an --out that cannot be written is noticed before any work"
echo x >"$WORK/file"
for out in "$WORK/file" "$WORK/file/below"; do
  run 3 "$BIN/assay" score --reference "$TINY" --candidate "a=$TINY" --suite "$WORK/no-suite" --out "$out"
  refused OUT_INVALID "$WORK/file is a file"
  run 3 "$BIN/assay" capture --model "$TINY" --suite "$WORK/no-suite" --out "$out"
  refused OUT_INVALID "$WORK/file is a file"
  run 3 "$BIN/assay" replay --reference "$WORK/c" --candidate "a=$WORK/c" --head "$TINY" --suite "$WORK/no-suite" --out "$out"
  refused OUT_INVALID "$WORK/file is a file"
done

note "a capture that fails leaves no folder behind"
run 3 "$BIN/assay" capture --model "$WORK/short.gguf" --suite "$suite" --out "$WORK/deep/capture" --threads 1
refused GGUF_INVALID "cut short"
[ ! -e "$WORK/deep" ] || fail "the failed capture left its folder behind"

note "verify: a key that is none, and a folder with nothing in it, are refused and not failed"
mkdir "$WORK/empty"
run 3 "$BIN/assay" verify "$WORK/empty"
refused NOTHING_TO_VERIFY summary.json receipt
run 3 "$BIN/assay" verify "$WORK/empty" --key "$WORK/no.pub"
refused FILE_MISSING no.pub
run 3 "$BIN/assay" verify "$WORK/empty" --key "$WORK/file"
refused KEY_INVALID "$WORK/file"

note "one bad candidate among three: the others are finished and sealed"
rm -rf "$WORK/out"
mkdir "$WORK/nan"
cp "$TINY/config.json" "$WORK/nan/"
python3 - "$TINY/model.safetensors" "$WORK/nan/model.safetensors" <<'PYTHON'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
length = struct.unpack_from("<Q", data)[0]
header = json.loads(data[8:8 + length])
begin = header["model.norm.weight"]["data_offsets"][0]
assert header["model.norm.weight"]["dtype"] == "BF16"
struct.pack_into("<H", data, 8 + length + begin, 0x7FC0)  # NaN
open(sys.argv[2], "wb").write(data)
PYTHON
run 4 score --reference "$TINY" --candidate "good=$TINY@rtn:bits=8,group=channel" --candidate "bad=$WORK/nan" \
  --candidate "also-good=$TINY@rtn:bits=4,group=32"
grep -q bad "$WORK/stderr" || fail "the message does not name the bad candidate"
for label in good also-good; do
  [ -s "$WORK/out/$label/receipt.json" ] || fail "$label was not sealed"
done
[ ! -e "$WORK/out/bad/receipt.json" ] || fail "the bad candidate was sealed"
run 0 "$BIN/assay" verify "$WORK/out/good/receipt.json" --key "$WORK/out/key.pub"
[ "$(grep -c . "$WORK/stdout")" -gt 5 ] || fail "verify lists no gates"
run 0 "$BIN/assay" verify "$WORK/out/good/receipt.json" --key "$WORK/out/key.pub" --quiet
[ "$(cat "$WORK/stdout")" = "VALID: signed by a trusted key" ] || fail "verify --quiet says more than the verdict"
