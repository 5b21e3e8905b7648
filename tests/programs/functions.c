/* Functions of every kind that an object has symbols for: plain, static, cold, in sections of their own, aliases. */
static __attribute__((noinline)) int twice(int x) { return x * 2 + (x >> 3); }
__attribute__((section(".text.elsewhere"))) int elsewhere(int x) { return twice(x) + 1; }
__attribute__((cold)) int rarely(int x) { return twice(x) - 7; }
__attribute__((aligned(64))) int aligned(int x) { return twice(x) ^ x; }
int original(int x) { return twice(x) * 3; }
int another_name(int x) __attribute__((alias("original")));
static int third_name(int x) __attribute__((alias("original")));
int (*pointer)(int) = third_name;
__asm__(".text\n.globl unsized\nunsized:\n.byte 1, 2, 3, 4\n");
