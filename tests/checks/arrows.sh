#!/usr/bin/env bash
# Includes point down only (docs/tour.md shows the layers), and each outside library is included in its own part alone.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# folder: the folders (or single files) of this project that its files may include, beside itself. The agent is a client
# of the coordinator, so it shares the client library's channels and transfers.
layers() {
  cat <<'TABLE'
storage/base:
storage/format: storage/base
storage/report: storage/base storage/format
storage/dataset: storage/base storage/format storage/report
storage/published: storage/base storage/format storage/report storage/dataset
storage/llamacpp: storage/base storage/format storage/report
storage/vllm: storage/base storage/format
storage/blob: storage/base
storage/db: storage/base storage/blob storage/seal assay/store/v1
storage/seal: storage/base storage/format storage/report
server/core: storage/base storage/format storage/report storage/seal storage/db/row.h storage/db/rows.h
server/engine: storage server/core
server/auth: storage/base
server/maintain: storage server/core server/engine
server/obs: storage/base server/core server/engine
server/rpc: storage server/auth server/core server/engine server/obs assay/v1
server: storage server/auth server/core server/engine server/maintain server/obs server/rpc assay/v1
worker/collective: storage/base
worker/replay: storage/base storage/format worker/collective
worker/capture/weights: storage/base storage/format
worker/capture: storage/base storage/format worker/capture/weights worker/collective
worker/rank: storage/base storage/format worker/replay worker/capture worker/collective
worker/group: storage worker/rank worker/capture/weights worker/replay
worker/agent: storage worker/group worker/rank/protocol.h client/lib assay/v1
client/html: storage
client/lib: storage worker/group assay/v1
client/cli: storage worker/group worker/capture/weights client/lib client/html
TABLE
}

# library (a pattern for the included path): the folders that may include it. A folder stands for what is below it too.
libraries() {
  cat <<'TABLE'
assay/v1/: server/rpc server/main worker/agent client/lib
assay/store/v1/: storage/db
grpc: server/rpc server/main worker/agent client/lib
google/protobuf/: storage/db server/rpc worker/agent client/lib
rocksdb/: storage/db
prometheus/: server/obs
(torch|ATen|c10)/: worker/capture
(oneapi/)?dnnl: worker/replay worker/capture
gloo/: worker/collective
nccl: worker/collective
cuda: worker/collective worker/replay worker/capture
CLI/: client/cli server/keys_command server/main server/tokens_command worker/agent worker/rank worker/main
nlohmann/: storage/base
openssl/: storage/base storage/seal server/auth server/engine
TABLE
}

# The folder of a file, as the first table names it: the longest entry that its path starts with.
folder_of() {
  local file=$1 best="" entry
  for entry in "${FOLDERS[@]}"; do
    case $file in "$entry"/*) [ ${#entry} -le ${#best} ] || best=$entry ;; esac
  done
  printf '%s' "$best"
}

mapfile -t FOLDERS < <(layers | cut -d: -f1)
declare -A MAY
while IFS=: read -r folder allowed; do MAY[$folder]=$allowed; done < <(layers)
mapfile -t LIBRARIES < <(libraries)

# check_project FILE FOLDER INCLUDE: an include of this project's own.
check_project() {
  local allowed
  for allowed in $2 ${MAY[$2]}; do
    case $3 in "$allowed"/* | "$allowed") return 0 ;; esac
  done
  fail "$1 includes $3; $2 may include only: $2${MAY[$2]}"
  return 1
}

# check_library FILE INCLUDE: an include of an outside library.
check_library() {
  local row pattern allowed
  for row in "${LIBRARIES[@]}"; do
    pattern=${row%%: *}
    [[ $2 =~ ^$pattern ]] || continue
    for allowed in ${row#*: }; do
      case $1 in "$allowed"/* | "$allowed".*) return 0 ;; esac
    done
    fail "$1 includes $2; only these may: ${row#*: }"
    return 1
  done
}

while IFS= read -r file; do
  folder=$(folder_of "$file")
  ok=1
  while IFS= read -r include; do
    case $include in
      storage/* | server/* | worker/* | client/* | assay/store/* | assay/v1/*)
        [ -z "$folder" ] || check_project "$file" "$folder" "$include" || ok=0
        ;;
    esac
    case $file in tests/*) ;; *) check_library "$file" "$include" || ok=0 ;; esac
  done < <(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]\([^">]*\)[">].*/\1/p' "$file")
  [ "$ok" -eq 0 ] || pass
done < <(source_files 'storage/*.cc' 'storage/*.h' 'server/*.cc' 'server/*.h' 'worker/*.cc' 'worker/*.h' 'client/*.cc' \
  'client/*.h' 'worker/*.cu' 'tests/*.cc' 'tests/*.h')
finish
