// Model specs, manifests, file choice and the digest cache.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "storage/format/digest_cache.h"
#include "storage/format/format_test_util.h"
#include "storage/format/model_files.h"
#include "storage/format/model_manifest.h"
#include "storage/format/model_spec.h"

namespace assay {
namespace {

TEST(ModelSpec, AtCountsOnlyBeforeAKnownTransform) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"m.gguf", "m.gguf", ""},
      {"m@home/x.gguf", "m@home/x.gguf", ""},
      {"m.gguf@other:1", "m.gguf@other:1", ""},
      {"m.gguf@rtn", "m.gguf@rtn", ""},
      {"m.gguf@rtn:bits=4,group=32", "m.gguf", "rtn:bits=4,group=32"},
      {"a@b.gguf@rtn:group=32,bits=4", "a@b.gguf", "rtn:bits=4,group=32"},
      {"m.gguf@rtn:bits=8,group=channel", "m.gguf", "rtn:bits=8,group=channel"},
      {"m.gguf@rtn:bits=8", "m.gguf", "rtn:bits=8,group=channel"},
  };
  for (const auto& [text, path, transform] : cases) {
    const auto spec = ParseModelSpec(text);
    ASSERT_TRUE(spec.ok()) << text << ": " << spec.status();
    EXPECT_EQ(spec->path, path);
    EXPECT_EQ(spec->transform, transform);
  }
}

TEST(ModelSpec, WrongTransformsAreRefused) {
  for (const char* text :
       {"m@rtn:", "m@rtn:bits=1", "m@rtn:bits=9", "m@rtn:bits=04", "m@rtn:bits=4,bits=4",
        "m@rtn:group=32", "m@rtn:bits=4,group=0", "m@rtn:bits=4,group=-1", "m@rtn:bits=4,x=1",
        "m@rtn:bits=4,", "m@rtn:bits= 4", "m@rtn:bits=4,group=99999999999999999999"}) {
    EXPECT_EQ(ReasonOf(ParseModelSpec(text).status()), "TRANSFORM_INVALID") << text;
  }
  EXPECT_EQ(ReasonOf(ParseModelSpec("").status()), "MODEL_SPEC_INVALID");
  EXPECT_EQ(ReasonOf(ParseModelSpec("@rtn:bits=4").status()), "MODEL_SPEC_INVALID");
}

class ModelTest : public TempDirTest {
 protected:
  std::vector<std::string> PathsOf(const std::string& path) {
    const auto manifest = MakeModelManifest(path, "", nullptr);
    if (!manifest.ok()) return {ReasonOf(manifest.status())};
    std::vector<std::string> out;
    for (const ModelFile& file : manifest->files) out.push_back(file.path);
    return out;
  }
};

using Paths = std::vector<std::string>;

TEST_F(ModelTest, FolderFilesAreThoseThatTransformersLoads) {
  Put("m/config.json", "{}");
  Put("m/golden.safetensors", "x");
  EXPECT_EQ(PathsOf(JoinPath(dir_, "m")), (Paths{"config.json", "golden.safetensors"}));
  Put("m/a-2.safetensors", "y");
  EXPECT_EQ(PathsOf(JoinPath(dir_, "m")), Paths{"MODEL_UNRECOGNISED"});
  Put("m/model.safetensors.index.json",
      R"({"weight_map": {"b": "a-2.safetensors", "c": "a-1.safetensors"}})");
  EXPECT_EQ(PathsOf(JoinPath(dir_, "m")), Paths{"FILE_MISSING"});
  Put("m/a-1.safetensors", "z");
  Put("m/tokenizer.json", "{}");
  Put("m/notes.txt", "");
  EXPECT_EQ(PathsOf(JoinPath(dir_, "m")),
            (Paths{"a-1.safetensors", "a-2.safetensors", "config.json",
                   "model.safetensors.index.json", "tokenizer.json"}));
  Put("m/model.safetensors", "w");
  EXPECT_EQ(PathsOf(JoinPath(dir_, "m")),
            (Paths{"config.json", "model.safetensors", "tokenizer.json"}));
  Put("n/config.json", "{}");
  Put("n/a.safetensors", "y");
  Put("n/A.safetensors", "z");
  Put("n/model.safetensors.index.json",
      R"({"weight_map": {"b": "a.safetensors", "c": "A.safetensors"}})");
  EXPECT_EQ(PathsOf(JoinPath(dir_, "n")), Paths{"PATH_UNSAFE"});
}

