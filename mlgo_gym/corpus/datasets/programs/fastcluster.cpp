// Clusters points of eight groups by seven linkage methods over squared distances, and by two over vectors.
#include <cmath>
#include <complex>
#include <cstdio>
#include <vector>

#define fc_isnan(number) std::isnan(number)
#include <fastcluster.cpp>

#include "../workload.h"

enum { POINTS = 1200, GROUPS = 8 };

// The library's own class of points is in its binding to Python.
struct Points {
  std::complex<double> x[POINTS];
  double members[POINTS];
  Points() {
    for (int i = 0; i < POINTS; i++) {
      x[i] = {100.0 * (i % 4) + draw(1 << 20) / 32768.0, 100.0 * (i / 4 % 2) + draw(1 << 20) / 32768.0};
      members[i] = 1;
    }
  }
  template <bool> double sqeuclidean(t_index i, t_index j) const { return std::norm(x[i] - x[j]); }
  double operator()(t_index i, t_index j) const { return std::norm(x[i] - x[j]); }
  double ward_initial(t_index i, t_index j) const { return std::norm(x[i] - x[j]); }
  static double ward_initial_conversion(double squared) { return squared / 2; }
  double ward(t_index i, t_index j) const { return (*this)(i, j) / (1 / members[i] + 1 / members[j]); }
  void merge_inplace_weighted(t_index, t_index) {} // for the method of medians alone
  void merge_inplace(t_index i, t_index j) {
    x[j] = (x[i] * members[i] + x[j] * members[j]) / (members[i] + members[j]);
    members[j] += members[i];
  }
};

// Prints how many merges join two groups, and returns the sum of all heights.
static double report(const char *name, const cluster_result &result) {
  std::vector<int> group;
  for (int i = 0; i < POINTS; i++)
    group.push_back(i % GROUPS);
  int mixed = 0;
  double height = 0;
  for (const node *merge = result[0]; merge != result[POINTS - 1]; merge++) {
    mixed += group[merge->node1] != group[merge->node2];
    group.push_back(group[merge->node2]); // some methods number merged points from POINTS
    height += merge->dist;
  }
  std::printf("%s: %d merges of groups, height %ld\n", name, mixed, std::lround(height));
  return height;
}

template <typename Method> static double run(const char *name, std::vector<double> distances, Method method) {
  std::vector<t_index> members(POINTS, 1);
  cluster_result result(POINTS - 1);
  method(POINTS, distances.data(), members.data(), result);
  return report(name, result);
}

int main() {
  static Points points;
  std::vector<double> squares;
  for (int i = 0; i < POINTS; i++)
    for (int j = i + 1; j < POINTS; j++)
      squares.push_back(points(i, j));
  const auto single = [](t_index n, double *d, t_index *, cluster_result &result) { MST_linkage_core(n, d, result); };
  double gap = run("single", squares, single);
  run("complete", squares, NN_chain_core<METHOD_METR_COMPLETE, t_index>);
  run("average", squares, NN_chain_core<METHOD_METR_AVERAGE, t_index>);
  run("weighted", squares, NN_chain_core<METHOD_METR_WEIGHTED, t_index>);
  double ward_gap = run("Ward", squares, NN_chain_core<METHOD_METR_WARD, t_index>);
  run("centroid", squares, generic_linkage<METHOD_METR_CENTROID, t_index>);
  run("median", squares, generic_linkage<METHOD_METR_MEDIAN, t_index>);
  cluster_result tree(POINTS - 1), merges(POINTS - 1);
  MST_linkage_core_vector(POINTS, points, tree);
  gap -= report("single, vectors", tree);
  generic_linkage_vector<METHOD_VECTOR_WARD>(POINTS, points, merges);
  ward_gap -= 2 * report("half of Ward, vectors", merges);
  return std::fabs(gap) > 0.001 || std::fabs(ward_gap) > 0.001;
}
