// Where the numbers come from, what a reader must know, and how to check them.

#include "client/html/candidate_page.h"
#include "client/html/escape.h"
#include "client/html/numbers.h"
#include "client/html/page.h"
#include "client/html/report_set.h"

namespace assay {
namespace {

using Rows = std::vector<std::vector<Cell>>;

void Add(Rows* rows, const std::string& name, const std::string& html) {
  if (!html.empty()) rows->push_back({Txt(name), {html, ""}});
}

// A string or number as code; nothing for null.
std::string Value(const Json& value) {
  if (value.is_null()) return "";
  return CodeHtml(value.is_string() ? value.get<std::string>() : value.dump());
}

// {"engine": "x", "version": "1"} as lines.
std::string Members(const Json& object) {
  if (!object.is_object()) return Value(object);
  std::string out;
  for (const auto& [key, value] : object.items()) {
    if (value.is_null()) continue;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    out += (out.empty() ? "" : "<br>") + HtmlText(key) + " " + CodeHtml(text);
  }
  return out;
}

std::string ModelFiles(const Json& model) {
  std::string out;
  const Json& files = Field(model, {"files"});
  if (!files.is_array()) return "";
  for (const Json& file : files) {
    out += (out.empty() ? "" : "<br>") + CodeHtml(file.at("sha256").get<std::string>()) + " <bdi>" +
           HtmlText(file.at("path").get<std::string>()) + "</bdi>, " + BytesCell(file.at("size"));
  }
  return out;
}

void OperandRows(const Json& operand, const std::string& who, Rows* rows) {
  Add(rows, who + ": files", ModelFiles(operand.at("model")));
  Add(rows, who + ": transform",
      Value(Field(operand.at("model"), {"transform"})) == "<code></code>"
          ? ""
          : Value(Field(operand.at("model"), {"transform"})));
  Add(rows, who + ": model identity", Value(operand.at("model_identity")));
  Add(rows, who + ": declared", Members(operand.at("declared_identity")));
  Add(rows, who + ": architecture", Value(operand.at("architecture")));
  const Json& capture = operand.at("capture");
  Add(rows, who + ": capture", Value(capture.at("content_sha256")));
  Add(rows, who + ": cut point", Value(capture.at("cut_point")));
  Add(rows, who + ": engine", Members(capture.at("engine")));
  Add(rows, who + ": stack", Members(capture.at("stack")));
}

void HeadRows(const Json& heads, Rows* rows) {
  for (const auto& [head, entry] : heads.items()) {
    for (const char* side : {"reference_head", "candidate_head"}) {
      const Json& h = entry.at(side);
      std::string html = Value(h.at("rounded_sha256")) + "<br>" + h.at("vocab").dump() + " x " +
                         h.at("hidden").dump() + ", rounding " + Value(h.at("rounding"));
      if (h.at("tied") == Json(true)) html += ", tied to the embedding";
      if (h.at("original_dtype").is_string())
        html += ", stored as " + Value(h.at("original_dtype"));
      const bool reference = std::string_view(side) == "reference_head";
      Add(rows,
          std::string(reference ? "Reference" : "Candidate") + " head, " +
              (head == "own" ? "as served" : "body only"),
          html);
    }
  }
}

void SizeRows(const Json& report, Rows* rows) {
  const Json& sizes = report.at("candidate").at("sizes");
  std::string html;
  for (const char* part : {"body", "head", "embedding"}) {
    const Json& bits = Field(sizes, {part, "bits_per_weight"});
    if (!bits.is_number()) continue;
    html += std::string(html.empty() ? "" : ", ") + part + " " + NumberCell(bits, "%.4g");
  }
  Add(rows, "Candidate: bits per weight", html);
  const Json bytes = CandidateWeightBytes(report);
  if (bytes.is_number()) Add(rows, "Candidate: weights", BytesCell(bytes));
}

std::string Command(std::string_view text) {
  return "<pre><code>" + HtmlText(text) + "</code></pre>\n";
}

}  // namespace

std::string DisclosuresHtml(const Json& disclosures) {
  if (disclosures.empty()) return "";
  std::string out =
      "<aside class=\"disclosures\" aria-label=\"What a reader must know\"><h2>What a reader must "
      "know</h2><ul>\n";
  for (const Json& disclosure : disclosures) {
    out += "<li>" + HtmlText(disclosure.at("text").get<std::string>()) + " " +
           CodeHtml(disclosure.at("code").get<std::string>()) + "</li>\n";
  }
  return out + "</ul></aside>\n";
}

std::string ProvenanceHtml(const CandidateView& view) {
  const Json& report = *view.report;
  const Json &suite = report.at("suite"), &coverage = report.at("coverage"),
             &numeric = report.at("numeric");
  Rows rows;
  Add(&rows, "Suite",
      Value(suite.at("suite_token_sha256")) + "<br>manifest " + Value(suite.at("manifest_sha256")));
  std::string covered = coverage.at("contexts").dump() + " of " + suite.at("contexts").dump() +
                        " contexts of " + suite.at("context_length").dump() + " tokens, filter " +
                        Value(coverage.at("filter"));
  if (coverage.contains("score_from")) {
    covered += ", the first " + coverage.at("score_from").dump() + " positions of each left out";
  }
  covered += coverage.at("complete") == Json(true) ? ", complete" : ", not the whole suite";
  Add(&rows, "Coverage", covered + "<br>indices " + Value(coverage.at("indices_sha256")));
  OperandRows(report.at("reference"), "Reference", &rows);
  OperandRows(report.at("candidate"), "Candidate", &rows);
  SizeRows(report, &rows);
  HeadRows(report.at("heads"), &rows);
  Add(&rows, "Policy", Value(numeric.at("policy")));
  Add(&rows, "Backend", Value(numeric.at("backend")));
  Add(&rows, "Kernels", Members(numeric.at("kernel_identity")));
  for (const char* key :
       {"operand_dtype", "operand_rounding", "valid_vocab", "softcap", "vocab_chunk"}) {
    Add(&rows, key, Value(Field(numeric, {key})));
  }
  Add(&rows, "report.json", Value(view.entry->at("report_sha256")));
  Add(&rows, "Receipt",
      view.entry->at("receipt_id").is_null() ? "UNSEALED" : Value(view.entry->at("receipt_id")));
  return "<section id=\"provenance\"><h2>Where it comes from</h2><p class=\"note\">Digests are "
         "SHA-256.</p>\n" +
         TableHtml("Provenance", {{"What"}, {"Value"}}, rows) + "</section>\n";
}

std::string VerifyHtml(const CandidateView& view) {
  const std::string label = view.entry->at("label").get<std::string>();
  const std::string digest = view.entry->at("report_sha256").get<std::string>();
  const bool sealed = view.entry->at("sealed") == Json(true);
  std::string out =
      "<section id=\"verify\"><h2>How to verify</h2>\n<p>This page shows what " +
      CodeHtml(label + "/report.json") +
      " and the position arrays hold; it is not signed itself. In the folder that holds "
      "<code>summary.json</code>:</p>\n";
  out += Command("echo '" + digest + "  " + label + "/report.json' | sha256sum -c");
  if (sealed) {
    out += "<p>Signature, log, digests, and every statistic recomputed from the arrays:</p>\n";
    out += Command("assay verify . --key key.pub");
    out +=
        "<p>First compare <code>key.pub</code> with the key that the service publishes: without "
        "that, a good signature only "
        "says that somebody signed. <code>VERIFY.md</code> checks the same with openssl and "
        "coreutils alone.</p>\n";
  } else {
    out +=
        "<p>This result is UNSEALED: nobody vouches for it. <code>assay score</code> gives a "
        "sealed one.</p>\n";
  }
  out += "<p>This page again, from those files:</p>\n" + Command("assay report html .");
  return out + "</section>\n";
}

}  // namespace assay
