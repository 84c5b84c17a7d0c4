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
refused GGUF_INVALID short.gguf

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
ln -s "$TINY/model.safetensors" "$WORK/unknown/model.safetensors"
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
run 3 score --reference "$TINY" --candidate "a=$TINY@rtn:bits=99,group=32"
refused TRANSFORM_INVALID

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
