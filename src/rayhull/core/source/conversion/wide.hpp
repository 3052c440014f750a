// Integers of 128 bits: sums of two products of 64-bit integers, their common divisors, and division without remainder.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace rayhull {

using Wide = __int128;
using UnsignedWide = unsigned __int128;

constexpr int64_t LIMIT = int64_t{1} << 62;  // entries stay below, so that a sum of two never overflows

inline uint64_t magnitude(int64_t x) { return x < 0 ? -static_cast<uint64_t>(x) : static_cast<uint64_t>(x); }

inline UnsignedWide magnitude(Wide x) { return x < 0 ? -static_cast<UnsignedWide>(x) : static_cast<UnsignedWide>(x); }

inline int trailing_zeros(uint64_t x) { return std::countr_zero(x); }

inline int trailing_zeros(UnsignedWide x) {
  const auto low = static_cast<uint64_t>(x);
  return low ? std::countr_zero(low) : 64 + std::countr_zero(static_cast<uint64_t>(x >> 64));
}

// Binary greatest common divisor; gcd(a, 0) = a.
template <class Unsigned>
Unsigned gcd(Unsigned a, Unsigned b) {
  if (a == 0 || b == 0) return a | b;
  const int twos = std::min(trailing_zeros(a), trailing_zeros(b));
  a >>= trailing_zeros(a);
  while (b != 0) {
    if constexpr (sizeof(Unsigned) > 8)
      if ((a | b) >> 64 == 0) return UnsignedWide{gcd(static_cast<uint64_t>(a), static_cast<uint64_t>(b))} << twos;
    b >>= trailing_zeros(b);
    if (a > b) std::swap(a, b);
    b -= a;
  }
  return a << twos;
}

// Division by one divisor, 0 < divisor < 2^62, where the quotient is known to be whole or is to be refuted.
class ExactDivisor {
 public:
  ExactDivisor() = default;
  explicit ExactDivisor(uint64_t divisor) : divisor_(static_cast<int64_t>(divisor)), twos_(trailing_zeros(divisor)) {
    const uint64_t odd = divisor >> twos_;
    inverse_ = (odd * 3) ^ 2;  // right in 5 bits; Newton's step doubles them, to 80
    for (int i = 0; i < 4; i++) inverse_ *= 2 - odd * inverse_;
  }

  uint64_t divisor() const { return static_cast<uint64_t>(divisor_); }

  // x / divisor, which is known to be whole: a product where a division takes five times as long.
  int64_t quotient(int64_t x) const { return static_cast<int64_t>(static_cast<uint64_t>(x >> twos_) * inverse_); }

  bool divides(int64_t x) const { return Wide{quotient(x)} * divisor_ == x; }

  // Is x = q divisor with |q| < 2^62? The product with the inverse modulo 2^64 is the only q there can be: one
  // multiplication back proves or refutes it, and nothing is divided.
  bool divides(Wide x, int64_t& quotient) const {
    quotient = static_cast<int64_t>(static_cast<uint64_t>(x >> twos_) * inverse_);
    return -LIMIT < quotient && quotient < LIMIT && Wide{quotient} * divisor_ == x;
  }

 private:
  int64_t divisor_ = 1;
  int twos_ = 0;
  uint64_t inverse_ = 1;
};

// The greatest common divisor of entry(0) .. entry(many - 1), 0 if all are 0.
template <class Entry>
UnsignedWide content(int64_t many, Entry entry) {
  UnsignedWide g = 0;
  ExactDivisor divisor;
  bool known = false;
  for (int64_t t = 0; t < many && g != 1; t++) {
    const Wide value = entry(t);
    int64_t quotient;
    if (value == 0 || (known && divisor.divides(value, quotient))) continue;
    g = gcd(g, magnitude(value));
    known = g < UnsignedWide{LIMIT};
    if (known) divisor = ExactDivisor(static_cast<uint64_t>(g));
  }
  return g;
}

// Writes every entry divided by their greatest common divisor; false if one passes 62 bits.
template <class Entry>
bool write_primitive(int64_t many, Entry entry, int64_t* out) {
  const UnsignedWide g = content(many, entry);
  if (g >= UnsignedWide{LIMIT}) return false;
  const ExactDivisor divisor(g == 0 ? 1 : static_cast<uint64_t>(g));
  for (int64_t t = 0; t < many; t++)
    if (!divisor.divides(entry(t), out[t])) return false;
  return true;
}

// The divisor of 64-bit values below 2^62 in size, ready to divide them; 1 if all are 0.
inline ExactDivisor content(const int64_t* values, int64_t many) {
  uint64_t g = 0;
  ExactDivisor divisor;
  for (int64_t t = 0; t < many && g != 1; t++) {
    if (values[t] == 0 || (g != 0 && divisor.divides(values[t]))) continue;
    g = gcd(g, magnitude(values[t]));
    divisor = ExactDivisor(g);
  }
  return divisor;
}

// At least the largest size among the values, and less than twice it.
inline double bound_of(const int64_t* values, int64_t many) {
  uint64_t bits = 0;
  for (int64_t i = 0; i < many; i++) bits |= magnitude(values[i]);
  return static_cast<double>(bits);
}

}  // namespace rayhull
