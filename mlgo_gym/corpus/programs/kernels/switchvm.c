/* Two interpreters built on one big switch: a register machine with 67 opcodes, and a stack machine that caches its
   two topmost values and twelve variables in locals. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* An instruction is opcode | a << 8 | b << 16 | c << 24; c, or b and c together, may be an immediate. */
enum {
    HALT, NOP, MOVE, SET, SET_HIGH, SWAP, ADD, SUB, MUL, DIV, MOD, NEG, ADD_I, SUB_I, MUL_I, AND, OR, XOR, NOT, AND_I,
    OR_I, XOR_I, SHL, SHR, SAR, SHL_I, SHR_I, SAR_I, ROL, ROR, MIN, MAX, ABS, CLAMP, SELECT, POPCOUNT, LEADING,
    TRAILING, REVERSE, MULTIPLY_ADD, MULTIPLY_HIGH, LESS, LESS_U, EQUAL, LESS_I, EQUAL_I, JUMP, JUMP_ZERO,
    JUMP_NOT_ZERO, JUMP_LESS, JUMP_LESS_U, JUMP_EQUAL, JUMP_NOT_EQUAL, LOOP, CALL, RETURN, PUSH, POP, LOAD, STORE,
    LOAD_BYTE, STORE_BYTE, SORT_4, MATRIX, MIX, DIGEST, OUT
};

typedef enum { VM_OK, VM_BUDGET, VM_BAD_OPCODE, VM_BAD_ADDRESS, VM_STACK, VM_DIVISION } switchvm_status;

typedef struct {
    int64_t r[16];
    int64_t memory[256];
    int64_t stack[64];
    int64_t output[16];
    size_t outputs;
    uint64_t digest, steps;
} switchvm_machine;

#define OP3(op, a, b, c) ((uint32_t)(op) | (uint32_t)(a) << 8 | (uint32_t)(b) << 16 | (uint32_t)(uint8_t)(c) << 24)
#define OPI(op, a, imm) ((uint32_t)(op) | (uint32_t)(a) << 8 | (uint32_t)(uint16_t)(imm) << 16)

#define A r[word >> 8 & 15]
#define B r[word >> 16 & 15]
#define C r[word >> 24 & 15]
#define IMM8 ((int64_t)(int8_t)(word >> 24))
#define IMM16 ((int64_t)(int16_t)(word >> 16))
#define WRAP(x, op, y) ((int64_t)((uint64_t)(x)op(uint64_t)(y)))
#define NEED(condition, otherwise)                                                                                     \
    if (!(condition)) {                                                                                                \
        status = otherwise;                                                                                            \
        goto done;                                                                                                     \
    }
#define BRANCH(condition, offset) ((condition) ? (taken++, pc += offset) : 0)
#define ORDER(x, y) (low = x < y ? x : y, y = x < y ? y : x, x = low)
#define DOT3(a, b, c, d, e, f) WRAP(WRAP(a, *, b), +, WRAP(WRAP(c, *, d), +, WRAP(e, *, f)))

static int64_t multiply_high(int64_t x, int64_t y) {
    int64_t xh = x >> 32, yh = y >> 32, xl = x & 0xffffffff, yl = y & 0xffffffff;
    uint64_t low = (uint64_t)xl * (uint64_t)yl;
    int64_t m = xh * yl + (int64_t)(low >> 32), n = xl * yh + (m & 0xffffffff);
    return xh * yh + (m >> 32) + (n >> 32);
}

static uint64_t reverse_bits(uint64_t v) {
    uint64_t mask = ~0ull;
    for (int half = 32; half; half /= 2) {
        mask ^= mask << half;
        v = (v >> half & mask) | (v & mask) << half;
    }
    return v;
}

static int64_t count_bits(uint64_t v) {
    int64_t n = 0;
    for (; v; v &= v - 1)
        n++;
    return n;
}

static int64_t leading_zeros(uint64_t v) {
    int64_t n = 64;
    for (; v; v >>= 1)
        n--;
    return n;
}

