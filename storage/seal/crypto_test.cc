// Keys, DSSE, Base64 and notes against published vectors, and against the openssl program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/seal/checkpoint.h"
#include "storage/seal/encoding.h"
#include "storage/seal/receipt.h"
#include "storage/seal/signer.h"

namespace assay {
namespace {

std::string FromHex(std::string_view hex) { return *BytesOfHex(hex); }

std::array<uint8_t, 32> Seed(std::string_view hex) {
  const std::string bytes = FromHex(hex);
  std::array<uint8_t, 32> out;
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return out;
}

std::string Hex(std::string_view bytes) {
  return HexOf({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

struct Vector {
  const char *seed, *key, *message, *signature;
};

// RFC 8032, 7.1: TEST 1, TEST 2, TEST 3.
constexpr Vector kRfc8032[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b"
     "4"
     "6bd25bf5f0595bbe24655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11"
     "d"
     "8c387b2eaeb4302aeeb00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc"
     "6"
     "594a7c15e9716ed28dc027beceea1ec40a"},
};

TEST(Ed25519, Rfc8032Vectors) {
  for (const Vector& v : kRfc8032) {
    const auto signer = Signer::FromSeed(Seed(v.seed));
    ASSERT_TRUE(signer.ok());
    const PublicKey& key = (*signer)->public_key();
    EXPECT_EQ(HexOf(std::span<const uint8_t>(key.raw())), v.key);
    EXPECT_EQ(key.key_id(), Sha256Hex(FromHex(v.key)));
    const std::string message = FromHex(v.message);
    const std::string signature = *(*signer)->Sign(message);
    EXPECT_EQ(Hex(signature), v.signature);
    EXPECT_TRUE(key.Verify(message, signature));
    EXPECT_FALSE(key.Verify(message + "x", signature));
    std::string bent = signature;
    bent[40] = static_cast<char>(bent[40] ^ 1);
    EXPECT_FALSE(key.Verify(message, bent));
    EXPECT_FALSE(key.Verify(message, signature.substr(1)));
  }
}

TEST(Dsse, PaeVector) {  // the example of the DSSE protocol document
  EXPECT_EQ(DssePae("http://example.com/HelloWorld", "hello world"),
            "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
}

TEST(Base64Text, Rfc4648VectorsAndOneEncodingPerValue) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, encoded] : vectors) {
    EXPECT_EQ(Base64(plain), encoded);
    EXPECT_EQ(BytesOfBase64(encoded), std::string(plain));
  }
  for (const char* bad :
       {"Zg", "Zg=", "Zh==", "Z===", "====", "Zg==Zg==", "Zm9\n", "Zm-v", "=m9v"}) {
    EXPECT_FALSE(BytesOfBase64(bad).has_value()) << bad;
  }
}

class KeyFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/key_files";
    ASSERT_TRUE(RemoveTree(folder_).ok());
    ASSERT_TRUE(EnsureDirectory(folder_).ok());
    path_ = folder_ + "/key";
  }
  std::string folder_, path_;
};

TEST_F(KeyFiles, CreatedOnceWithTightPermissions) {
  const auto made = Signer::Create(path_);
  ASSERT_TRUE(made.ok()) << made.status();
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto opened = Signer::OpenOrCreate(path_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->key_id(), (*made)->key_id());
  EXPECT_EQ(ReasonOf(Signer::Create(path_).status()), "KEY_EXISTS");
  EXPECT_EQ((*Signer::Open(path_))->key_id(), (*made)->key_id());
  EXPECT_EQ(PublicKey::FromFile(path_ + ".pub")->key_id(), (*made)->key_id());
  EXPECT_EQ(ListDirectory(folder_)->size(), 2u);  // nothing temporary is left
  ASSERT_TRUE(RemoveTree(path_ + ".pub").ok());
  ASSERT_TRUE(Signer::OpenOrCreate(path_).ok());
  EXPECT_EQ(PublicKey::FromFile(path_ + ".pub")->key_id(), (*made)->key_id());
}