TEST_F(ModelTest, IndexMayNotLeaveTheFolder) {
  Put("m/config.json", "{}");
  Put("secret.safetensors", "s");
  Put("m/model.safetensors.index.json", R"({"weight_map": {"a": "../secret.safetensors"}})");
  EXPECT_EQ(PathsOf(JoinPath(dir_, "m")), Paths{"PATH_UNSAFE"});
  Put("m/model.safetensors.index.json", R"({"weight_map": {"a": 1}})");
  EXPECT_EQ(PathsOf(JoinPath(dir_, "m")), Paths{"MODEL_INDEX_INVALID"});
  Put("m/model.safetensors.index.json", R"({"weight_map": {}})");
  EXPECT_EQ(PathsOf(JoinPath(dir_, "m")), Paths{"MODEL_INDEX_INVALID"});
}

TEST_F(ModelTest, LinksAreFollowedAndOtherThingsRefused) {
  Put("blobs/1", "GGUF....");
  ASSERT_TRUE(EnsureDirectory(JoinPath(dir_, "snap")).ok());
  ASSERT_EQ(symlink("../blobs/1", JoinPath(dir_, "snap/m.gguf").c_str()), 0);
  const auto manifest = MakeModelManifest(JoinPath(dir_, "snap/m.gguf"), "", nullptr);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->files[0].path, "m.gguf");
  EXPECT_EQ(manifest->files[0].sha256, Sha256Hex("GGUF...."));
  EXPECT_EQ(PathsOf(JoinPath(dir_, "absent")), Paths{"MODEL_MISSING"});
  EXPECT_EQ(PathsOf(JoinPath(dir_, "blobs")), Paths{"MODEL_UNRECOGNISED"});
  EXPECT_EQ(PathsOf(Put("x.bin", "GGU")), Paths{"MODEL_UNRECOGNISED"});
}

// REPO/snapshots/REVISION/FILE -> ../../blobs/DIGEST is how Hugging Face's cache keeps a model.
TEST_F(ModelTest, LinksOfAFolderStayInsideItsCache) {
  const std::string repo = JoinPath(dir_, "hub/models--a--b");
  const std::string snapshot = JoinPath(repo, "snapshots/abc");
  Put("hub/models--a--b/blobs/1", "{}");
  Put("hub/models--a--b/blobs/2", "weights");
  Put("elsewhere", "weights");
  ASSERT_TRUE(EnsureDirectory(snapshot).ok());
  const auto link = [&](const std::string& target, const std::string& name) {
    unlink(JoinPath(snapshot, name).c_str());
    ASSERT_EQ(symlink(target.c_str(), JoinPath(snapshot, name).c_str()), 0);
  };
  link("../../blobs/1", "config.json");
  link("../../blobs/2", "model.safetensors");
  const Paths expected = {"config.json", "model.safetensors"};
  EXPECT_EQ(PathsOf(snapshot), expected);
  // The folder itself may be named through a link: a person chose it.
  ASSERT_EQ(symlink(snapshot.c_str(), JoinPath(dir_, "mine").c_str()), 0);
  EXPECT_EQ(PathsOf(JoinPath(dir_, "mine")), expected);

  link("../../../../elsewhere", "model.safetensors");
  const absl::Status status = MakeModelManifest(snapshot, "", nullptr).status();
  EXPECT_EQ(ReasonOf(status), "PATH_UNSAFE");
  for (const char* part : {"snapshots/abc/model.safetensors", "/elsewhere"})
    EXPECT_NE(MessageOf(status).find(part), std::string::npos) << status;
  link("../../blobs/none", "model.safetensors");
  EXPECT_EQ(PathsOf(snapshot), Paths{"FILE_MISSING"});

  // blobs/ beside a folder that is no snapshot is just another folder.
  Put("plain/blobs/2", "weights");
  Put("plain/a/m/config.json", "{}");
  ASSERT_EQ(symlink("../../blobs/2", JoinPath(dir_, "plain/a/m/model.safetensors").c_str()), 0);
  EXPECT_EQ(PathsOf(JoinPath(dir_, "plain/a/m")), Paths{"PATH_UNSAFE"});
  Put("plain/a/m/real", "weights");
  unlink(JoinPath(dir_, "plain/a/m/model.safetensors").c_str());
  ASSERT_EQ(symlink("real", JoinPath(dir_, "plain/a/m/model.safetensors").c_str()), 0);
  EXPECT_EQ(PathsOf(JoinPath(dir_, "plain/a/m")), expected);
}

