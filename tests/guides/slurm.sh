# docs/guides/slurm.md: a model, a suite, the script. Without Slurm, `sbatch` is a stand-in that runs the job at once, on one
# processor of those that the test may use.
setup() {
  mkdir -p original deploy bin
  cp "$ROOT"/tests/data/arch/llama/{config.json,model.safetensors} original/
  cp -r "$ROOT/deploy/slurm" deploy/
  python3 "$ROOT/tests/e2e/make_suite.py" --out suite --vocab 320 --contexts 10 --length 32
  export PATH=$PWD/bin:$PATH
  if command -v sbatch >/dev/null && sinfo >/dev/null 2>&1; then
    echo "the cluster's own sbatch, told to wait and to take one processor"
    printf '#!/bin/sh\nexec %s --wait --cpus-per-task=1 --mem=2G "$@"\n' "$(command -v sbatch)" >bin/sbatch
  else
    echo "there is no Slurm here: the job is run by a stand-in"
    printf '#!/bin/sh\nSLURM_JOB_ID=7 exec taskset -c "$(taskset -cp $$ | sed "s/.*: //; s/[,-].*//")" bash "$@" >assay-7.log 2>&1\n' >bin/sbatch
  fi
  chmod +x bin/sbatch
}

# job STATUS [TEXT]: runs the script; it must end so and say that.
job() {
  local want=$1 text=${2:-} got=0
  bash deploy/slurm/score.sbatch --reference original --candidate int8=original@rtn:bits=8,group=channel --suite suite --out other \
    >job.log 2>&1 || got=$?
  tail -n 3 job.log
  if [ "$got" -ne "$want" ]; then echo "the job ended with status $got, not $want" && return 1; fi
  if ! grep -qF -- "$text" job.log; then echo "the job's log does not say '$text'" && return 1; fi
}

check() {
  head -n 1 assay-*.log
  grep -q '1 processors of' assay-*.log  # the affinity mask

  # A stat that calls ./nfs a network file system, and everything else what it is.
  printf '#!/bin/sh\ncase "$*" in *"%s/nfs"*) echo nfs ;; *) exec /usr/bin/stat "$@" ;; esac\n' "$PWD" >bin/stat
  chmod +x bin/stat
  mkdir -p nfs local
  export ASSAY_DATA=$PWD/nfs/data

  unset TMPDIR
  job 3 "[NO_LOCAL_DISK]"
  mkdir nfs/tmp
  export TMPDIR=$PWD/nfs/tmp
  job 3 "[NO_LOCAL_DISK]"
  export TMPDIR=$PWD/local
  mkdir nfs/data.in-use
  printf 'job 12 on node7' >nfs/data.in-use/owner
  job 3 "job 12 on node7 works on a copy"
  rm -r nfs/data.in-use
  [ ! -e nfs/data ]

  job 0 "(a copy of $ASSAY_DATA)"
  local key
  key=$(sha256sum <other/key.pub)
  assay verify other --key other/key.pub --quiet
  [ -z "$(ls -A local)" ]
  [ ! -e nfs/data.in-use ]
  [ -d nfs/data/store ]
  rm -r other
  job 0  # the same key, and the result is found again: the data came back whole
  [ "$key" = "$(sha256sum <other/key.pub)" ]
  if grep -q '^capture ' job.log; then return 1; fi
  ASSAY=/nowhere job 3 "[PROGRAM_MISSING]"

  # A signal stops it cleanly, and brings the data back.
  rm -r other
  ASSAY_DATA=$PWD/nfs/second bash deploy/slurm/score.sbatch --reference original --fresh \
    --candidate int8=original@rtn:bits=8,group=channel --suite suite --out other >job.log 2>&1 &
  local pid=$! status=0
  until grep -q 'processors of' job.log; do sleep 0.05; done
  sleep 0.3
  kill -TERM "$pid"
  wait "$pid" || status=$?
  echo "stopped with status $status"
  [ "$status" -eq 130 ]
  grep -q 'submit the same command again' job.log
  [ -z "$(ls -A local)" ]
  [ ! -e nfs/second.in-use ]

  # A data folder whose path is too long for a socket.
  rm -rf other
  export ASSAY_DATA=$PWD/$(printf 'long-%.0s' {1..25})/data
  [ "${#ASSAY_DATA}" -gt 108 ]
  job 0
  [ -d "$ASSAY_DATA/store" ]
}
