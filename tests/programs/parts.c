// Clang's own choices are best for one of these functions, and no inlining for the others.
int folds(const int *v) {
  int sum = 0;
  for (int i = 0; i < 6; i++)
    sum += v[i] % 7 * (v[i] ^ 5) + (v[i] >> 3 | 9);
  return sum;
}

int zero(void) {
  int v[6] = {1, 2, 3, 4, 5, 6};
  return folds(v);
}

int grows(int x, int y) { return (x % 5 ^ y) * (y - x) + (y >> 3) % 1001 - (x << 2 ^ y * 12345) * (x | 77); }

int first(int x) { return grows(x, x + 1) + 1; }
int second(int x) { return grows(x + 2, x); }
int third(int x) { return grows(x, -x) * 5; }