switchvm_status switchvm_run(switchvm_machine *vm, const uint32_t *code, size_t length, uint64_t budget) {
    int64_t *r = vm->r, *memory = vm->memory, *stack = vm->stack, *output = vm->output;
    uint8_t *bytes = (uint8_t *)vm->memory;
    size_t pc = 0, sp = 0, outputs = vm->outputs;
    uint64_t steps = vm->steps, limit = steps + budget, digest = vm->digest, taken = 0;
    switchvm_status status = VM_OK;
    for (;;) {
        NEED(pc < length, VM_BAD_ADDRESS);
        NEED(steps++ != limit, VM_BUDGET);
        uint32_t word = code[pc++];
        switch (word & 255) {
        case HALT: goto done;
        case NOP: break;
        case MOVE: A = B; break;
        case SET: A = IMM16; break;
        case SET_HIGH: A = WRAP(A, <<, 16) | (word >> 16); break;
        case SWAP: { int64_t t = A; A = B; B = t; break; }
        case ADD: A = WRAP(B, +, C); break;
        case SUB: A = WRAP(B, -, C); break;
        case MUL: A = WRAP(B, *, C); break;
        case DIV: NEED(C != 0, VM_DIVISION); A = C == -1 ? WRAP(0, -, B) : B / C; break;
        case MOD: NEED(C != 0, VM_DIVISION); A = C == -1 ? 0 : B % C; break;
        case NEG: A = WRAP(0, -, B); break;
        case ADD_I: A = WRAP(B, +, IMM8); break;
        case SUB_I: A = WRAP(B, -, IMM8); break;
        case MUL_I: A = WRAP(B, *, IMM8); break;
        case AND: A = B & C; break;
        case OR: A = B | C; break;
        case XOR: A = B ^ C; break;
        case NOT: A = ~B; break;
        case AND_I: A = B & IMM8; break;
        case OR_I: A = B | IMM8; break;
        case XOR_I: A = B ^ IMM8; break;
        case SHL: A = WRAP(B, <<, C & 63); break;
        case SHR: A = WRAP(B, >>, C & 63); break;
        case SAR: A = B >> (C & 63); break;
        case SHL_I: A = WRAP(B, <<, IMM8 & 63); break;
        case SHR_I: A = WRAP(B, >>, IMM8 & 63); break;
        case SAR_I: A = B >> (IMM8 & 63); break;
        case ROL: A = WRAP(B, <<, C & 63) | WRAP(B, >>, -C & 63); break;
        case ROR: A = WRAP(B, >>, C & 63) | WRAP(B, <<, -C & 63); break;
        case MIN: A = B < C ? B : C; break;
        case MAX: A = B > C ? B : C; break;
        case ABS: A = B < 0 ? WRAP(0, -, B) : B; break;
        case CLAMP: A = A < B ? B : A > C ? C : A; break;
        case SELECT: A = A ? B : C; break;
        case POPCOUNT: A = count_bits((uint64_t)B); break;
        case LEADING: A = leading_zeros((uint64_t)B); break;
        case TRAILING: A = count_bits(~(uint64_t)B & (uint64_t)WRAP(B, -, 1)); break;
        case REVERSE: A = (int64_t)reverse_bits((uint64_t)B); break;
        case MULTIPLY_ADD: A = WRAP(A, +, WRAP(B, *, C)); break;
        case MULTIPLY_HIGH: A = multiply_high(B, C); break;
        case LESS: A = B < C; break;
        case LESS_U: A = (uint64_t)B < (uint64_t)C; break;
        case EQUAL: A = B == C; break;
        case LESS_I: A = B < IMM8; break;
        case EQUAL_I: A = B == IMM8; break;
        case JUMP: taken++, pc += (size_t)IMM16; break;
        case JUMP_ZERO: BRANCH(A == 0, (size_t)IMM16); break;
        case JUMP_NOT_ZERO: BRANCH(A != 0, (size_t)IMM16); break;
        case JUMP_LESS: BRANCH(A < B, (size_t)IMM8); break;
        case JUMP_LESS_U: BRANCH((uint64_t)A < (uint64_t)B, (size_t)IMM8); break;
        case JUMP_EQUAL: BRANCH(A == B, (size_t)IMM8); break;
        case JUMP_NOT_EQUAL: BRANCH(A != B, (size_t)IMM8); break;
        case LOOP: A = WRAP(A, -, 1); BRANCH(A != 0, (size_t)IMM16); break;
        case CALL: NEED(sp < 64, VM_STACK); stack[sp++] = (int64_t)pc, pc += (size_t)IMM16; break;
        case RETURN: NEED(sp > 0, VM_STACK); pc = (size_t)stack[--sp]; break;
        case PUSH: NEED(sp < 64, VM_STACK); stack[sp++] = A; break;
        case POP: NEED(sp > 0, VM_STACK); A = stack[--sp]; break;
        case LOAD: A = memory[WRAP(B, +, IMM8) & 255]; break;
        case STORE: memory[WRAP(B, +, IMM8) & 255] = A; break;
        case LOAD_BYTE: A = bytes[WRAP(B, +, IMM8) & 2047]; break;
        case STORE_BYTE: bytes[WRAP(B, +, IMM8) & 2047] = (uint8_t)A; break;
        case SORT_4: {
            int64_t *p = memory + (A & 252), a = p[0], b = p[1], c = p[2], d = p[3], low;
            ORDER(a, b), ORDER(c, d), ORDER(a, c), ORDER(b, d), ORDER(b, c);
            p[0] = a, p[1] = b, p[2] = c, p[3] = d;
            break;
        }
        case MATRIX: { /* 3x3 by 3x3 */
            const int64_t *x = memory + (B & 127), *y = memory + (C & 127);
            int64_t *out = memory + 128 + (A & 63), y0 = y[0], y1 = y[1], y2 = y[2], y3 = y[3], y4 = y[4], y5 = y[5];
            int64_t y6 = y[6], y7 = y[7], y8 = y[8];
            for (int i = 0; i < 9; i += 3) {
                int64_t x0 = x[i], x1 = x[i + 1], x2 = x[i + 2];
                out[i] = DOT3(x0, y0, x1, y3, x2, y6);
                out[i + 1] = DOT3(x0, y1, x1, y4, x2, y7);
                out[i + 2] = DOT3(x0, y2, x1, y5, x2, y8);
            }
            break;
        }
        case MIX: digest = (digest ^ (uint64_t)A ^ taken << 48) * 0x9e3779b97f4a7c15ull, digest ^= digest >> 29; break;
        case DIGEST: A = (int64_t)digest; break;
        case OUT: output[outputs++ & 15] = A; break;
        default: NEED(false, VM_BAD_OPCODE);
        }
    }
done:
    vm->steps = steps, vm->digest = digest, vm->outputs = outputs;
    return status;
}