TEST_F(ModelTest, ATransformThatDoesNotExistIsToldFromAMissingFile) {
  const std::string path = Put("m.gguf", "GGUFabc");
  for (const char* text : {"@awq", "@rtn", "@gptq:bits=4,group=128"}) {
    const absl::Status status = MakeModelManifest(path + text, "", nullptr).status();
    EXPECT_EQ(ReasonOf(status), "TRANSFORM_INVALID") << text;
    EXPECT_NE(MessageOf(status).find("rtn:bits=4,group=32"), std::string::npos);
  }
  for (const char* text : {"@a/b", "@home dir", "@"}) {
    EXPECT_EQ(PathsOf(path + text), Paths{"MODEL_MISSING"}) << text;
  }
  EXPECT_EQ(PathsOf(JoinPath(dir_, "other.gguf@awq")), Paths{"MODEL_MISSING"});
  EXPECT_EQ(PathsOf(Put("kept@home", "GGUFabc")), Paths{"kept@home"});
}

TEST_F(ModelTest, IdentityCoversFilesAndTransform) {
  const std::string path = Put("m.gguf", "GGUFabc");
  const auto plain = MakeModelManifest(path, "", nullptr);
  const auto int4 = MakeModelManifest(path, "rtn:group=32,bits=4", nullptr);
  ASSERT_TRUE(plain.ok() && int4.ok());
  const std::string sha = Sha256Hex("GGUFabc");
  EXPECT_EQ(plain->Identity(),
            Sha256Hex(R"({"files":[{"path":"m.gguf","sha256":")" + sha + R"(","size":7}]})"));
  EXPECT_EQ(int4->Identity(), Sha256Hex(R"({"files":[{"path":"m.gguf","sha256":")" + sha +
                                        R"(","size":7}],"transform":"rtn:bits=4,group=32"})"));
  const auto again = ParseModelManifest(int4->ToJson(), "m");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->Identity(), int4->Identity());
}

TEST_F(ModelTest, HostileManifestsAreRefused) {
  const std::string sha(64, 'a');
  const std::string row = R"({"path":"P","sha256":")" + sha + R"(","size":7})";
  const auto with = [&](const std::string& path) {
    std::string out = row;
    return out.replace(out.find('P'), 1, path);
  };
  const std::pair<std::string, const char*> cases[] = {
      {R"({"files":[)" + with("../a") + "]}", "PATH_UNSAFE"},
      {R"({"files":[)" + with("/a") + "]}", "PATH_UNSAFE"},
      {R"({"files":[)" + with("a//b") + "]}", "PATH_UNSAFE"},
      {R"({"files":[]})", "MODEL_MANIFEST_INVALID"},
      {R"({"files":[)" + with("b") + "," + with("a") + "]}", "MODEL_MANIFEST_INVALID"},
      {R"({"files":[)" + with("a") + "," + with("a") + "]}", "MODEL_MANIFEST_INVALID"},
      {R"({"files":[)" + with("A/b") + "," + with("a/b") + "]}", "PATH_UNSAFE"},
      {R"({"files":[)" + with("a") + R"(],"transform":"rtn:bits=8"})", "MODEL_MANIFEST_INVALID"},
      {R"({"files":[)" + with("a") + R"(],"transform":"zip"})", "TRANSFORM_INVALID"},
      {R"({"files":[{"path":"a","sha256":"x","size":7}]})", "FIELD_INVALID"},
      {R"({"files":[{"path":"a","sha256":")" + sha + R"(","size":-1}]})", "FIELD_INVALID"},
      {R"({"files":5})", "FIELD_INVALID"},
      {R"([])", "FIELD_INVALID"},
  };
  for (const auto& [text, reason] : cases)
    EXPECT_EQ(ReasonOf(ParseModelManifest(*ParseJson(text, "t"), "t").status()), reason) << text;
}

class CacheTest : public TempDirTest {
 protected:
  // A time long past: a fresh file is hashed but not remembered.
  std::string PutOld(const std::string& name, std::string_view bytes, time_t when = 1'000'000'000) {
    const std::string path = Put(name, bytes);
    const timespec times[2] = {{when, 0}, {when, 5}};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return path;
  }
};

