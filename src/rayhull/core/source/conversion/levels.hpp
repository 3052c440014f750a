// What floating-point slacks can be trusted for: the numbers of rayhull/core/reference/floats.py, which says why.
#pragma once

namespace rayhull {

constexpr double UNCERTAINTY = 0x1p-48, ZERO_LEVEL = 16.0, CLEAR_LEVEL = 1024.0, MOST_ZERO = 0x1p-37;
constexpr double REFRESH = 0x1p-44, SMALLEST_PIVOT = 1e-9;

}  // namespace rayhull
