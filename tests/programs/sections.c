const int table[40] = {1, 2, 3};
const char *const names[] = {"one", "two", "three"};
int initialised[10] = {4, 5, 6};
int zeros[100];
static int twice(int x) { return x * 2; }
__attribute__((section(".text.unlikely"))) int rarely(int x) { return zeros[x & 31] + twice(x); }
int often(int x) { return table[x & 31] + initialised[x & 7] + twice(x) + names[x & 1][0]; }
