#include "server/obs/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <vector>

#include "storage/base/build_info.h"
#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// A connection that says nothing must not keep Prometheus waiting: with the library's one thread
// and 30 seconds it would.
constexpr char kServingThreads[] = "4";
constexpr char kRequestTimeoutMs[] = "3000";

class FamilyList {
 public:
  void Gauge(const std::string& name, const std::string& help, double value) {
    Add(name, help, MetricType::Gauge).metric.push_back(GaugeOf({}, value));
  }
  void Counter(const std::string& name, const std::string& help, double value) {
    Add(name, help, MetricType::Counter).metric.push_back(CounterOf({}, value));
  }
  MetricFamily& Add(const std::string& name, const std::string& help, MetricType type) {
    families.push_back({name, help, type, {}});
    return families.back();
  }
  static ClientMetric GaugeOf(Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.gauge.value = value;
    return metric;
  }
  static ClientMetric CounterOf(Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = value;
    return metric;
  }
  std::vector<MetricFamily> families;
};

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

void AddStates(const State& s, const Now& now, FamilyList* out) {
  std::map<RunState, double> runs;
  for (uint32_t state = 1; state <= 7; ++state) runs[static_cast<RunState>(state)] = 0;
  for (const auto& [state, n] : s.runs_by_state) runs[state] = static_cast<double>(n);
  const double oldest =
      s.waiting_runs.empty()
          ? 0
          : static_cast<double>(now.unix_ms - s.waiting_runs.begin()->second) / 1000.0;
  MetricFamily& by_state = out->Add("assay_runs", "Runs by state.", MetricType::Gauge);
  for (const auto& [state, n] : runs)
    by_state.metric.push_back(FamilyList::GaugeOf({{"state", Lower(RunStateName(state))}}, n));

  MetricFamily& by_kind = out->Add("assay_units", "Units by kind and state.", MetricType::Gauge);
  for (const auto& [key, n] : s.units_by_state) {
    by_kind.metric.push_back(FamilyList::GaugeOf({{"kind", std::string(UnitKindName(key.first))},
                                                  {"state", Lower(UnitStateName(key.second))}},
                                                 static_cast<double>(n)));
  }
  std::map<std::string, double> workers = {{"live", 0}, {"lost", 0}};
  for (const auto& [id, worker] : s.workers) ++workers[worker.live ? "live" : "lost"];
  MetricFamily& by_life = out->Add("assay_workers", "Workers by state.", MetricType::Gauge);
  for (const auto& [state, n] : workers)
    by_life.metric.push_back(FamilyList::GaugeOf({{"state", state}}, n));
  out->Gauge("assay_leases", "Units being worked on.", static_cast<double>(s.leases.size()));
  out->Gauge("assay_queue_oldest_age_seconds", "Age of the oldest run that has not begun.", oldest);
  out->Gauge("assay_log_leaves", "Leaves of the transparency log.",
             static_cast<double>(s.meta.log_size));
}

void AddCounters(const CoreCounters& c, FamilyList* out) {
  const auto n = [](uint64_t v) { return static_cast<double>(v); };
  out->Counter("assay_leases_granted_total", "Leases given to workers.", n(c.leases_granted));
  out->Counter("assay_leases_expired_total", "Leases that ran out.", n(c.leases_expired));
  out->Counter("assay_units_poisoned_total", "Units that failed for good.", n(c.units_poisoned));
  out->Counter("assay_runs_created_total", "Runs accepted.", n(c.runs_created));
  out->Counter("assay_reports_sealed_total", "Reports sealed.", n(c.reports_sealed));
  out->Counter("assay_reports_reused_total", "Candidates answered from an earlier report.",
               n(c.reports_reused));
  out->Counter("assay_scheduler_rows_visited_total",
               "Units, runs and workers that scheduling looked at.", n(c.rows_visited));
  MetricFamily& rechecks = out->Add(
      "assay_rechecks_total", "Units that another worker was to do again, by what came of it.",
      MetricType::Counter);
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, uint64_t>>{{"same", c.rechecks_same},
                                                     {"different", c.rechecks_different},
                                                     {"impossible", c.rechecks_impossible}}) {
    rechecks.metric.push_back(FamilyList::CounterOf({{"outcome", name}}, n(value)));
  }
  MetricFamily& results =
      out->Add("assay_results_total", "Unit results by what became of them.", MetricType::Counter);
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, uint64_t>>{{"accepted", c.results_accepted},
                                                     {"duplicate", c.results_duplicate},
                                                     {"different", c.results_different},
                                                     {"fenced", c.results_fenced},
                                                     {"invalid", c.results_invalid}}) {
    results.metric.push_back(FamilyList::CounterOf({{"outcome", name}}, n(value)));
  }
}

std::vector<MetricFamily> CollectFrom(const Engine& engine) {
  FamilyList out;
  const Now now = engine.now();
  engine.Read([&](const State& s) {
    AddStates(s, now, &out);
    AddCounters(s.counters, &out);
    return 0;
  });
  out.Counter("assay_commits_total", "Batches committed to the catalogue, ever.",
              static_cast<double>(engine.catalogue().seq()));
  out.Counter("assay_blob_written_bytes_total", "Bytes of blobs published since the start.",
              static_cast<double>(engine.blob_bytes_written()));
  out.Gauge("assay_data_free_bytes", "Bytes free on the file system of the data folder.",
            static_cast<double>(FreeBytes(engine.options().data_dir).value_or(0)));
  out.Gauge("assay_disk_low", "1 while writes are refused because the disk is nearly full.",
            engine.disk_low());
  const SealStats seal = engine.seal_stats();
  MetricFamily& latency =
      out.Add("assay_seal_seconds", "Time taken to seal a candidate.", MetricType::Summary);
  ClientMetric summary;
  summary.summary.sample_count = seal.count;
  summary.summary.sample_sum = seal.seconds;
  latency.metric.push_back(summary);
  out.Add("assay_build_info", "1, labelled with the build.", MetricType::Gauge)
      .metric.push_back(FamilyList::GaugeOf({{"build", BuildId()}}, 1));
  return out.families;
}

class Collector : public prometheus::Collectable {
 public:
  explicit Collector(const Engine* engine) : engine_(engine) {}
  std::vector<MetricFamily> Collect() const override { return CollectFrom(*engine_); }

 private:
  const Engine* engine_;
};

}  // namespace

struct MetricsServer::Impl {
  std::shared_ptr<Collector> collector;
  std::unique_ptr<prometheus::Exposer> exposer;
};

MetricsServer::MetricsServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsServer::~MetricsServer() = default;

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const Engine* engine,
                                                                    const std::string& address) {
  auto impl = std::make_unique<Impl>();
  try {
    impl->exposer = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", address, "num_threads", kServingThreads,
                                 "request_timeout_ms", kRequestTimeoutMs});
  } catch (const std::exception& error) {
    return UnavailableError(
        "PORT_IN_USE", "metrics address " + address + " cannot be listened on (" + error.what() +
                           "); stop the other process or choose another --metrics address");
  }
  impl->collector = std::make_shared<Collector>(engine);
  impl->exposer->RegisterCollectable(impl->collector);
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl)));
}

int MetricsServer::port() const {
  const auto ports = impl_->exposer->GetListeningPorts();
  return ports.empty() ? 0 : ports.front();
}

std::string MetricsText(const Engine& engine) {
  return prometheus::TextSerializer().Serialize(CollectFrom(engine));
}

}  // namespace assay