TEST_F(KeyFiles, KeysThatOthersCouldReadAreRefused) {
  ASSERT_TRUE(Signer::Create(path_).ok());
  for (const mode_t mode : {0640u, 0604u, 0620u, 0601u, 0666u}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_EQ(ReasonOf(Signer::Open(path_).status()), "KEY_PERMISSIONS") << std::oct << mode;
  }
  ASSERT_EQ(chmod(path_.c_str(), 0400), 0);
  EXPECT_TRUE(Signer::Open(path_).ok());
}

TEST_F(KeyFiles, WrongKeysAreRefused) {
  EXPECT_EQ(ReasonOf(Signer::Open(path_).status()), "FILE_MISSING");
  ASSERT_TRUE(WriteFileAtomic(path_, "no key", 0600).ok());
  EXPECT_EQ(ReasonOf(Signer::Open(path_).status()), "KEY_INVALID");
  EXPECT_EQ(ReasonOf(PublicKey::FromPem("no key", "key.pub").status()), "KEY_INVALID");
  const std::string pem = (*Signer::FromSeed(Seed(kRfc8032[0].seed)))->public_key().pem();
  EXPECT_TRUE(PublicKey::FromPem(pem, "key.pub").ok());
  EXPECT_EQ(ReasonOf(PublicKey::FromPem(pem + pem, "key.pub").status()), "KEY_INVALID");
  for (size_t i = 0; i < pem.size(); ++i) {
    std::string bent = pem;
    bent[i] = static_cast<char>(bent[i] ^ 1);
    const auto other = PublicKey::FromPem(bent, "key.pub");
    EXPECT_FALSE(other.ok() && *other == *PublicKey::FromPem(pem, "key.pub")) << i;
  }
}

TEST_F(KeyFiles, OpensslReadsKeysAndVerifiesSignatures) {
  if (std::system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no openssl program";
  const auto signer = Signer::Create(path_);
  ASSERT_TRUE(signer.ok());
  const std::string message = "a message\n";
  ASSERT_TRUE(WriteFile(folder_ + "/message", message).ok());
  ASSERT_TRUE(WriteFile(folder_ + "/sig", *(*signer)->Sign(message)).ok());
  const std::string verify = "cd " + folder_ +
                             " && openssl pkeyutl -verify -pubin -inkey key.pub -rawin -in message"
                             " -sigfile sig > /dev/null 2>&1";
  EXPECT_EQ(std::system(verify.c_str()), 0);
  ASSERT_TRUE(WriteFile(folder_ + "/message", "another\n").ok());
  EXPECT_NE(std::system(verify.c_str()), 0);
  // And a signature that openssl makes with our key file.
  const std::string sign = "cd " + folder_ +
                           " && openssl pkeyutl -sign -inkey key -rawin -in message -out sig2"
                           " > /dev/null 2>&1";
  ASSERT_EQ(std::system(sign.c_str()), 0);
  EXPECT_TRUE((*signer)->public_key().Verify("another\n", *ReadFile(folder_ + "/sig2", 1000)));
}

TEST(Checkpoints, OnlyTheExactNoteIsRead) {
  const auto signer = Signer::FromSeed(Seed(kRfc8032[0].seed));
  LogCheckpoint checkpoint{"assay/log-1", 7, Sha256Of("root")};
  const std::string note = *SignCheckpoint(checkpoint, **signer);
  EXPECT_EQ(note.substr(0, note.find("\n\n") + 1),
            "assay/log-1\n7\n" + Base64(FromHex(Sha256Hex("root"))) + "\n");
  const auto parsed = ParseCheckpoint(note);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->checkpoint.size, 7u);
  EXPECT_TRUE(CheckpointSignedBy(*parsed, (*signer)->public_key()));
  EXPECT_FALSE(
      CheckpointSignedBy(*parsed, (*Signer::FromSeed(Seed(kRfc8032[1].seed)))->public_key()));
  for (size_t i = 0; i < note.size(); ++i) {
    for (const int bit : {1, 32, 128}) {
      std::string bent = note;
      bent[i] = static_cast<char>(bent[i] ^ bit);
      const auto other = ParseCheckpoint(bent);
      EXPECT_FALSE(other.ok() && CheckpointSignedBy(*other, (*signer)->public_key())) << i;
    }
  }
}

}  // namespace
}  // namespace assay
