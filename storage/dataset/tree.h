// The files of a dataset folder: which paths may be named, and that checksums.txt covers the tree.

#ifndef ASSAY_STORAGE_DATASET_TREE_H_
#define ASSAY_STORAGE_DATASET_TREE_H_

#include <optional>
#include <string>
#include <string_view>

#include "storage/base/json.h"
#include "storage/dataset/finding.h"

namespace assay {

// True for a path that a document in folder `carrier` ("" or "capture", relative to the dataset)
// may name: relative, with no scheme, and inside the dataset when followed from there. ".." is
// allowed only with `parents` (runtime_manifest, compat/).
bool IsDatasetPath(std::string_view path, std::string_view carrier, bool parents);

// `path` from the dataset's root, "." and ".." resolved; only for paths that IsDatasetPath accepts.
std::string ResolveDatasetPath(std::string_view path, std::string_view carrier);

// Adds a path_escape error for every string under a key that names a file and is no dataset path.
void CheckPaths(const Json& document, const std::string& name, std::string_view carrier,
                Findings* findings);

// The file `relative` of dataset `root`: nothing when no regular file is there, a part of the path
// is a symbolic link, or the path is not one that IsDatasetPath accepts. So nothing outside the
// folder is ever opened.
std::optional<std::string> FindInDataset(const std::string& root, std::string_view relative);

// Compares the tree with the file `checksums` (relative): the first problem only, as the published
// validator reports it. Order: links and credential-like names, names that
// differ in case alone (case_collision, which is this program's own), unlisted files, missing ones
// (`allow_partial` excuses those below capture/), digests.
std::optional<Finding> CheckTree(const std::string& root, const std::string& checksums,
                                 bool allow_partial);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_TREE_H_
