/* A stack machine: a two-pass text assembler, a verifier, a disassembler and an interpreter with calls and locals. */
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    OP_HALT, OP_PUSH, OP_POP, OP_DUP, OP_SWAP, OP_OVER, OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MOD, OP_NEG, OP_AND, OP_OR,
    OP_XOR, OP_NOT, OP_SHL, OP_SHR, OP_EQ, OP_LT, OP_LE, OP_JMP, OP_JZ, OP_JNZ, OP_CALL, OP_RET, OP_LOAD, OP_STORE,
    OP_PEEK, OP_POKE, OP_PRINT, OP_COUNT
} opcode;

typedef enum { ARG_NONE, ARG_IMM, ARG_LABEL, ARG_LOCAL } arg_kind;

typedef struct {
    const char *name;
    arg_kind arg;
    uint8_t pops;
    uint8_t pushes;
} op_info;

static const op_info ops[OP_COUNT] = {
    [OP_HALT] = {"halt", ARG_NONE, 0, 0},  [OP_PUSH] = {"push", ARG_IMM, 0, 1},    [OP_POP] = {"pop", ARG_NONE, 1, 0},
    [OP_DUP] = {"dup", ARG_NONE, 1, 2},    [OP_SWAP] = {"swap", ARG_NONE, 2, 2},   [OP_OVER] = {"over", ARG_NONE, 2, 3},
    [OP_ADD] = {"add", ARG_NONE, 2, 1},    [OP_SUB] = {"sub", ARG_NONE, 2, 1},     [OP_MUL] = {"mul", ARG_NONE, 2, 1},
    [OP_DIV] = {"div", ARG_NONE, 2, 1},    [OP_MOD] = {"mod", ARG_NONE, 2, 1},     [OP_NEG] = {"neg", ARG_NONE, 1, 1},
    [OP_AND] = {"and", ARG_NONE, 2, 1},    [OP_OR] = {"or", ARG_NONE, 2, 1},       [OP_XOR] = {"xor", ARG_NONE, 2, 1},
    [OP_NOT] = {"not", ARG_NONE, 1, 1},    [OP_SHL] = {"shl", ARG_NONE, 2, 1},     [OP_SHR] = {"shr", ARG_NONE, 2, 1},
    [OP_EQ] = {"eq", ARG_NONE, 2, 1},      [OP_LT] = {"lt", ARG_NONE, 2, 1},       [OP_LE] = {"le", ARG_NONE, 2, 1},
    [OP_JMP] = {"jmp", ARG_LABEL, 0, 0},   [OP_JZ] = {"jz", ARG_LABEL, 1, 0},      [OP_JNZ] = {"jnz", ARG_LABEL, 1, 0},
    [OP_CALL] = {"call", ARG_LABEL, 0, 0}, [OP_RET] = {"ret", ARG_NONE, 0, 0},     [OP_LOAD] = {"load", ARG_LOCAL, 0, 1},
    [OP_STORE] = {"store", ARG_LOCAL, 1, 0}, [OP_PEEK] = {"peek", ARG_NONE, 1, 1}, [OP_POKE] = {"poke", ARG_NONE, 2, 0},
    [OP_PRINT] = {"print", ARG_NONE, 1, 0},
};

enum { MAX_CODE = 4096, MAX_LABELS = 64, MAX_FIXUPS = 128, NAME_LEN = 24, STACK_SIZE = 256, FRAMES = 64, LOCALS = 16, MEMORY = 256 };

typedef struct {
    uint8_t code[MAX_CODE];
    size_t size;
} program;

typedef struct {
    char name[NAME_LEN];
    size_t where;
    int line;
} symbol;

typedef struct {
    const char *cur;
    int line;
    const char *error;
    program *out;
    symbol labels[MAX_LABELS];
    size_t label_count;
    symbol fixups[MAX_FIXUPS];
    size_t fixup_count;
} assembler;

