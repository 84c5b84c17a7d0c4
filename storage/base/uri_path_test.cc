#include "storage/base/uri_path.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

// Expected values: RFC 3986, section 2.1.
TEST(GrpcAddressTest, BytesWithAMeaningInUrisAreEncodedInSocketPathsOnly) {
  EXPECT_EQ(GrpcAddress("unix:/run/assay-1/a_b.sock~"), "unix:/run/assay-1/a_b.sock~");
  EXPECT_EQ(GrpcAddress("unix:/a b%20c#d?e:f\n\xC3\xA4"), "unix:/a%20b%2520c%23d%3Fe%3Af%0A%C3%A4");
  EXPECT_EQ(GrpcAddress("unix:relative path"), "unix:relative%20path");
  EXPECT_EQ(GrpcAddress("dns:///[::1%25eth0]:7070"), "dns:///[::1%25eth0]:7070");
}

}  // namespace
}  // namespace assay
