#include "client/html/head_scan.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/open_regular.h"
#include "storage/base/status.h"
#include "storage/report/positions.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

constexpr size_t kPiece = 16384;  // values read at a time

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// The values of one array file, piece by piece; the digest is that of what was read.
template <typename T>
class Stream {
 public:
  absl::Status Open(const std::string& folder, const std::string& name, const Json& arrays) {
    path_ = JoinPath(folder, name);
    const Json* entry = arrays.contains(name) ? &arrays.at(name) : nullptr;
    if (entry == nullptr) {
      return InvalidError("POSITIONS_INVALID", path_ + ": report.json names no such array");
    }
    ASSAY_ASSIGN_OR_RETURN(expected_, JsonFields(*entry, path_).Sha256("sha256"));
    ASSAY_ASSIGN_OR_RETURN(const int fd, OpenRegular(path_));
    file_.reset(::fdopen(fd, "rb"));
    if (file_ == nullptr) {
      const int error = errno;
      ::close(fd);
      return ErrnoError(error, "opening " + path_);
    }
    values_.resize(kPiece);
    return absl::OkStatus();
  }
  absl::Status Read(size_t count) {
    if (std::fread(values_.data(), sizeof(T), count, file_.get()) != count) {
      return InvalidError("POSITIONS_INVALID",
                          path_ +
                              ": ends before the last position that report.json counts; fetch "
                              "the result again");
    }
    digest_.Update(std::span(reinterpret_cast<const uint8_t*>(values_.data()), count * sizeof(T)));
    return absl::OkStatus();
  }
  absl::Status Finish() {
    if (std::fgetc(file_.get()) == EOF && digest_.FinishHex() == expected_) return absl::OkStatus();
    return DataLossError("DIGEST_MISMATCH",
                         path_ +
                             ": is not the array that report.json was made from; fetch the "
                             "result again");
  }
  T operator[](size_t i) const { return values_[i]; }

 private:
  std::string path_, expected_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<T> values_;
  Sha256 digest_;
};

struct Streams {
  Stream<double> kl, nll_ref, nll_cand;
  Stream<int32_t> top1_ref, top1_cand;

  absl::Status Open(const std::string& folder, const Json& arrays) {
    ASSAY_RETURN_IF_ERROR(kl.Open(folder, PositionFileName(F64Output::kKlRefCand), arrays));
    ASSAY_RETURN_IF_ERROR(nll_ref.Open(folder, PositionFileName(F64Output::kNllRef), arrays));
    ASSAY_RETURN_IF_ERROR(nll_cand.Open(folder, PositionFileName(F64Output::kNllCand), arrays));
    ASSAY_RETURN_IF_ERROR(top1_ref.Open(folder, PositionFileName(I32Output::kTop1Ref), arrays));
    return top1_cand.Open(folder, PositionFileName(I32Output::kTop1Cand), arrays);
  }
  absl::Status Read(size_t count) {
    ASSAY_RETURN_IF_ERROR(kl.Read(count));
    ASSAY_RETURN_IF_ERROR(nll_ref.Read(count));
    ASSAY_RETURN_IF_ERROR(nll_cand.Read(count));
    ASSAY_RETURN_IF_ERROR(top1_ref.Read(count));
    return top1_cand.Read(count);
  }
  absl::Status Finish() {
    ASSAY_RETURN_IF_ERROR(kl.Finish());
    ASSAY_RETURN_IF_ERROR(nll_ref.Finish());
    ASSAY_RETURN_IF_ERROR(nll_cand.Finish());
    ASSAY_RETURN_IF_ERROR(top1_ref.Finish());
    return top1_cand.Finish();
  }
  WorstPosition At(size_t i, size_t context, uint64_t position) const {
    return {context, position, kl[i], nll_ref[i], nll_cand[i], top1_ref[i], top1_cand[i]};
  }
};

// Larger KLD first, then the earlier position.
bool Worse(const WorstPosition& a, const WorstPosition& b) {
  if (a.kl != b.kl) return a.kl > b.kl;
  return a.context != b.context ? a.context < b.context : a.position < b.position;
}

