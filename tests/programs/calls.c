static int scale(int x, int y) { return x * 3 + y; }
static int clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
static int mix(int x, int y) { return clamp(scale(x, y), y, x + y) ^ scale(y, x); }
int first(int x, int y) { return mix(x, y) + clamp(x, 0, 9); }
int second(int x, int y) { return mix(y, x) - scale(x, 7); }
int third(int *p, int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += clamp(p[i], -n, n) + scale(sum, i);
  return sum;
}
