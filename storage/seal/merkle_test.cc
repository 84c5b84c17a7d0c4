// RFC 6962 trees: the eight leaves, roots and proofs that the certificate-transparency project
// tests with, and every proof of every size of a larger tree against a naive tree.

#include "storage/seal/merkle.h"

#include <gtest/gtest.h>

#include <string>

#include "storage/base/status.h"

namespace assay {
namespace {

std::string FromHex(std::string_view hex) { return *BytesOfHex(hex); }
std::string Hex(const DigestBytes& digest) { return HexOf(std::span<const uint8_t>(digest)); }

const std::vector<std::string> kLeaves = {"",
                                          "00",
                                          "10",
                                          "2021",
                                          "3031",
                                          "40414243",
                                          "5051525354555657",
                                          "606162636465666768696a6b6c6d6e6f"};

const std::vector<std::string> kRoots = {
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"};

MemoryLog LogOf(const std::vector<std::string>& leaves) {
  MemoryLog log;
  for (const std::string& leaf : leaves) log.Apply(*PrepareAppend(log, leaf));
  return log;
}

TEST(MerkleLog, KnownRoots) {
  MemoryLog log;
  EXPECT_EQ(Hex(EmptyLogRoot()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(*LogRoot(log, 0), EmptyLogRoot());
  for (size_t i = 0; i < kLeaves.size(); ++i) {
    const LogAppend append = *PrepareAppend(log, FromHex(kLeaves[i]));
    EXPECT_EQ(append.leaf_index, i);
    EXPECT_EQ(Hex(append.root), kRoots[i]);
    log.Apply(append);
    for (size_t n = 0; n <= i; ++n) EXPECT_EQ(Hex(*LogRoot(log, n + 1)), kRoots[n]);
  }
}

TEST(MerkleLog, KnownProofs) {
  std::vector<std::string> leaves;
  for (const std::string& leaf : kLeaves) leaves.push_back(FromHex(leaf));
  const MemoryLog log = LogOf(leaves);
  const auto hexes = [](const std::vector<DigestBytes>& proof) {
    std::vector<std::string> out;
    for (const DigestBytes& p : proof) out.push_back(Hex(p));
    return out;
  };
  using Strings = std::vector<std::string>;
  EXPECT_EQ(hexes(*InclusionProof(log, 0, 8)),
            (Strings{"96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                     "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                     "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"}));
  EXPECT_EQ(hexes(*InclusionProof(log, 5, 8)),
            (Strings{"bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
                     "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                     "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"}));
  EXPECT_EQ(hexes(*InclusionProof(log, 2, 3)),
            (Strings{"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"}));
  EXPECT_EQ(hexes(*ConsistencyProof(log, 6, 8)),
            (Strings{"0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
                     "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                     "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"}));
}

// MTH as RFC 6962 2.1 defines it, straight from the leaves.
DigestBytes NaiveRoot(const std::vector<std::string>& leaves, size_t begin, size_t end) {
  if (begin == end) return EmptyLogRoot();
  if (end - begin == 1) return LogLeafHash(leaves[begin]);
  size_t k = 1;
  while (k * 2 < end - begin) k *= 2;
  return LogNodeHash(NaiveRoot(leaves, begin, begin + k), NaiveRoot(leaves, begin + k, end));
}

TEST(MerkleLog, EveryProofOfEverySizeUpTo40) {
  std::vector<std::string> leaves;
  for (int i = 0; i < 40; ++i) leaves.push_back("leaf " + std::to_string(i));
  const MemoryLog log = LogOf(leaves);
  for (uint64_t n = 1; n <= leaves.size(); ++n) {
    const DigestBytes root = *LogRoot(log, n);
    ASSERT_EQ(root, NaiveRoot(leaves, 0, n));
    for (uint64_t i = 0; i < n; ++i) {
      auto proof = *InclusionProof(log, i, n);
      const DigestBytes leaf = LogLeafHash(leaves[i]);
      ASSERT_TRUE(VerifyInclusion(leaf, i, n, proof, root));
      ASSERT_FALSE(VerifyInclusion(LogLeafHash("x"), i, n, proof, root));
      ASSERT_FALSE(VerifyInclusion(leaf, i + n, n, proof, root));
      proof.push_back(root);
      ASSERT_FALSE(VerifyInclusion(leaf, i, n, proof, root));
      proof.pop_back();
      if (proof.empty()) continue;
      proof.back()[3] ^= 1;
      ASSERT_FALSE(VerifyInclusion(leaf, i, n, proof, root));
      proof.pop_back();
      ASSERT_FALSE(VerifyInclusion(leaf, i, n, proof, root));
    }
    for (uint64_t m = 0; m <= n; ++m) {
      auto proof = *ConsistencyProof(log, m, n);
      const DigestBytes old_root = *LogRoot(log, m);
      ASSERT_TRUE(VerifyConsistency(m, n, proof, old_root, root)) << m << " " << n;
      if (m > 0 && m < n) {
        ASSERT_FALSE(VerifyConsistency(m, n, proof, LogLeafHash("x"), root));
        ASSERT_FALSE(VerifyConsistency(m, n, proof, old_root, LogLeafHash("x")));
        proof.front()[0] ^= 1;
        ASSERT_FALSE(VerifyConsistency(m, n, proof, old_root, root));
      }
    }
  }
}

TEST(MerkleLog, RangesAndMissingNodesAreErrors) {
  const MemoryLog log = LogOf({"a", "b", "c"});
  EXPECT_EQ(ReasonOf(InclusionProof(log, 3, 3).status()), "LOG_RANGE");
  EXPECT_EQ(ReasonOf(InclusionProof(log, 0, 4).status()), "LOG_RANGE");
  EXPECT_EQ(ReasonOf(ConsistencyProof(log, 3, 2).status()), "LOG_RANGE");
  EXPECT_EQ(ReasonOf(LogRoot(log, 4).status()), "LOG_RANGE");
  EXPECT_EQ(ReasonOf(log.Node(1, 1).status()), "LOG_NODE_MISSING");
}

}  // namespace
}  // namespace assay
