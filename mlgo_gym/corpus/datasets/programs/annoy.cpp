// Builds forests of random projections over clustered points, and finds approximate neighbours.
#include <annoylib.h>
#include <cstdio>
#include <kissrandom.h>

#include "../workload.h"

using namespace Annoy;

enum { DIMENSIONS = 16, POINTS = 1200, QUERIES = 300, NEIGHBOURS = 10 };

template <typename Distance> static void run(const char *name) {
  AnnoyIndex<int, float, Distance, Kiss32Random, AnnoyIndexSingleThreadedBuildPolicy> index(DIMENSIONS);
  index.set_seed(7);
  float point[DIMENSIONS];
  for (int item = 0; item < POINTS; item++) {
    unsigned cluster = draw(20);
    for (unsigned i = 0; i < DIMENSIONS; i++)
      point[i] = (float)((cluster * 7 + i * 13) % 20) + (float)draw(1024) / 512.0f;
    index.add_item(item, point);
  }
  index.build(12, 1);
  long same = 0;
  for (int query = 0; query < QUERIES; query++) {
    std::vector<int> items;
    std::vector<float> distances;
    index.get_nns_by_item(query, NEIGHBOURS, 400, &items, &distances);
    same += !items.empty() && distances[0] <= distances.back();
  }
  std::printf("%s: %d items, %d trees, %ld sorted answers\n", name, (int)index.get_n_items(), (int)index.get_n_trees(), same);
}

int main() {
  run<Euclidean>("Euclidean");
  run<Manhattan>("Manhattan");
  run<Angular>("angular");
  return 0;
}