/* The stack machine: one byte per opcode, PUSH and the jumps carry one signed byte. The two topmost values are t and u,
   variables 0 to 11 are v0 to v11. */
enum {
    S_END, S_PUSH, S_DUP, S_DROP, S_SWAP, S_OVER, S_ROTATE, S_ADD, S_SUB, S_MUL, S_DIV, S_AND, S_OR, S_XOR, S_SHL,
    S_SHR, S_NEG, S_NOT, S_LESS, S_EQUAL, S_ZERO, S_INC, S_DEC, S_JUMP, S_JUMP_ZERO, S_LOAD, S_STORE, S_GET,
    S_PUT = S_GET + 12, S_ADD_TO = S_PUT + 12, S_STEP = S_ADD_TO + 12, S_HASH = S_STEP + 12, S_DOT, S_ROUND
};

#define GROW(value)                                                                                                    \
    do {                                                                                                               \
        int64_t pushed = (value);                                                                                      \
        if (sp == 32)                                                                                                  \
            return VM_STACK;                                                                                           \
        cells[sp++] = u, u = t, t = pushed;                                                                            \
    } while (0)
#define SHRINK(value)                                                                                                  \
    do {                                                                                                               \
        int64_t kept = (value);                                                                                        \
        if (sp == 0)                                                                                                   \
            return VM_STACK;                                                                                           \
        t = kept, u = cells[--sp];                                                                                     \
    } while (0)
