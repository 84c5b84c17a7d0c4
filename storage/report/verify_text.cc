#include "storage/report/summary.h"

namespace assay {
namespace {

// Kept in step with storage/seal/receipt.h by receipt_hand_test, which runs these very commands.
constexpr std::string_view kIntro = R"md(# Checking these results by hand

`assay verify .` does all of this, recomputes every statistic from the arrays, and checks the log.
The commands below need only a shell, openssl (3.0 or newer), coreutils, grep and sed. Run them in
this folder. First compare `key.pub` with the key that the service publishes: without that, a good
signature only says that *somebody* signed.

    openssl pkey -pubin -in key.pub -outform DER | tail -c 32 | sha256sum    # the key id

)md";

constexpr std::string_view kCandidate = R"md(## LABEL

Signature of the statement:

```sh
cd 'LABEL' && mkdir -p .verify
grep -o '"payload":"[^"]*"' receipt.json | cut -d'"' -f4 | base64 -d > .verify/statement.json
grep -o '"sig":"[^"]*"' receipt.json | cut -d'"' -f4 | base64 -d > .verify/statement.sig
{ printf 'DSSEv1 28 application/vnd.in-toto+json %s ' "$(stat -c %s .verify/statement.json)"
  cat .verify/statement.json; } > .verify/statement.pae
openssl pkeyutl -verify -pubin -inkey ../key.pub -rawin -in .verify/statement.pae \
  -sigfile .verify/statement.sig
```

The report, the execution record and the arrays are the ones signed (each file prints `OK`):

```sh
for f in report.json execution.json; do
  grep -q "{\"digest\":{\"sha256\":\"$(sha256sum < $f | cut -c1-64)\"},\"name\":\"$f\"}" \
    .verify/statement.json && echo "$f OK"; done
for f in positions/*/*; do
  grep -q "\"${f##*/}\":{\"bytes\":$(stat -c %s $f),\"sha256\":\"$(sha256sum < $f | cut -c1-64)\"}" \
    report.json && echo "$f OK" || echo "$f BAD"; done
```

The receipt's id and the log's signed checkpoint (docs/verify.md goes on to evaluate the inclusion
path between them). The second command prints the receipt id, RECEIPT:

```sh
sed -e 's/^{"envelope"://' -e 's/,"key_id":"[0-9a-f]*","log":.*$//' receipt.json > .verify/leaf
{ printf '\000'; cat .verify/leaf; } | sha256sum
printf '%b' "$(grep -o '"checkpoint":"[^"]*"' receipt.json | cut -d'"' -f4)" > .verify/checkpoint
head -n 3 .verify/checkpoint > .verify/checkpoint.body
tail -n 1 .verify/checkpoint | cut -d' ' -f3 | base64 -d | tail -c 64 > .verify/checkpoint.sig
openssl pkeyutl -verify -pubin -inkey ../key.pub -rawin -in .verify/checkpoint.body \
  -sigfile .verify/checkpoint.sig
rm -r .verify; cd ..
```

)md";

std::string Replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (;;) {
    const size_t at = text.find(from);
    if (at == std::string_view::npos) break;
    out += std::string(text.substr(0, at)) + std::string(to);
    text.remove_prefix(at + from.size());
  }
  return out + std::string(text);
}

}  // namespace

std::string VerifyText(const std::vector<SummaryCandidate>& candidates) {
  std::string out(kIntro);
  for (const SummaryCandidate& candidate : candidates) {
    if (candidate.receipt_id.empty()) continue;
    out +=
        Replaced(Replaced(kCandidate, "LABEL", candidate.label), "RECEIPT", candidate.receipt_id);
  }
  return out;
}

}  // namespace assay
