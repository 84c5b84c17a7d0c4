#include "storage/db/inspect.h"

#include <span>

#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/db/rocks_store.h"

namespace assay {
namespace {

using Part = CatalogueFinding::Part;

bool IsVersion(const absl::Status& status) { return ReasonOf(status) == "STORE_VERSION"; }

class Inspector {
 public:
  Inspector(std::string dir, const std::function<void(Row)>& sink)
      : dir_(std::move(dir)), sink_(sink) {}

  absl::StatusOr<CatalogueInspection> Run(const std::string& anchor_path) {
    const auto anchor = Anchor::Read(anchor_path);
    if (IsVersion(anchor.status())) return anchor.status();
    if (!anchor.ok()) Add({Part::kAnchor, {}, AnchorState::kMissing, MessageOf(anchor.status())});
    ASSAY_ASSIGN_OR_RETURN(const bool readable, OpenStore());
    if (!readable) return std::move(out_);
    ASSAY_RETURN_IF_ERROR(Chain(anchor.ok(), anchor.value_or(std::nullopt)));
    for (int f = 0; f < kFamilies; ++f) {
      const absl::Status status = Rows(static_cast<Family>(f));
      if (IsVersion(status)) return status;
    }
    return std::move(out_);
  }

 private:
  void Add(CatalogueFinding finding) { out_.findings.push_back(std::move(finding)); }

  // False when not even parts can be read.
  absl::StatusOr<bool> OpenStore() {
    auto store = OpenRocks(dir_, RocksAccess::kReadOnly);
    if (ReasonOf(store.status()) == "STORE_IN_USE") return store.status();
    if (!store.ok()) {
      Add({Part::kDatabase, {}, {}, MessageOf(store.status())});
      store = OpenRocks(dir_, RocksAccess::kReadOnlySkipDamage);
    }
    if (!store.ok()) return false;
    store_ = *std::move(store);
    return true;
  }

  absl::Status Chain(bool anchor_readable, const std::optional<AnchorValue>& anchor) {
    ChainWalk walk(dir_, anchor);
    const absl::Status status = store_->Scan(
        kChainTable, "", "", [&](std::string_view, std::string_view value) -> absl::StatusOr<bool> {
          ASSAY_RETURN_IF_ERROR(walk.Next(value));
          return true;
        });
    if (IsVersion(status)) return status;
    out_.seq = walk.seq();
    out_.hash_hex = walk.hash_hex();
    if (!status.ok()) {
      Add({Part::kChain, {}, {}, MessageOf(status)});
    } else if (const AnchorVerdict verdict = walk.Finish();
               !verdict.status.ok() && anchor_readable) {
      Add({Part::kAnchor, {}, verdict.state, MessageOf(verdict.status)});
    }
    return absl::OkStatus();
  }

  absl::Status Rows(Family family) {
    const auto take = [&](std::string_view key, std::string_view value) -> absl::StatusOr<bool> {
      const std::string where =
          dir_ + ": table " + FamilyName(family) + ", key " +
          HexOf(std::span(reinterpret_cast<const uint8_t*>(key.data()), key.size()));
      absl::StatusOr<Row> row = DecodeRow(value, where);
      if (IsVersion(row.status())) return row.status();
      if (!row.ok()) {
        Add({Part::kRows, family, {}, MessageOf(row.status())});
      } else if (KeyOf(*row).key != key) {
        Add({Part::kRows, family, {}, where + " holds the row of another key"});
      } else {
        sink_(*std::move(row));
      }
      return true;
    };
    const absl::Status status = store_->Scan(static_cast<size_t>(family), "", "", take);
    if (!status.ok() && !IsVersion(status)) Add({Part::kRows, family, {}, MessageOf(status)});
    return status;
  }

  const std::string dir_;
  const std::function<void(Row)>& sink_;
  std::unique_ptr<KvStore> store_;
  CatalogueInspection out_;
};

}  // namespace

absl::StatusOr<CatalogueInspection> InspectCatalogue(const CatalogueOptions& options,
                                                     const std::function<void(Row)>& sink) {
  return Inspector(options.dir, sink).Run(AnchorPath(options));
}

}  // namespace assay