#define STIR(a, b, c, d) (a = WRAP(a, +, b) ^ d, c = WRAP(c, +, d) ^ a, b = WRAP(b, *, 5) ^ c, d = WRAP(d, -, a) ^ b)
#define VARIABLE(n)                                                                                                    \
    case S_GET + n: GROW(v##n); break;                                                                                 \
    case S_PUT + n: v##n = t; SHRINK(u); break;                                                                        \
    case S_ADD_TO + n: v##n = WRAP(v##n, +, t); SHRINK(u); break;                                                      \
    case S_STEP + n: v##n = WRAP(v##n, +, 1); break

switchvm_status switchvm_run_stack(const uint8_t *code, size_t length, int64_t memory[64], int64_t variables[12],
                                   uint64_t budget, int64_t *result) {
    int64_t cells[32], t = 0, u = 0;
    int64_t v0 = variables[0], v1 = variables[1], v2 = variables[2], v3 = variables[3];
    int64_t v4 = variables[4], v5 = variables[5], v6 = variables[6], v7 = variables[7];
    int64_t v8 = variables[8], v9 = variables[9], v10 = variables[10], v11 = variables[11];
    size_t pc = 0, sp = 0;
    for (; budget; budget--) {
        if (pc >= length)
            return VM_BAD_ADDRESS;
        switch (code[pc++]) {
        case S_END:
            variables[0] = v0, variables[1] = v1, variables[2] = v2, variables[3] = v3;
            variables[4] = v4, variables[5] = v5, variables[6] = v6, variables[7] = v7;
            variables[8] = v8, variables[9] = v9, variables[10] = v10, variables[11] = v11;
            *result = t;
            return VM_OK;
        case S_PUSH: GROW((int8_t)(pc < length ? code[pc] : 0)); pc++; break;
        case S_DUP: GROW(t); break;
        case S_DROP: SHRINK(u); break;
        case S_SWAP: { int64_t old = t; t = u, u = old; break; }
        case S_OVER: GROW(u); break;
        case S_ROTATE: {
            if (sp == 0)
                return VM_STACK;
            int64_t third = cells[sp - 1];
            cells[sp - 1] = u, u = t, t = third;
            break;
        }
        case S_ADD: SHRINK(WRAP(u, +, t)); break;
        case S_SUB: SHRINK(WRAP(u, -, t)); break;
        case S_MUL: SHRINK(WRAP(u, *, t)); break;
        case S_DIV:
            if (t == 0)
                return VM_DIVISION;
            SHRINK(t == -1 ? WRAP(0, -, u) : u / t);
            break;
        case S_AND: SHRINK(u & t); break;
        case S_OR: SHRINK(u | t); break;
        case S_XOR: SHRINK(u ^ t); break;
        case S_SHL: SHRINK(WRAP(u, <<, t & 63)); break;
        case S_SHR: SHRINK(u >> (t & 63)); break;
        case S_NEG: t = WRAP(0, -, t); break;
        case S_NOT: t = ~t; break;
        case S_LESS: SHRINK(u < t); break;
        case S_EQUAL: SHRINK(u == t); break;
        case S_ZERO: t = t == 0; break;
        case S_INC: t = WRAP(t, +, 1); break;
        case S_DEC: t = WRAP(t, -, 1); break;
        case S_JUMP: pc = pc < length ? pc + 1 + (size_t)(int8_t)code[pc] : pc; break;
        case S_JUMP_ZERO: {
            bool zero = t == 0;
            SHRINK(u);
            pc = pc < length && zero ? pc + 1 + (size_t)(int8_t)code[pc] : pc + 1;
            break;
        }
        case S_LOAD: t = memory[t & 63]; break;
        case S_STORE: memory[t & 63] = u; SHRINK(u); break;
        VARIABLE(0);
        VARIABLE(1);
        VARIABLE(2);
        VARIABLE(3);
        VARIABLE(4);
        VARIABLE(5);
        VARIABLE(6);
        VARIABLE(7);
        VARIABLE(8);
        VARIABLE(9);
        VARIABLE(10);
        VARIABLE(11);
        case S_HASH: {
            uint64_t h = (uint64_t)v0 * 3 + (uint64_t)v1 * 5 + (uint64_t)v2 * 7 + (uint64_t)v3 * 11;
            h ^= (uint64_t)v4 * 13 + (uint64_t)v5 * 17 + (uint64_t)v6 * 19 + (uint64_t)v7 * 23;
            h += (uint64_t)v8 * 29 + (uint64_t)v9 * 31 + (uint64_t)v10 * 37 + (uint64_t)v11 * 41;
            GROW((int64_t)(h * 0x9e3779b97f4a7c15ull));
            break;
        }
        case S_DOT:
            GROW((int64_t)((uint64_t)v0 * (uint64_t)v4 + (uint64_t)v1 * (uint64_t)v5 + (uint64_t)v2 * (uint64_t)v6 +
                           (uint64_t)v3 * (uint64_t)v7));
            break;
        case S_ROUND:
            STIR(v0, v3, v6, v9), STIR(v1, v4, v7, v10), STIR(v2, v5, v8, v11);
            break;
        default: return VM_BAD_OPCODE;
        }
    }
    return VM_BUDGET;
}

int switchvm_selftest(void) {
    static switchvm_machine vm;
    /* The sieve of Eratosthenes up to 255, and the number and sum of the primes. */
    static const uint32_t sieve[] = {
        OPI(SET, 0, 2), OPI(SET, 1, 255), OPI(SET, 4, 0), OPI(SET, 5, 0),
        OP3(LOAD, 2, 0, 0), OPI(JUMP_NOT_ZERO, 2, 8), OP3(ADD_I, 4, 4, 1), OP3(ADD, 5, 5, 0),
        OP3(MUL, 3, 0, 0), OP3(JUMP_LESS, 1, 3, 4), OP3(STORE, 0, 3, 0), OP3(ADD, 3, 3, 0), OP3(JUMP_LESS, 3, 1, -3),
        OP3(JUMP_EQUAL, 3, 1, -4), OP3(ADD_I, 0, 0, 1), OP3(JUMP_LESS, 0, 1, -12), OPI(OUT, 4, 0), OPI(OUT, 5, 0),
        OPI(HALT, 0, 0)};
    if (switchvm_run(&vm, sieve, sizeof sieve / sizeof sieve[0], 100000) != VM_OK)
        return 1;
    if (vm.outputs != 2 || vm.output[0] != 54 || vm.output[1] != 6081)
        return 2;
    /* Factorial by recursion: r0 = n in, r1 = result. */
    static const uint32_t factorial[] = {
        OPI(SET, 0, 15), OPI(CALL, 0, 2), OPI(OUT, 1, 0), OPI(HALT, 0, 0),
        OPI(JUMP_NOT_ZERO, 0, 2), OPI(SET, 1, 1), OPI(RETURN, 0, 0),
        OPI(PUSH, 0, 0), OP3(SUB_I, 0, 0, 1), OPI(CALL, 0, -6), OPI(POP, 0, 0), OP3(MUL, 1, 1, 0), OPI(RETURN, 0, 0)};
    if (switchvm_run(&vm, factorial, sizeof factorial / sizeof factorial[0], 1000) != VM_OK ||
        vm.output[2] != 1307674368000)
        return 3;
    static const uint32_t bits[] = {
        OPI(SET, 1, -2), OPI(SET_HIGH, 1, 0x1234), OP3(POPCOUNT, 2, 1, 0), OP3(REVERSE, 3, 1, 0), OP3(REVERSE, 3, 3, 0),
        OP3(EQUAL, 4, 1, 3), OP3(LEADING, 5, 2, 0), OP3(TRAILING, 6, 1, 0), OP3(MULTIPLY_HIGH, 7, 1, 1),
        OP3(ROL, 8, 1, 6), OP3(ROR, 8, 8, 6), OP3(SUB, 8, 8, 1), OPI(MIX, 8, 0), OPI(DIGEST, 9, 0), OPI(HALT, 0, 0)};
    if (switchvm_run(&vm, bits, sizeof bits / sizeof bits[0], 1000) != VM_OK)
        return 4;
    if (vm.r[2] != 52 || vm.r[4] != 1 || vm.r[5] != 58 || vm.r[6] != 2 || vm.r[7] != 0 || vm.r[8] != 0)
        return 5;
    static const uint32_t endless[] = {OPI(JUMP, 0, -1)}, broken[] = {255}, divide[] = {OP3(DIV, 0, 0, 15)};
    vm.r[15] = 0;
    if (switchvm_run(&vm, endless, 1, 50) != VM_BUDGET || switchvm_run(&vm, broken, 1, 50) != VM_BAD_OPCODE)
        return 6;
    if (switchvm_run(&vm, divide, 1, 50) != VM_DIVISION || switchvm_run(&vm, divide, 0, 50) != VM_BAD_ADDRESS)
        return 7;
    /* The sum of the squares below v1 in v2, then the dot product of the variables. */
    static const uint8_t squares[] = {S_GET + 0, S_GET + 1, S_LESS, S_JUMP_ZERO, 7, S_GET + 0, S_DUP, S_MUL,
                                      S_ADD_TO + 2, S_STEP + 0, S_JUMP, (uint8_t)-12, S_DOT, S_END};
    int64_t variables[12] = {0, 100, 0, 1, 2, 3, 4, 5}, cells[64] = {0}, result = 0;
    if (switchvm_run_stack(squares, sizeof squares, cells, variables, 10000, &result) != VM_OK)
        return 8;
    if (variables[2] != 328350 || result != 100 * 2 + 100 * 3 + 328350 * 4 + 5)
        return 9;
    static const uint32_t arrays[] = {OPI(SET, 0, 0), OPI(SET, 1, 16), OP3(MATRIX, 0, 0, 1), OPI(SORT_4, 0, 0),
                                      OPI(HALT, 0, 0)};
    for (int i = 0; i < 25; i++)
        vm.memory[i] = 25 - i;
    if (switchvm_run(&vm, arrays, 5, 50) != VM_OK || vm.memory[0] != 22 || vm.memory[3] != 25)
        return 10;
    if (vm.memory[128] != 25 * 9 + 24 * 6 + 23 * 3 || vm.memory[136] != 19 * 7 + 18 * 4 + 17)
        return 11;
    static const uint8_t underflow[] = {S_ADD, S_END};
    return switchvm_run_stack(underflow, 2, cells, variables, 10, &result) == VM_STACK ? 0 : 12;
}
