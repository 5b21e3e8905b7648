#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17)
#define LOAD(N) long v##N = p[N];
#define STORE(N) p[N] = v##N + 1;
#define MIX(N) v##N = v##N * 3 + p[N] + n;
#define ADD(N) + v##N

long straight(volatile long *p) {
  EACH(LOAD)
  p[20] = 0 EACH(ADD);
  EACH(STORE)
  return v0;
}

long looping(volatile long *p, long n) {
  EACH(LOAD)
  for (long i = 0; i < n; i++) {
    EACH(MIX)
    p[20] = 0 EACH(ADD);
  }
  EACH(STORE)
  return v3;
}

long easy(volatile long *p) { return p[0] + p[1]; }