class Bins {
 public:
  explicit Bins(uint64_t last)
      : starts_(CurveBinStarts(last)), bins_(starts_.size()), sums_(starts_.size()) {
    for (size_t i = 0; i < starts_.size(); ++i) {
      bins_[i].first = starts_[i];
      bins_[i].last = i + 1 < starts_.size() ? starts_[i + 1] - 1 : last;
    }
  }
  // Positions of one context come in ascending order.
  void Add(uint64_t position, double kl, bool same) {
    if (position < bins_[at_].first) at_ = 0;
    while (position > bins_[at_].last) ++at_;
    CurveBin& bin = bins_[at_];
    ++bin.positions;
    bin.same_top1 += same ? 1 : 0;
    bin.max = bin.positions == 1 ? kl : std::max(bin.max, kl);
    if (std::isinf(kl)) {
      ++bin.infinite;
    } else {
      sums_[at_].Add(kl);
    }
  }
  std::vector<CurveBin> Take() {
    std::vector<CurveBin> out;
    for (size_t i = 0; i < bins_.size(); ++i) {
      if (bins_[i].positions == 0) continue;
      if (bins_[i].infinite == 0) {
        bins_[i].mean = sums_[i].Result() / static_cast<double>(bins_[i].positions);
      }
      out.push_back(bins_[i]);
    }
    return out;
  }

 private:
  std::vector<uint64_t> starts_;
  std::vector<CurveBin> bins_;
  std::vector<ExactSum> sums_;
  size_t at_ = 0;
};

class Worst {
 public:
  void Add(const Streams& streams, size_t i, size_t context, uint64_t position) {
    const double kl = streams.kl[i];
    if (heap_.size() == kWorstPositions && !(kl > heap_.front().kl)) return;
    heap_.push_back(streams.At(i, context, position));
    std::push_heap(heap_.begin(), heap_.end(), Worse);
    if (heap_.size() <= kWorstPositions) return;
    std::pop_heap(heap_.begin(), heap_.end(), Worse);
    heap_.pop_back();
  }
  std::vector<WorstPosition> Take() {
    std::sort_heap(heap_.begin(), heap_.end(), Worse);
    return std::move(heap_);
  }

 private:
  std::vector<WorstPosition> heap_;  // the least bad in front
};

}  // namespace

std::vector<uint64_t> CurveBinStarts(uint64_t last) {
  std::vector<uint64_t> starts;
  for (uint64_t start = 0; start <= last; start += std::max<uint64_t>(1, start / 6)) {
    starts.push_back(start);
  }
  return starts;
}

absl::StatusOr<HeadScan> ScanHead(const std::string& folder, const Json& contexts,
                                  const Json& arrays, uint64_t score_from) {
  std::vector<uint64_t> rows;
  uint64_t longest = 0;
  for (const Json& context : contexts) {
    ASSAY_ASSIGN_OR_RETURN(const int64_t count,
                           JsonFields(context, folder).Int("positions", 1, int64_t{1} << 31));
    rows.push_back(static_cast<uint64_t>(count));
    longest = std::max(longest, rows.back());
  }
  if (rows.empty())
    return InvalidError("POSITIONS_INVALID", folder + ": report.json names no context");
  Streams streams;
  ASSAY_RETURN_IF_ERROR(streams.Open(folder, arrays));
  Bins bins(score_from + longest - 1);
  Worst worst;
  for (size_t context = 0; context < rows.size(); ++context) {
    for (uint64_t begin = 0; begin < rows[context]; begin += kPiece) {
      const size_t count = std::min<uint64_t>(kPiece, rows[context] - begin);
      ASSAY_RETURN_IF_ERROR(streams.Read(count));
      for (size_t i = 0; i < count; ++i) {
        const uint64_t position = score_from + begin + i;
        bins.Add(position, streams.kl[i], streams.top1_ref[i] == streams.top1_cand[i]);
        worst.Add(streams, i, context, position);
      }
    }
  }
  ASSAY_RETURN_IF_ERROR(streams.Finish());
  return HeadScan{worst.Take(), bins.Take()};
}

}  // namespace assay
