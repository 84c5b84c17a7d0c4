// Named kill points: every durable step has a name, and a test that kills the process there.
//
// With ASSAY_KILLPOINT="name" or "name@n" in the environment the process ends with SIGKILL the
// first (n-th, counted from 1) time that point is passed. With ASSAY_KILLPOINT_MARK=FILE only a
// process that can make that file does so: of a family of processes the first, once. With
// ASSAY_KILLPOINT_SIGNAL=STOP it stops (SIGSTOP) instead. Unset, a point costs one load of a static
// flag. docs/reliability.md lists the names; tests/crash/run.sh kills at each of them.

#ifndef ASSAY_STORAGE_BASE_KILLPOINT_H_
#define ASSAY_STORAGE_BASE_KILLPOINT_H_

namespace assay {

void AssayKillPoint(const char* name);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_KILLPOINT_H_
