#include "server/auth/client_hello.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <memory>

namespace assay {

std::string ClientHello() {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()),
                                                             SSL_CTX_free);
  if (context == nullptr) return "";
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof(kHttp2));
  const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context.get()), SSL_free);
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  if (ssl == nullptr || in == nullptr || out == nullptr) {
    BIO_free(in);
    BIO_free(out);
    return "";
  }
  SSL_set_bio(ssl.get(), in, out);  // owns both
  SSL_connect(ssl.get());           // writes the hello and then waits for an answer
  char* data = nullptr;
  const long size = BIO_get_mem_data(out, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : "";
}

}  // namespace assay