typedef enum { VM_RUNNING, VM_HALTED, VM_UNDERFLOW, VM_OVERFLOW, VM_DIV_ZERO, VM_BAD_OP, VM_BAD_ADDRESS, VM_TIMEOUT } vm_status;

typedef struct {
    size_t return_to;
    int32_t locals[LOCALS];
} frame;

typedef struct vm {
    const program *prog;
    size_t pc;
    vm_status status;
    int32_t stack[STACK_SIZE];
    int depth;
    frame frames[FRAMES];
    int frame_count;
    int32_t memory[MEMORY];
    char output[512];
    size_t output_len;
} vm;

int bytecode_selftest(void);

/* ---- code bytes ---- */

static bool has_operand(opcode op) { return ops[op].arg != ARG_NONE; }
static size_t operand_size(opcode op) { return ops[op].arg == ARG_LOCAL ? 1 : has_operand(op) ? 4 : 0; }
static size_t instruction_size(opcode op) { return 1 + operand_size(op); }
static bool valid_op(uint8_t byte) { return byte < OP_COUNT; }

static void store32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}

static int32_t load32(const uint8_t *p) {
    uint32_t v = 0;
    for (int i = 3; i >= 0; i--) v = v << 8 | p[i];
    return (int32_t)v;
}

static int32_t read_operand(const program *p, size_t at, opcode op) {
    return ops[op].arg == ARG_LOCAL ? p->code[at + 1] : load32(p->code + at + 1);
}

/* ---- assembler ---- */

static bool set_error(assembler *a, const char *why) {
    if (!a->error) a->error = why;
    return false;
}

static bool emit_byte(assembler *a, uint8_t b) {
    if (a->out->size >= MAX_CODE) return set_error(a, "program too large");
    a->out->code[a->out->size++] = b;
    return true;
}

static bool emit_word(assembler *a, uint32_t v) {
    bool ok = true;
    for (int i = 0; ok && i < 4; i++) ok = emit_byte(a, (uint8_t)(v >> (8 * i)));
    return ok;
}

static void skip_blanks(assembler *a) {
    while (*a->cur == ' ' || *a->cur == '\t') a->cur++;
    if (*a->cur == ';') a->cur += strcspn(a->cur, "\n");
}

static bool at_line_end(const assembler *a) { return *a->cur == '\n' || *a->cur == '\0'; }
static bool is_name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool read_name(assembler *a, char *name) {
    size_t n = 0;
    skip_blanks(a);
    while (is_name_char(a->cur[n])) n++;
    if (n == 0 || n >= NAME_LEN) return set_error(a, "expected a name");
    memcpy(name, a->cur, n);
    name[n] = '\0';
    a->cur += n;
    return true;
}

static bool read_int(assembler *a, long low, long high, int32_t *out) {
    char *end;
    skip_blanks(a);
    long v = strtol(a->cur, &end, 0);
    if (end == a->cur) return set_error(a, "expected a number");
    if (v < low || v > high) return set_error(a, "number out of range");
    a->cur = end;
    *out = (int32_t)v;
    return true;
}

static const symbol *find_label(const assembler *a, const char *name) {
    for (size_t i = 0; i < a->label_count; i++)
        if (strcmp(a->labels[i].name, name) == 0) return &a->labels[i];
    return NULL;
}

static void set_symbol(symbol *s, const char *name, size_t where, int line) {
    strcpy(s->name, name);
    s->where = where;
    s->line = line;
}

static bool define_label(assembler *a, const char *name) {
    if (find_label(a, name)) return set_error(a, "label defined twice");
    if (a->label_count == MAX_LABELS) return set_error(a, "too many labels");
    set_symbol(&a->labels[a->label_count++], name, a->out->size, a->line);
    return true;
}

