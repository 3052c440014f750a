// run PACKAGE FEATURES ROWS COLUMNS OUT: an AOTInductor package without Python, raw float32 in and out.
#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <fstream>
#include <string>
#include <vector>

int main(int, char** argv) {
  const long rows = std::stol(argv[3]), columns = std::stol(argv[4]);
  std::vector<float> h(rows * columns);
  std::ifstream(argv[2], std::ios::binary).read(reinterpret_cast<char*>(h.data()), h.size() * sizeof(float));
  torch::inductor::AOTIModelPackageLoader layer(argv[1]);
  const auto x = layer.run({at::from_blob(h.data(), {rows, columns})})[0].contiguous();
  std::ofstream(argv[5], std::ios::binary).write(static_cast<const char*>(x.data_ptr()), x.nbytes());
}
