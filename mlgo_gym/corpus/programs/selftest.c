/* Repeats the self-test of one builtin program as often as its argument requests, and prints the number of errors. */

int atoi(const char *);
int printf(const char *, ...);
int SELFTEST(void);

/* A C++ program refers to this function of its library, which is not linked. */
void __cxa_pure_virtual(void) { __builtin_trap(); }

int main(int count, char **words) {
  int errors = 0;
  for (int repetition = count > 1 ? atoi(words[1]) : 1; repetition > 0; repetition--)
    errors += SELFTEST() != 0;
  printf("%d\n", errors);
  return 0;
}
