#!/usr/bin/env bash
# Mutual TLS, tokens and the log over the real programs: who gets in and who does not, certificates replaced while assayd
# runs, a revoked token, proofs of the log, a rotated key, and a program that signs, wrong at first.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v openssl >/dev/null || skip "openssl is missing"
suite=$(tiny_suite)
tls=$WORK/tls
store=$WORK/store/data
mkdir -p "$tls" "$WORK/store"

# authority NAME: a CA. certify CA NAME [openssl x509 options...]: a key and a certificate of it.
authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=$1" \
    -keyout "$tls/$1.key" -out "$tls/$1.pem" 2>/dev/null
}
certify() {
  local ca=$1 name=$2
  shift 2
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" -keyout "$tls/$name.key" \
    -out "$tls/$name.csr" 2>/dev/null
  openssl x509 -req -in "$tls/$name.csr" -CA "$tls/$ca.pem" -CAkey "$tls/$ca.key" -CAcreateserial \
    -extfile <(printf 'subjectAltName=DNS:localhost,IP:127.0.0.1,URI:spiffe://lab/%s' "$name") -out "$tls/$name.pem" \
    "$@" 2>/dev/null
}
authority ca
authority other
certify ca server -days 30
certify ca client -days 30
certify other stranger -days 30
certify other server2 -days 30
# Expired: openssl x509 takes no date in the past, openssl ca does.
mkdir "$tls/db" && touch "$tls/db/index.txt" && echo 01 >"$tls/db/serial"
certify ca old -days 30
openssl ca -batch -notext -in "$tls/old.csr" -cert "$tls/ca.pem" -keyfile "$tls/ca.key" -out "$tls/old.pem" \
  -startdate 20200101000000Z -enddate 20200102000000Z -md sha256 -outdir "$tls/db" -config <(printf '%s\n' '[ca]' \
    'default_ca=d' '[d]' "database=$tls/db/index.txt" "serial=$tls/db/serial" 'policy=p' '[p]' 'commonName=supplied') \
  2>/dev/null
