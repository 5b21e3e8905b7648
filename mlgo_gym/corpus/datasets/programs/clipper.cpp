// Combines generated polygons by all four operations, offsets the results, and simplifies them.
#include <clipper.hpp>
#include <cstdio>

#include "../workload.h"

using namespace ClipperLib;

static Path make_polygon(cInt x, cInt y, int corners) {
  Path path;
  for (int i = 0; i < corners; i++)
    path << IntPoint(x + (cInt)draw(4000), y + (cInt)draw(4000));
  return path;
}

static void report(const char *name, const Paths &paths) {
  double area = 0;
  unsigned long points = 0;
  for (const Path &path : paths) {
    area += Area(path);
    points += path.size();
  }
  // Integers are printed the same where an emulator has no long double.
  std::printf("%s: %zu paths, %lu points, area %ld\n", name, paths.size(), points, (long)area / 1000);
}

int main() {
  static const char *const names[] = {"intersection", "union", "difference", "xor"};
  for (int round = 0; round < 3; round++) {
    Paths first, second;
    for (int i = 0; i < 40; i++) {
      first.push_back(make_polygon(draw(20000), draw(20000), 12));
      second.push_back(make_polygon(draw(20000), draw(20000), 9));
    }
    for (int operation = 0; operation < 4; operation++) {
      Clipper clipper;
      Paths result;
      clipper.AddPaths(first, ptSubject, true);
      clipper.AddPaths(second, ptClip, true);
      clipper.Execute((ClipType)operation, result, pftEvenOdd, pftNonZero);
      report(names[operation], result);
      ClipperOffset offset;
      Paths grown;
      offset.AddPaths(result, jtRound, etClosedPolygon);
      offset.Execute(grown, 40.0);
      CleanPolygons(grown);
      report("grown", grown);
    }
  }
  return 0;
}
