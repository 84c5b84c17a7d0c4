// The first bytes of a TLS connection, to ask a TLS listener whether it is alive.

#ifndef ASSAY_SERVER_AUTH_CLIENT_HELLO_H_
#define ASSAY_SERVER_AUTH_CLIENT_HELLO_H_

#include <string>

namespace assay {

// A ClientHello, as a server answers it before it knows who asks; "" when OpenSSL fails.
std::string ClientHello();

}  // namespace assay

#endif  // ASSAY_SERVER_AUTH_CLIENT_HELLO_H_