static bool emit_label_ref(assembler *a) {
    char name[NAME_LEN];
    if (!read_name(a, name)) return false;
    if (a->fixup_count == MAX_FIXUPS) return set_error(a, "too many references");
    set_symbol(&a->fixups[a->fixup_count++], name, a->out->size, a->line);
    return emit_word(a, 0);
}

static int find_op(const char *name) {
    for (int i = 0; i < OP_COUNT; i++)
        if (strcmp(ops[i].name, name) == 0) return i;
    return -1;
}

static bool emit_instruction(assembler *a, const char *name) {
    int32_t value;
    int op = find_op(name);
    if (op < 0) return set_error(a, "unknown instruction");
    if (!emit_byte(a, (uint8_t)op)) return false;
    switch (ops[op].arg) {
    case ARG_IMM: return read_int(a, INT32_MIN, INT32_MAX, &value) && emit_word(a, (uint32_t)value);
    case ARG_LOCAL: return read_int(a, 0, LOCALS - 1, &value) && emit_byte(a, (uint8_t)value);
    case ARG_LABEL: return emit_label_ref(a);
    default: return true;
    }
}

static bool assemble_line(assembler *a) {
    char name[NAME_LEN];
    skip_blanks(a);
    while (!at_line_end(a)) {
        if (!read_name(a, name)) return false;
        if (*a->cur == ':') {
            a->cur++;
            if (!define_label(a, name)) return false;
        } else if (!emit_instruction(a, name)) {
            return false;
        }
        skip_blanks(a);
    }
    return true;
}

static bool resolve_fixups(assembler *a) {
    for (size_t i = 0; i < a->fixup_count; i++) {
        const symbol *label = find_label(a, a->fixups[i].name);
        if (!label) {
            a->line = a->fixups[i].line;
            return set_error(a, "undefined label");
        }
        store32(a->out->code + a->fixups[i].where, (uint32_t)label->where);
    }
    return true;
}

bool bytecode_assemble(const char *source, program *out, const char **error, int *line) {
    assembler a = {.cur = source, .line = 1, .out = out};
    bool ok;
    out->size = 0;
    while ((ok = assemble_line(&a)) && *a.cur) {
        a.cur++;
        a.line++;
    }
    ok = ok && resolve_fixups(&a);
    *error = a.error;
    *line = a.line;
    return ok;
}

size_t bytecode_disassemble(const program *p, char *buf, size_t cap) {
    size_t used = 0;
    for (size_t pc = 0; pc < p->size && valid_op(p->code[pc]);) {
        opcode op = (opcode)p->code[pc];
        char arg[16] = "";
        if (has_operand(op)) snprintf(arg, sizeof arg, " %d", (int)read_operand(p, pc, op));
        int n = snprintf(buf + used, cap - used, "%04u %s%s\n", (unsigned)pc, ops[op].name, arg);
        if (n < 0 || (size_t)n >= cap - used) break;
        used += (size_t)n;
        pc += instruction_size(op);
    }
    return used;
}

/* Every instruction must be complete, and every jump must go to the start of one. */
bool bytecode_verify(const program *p) {
    bool starts[MAX_CODE + 1] = {false};
    size_t pc = 0;
    for (; pc < p->size; pc += instruction_size((opcode)p->code[pc])) {
        if (!valid_op(p->code[pc])) return false;
        starts[pc] = true;
    }
    if (pc != p->size) return false;
    for (pc = 0; pc < p->size; pc += instruction_size((opcode)p->code[pc])) {
        opcode op = (opcode)p->code[pc];
        int32_t target = has_operand(op) ? read_operand(p, pc, op) : 0;
        if (ops[op].arg == ARG_LABEL && (target < 0 || (size_t)target >= p->size || !starts[target])) return false;
        if (ops[op].arg == ARG_LOCAL && target >= LOCALS) return false;
    }
    return p->size > 0;
}

/* ---- interpreter; the stack is checked once per instruction, from the table ---- */

