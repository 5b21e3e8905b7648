/* An expression calculator: tokenizer, Pratt parser, constant folding and evaluation with variables and functions. */
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    T_END, T_NUMBER, T_NAME, T_PLUS, T_MINUS, T_STAR, T_SLASH, T_PERCENT, T_CARET, T_LESS, T_GREATER, T_LESS_EQ, T_GREATER_EQ,
    T_EQUAL, T_NOT_EQ, T_AND, T_OR, T_NOT, T_QUESTION, T_COLON, T_COMMA, T_ASSIGN, T_OPEN, T_CLOSE, T_BAD
} token_kind;

typedef struct {
    token_kind kind;
    double number;
    const char *start;
    size_t len;
} token;

typedef enum { E_NUMBER, E_VARIABLE, E_UNARY, E_BINARY, E_TERNARY, E_CALL, E_ASSIGN } expr_kind;
enum { MAX_ARGS = 4, NAME_LEN = 16, MAX_VARS = 32, MAX_DEPTH = 100 };

typedef struct expr {
    expr_kind kind;
    token_kind op;
    double number;
    char name[NAME_LEN];
    int function;
    int arg_count;
    struct expr *arg[MAX_ARGS];
} expr;

typedef struct {
    char name[NAME_LEN];
    double value;
} variable;

typedef struct {
    variable vars[MAX_VARS];
    int count;
    const char *error;
} expr_env;

typedef struct {
    const char *cur, *error;
    token tok;
    int depth;
} parser;

double expr_eval(const expr *e, expr_env *env);
int expr_selftest(void);

/* ---- built-in functions ---- */

static double fn_min(const double *a) { return a[0] < a[1] ? a[0] : a[1]; }
static double fn_max(const double *a) { return a[0] > a[1] ? a[0] : a[1]; }
static double fn_abs(const double *a) { return fabs(a[0]); }
static double fn_sqrt(const double *a) { return sqrt(a[0]); }
static double fn_floor(const double *a) { return floor(a[0]); }
static double fn_hypot(const double *a) { return sqrt(a[0] * a[0] + a[1] * a[1]); }
static double fn_sign(const double *a) { return (a[0] > 0) - (a[0] < 0); }
static double fn_clamp(const double *a) { return a[0] < a[1] ? a[1] : a[0] > a[2] ? a[2] : a[0]; }
static double fn_lerp(const double *a) { return a[0] + (a[1] - a[0]) * a[2]; }

static const struct {
    const char *name;
    int arg_count;
    double (*call)(const double *args);
} functions[] = {
    {"min", 2, fn_min},     {"max", 2, fn_max},     {"abs", 1, fn_abs},     {"sqrt", 1, fn_sqrt}, {"floor", 1, fn_floor},
    {"hypot", 2, fn_hypot}, {"sign", 1, fn_sign},   {"clamp", 3, fn_clamp}, {"lerp", 3, fn_lerp},
};

static int find_function(const char *name) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) return (int)i;
    return -1;
}

/* ---- tokenizer ---- */

