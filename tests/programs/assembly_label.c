// Compiles only if at most one call is inlined: a second copy of the assembly defines its name again.
#ifndef DEFINITION
#define DEFINITION "my_label: nop"
#endif
int s;
static void once(int n) {
  s += n * 3;
  __asm__ volatile(DEFINITION);
  for (int i = 0; i < n; i++) {
    s ^= n;
    s *= n + i;
    s += n * 5;
    s ^= n << 3;
    s /= n + 3;
    s %= n + 7;
  }
}
void a(int k) { once(k); }
void b(void) { once(s); }