TEST_F(CacheTest, RemembersAcrossProcessesAndNoticesChange) {
  const std::string store = JoinPath(dir_, "cache.json");
  const std::string path = PutOld("m", "one");
  {
    const auto cache = DigestCache::Open(store);
    ASSERT_TRUE(cache.ok());
    EXPECT_EQ(*(*cache)->FileSha256(path), Sha256Hex("one"));
    EXPECT_EQ(*(*cache)->FileSha256(path), Sha256Hex("one"));
    EXPECT_EQ((*cache)->hashed(), 1u);
  }
  const auto cache = DigestCache::Open(store);
  ASSERT_TRUE(cache.ok());
  EXPECT_EQ(*(*cache)->FileSha256(path), Sha256Hex("one"));
  EXPECT_EQ((*cache)->hashed(), 0u);
  PutOld("m", "two", 1'000'000'001);
  EXPECT_EQ(*(*cache)->FileSha256(path), Sha256Hex("two"));
  EXPECT_EQ((*cache)->hashed(), 1u);
}

// What is remembered is a file, whatever it is called: shards that are links are hashed once, and
// one that changes, or a link that leads elsewhere, is noticed.
TEST_F(CacheTest, ShardsAndLinksAreHashedOnceAndChangesNoticed) {
  const std::string snapshot = JoinPath(dir_, "r/snapshots/x");
  PutOld("r/blobs/c", "{}");
  PutOld("r/blobs/i", R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  PutOld("r/blobs/1", "first shard");
  PutOld("r/blobs/2", "second shard");
  ASSERT_TRUE(EnsureDirectory(snapshot).ok());
  const std::pair<const char*, const char*> links[] = {{"c", "config.json"},
                                                       {"i", "model.safetensors.index.json"},
                                                       {"1", "1.safetensors"},
                                                       {"2", "2.safetensors"}};
  for (const auto& [blob, name] : links) {
    const std::string target = std::string("../../blobs/") + blob;
    ASSERT_EQ(symlink(target.c_str(), JoinPath(snapshot, name).c_str()), 0);
  }
  const std::string store = JoinPath(dir_, "digests.json");
  const auto digests = [&](uint64_t hashed) {
    const auto cache = DigestCache::Open(store);  // a new one, as in a new process
    EXPECT_TRUE(cache.ok());
    const auto manifest = MakeModelManifest(snapshot, "", cache->get());
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ((*cache)->hashed(), hashed);
    std::vector<std::string> out;
    for (const ModelFile& file : manifest->files) out.push_back(file.sha256);
    return out;
  };
  const std::vector<std::string> first = digests(4);
  EXPECT_EQ(first[0], Sha256Hex("first shard"));
  EXPECT_EQ(digests(0), first);
  PutOld("r/blobs/2", "second shord", 1'000'000'002);  // as long as before
  const std::vector<std::string> changed = digests(1);
  EXPECT_EQ(changed[1], Sha256Hex("second shord"));
  EXPECT_EQ(changed[0], first[0]);
  PutOld("r/blobs/3", "third shard");
  ASSERT_EQ(unlink(JoinPath(snapshot, "1.safetensors").c_str()), 0);
  ASSERT_EQ(symlink("../../blobs/3", JoinPath(snapshot, "1.safetensors").c_str()), 0);
  EXPECT_EQ(digests(1)[0], Sha256Hex("third shard"));
}

TEST_F(CacheTest, FreshFilesAreHashedEachTime) {
  const auto cache = DigestCache::Open("");
  ASSERT_TRUE(cache.ok());
  const std::string path = PutOld("m", "one", 4'000'000'000);  // in the future: never settled
  EXPECT_EQ(*(*cache)->FileSha256(path), Sha256Hex("one"));
  EXPECT_EQ(*(*cache)->FileSha256(path), Sha256Hex("one"));
  EXPECT_EQ((*cache)->hashed(), 2u);
  EXPECT_EQ(ReasonOf((*cache)->FileSha256(JoinPath(dir_, "absent")).status()), "FILE_MISSING");
}

TEST_F(CacheTest, DamagedCacheIsAnEmptyOne) {
  for (const char* text :
       {"", "{", "[]", R"({"schema": 1})",
        R"({"schema": "assay-digest-cache/1", "entries": [1, {"inode": "x"}]})"}) {
    const auto cache = DigestCache::Open(Put("cache.json", text));
    ASSERT_TRUE(cache.ok()) << text;
    EXPECT_EQ(*(*cache)->FileSha256(PutOld("m", "one")), Sha256Hex("one"));
  }
}

}  // namespace
}  // namespace assay
