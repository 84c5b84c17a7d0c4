#!/usr/bin/env bash
# docs/errors.md lists every reason token that the sources can give, and none that they cannot.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Literals that look like a reason token and are none: names in the environment, of tensor types, of status codes.
NOT_REASONS='^(ASSAY|XDG|OMP|KMP|MKL|DNNL|ONEDNN|GLOO|NCCL|CUDA|MALLOC|LD|ATEN)_|^(I?Q|F|BF|U|I|TQ|MXFP|NVFP)[0-9]+(_[0-9A-Z]+)+$|^(F8|IQ[0-9])_'
STATUS_CODES=$(tr ' ' '\n' <<<'INVALID_ARGUMENT NOT_FOUND ALREADY_EXISTS DATA_LOSS DEADLINE_EXCEEDED FAILED_PRECONDITION
OUT_OF_RANGE PERMISSION_DENIED RESOURCE_EXHAUSTED UNAUTHENTICATED UNIMPLEMENTED UNAVAILABLE INTERNAL UNKNOWN ABORTED')

mapfile -t files < <(source_files 'storage/*.cc' 'storage/*.h' 'server/*.cc' 'server/*.h' 'worker/*.cc' 'worker/*.h' \
  'client/*.cc' 'client/*.h' | grep -vP '(?<!/self)_test\.cc$')

# A token is any literal of several upper-case words, and the first literal handed to a function named ...Error or Refuse.
used=$(python3 - "${files[@]}" <<'PYTHON'
import re, sys
call = re.compile(r'\b(?:\w*Error|Refuse\w*|Refusal|Fail\w*)\(\s*(?:absl::StatusCode::\w+,\s*)?"([A-Z][A-Z0-9_]{3,})"')
words = re.compile(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"')
tokens = {}
for path in sys.argv[1:]:
    text = re.sub(r'^\s*//.*$', '', open(path, encoding='utf-8').read(), flags=re.M)
    for pattern in (call, words):
        for token in pattern.findall(text):
            tokens.setdefault(token, path)
for token in sorted(tokens):
    print(token, tokens[token])
PYTHON
)
documented=$(sed -n 's/^| *`\([A-Z][A-Z0-9_]*\)`.*/\1/p' docs/errors.md)

while read -r token file; do
  [[ ! $token =~ $NOT_REASONS ]] || continue
  ! grep -qx "$token" <<<"$STATUS_CODES" || continue
  if grep -qx "$token" <<<"$documented"; then
    pass
  else
    fail "$token ($file) is not in docs/errors.md; add a line | \`$token\` | what happened | what to do |"
  fi
done <<<"$used"
while read -r token; do
  [ -n "$token" ] || continue
  if grep -q "^$token " <<<"$used"; then
    pass
  else
    fail "docs/errors.md lists $token, which no source gives; remove the line"
  fi
done <<<"$documented"
repeated=$(sort <<<"$documented" | uniq -d)
[ -z "$repeated" ] || fail "docs/errors.md lists twice: $(tr '\n' ' ' <<<"$repeated")"
finish
