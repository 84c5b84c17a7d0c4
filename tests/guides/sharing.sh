# docs/guides/sharing.md: a sealed result of two candidates.
setup() {
  mkdir original
  cp "$ROOT"/tests/data/arch/llama/{config.json,model.safetensors} original/
  python3 "$ROOT/tests/e2e/make_suite.py" --out suite --vocab 320 --contexts 10 --length 32
  assay score --reference original --candidate q8=original@rtn:bits=8,group=channel \
    --candidate q4=original@rtn:bits=4,group=32 --suite suite --out result --quiet >/dev/null
}

check() {
  local status=0
  assay verify changed --key lab.pub --quiet >/dev/null 2>&1 || status=$?
  [ "$status" -eq 5 ]
  status=0
  assay verify colleague/result --quiet >/dev/null 2>&1 || status=$?
  [ "$status" -eq 6 ]
}
