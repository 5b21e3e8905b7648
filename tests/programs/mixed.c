static int fold(int a, int b) {
  int r = 0;
  for (int i = 0; i < a; i++) r += i * b ^ (r >> 3);
  return r;
}
static int spread(int a, int b, int c) { return fold(a, b) + fold(c, a) * fold(b, c); }
int calls(int a) { return spread(a, a + 1, a ^ 5) + fold(a, 3); }
int twice(int a) { return calls(a) + spread(a + 1, 2, a); }
int crowd(int *p, int n) {
  int a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7, i = 8, j = 9, k = 10, l = 11, m = 12, o = 13, q = 14;
  for (int at = 0; at < n; at++) {
    a += p[at] * b; b ^= c + p[at + 1]; c += d * a; d -= e; e += f ^ b; f += g; g *= h; h += i;
    i ^= j; j += k; k -= l; l += m * a; m += o; o ^= q; q += a;
  }
  return a + b + c + d + e + f + g + h + i + j + k + l + m + o + q + fold(a, b);
}
