//===- Sha256.h - SHA-256 and HMAC ------------------------------*- C++ -*-===//

#ifndef HEDDLE_RT_PROCESSES_SHA256_H
#define HEDDLE_RT_PROCESSES_SHA256_H

#include <array>
#include <cstdint>
#include <string_view>

namespace heddle::runtime {

using Digest = std::array<uint8_t, 32>;

/// Returns the SHA-256 digest of a text (FIPS 180-4).
Digest sha256(std::string_view text);

/// Returns the HMAC-SHA-256 of a text (RFC 2104).
Digest hmac(std::string_view key, std::string_view text);

/// Compares two digests. The time does not depend on where they differ.
bool isEqual(const Digest &a, const Digest &b);

} // namespace heddle::runtime

#endif // HEDDLE_RT_PROCESSES_SHA256_H
