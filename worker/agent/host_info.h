// What the execution record says about the machine a unit ran on.

#ifndef ASSAY_WORKER_AGENT_HOST_INFO_H_
#define ASSAY_WORKER_AGENT_HOST_INFO_H_

#include <string>

#include "storage/base/json.h"

namespace assay {

// {"host","os","machine","cpu","cpus","tp","threads","backend"}; cpus counts the affinity mask.
Json HostInfo(int tp, int threads_per_rank, const std::string& backend);

// Name of this host, [A-Za-z0-9._-]+ (other characters become '-'); "worker" when there is none.
std::string HostName();

// 32 random hex characters from the kernel.
std::string RandomHex();

}  // namespace assay

#endif  // ASSAY_WORKER_AGENT_HOST_INFO_H_
