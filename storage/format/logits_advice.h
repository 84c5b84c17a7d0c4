// What to do with a logits file of llama.cpp that was given where a model or a capture belongs.

#ifndef ASSAY_STORAGE_FORMAT_LOGITS_ADVICE_H_
#define ASSAY_STORAGE_FORMAT_LOGITS_ADVICE_H_

#include <string>

namespace assay {

// "" unless `path` is a file that starts with "_logits"; else a clause that follows "; ". The file
// itself is read by storage/llamacpp.
std::string LogitsFileAdvice(const std::string& path);

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_LOGITS_ADVICE_H_
