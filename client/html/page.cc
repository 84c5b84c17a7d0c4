#include "client/html/page.h"

#include "client/html/assets.h"
#include "client/html/escape.h"
#include "client/html/numbers.h"
#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/number_format.h"
#include "storage/seal/encoding.h"

namespace assay {
namespace {

// The source expression by which a policy allows exactly this text.
std::string PolicyDigest(std::string_view text) {
  const DigestBytes digest = Sha256Of(text);
  return "'sha256-" + Base64({reinterpret_cast<const char*>(digest.data()), digest.size()}) + "'";
}

std::string Policy(const std::vector<std::string_view>& scripts) {
  std::string out = "default-src 'none'; img-src data:; style-src " + PolicyDigest(PageStyle());
  out += "; script-src";
  for (const std::string_view script : scripts) out += " " + PolicyDigest(script);
  return out + "; base-uri 'none'; form-action 'none'";
}

std::string Heading(const Column& column, bool sortable) {
  std::string out = column.number ? "<th scope=\"col\" class=\"n\"" : "<th scope=\"col\"";
  if (sortable) out += " aria-sort=\"none\"";
  out += ">";
  for (const char c : HtmlText(column.title)) {
    out += c;
    if (c == '/') out += "<wbr>";
  }
  return out + "</th>";
}

}  // namespace

absl::StatusOr<std::string> AssemblePage(PageKind kind, std::string_view title,
                                         const std::string& body_html, const Json& data) {
  const std::vector<std::string_view> scripts = {
      D3Script(), CommonScript(), kind == PageKind::kIndex ? IndexScript() : CandidateScript()};
  ASSAY_ASSIGN_OR_RETURN(const std::string json, ScriptJson(data));
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += "<meta http-equiv=\"Content-Security-Policy\" content=\"" + Policy(scripts) + "\">\n";
  out +=
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n";
  out += "<title>" + HtmlText(title) + "</title>\n<style>";
  out += PageStyle();
  out += "</style>\n</head>\n<body>\n";
  out += body_html;
  out += "<footer><details><summary>Licence of D3, which draws the figures</summary><pre>";
  for (std::string_view rest = D3Licence(); !rest.empty();) {
    const size_t line = std::min(rest.find('\n'), rest.size() - 1) + 1;
    out += HtmlText(rest.substr(0, rest[line - 1] == '\n' ? line - 1 : line)) + "\n";
    rest.remove_prefix(line);
  }
  out += "</pre></details></footer>\n";
  out += "<div id=\"tip\" role=\"tooltip\" hidden></div>\n";
  out += "<script type=\"application/json\" id=\"data\">" + json + "</script>\n";
  for (const std::string_view script : scripts) {
    out += "<script>";
    out += script;
    out += "</script>\n";
  }
  return out + "</body>\n</html>\n";
}

std::string TableHtml(std::string_view caption, const std::vector<Column>& columns,
                      const std::vector<std::vector<Cell>>& rows, bool sortable) {
  std::string out = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" +
                    HtmlText(caption) + "\"><table" + (sortable ? " data-sort" : "") +
                    "><caption>" + HtmlText(caption) + "</caption><thead><tr>";
  for (const Column& column : columns) out += Heading(column, sortable);
  out += "</tr></thead><tbody>\n";
  for (const std::vector<Cell>& row : rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      const bool number = i < columns.size() && columns[i].number;
      out += i == 0 ? "<th scope=\"row\"" : "<td";
      if (number) out += " class=\"n\"";
      if (!row[i].sort.empty()) out += " data-v=\"" + HtmlText(row[i].sort) + "\"";
      out += ">" + row[i].html + (i == 0 ? "</th>" : "</td>");
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string FigureHtml(const Figure& figure) {
  std::string out = "<figure><figcaption>" + HtmlText(figure.title) +
                    "</figcaption><p class=\"note\">" + HtmlText(figure.note) + "</p>";
  out += "<div class=\"plot\" data-plot=\"" + HtmlText(figure.plot) + "\" data-head=\"" +
         HtmlText(figure.head) +
         "\"><noscript>Without JavaScript there is only the table.</noscript></div>";
  return out + "<details><summary>Table: " + HtmlText(figure.title) + "</summary>" +
         figure.table_html + "</details></figure>\n";
}

Cell Num(const Json& value, const char* format) {
  if (!value.is_number()) return {"-", ""};
  return {HtmlText(NumberCell(value, format)), EcmaScriptNumber(value.get<double>())};
}

Cell MeanOf(const Json& mean) { return {HtmlText(MeanCell(mean)), Num(mean.at("value")).sort}; }

Cell FractionOf(const Json& fraction) {
  return {FractionCell(fraction), Num(fraction.at("fraction")).sort};
}

Cell BytesOf(const Json& bytes) { return {BytesCell(bytes), Num(bytes).sort}; }

Cell Count(const Json& count) { return {ShownCount(count.get<uint64_t>()), count.dump()}; }

Cell Txt(std::string_view text) { return {"<bdi>" + HtmlText(text) + "</bdi>", ""}; }

std::string CodeHtml(std::string_view text) { return "<code>" + HtmlText(text) + "</code>"; }

std::string HeadTitle(std::string_view head) {
  return head == "own" ? "As served (each model through its own head)"
                       : "Body only (both through the reference head)";
}

}  // namespace assay