static void stop(vm *m, vm_status why) { m->status = why; }
static void push(vm *m, int32_t v) { m->stack[m->depth++] = v; }
static int32_t pop(vm *m) { return m->stack[--m->depth]; }
static int32_t *top(vm *m) { return &m->stack[m->depth - 1]; }
static frame *current_frame(vm *m) { return &m->frames[m->frame_count - 1]; }
static bool valid_address(int32_t a) { return a >= 0 && a < MEMORY; }

/* Arithmetic wraps around, like the machine's. */
static int32_t wrap_add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
static int32_t wrap_sub(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }
static int32_t wrap_mul(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }
static int32_t wrap_shl(int32_t a, int32_t b) { return (int32_t)((uint32_t)a << (b & 31)); }

static int32_t divide(vm *m, int32_t a, int32_t b, bool want_rest) {
    if (b == 0) {
        stop(m, VM_DIV_ZERO);
        return 0;
    }
    if (b == -1) return want_rest ? 0 : wrap_sub(0, a);
    return want_rest ? a % b : a / b;
}

static int32_t binary(vm *m, opcode op, int32_t a, int32_t b) {
    switch (op) {
    case OP_ADD: return wrap_add(a, b);
    case OP_SUB: return wrap_sub(a, b);
    case OP_MUL: return wrap_mul(a, b);
    case OP_DIV: return divide(m, a, b, false);
    case OP_MOD: return divide(m, a, b, true);
    case OP_AND: return a & b;
    case OP_OR: return a | b;
    case OP_XOR: return a ^ b;
    case OP_SHL: return wrap_shl(a, b);
    case OP_SHR: return (int32_t)((uint32_t)a >> (b & 31));
    case OP_EQ: return a == b;
    case OP_LT: return a < b;
    default: return a <= b;
    }
}

static void enter(vm *m, size_t target) {
    if (m->frame_count == FRAMES) {
        stop(m, VM_OVERFLOW);
        return;
    }
    m->frames[m->frame_count++] = (frame){.return_to = m->pc};
    m->pc = target;
}

static void leave(vm *m) {
    m->pc = current_frame(m)->return_to;
    if (--m->frame_count == 0) stop(m, VM_HALTED);
}

static void print_int(vm *m, int32_t v) {
    size_t room = sizeof m->output - m->output_len;
    int n = snprintf(m->output + m->output_len, room, "%d ", (int)v);
    if (n > 0 && (size_t)n < room) m->output_len += (size_t)n;
}

static void access_memory(vm *m, opcode op) {
    int32_t address = pop(m);
    if (!valid_address(address))
        stop(m, VM_BAD_ADDRESS);
    else if (op == OP_PEEK)
        push(m, m->memory[address]);
    else
        m->memory[address] = pop(m);
}

static void execute(vm *m, opcode op, int32_t arg) {
    int32_t a, b;
    switch (op) {
    case OP_HALT: stop(m, VM_HALTED); break;
    case OP_PUSH: push(m, arg); break;
    case OP_POP: pop(m); break;
    case OP_DUP: push(m, *top(m)); break;
    case OP_OVER: push(m, m->stack[m->depth - 2]); break;
    case OP_SWAP:
        b = pop(m);
        a = pop(m);
        push(m, b);
        push(m, a);
        break;
    case OP_NEG: *top(m) = wrap_sub(0, *top(m)); break;
    case OP_NOT: *top(m) = !*top(m); break;
    case OP_JMP: m->pc = (size_t)arg; break;
    case OP_JZ: case OP_JNZ: if ((pop(m) == 0) == (op == OP_JZ)) m->pc = (size_t)arg; break;
    case OP_CALL: enter(m, (size_t)arg); break;
    case OP_RET: leave(m); break;
    case OP_LOAD: push(m, current_frame(m)->locals[arg]); break;
    case OP_STORE: current_frame(m)->locals[arg] = pop(m); break;
    case OP_PEEK: case OP_POKE: access_memory(m, op); break;
    case OP_PRINT: print_int(m, pop(m)); break;
    default:
        b = pop(m);
        a = pop(m);
        push(m, binary(m, op, a, b));
    }
}

