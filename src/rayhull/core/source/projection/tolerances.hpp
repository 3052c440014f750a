// Numbers that rayhull/projection knows too, in problem.py and solvers/any_rows.py.
#pragma once

#include <cstdint>

namespace rayhull {

constexpr int64_t SOLVED = 0, UNSOLVED = 1, EMPTY = 2;  // what a status says
constexpr double TOLERANCE = 1e-10;           // a residual up to this is an answer; most are near 1e-15
constexpr double SHARP = 2e-14, SHARPER = 2e-15;  // residuals up to this are rounding; the second for points that are FAR
constexpr double FAR = 1e5;                      // of y, in sizes of x
constexpr double ULP = 2.2e-16;
constexpr double SLACK = 8 * ULP;  // a row counts as violated beyond this, relative to its terms
constexpr double APEX = 16 * ULP;  // a point this small against y is the rounding of y
constexpr double ROUNDING = 256 * 0x1p-52;  // what a sum of a point and multiples of rows may be off, of the point
constexpr double FLOOR = 1e-280;  // a size below which nothing is compared: its products with an ulp are not denormal

}  // namespace rayhull