cp "$tls/server.pem" "$tls/live.pem" && cp "$tls/server.key" "$tls/live.key" && cp "$tls/ca.pem" "$tls/live-ca.pem"
chmod 600 "$tls"/*.key
as=()
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
  # The coordinator needs no right of root.
  as=(setpriv --reuid 61001 --regid 61001 --clear-groups env HOME="$WORK/store")
  mkdir "$WORK/bin" && cp -L "$BIN/assayd" "$WORK/bin/" && chmod -R a+rX "$WORK/bin"
  chown -R 61001:61001 "$WORK/store" "$tls"/live* && chmod a+rx "$tls"
  assayd=$WORK/bin/assayd
else
  assayd=$BIN/assayd
fi
assayd() { "${as[@]}" "$assayd" "$@"; }

port=$(free_port)
server=127.0.0.1:$port
listen=(--data "$store" --listen "0.0.0.0:$port" --tls-cert "$tls/live.pem" --tls-key "$tls/live.key"
  --tls-client-ca "$tls/live-ca.pem" --tls-reload-s 1 --ready-file "$WORK/store/ready" --min-free-bytes 0 --ballast-bytes 0)

note "nothing beyond loopback in the clear, or without tokens, or with bad files"
run 2 assayd --data "$store" --listen "0.0.0.0:$port"
grep -q LISTEN_INVALID "$WORK/stderr" || fail "plaintext beyond loopback was not refused by name"
run 2 assayd "${listen[@]}"
grep -q LISTEN_INVALID "$WORK/stderr" || fail "no tokens were not refused by name"
run 2 assayd --insecure-plaintext
for bad in "$tls/old.pem" "$tls/client.pem" "$suite/suite-manifest.json" "$tls/none"; do
  run 2 assayd --data "$store" --listen "$server" --tls-cert "$bad" --tls-key "$tls/live.key" --tls-client-ca "$tls/ca.pem"
  grep -q TLS_INVALID "$WORK/stderr" || fail "$bad was not refused by name"
done

note "tokens of each role"
for role in reader submitter worker admin; do
  run 0 assayd token create --data "$store" --name "$role" --role "$role"
  cp "$WORK/stdout" "$WORK/$role.token" && chmod 600 "$WORK/$role.token"
done
run 0 assayd token list --data "$store"
for role in reader submitter worker admin; do
  ! grep -qF "$(tail -c 65 "$WORK/$role.token")" "$WORK/stdout" "$store/tokens.json" || fail "a secret is kept"
done

start() {
  rm -f "$WORK/store/ready"
  background assayd "${as[@]}" "$assayd" "${listen[@]}" "$@"
  coordinator=$PID
  within 60 test -s "$WORK/store/ready" || { cat "$WORK/assayd.log"; fail "assayd did not start"; }
}
stop() {
  kill -TERM "$coordinator"
  within 30 bash -c "! kill -0 $coordinator 2>/dev/null" || fail "assayd did not end"
}
# who TOKEN CERTIFICATE CA: sets W to the options of a client.
who() { W=(--server "$server" --token-file "$WORK/$1.token" --tls-cert "$tls/$2.pem" --tls-key "$tls/$2.key" --tls-ca "$tls/$3.pem"); }
start
who worker client ca
background worker "$BIN/assay-worker" --coordinator "$server" "${W[@]:2}" --name w --threads 1 --cache "$WORK/cache"
worker=$PID

note "a certificate and a token each"
who reader client ca
run 0 "$BIN/assay" runs "${W[@]}"
who submitter client ca
score() {
  run 0 "$BIN/assay" score "${W[@]}" --reference "$TINY" --candidate "c=$TINY@rtn:bits=$1,group=32" --suite "$suite" --out "$WORK/out$1"
}
score 4

note "and nobody else"
who reader client ca
run 3 "$BIN/assay" submit "${W[@]}" --reference "$TINY" --candidate "d=$TINY@rtn:bits=5,group=32" --suite "$suite"
refused ROLE_DENIED
who worker client ca
run 3 "$BIN/assay" runs "${W[@]}"
refused ROLE_DENIED
for certificate in stranger old; do
  who admin "$certificate" ca
  run 1 "$BIN/assay" runs "${W[@]}"
  grep -qE 'error \[(TLS_FAILED|SERVER_UNREACHABLE)\]' "$WORK/stderr" || fail "a bad certificate was not refused"
done
who admin client other  # whoever does not know the server's CA does not talk to it
run 1 "$BIN/assay" runs "${W[@]}"
refused TLS_FAILED
python3 - "$tls" "$port" <<'PYTHON' || fail "a client without a certificate was let in, or one with it was not"
import socket, ssl, sys
tls, port = sys.argv[1], int(sys.argv[2])
def answered(certificate):
    context = ssl.create_default_context(cafile=f"{tls}/ca.pem")
    context.set_alpn_protocols(["h2"])
    if certificate: context.load_cert_chain(f"{tls}/client.pem", f"{tls}/client.key")
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as link:
            link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
            return len(link.recv(9)) > 0
    except (ssl.SSLError, ConnectionError):
        return False
sys.exit(0 if answered(True) and not answered(False) else 1)
PYTHON
run 1 "$BIN/assay" runs --server "$server" --token-file "$WORK/admin.token"
run 2 "$BIN/assay" runs --server "coordinator.invalid:$port" --token-file "$WORK/admin.token"
refused TLS_REQUIRED
who submitter client ca
cp "$WORK/admin.token" "$WORK/open.token" && chmod 644 "$WORK/open.token"
run 2 "$BIN/assay" runs "${W[@]:0:2}" --token-file "$WORK/open.token" "${W[@]:4}"
refused TOKEN_FILE_INVALID

note "certificates are replaced without a restart"
cat "$tls/server2.pem" >"$tls/live.pem" && cat "$tls/server2.key" >"$tls/live.key" && cat "$tls/other.pem" >"$tls/live-ca.pem"
who admin stranger other
within 60 "$BIN/assay" runs "${W[@]}" >/dev/null 2>&1 || fail "the new certificates are not in use"
who admin client ca
run 1 "$BIN/assay" runs "${W[@]}"
kill -0 "$coordinator" || fail "assayd ended"
cat "$tls/server.pem" >"$tls/live.pem" && cat "$tls/server.key" >"$tls/live.key" && cat "$tls/ca.pem" >"$tls/live-ca.pem"
within 60 "$BIN/assay" runs "${W[@]}" >/dev/null 2>&1 || fail "the old certificates are not in use again"

note "the log: inclusion, and consistency with what was seen before"
who reader client ca
key=$WORK/out4/key.pub
verify() { run "$1" "$BIN/assay" receipt verify "${@:2}"; }
verify 0 "$WORK/out4/c" --key "$key" "${W[@]}" --save-checkpoint "$WORK/old.note"
who submitter client ca
score 3
who reader client ca
verify 0 "$WORK/out4/c" --key "$key" "${W[@]}" --older "$WORK/old.note" --save-proof "$WORK/proof.json"
verify 0 "$WORK/out4/c/receipt.json" --key "$key" --proof "$WORK/proof.json" --older "$WORK/old.note"
verify 6 "$WORK/out4/c" --proof "$WORK/proof.json"
verify 5 "$WORK/out3/c" --key "$key" --proof "$WORK/proof.json"  # the proof of another receipt
verify 2 "$WORK/out4/c" --older "$WORK/old.note"
python=("python3" "$ROOT/client/python/tools/verify_receipt.py")
if python3 -c 'import cryptography' 2>/dev/null; then
  run 0 "${python[@]}" "$WORK/out4/c" --key "$key" --proof "$WORK/proof.json" --checkpoint "$WORK/old.note"
  run 5 "${python[@]}" "$WORK/out3/c" --key "$key" --proof "$WORK/proof.json"
else
  python=(true)
fi
# Every flipped hash, by both verifiers.
python3 - "$WORK" <<'PYTHON'
import json, sys
work = sys.argv[1]
proof = json.load(open(f"{work}/proof.json"))
def write(name, document): open(f"{work}/{name}", "w").write(json.dumps(document, sort_keys=True, separators=(",", ":")))
def flip(text): return ("1" if text[0] == "0" else "0") + text[1:]
bad = json.loads(json.dumps(proof)); bad["inclusion_path"][0] = flip(bad["inclusion_path"][0]); write("bad1.json", bad)
bad = json.loads(json.dumps(proof)); bad["consistency"][0]["path"][0] = flip(bad["consistency"][0]["path"][0]); write("bad2.json", bad)
bad = json.loads(json.dumps(proof)); bad["consistency"] = []; write("bad3.json", bad)
bad = json.loads(json.dumps(proof)); bad["checkpoint"] = bad["checkpoint"].replace("\n2\n", "\n3\n"); write("bad4.json", bad)
PYTHON
for n in 1 2 3 4; do
  verify 5 "$WORK/out4/c" --key "$key" --proof "$WORK/bad$n.json"
  [ "${python[0]}" = true ] || run 5 "${python[@]}" "$WORK/out4/c" --key "$key" --proof "$WORK/bad$n.json"
done

note "a new key: receipts of the old one stay valid, and are in the log of the new one"
run 22 assayd key rotate --data "$store"
refused STORE_IN_USE
stop
# Killed before its decision the rotation has not happened, killed after it the next start finishes it.
ASSAY_KILLPOINT=key:next_stored run 137 assayd key rotate --data "$store"
run 0 assayd key list --data "$store"
! grep -q retired "$WORK/stdout" || fail "a rotation that was killed early has happened"
ASSAY_KILLPOINT=key:list_replaced run 137 assayd key rotate --data "$store"
run 0 assayd key list --data "$store"
grep -q retired "$WORK/stdout" || fail "the old key is not listed as retired"
start
who submitter client ca
score 8
who reader client ca
[ -s "$WORK/out8/keys.json" ] || fail "the keys are not beside the result"
run 0 "$BIN/assay" verify "$WORK/out8" --key "$WORK/out8/key.pub"
run 0 "$BIN/assay" verify "$WORK/out4" --key "$key"
run 0 "$BIN/assay" verify "$WORK/out4" --key "$WORK/out8/keys.json"
run 5 "$BIN/assay" verify "$WORK/out8" --key "$key"
verify 0 "$WORK/out8/c" --key "$key" "${W[@]}"
verify 0 "$WORK/out4/c" --key "$key" "${W[@]}" --older "$WORK/old.note" --save-proof "$WORK/proof2.json"
if [ "${python[0]}" != true ]; then
  run 0 "${python[@]}" "$WORK/out4/c" --key "$WORK/out8/keys.json" --proof "$WORK/proof2.json" --checkpoint "$WORK/old.note"
  run 0 "${python[@]}" "$WORK/out4/c" --key "$key" --proof "$WORK/proof2.json"
fi

note "a program signs, wrong at first: nothing is logged until it is right"
stop
sign=$WORK/store/sign
openssl genpkey -algorithm ed25519 -out "$WORK/store/hsm" 2>/dev/null
openssl pkey -in "$WORK/store/hsm" -pubout -out "$WORK/store/hsm.pub"
printf '%s\n' '#!/bin/sh' "cd $WORK/store && cat >in.\$\$ && openssl pkeyutl -sign -rawin -inkey hsm -in in.\$\$ && rm in.\$\$" >"$sign"
chmod 755 "$sign"
[ ${#as[@]} -eq 0 ] || chown 61001:61001 "$WORK/store/hsm" "$WORK/store/hsm.pub" "$sign"
run 0 assayd key rotate --data "$store" --next-signer-command "$sign" --next-signer-key "$WORK/store/hsm.pub"
run 2 assayd --data "$store" --listen "unix:$WORK/store/s"  # the key in the folder is not the active one
grep -q KEY_MISSING "$WORK/stderr" || fail "a retired key was used, or not refused by name"
cp "$sign" "$WORK/right"
printf '%s\n' '#!/bin/sh' 'cat >/dev/null; head -c 64 /dev/zero' >"$sign"
start --signer-command "$sign" --signer-key "$WORK/store/hsm.pub"
who submitter client ca
background late "$BIN/assay" score "${W[@]}" --reference "$TINY" --candidate "c=$TINY@rtn:bits=6,group=32" --suite "$suite" --out "$WORK/out6"
late=$PID
within 120 grep -q SIGNATURE_REFUSED "$WORK/assayd.log" || fail "a wrong signature was not refused"
who reader client ca
run 0 "$BIN/assay" receipt list "${W[@]}" --json
[ "$(json "$WORK/stdout" 'len(d["receipts"])')" = 3 ] || fail "something was sealed with a wrong signature"
cat "$WORK/right" >"$sign"
wait "$late" || { cat "$WORK/late.log"; fail "sealing did not go on"; }
run 0 "$BIN/assay" verify "$WORK/out6" --key "$WORK/store/hsm.pub"
verify 0 "$WORK/out4/c" --key "$key" "${W[@]}" --older "$WORK/old.note"

note "a revoked token"
run 0 assayd token revoke --data "$store" reader
run 3 "$BIN/assay" runs "${W[@]}"
refused TOKEN_REVOKED

note "who did what"
python3 - "$store/audit.jsonl" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
did = {(l["principal"], l["method"], l["outcome"], l["reason"]) for l in lines}
assert ("submitter", "RunService/CreateRun", "OK", "") in did, did
assert any(l["method"] == "WorkerService/Synchronize" and l["outcome"] == "ACCEPTED" and l["principal"] == "worker" for l in lines)
assert any(l["reason"] == "ROLE_DENIED" and l["principal"] == "worker" for l in lines)
assert any(l["reason"] == "TOKEN_REVOKED" for l in lines)
assert all(l["certificate"].startswith("spiffe://lab/") for l in lines), {l["certificate"] for l in lines}
PYTHON
! grep -qF "$(tail -c 65 "$WORK/admin.token")" "$store/audit.jsonl" "$WORK/assayd.log" || fail "a secret was written down"
kill -TERM "$worker"
stop