static bool is_name_start(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool is_name_char(char c) { return is_name_start(c) || isdigit((unsigned char)c); }

static bool follows(parser *p, char c) {
    if (*p->cur != c) return false;
    p->cur++;
    return true;
}

static token_kind scan_symbol(parser *p) {
    switch (*p->cur++) {
    case '+': return T_PLUS;
    case '-': return T_MINUS;
    case '*': return follows(p, '*') ? T_CARET : T_STAR;
    case '/': return T_SLASH;
    case '%': return T_PERCENT;
    case '^': return T_CARET;
    case '<': return follows(p, '=') ? T_LESS_EQ : T_LESS;
    case '>': return follows(p, '=') ? T_GREATER_EQ : T_GREATER;
    case '=': return follows(p, '=') ? T_EQUAL : T_ASSIGN;
    case '!': return follows(p, '=') ? T_NOT_EQ : T_NOT;
    case '&': return follows(p, '&') ? T_AND : T_BAD;
    case '|': return follows(p, '|') ? T_OR : T_BAD;
    case '?': return T_QUESTION;
    case ':': return T_COLON;
    case ',': return T_COMMA;
    case '(': return T_OPEN;
    case ')': return T_CLOSE;
    default: return T_BAD;
    }
}

static void next_token(parser *p) {
    char *end;
    while (isspace((unsigned char)*p->cur)) p->cur++;
    p->tok = (token){.kind = T_END, .start = p->cur};
    if (isdigit((unsigned char)*p->cur) || (*p->cur == '.' && isdigit((unsigned char)p->cur[1]))) {
        p->tok.kind = T_NUMBER;
        p->tok.number = strtod(p->cur, &end);
        p->cur = end;
    } else if (is_name_start(*p->cur)) {
        p->tok.kind = T_NAME;
        while (is_name_char(*p->cur)) p->cur++;
    } else if (*p->cur) {
        p->tok.kind = scan_symbol(p);
    }
    p->tok.len = (size_t)(p->cur - p->tok.start);
}

static bool at(const parser *p, token_kind kind) { return p->tok.kind == kind; }

static bool accept(parser *p, token_kind kind) {
    if (!at(p, kind)) return false;
    next_token(p);
    return true;
}

/* ---- nodes ---- */

void expr_free(expr *e) {
    if (!e) return;
    for (int i = 0; i < e->arg_count; i++) expr_free(e->arg[i]);
    free(e);
}

static expr *fail(parser *p, const char *why) {
    if (!p->error) p->error = why;
    return NULL;
}

static expr *new_expr(expr_kind kind, token_kind op) {
    expr *e = calloc(1, sizeof *e);
    if (e) *e = (expr){.kind = kind, .op = op};
    return e;
}

static expr *new_number(double v) {
    expr *e = new_expr(E_NUMBER, T_NUMBER);
    if (e) e->number = v;
    return e;
}

static void add_arg(expr *e, expr *arg) { e->arg[e->arg_count++] = arg; }

/* Takes over the operands; a missing one (an error below) frees the others. */
static expr *new_compound(expr_kind kind, token_kind op, int count, expr *a, expr *b, expr *c) {
    expr *args[3] = {a, b, c}, *e = new_expr(kind, op);
    bool complete = e != NULL;
    for (int i = 0; e && i < count; i++) {
        complete = complete && args[i];
        add_arg(e, args[i]);
    }
    if (complete) return e;
    expr_free(e);
    return NULL;
}

static expr *new_unary(token_kind op, expr *a) { return new_compound(E_UNARY, op, 1, a, NULL, NULL); }
static expr *new_binary(token_kind op, expr *a, expr *b) { return new_compound(E_BINARY, op, 2, a, b, NULL); }
static expr *new_ternary(expr *a, expr *b, expr *c) { return new_compound(E_TERNARY, T_QUESTION, 3, a, b, c); }

/* ---- Pratt parser ---- */

enum { BP_NONE, BP_ASSIGN, BP_TERNARY, BP_OR, BP_AND, BP_EQUALITY, BP_COMPARE, BP_SUM, BP_PRODUCT, BP_PREFIX, BP_POWER };

static int binding_power(token_kind kind) {
    switch (kind) {
    case T_QUESTION: return BP_TERNARY;
    case T_OR: return BP_OR;
    case T_AND: return BP_AND;
    case T_EQUAL: case T_NOT_EQ: return BP_EQUALITY;
    case T_LESS: case T_GREATER: case T_LESS_EQ: case T_GREATER_EQ: return BP_COMPARE;
    case T_PLUS: case T_MINUS: return BP_SUM;
    case T_STAR: case T_SLASH: case T_PERCENT: return BP_PRODUCT;
    case T_CARET: return BP_POWER;
    default: return BP_NONE;
    }
}

static expr *parse_binding(parser *p, int min_power);
static expr *parse_any(parser *p) { return parse_binding(p, BP_NONE); }

static expr *parse_call(parser *p, expr *e) {
    e->kind = E_CALL;
    e->function = find_function(e->name);
    if (!at(p, T_CLOSE)) {
        do {
            expr *arg = e->arg_count < MAX_ARGS ? parse_any(p) : fail(p, "too many arguments");
            if (!arg) break;
            add_arg(e, arg);
        } while (accept(p, T_COMMA));
    }
    if (!p->error && !accept(p, T_CLOSE)) fail(p, "expected )");
    if (e->function < 0) fail(p, "unknown function");
    else if (functions[e->function].arg_count != e->arg_count) fail(p, "wrong number of arguments");
    if (!p->error) return e;
    expr_free(e);
    return NULL;
}

static expr *parse_name(parser *p) {
    token name = p->tok;
    if (name.len >= NAME_LEN) return fail(p, "name too long");
    expr *e = new_expr(E_VARIABLE, T_NAME);
    if (!e) return fail(p, "out of memory");
    memcpy(e->name, name.start, name.len);
    next_token(p);
    if (accept(p, T_OPEN)) return parse_call(p, e);
    if (!accept(p, T_ASSIGN)) return e;
    expr *value = parse_binding(p, BP_ASSIGN - 1);
    e->kind = E_ASSIGN;
    if (value) add_arg(e, value);
    if (value) return e;
    expr_free(e);
    return NULL;
}

static expr *parse_prefix(parser *p) {
    double number = p->tok.number;
    if (at(p, T_NAME)) return parse_name(p);
    if (accept(p, T_NUMBER)) return new_number(number);
    if (accept(p, T_MINUS)) return new_unary(T_MINUS, parse_binding(p, BP_PREFIX));
    if (accept(p, T_NOT)) return new_unary(T_NOT, parse_binding(p, BP_PREFIX));
    if (accept(p, T_PLUS)) return parse_binding(p, BP_PREFIX);
    if (!accept(p, T_OPEN)) return fail(p, "expected an operand");
    expr *inner = parse_any(p);
    if (inner && accept(p, T_CLOSE)) return inner;
    expr_free(inner);
    return fail(p, "expected )");
}

static expr *parse_infix(parser *p, expr *left) {
    token_kind op = p->tok.kind;
    int power = binding_power(op);
    next_token(p);
    if (op != T_QUESTION) return new_binary(op, left, parse_binding(p, op == T_CARET ? power - 1 : power));
    expr *yes = parse_any(p);
    expr *no = yes && accept(p, T_COLON) ? parse_binding(p, power - 1) : fail(p, "expected :");
    return new_ternary(left, yes, no);
}

static expr *parse_binding(parser *p, int min_power) {
    if (++p->depth > MAX_DEPTH) return fail(p, "nested too deeply");
    expr *left = parse_prefix(p);
    while (left && binding_power(p->tok.kind) > min_power) left = parse_infix(p, left);
    p->depth--;
    return left;
}

expr *expr_parse(const char *text, const char **error) {
    parser p = {.cur = text};
    next_token(&p);
    expr *e = parse_any(&p);
    if (e && !at(&p, T_END)) {
        expr_free(e);
        e = fail(&p, "unexpected token");
    }
    if (error) *error = p.error;
    return e;
}

/* ---- evaluation ---- */

static bool truth(double v) { return v != 0; }

static double apply_binary(token_kind op, double a, double b) {
    switch (op) {
    case T_PLUS: return a + b;
    case T_MINUS: return a - b;
    case T_STAR: return a * b;
    case T_SLASH: return a / b;
    case T_PERCENT: return fmod(a, b);
    case T_CARET: return pow(a, b);
    case T_LESS: return a < b;
    case T_GREATER: return a > b;
    case T_LESS_EQ: return a <= b;
    case T_GREATER_EQ: return a >= b;
    case T_EQUAL: return a == b;
    case T_NOT_EQ: return a != b;
    case T_AND: return truth(a) && truth(b);
    default: return truth(a) || truth(b);
    }
}

static double apply_unary(token_kind op, double a) { return op == T_MINUS ? -a : !truth(a); }

static variable *find_variable(const expr_env *env, const char *name) {
    for (int i = 0; i < env->count; i++)
        if (strcmp(env->vars[i].name, name) == 0) return (variable *)&env->vars[i];
    return NULL;
}

bool env_set(expr_env *env, const char *name, double value) {
    variable *v = find_variable(env, name);
    if (!v) {
        if (env->count == MAX_VARS || strlen(name) >= NAME_LEN) return false;
        v = &env->vars[env->count++];
        strcpy(v->name, name);
    }
    v->value = value;
    return true;
}

bool env_get(const expr_env *env, const char *name, double *value) {
    const variable *v = find_variable(env, name);
    if (v) *value = v->value;
    return v;
}

static double eval_error(expr_env *env, const char *why) {
    if (!env->error) env->error = why;
    return 0;
}

static double eval_arg(const expr *e, int i, expr_env *env) { return expr_eval(e->arg[i], env); }

static double eval_binary(const expr *e, expr_env *env) {
    double left = eval_arg(e, 0, env);
    if (e->op == T_AND && !truth(left)) return 0;
    if (e->op == T_OR && truth(left)) return 1;
    double right = eval_arg(e, 1, env);
    if ((e->op == T_SLASH || e->op == T_PERCENT) && right == 0) return eval_error(env, "division by zero");
    return apply_binary(e->op, left, right);
}

static double eval_call(const expr *e, expr_env *env) {
    double args[MAX_ARGS];
    for (int i = 0; i < e->arg_count; i++) args[i] = eval_arg(e, i, env);
    return functions[e->function].call(args);
}

static double eval_assign(const expr *e, expr_env *env) {
    double value = eval_arg(e, 0, env);
    return env_set(env, e->name, value) ? value : eval_error(env, "too many variables");
}

double expr_eval(const expr *e, expr_env *env) {
    double value;
    switch (e->kind) {
    case E_NUMBER: return e->number;
    case E_VARIABLE: return env_get(env, e->name, &value) ? value : eval_error(env, "undefined variable");
    case E_UNARY: return apply_unary(e->op, eval_arg(e, 0, env));
    case E_BINARY: return eval_binary(e, env);
    case E_TERNARY: return eval_arg(e, truth(eval_arg(e, 0, env)) ? 1 : 2, env);
    case E_CALL: return eval_call(e, env);
    default: return eval_assign(e, env);
    }
}

/* ---- constant folding ---- */

static bool is_number(const expr *e) { return e->kind == E_NUMBER; }
static bool is_value(const expr *e, double v) { return is_number(e) && e->number == v; }

static bool all_constant(const expr *e) {
    for (int i = 0; i < e->arg_count; i++)
        if (!is_number(e->arg[i])) return false;
    return e->arg_count > 0 && e->kind != E_ASSIGN;
}

/* Replaces a node by one of its operands. */
static expr *keep_arg(expr *e, int i) {
    expr *kept = e->arg[i];
    e->arg[i] = NULL;
    expr_free(e);
    return kept;
}

/* x+0, 0+x, x-0, x*1, 1*x, x/1, x^1 and a ternary with a known condition */
static expr *simplify(expr *e) {
    if (e->kind == E_TERNARY && is_number(e->arg[0])) return keep_arg(e, truth(e->arg[0]->number) ? 1 : 2);
    if (e->kind != E_BINARY) return e;
    bool sum = e->op == T_PLUS, product = e->op == T_STAR;
    if ((sum || e->op == T_MINUS) && is_value(e->arg[1], 0)) return keep_arg(e, 0);
    if ((product || e->op == T_SLASH || e->op == T_CARET) && is_value(e->arg[1], 1)) return keep_arg(e, 0);
    if ((sum && is_value(e->arg[0], 0)) || (product && is_value(e->arg[0], 1))) return keep_arg(e, 1);
    return e;
}

expr *expr_fold(expr *e) {
    expr_env empty = {.count = 0};
    for (int i = 0; i < e->arg_count; i++) e->arg[i] = expr_fold(e->arg[i]);
    if (!all_constant(e)) return simplify(e);
    double value = expr_eval(e, &empty);
    expr *folded = empty.error ? NULL : new_number(value);
    if (!folded) return e;
    expr_free(e);
    return folded;
}

/* ---- self test ---- */

static bool evaluates(const char *text, double want, bool fold) {
    expr_env env = {.count = 0};
    env_set(&env, "x", 3);
    env_set(&env, "y", -2);
    expr *e = expr_parse(text, NULL);
    if (e && fold) e = expr_fold(e);
    bool ok = e && fabs(expr_eval(e, &env) - want) < 1e-9 && !env.error;
    expr_free(e);
    return ok;
}

static bool gives(const char *text, double want) { return evaluates(text, want, false) && evaluates(text, want, true); }

static bool rejects(const char *text) {
    const char *error = NULL;
    return !expr_parse(text, &error) && error;
}

/* Folding must leave a node of this kind at the top. */
static bool folds_to(const char *text, expr_kind kind) {
    expr *e = expr_fold(expr_parse(text, NULL));
    bool ok = e->kind == kind;
    expr_free(e);
    return ok;
}

int expr_selftest(void) {
    if (!gives("1+2*3-4/2", 5) || !gives("2^3^2", 512) || !gives("-2**2", -4) || !gives("(1+2)*-x", -9)) return 1;
    if (!gives("x<y ? 1 : x>=3 ? 20 : 3", 20) || !gives("x==3 && y!=3 || 1/0", 1) || !gives("!x + 7%4", 3)) return 2;
    if (!gives("clamp(x*10, 0, 5)+hypot(3,4)", 10) || !gives("lerp(0, 10, .25)", 2.5) || !gives("z = w = x + 1", 4)) return 3;
    if (!gives("min(x,y)+max(x,y)+abs(y)+sqrt(16)+floor(2.7)+sign(y)", 8) || !gives("1.5e2", 150)) return 4;
    if (!rejects("1+") || !rejects("(1") || !rejects("f(1)") || !rejects("min(1)") || !rejects("1 2") || !rejects("1 ? 2") || !rejects("a &")) return 5;
    if (evaluates("1/0", 0, true) || evaluates("q", 0, false)) return 6;
    if (!folds_to("2*3+sqrt(4)", E_NUMBER) || !folds_to("x*1+0", E_VARIABLE) || !folds_to("1>2 ? 5 : y", E_VARIABLE) || !folds_to("1/0", E_BINARY)) return 7;
    return 0;
}