void bytecode_vm_init(vm *m, const program *p) {
    memset(m, 0, sizeof *m);
    m->prog = p;
    m->frame_count = 1;
}

static void step(vm *m) {
    if (m->pc >= m->prog->size) {
        stop(m, VM_BAD_OP);
        return;
    }
    opcode op = (opcode)m->prog->code[m->pc];
    int32_t arg = has_operand(op) ? read_operand(m->prog, m->pc, op) : 0;
    m->pc += instruction_size(op);
    if (m->depth < ops[op].pops)
        stop(m, VM_UNDERFLOW);
    else if (m->depth - ops[op].pops + ops[op].pushes > STACK_SIZE)
        stop(m, VM_OVERFLOW);
    else
        execute(m, op, arg);
}

vm_status bytecode_run(vm *m, size_t budget) {
    if (!bytecode_verify(m->prog)) stop(m, VM_BAD_OP);
    while (m->status == VM_RUNNING && budget-- > 0) step(m);
    if (m->status == VM_RUNNING) stop(m, VM_TIMEOUT);
    return m->status;
}

/* ---- self test ---- */

static vm_status run_source(const char *source, vm *m, program *p) {
    const char *error;
    int line;
    if (!bytecode_assemble(source, p, &error, &line)) return VM_BAD_OP;
    bytecode_vm_init(m, p);
    return bytecode_run(m, 100000);
}

static bool prints(const char *source, const char *want) {
    static vm m;
    static program p;
    return run_source(source, &m, &p) == VM_HALTED && strcmp(m.output, want) == 0;
}

static bool ends_with(const char *source, vm_status want) {
    static vm m;
    static program p;
    return run_source(source, &m, &p) == want;
}

int bytecode_selftest(void) {
    static program p;
    const char *error;
    char text[128];
    int line;
    if (!prints("push 10 fact: store 0 push 1 store 1 ; 10!\nloop: load 0 jz done load 1 load 0 mul store 1\n"
                "load 0 push 1 sub store 0 jmp loop\ndone: load 1 print halt", "3628800 ")) return 1;
    if (!prints("push 15 call fib print halt\nfib: store 0 load 0 push 2 lt jnz base load 0 push 1 sub call fib\n"
                "load 0 push 2 sub call fib add ret\nbase: load 0 ret", "610 ")) return 2;
    if (!prints("push 7 push 3 over over div print mod print push -5 neg push 1 shl print halt", "2 1 10 ") ||
        !ends_with("push 7", VM_BAD_OP)) return 3;
    if (!prints("push 42 push 9 poke push 9 peek dup print push 0xff and push 2 shr print push 3 push 4 swap sub print halt",
                "42 10 1 ")) return 4;
    if (!ends_with("add", VM_UNDERFLOW) || !ends_with("push 1 push 0 div", VM_DIV_ZERO) || !ends_with("l: jmp l", VM_TIMEOUT)) return 5;
    if (!ends_with("l: push 1 jmp l", VM_OVERFLOW) || !ends_with("l: call l", VM_OVERFLOW) || !ends_with("push 999 peek", VM_BAD_ADDRESS)) return 6;
    if (bytecode_assemble("push 1\njmp nowhere", &p, &error, &line) || line != 2) return 7;
    if (bytecode_assemble("x: x:", &p, &error, &line) || bytecode_assemble("push z", &p, &error, &line)) return 8;
    if (!bytecode_assemble("a: push 5 jmp a", &p, &error, &line) || !bytecode_verify(&p)) return 9;
    if (!bytecode_disassemble(&p, text, sizeof text) || strcmp(text, "0000 push 5\n0005 jmp 0\n") != 0) return 10;
    p.code[6] = 2;
    return bytecode_verify(&p) ? 11 : 0;
}
