// Builds a graph of near neighbours over clustered points, searches it, and counts exact answers.
#include <cstdio>
#include <hnswlib/hnswlib.h>

#include "../workload.h"

enum { DIMENSIONS = 12, POINTS = 1500, QUERIES = 500, NEIGHBOURS = 5 };

int main() {
  static float points[POINTS][DIMENSIONS];
  hnswlib::L2Space space(DIMENSIONS);
  hnswlib::HierarchicalNSW<float> graph(&space, POINTS, 8, 40, 11);
  hnswlib::BruteforceSearch<float> exact(&space, POINTS);
  for (size_t item = 0; item < POINTS; item++) {
    unsigned cluster = draw(30);
    for (unsigned i = 0; i < DIMENSIONS; i++)
      points[item][i] = (float)((cluster * 11 + i * 5) % 32) + (float)draw(4096) / 1024.0f;
    graph.addPoint(points[item], item);
    exact.addPoint(points[item], item);
  }
  for (size_t item = 0; item < POINTS; item += 50)
    graph.markDelete(item);
  graph.setEf(30);
  int same = 0, sorted = 0;
  for (int query = 0; query < QUERIES; query++) {
    auto near = graph.searchKnnCloserFirst(points[(query * 7 + 1) % POINTS], NEIGHBOURS);
    auto right = exact.searchKnnCloserFirst(points[(query * 7 + 1) % POINTS], NEIGHBOURS);
    same += near[0].second == right[0].second;
    sorted += near.front().first <= near.back().first;
  }
  std::printf("%zu points, %d of %d nearest found, %d sorted\n", graph.getCurrentElementCount(), same, QUERIES, sorted);
  return 0;
}
