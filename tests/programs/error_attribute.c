// Compiles only if both calls are inlined, which removes the call of `bad`.
__attribute__((error("x"))) void bad(void);
extern unsigned s;
static unsigned p(unsigned n) {
  if (n & 3)
    bad();
  s += n;
  s ^= n << 3;
  return s / n;
}
unsigned a(void) { return p(4); }
unsigned b(void) { return p(8); }
